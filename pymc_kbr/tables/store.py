"""Rows that outlive a crash: a Zarr store that is written chunk by chunk, as it goes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from pymc_kbr.tables.codecs import check_zarr
from pymc_kbr.tables.errors import describe
from pymc_kbr.tables.layout import (
    DONE,
    FAILED,
    MARKS,
    ROW_ARRAYS,
    STORE_FORMAT,
    STORE_VERSION,
    UNFINISHED,
    add_array,
    checksum_of,
    consolidate,
    create_group,
)


class TableStore:
    """A Zarr group (format 3) in the layout of xarray, which `xarray.open_zarr` reads alone.

    Attributes
    ----------
    path : Path
    documents : dict of str to JSON values
        Attributes of the group.

    Notes
    -----
    A chunk of rows is finished when its part of ``status`` is written, which comes last; each file
    appears under its name when it is complete, and carries a checksum. So whatever is on the disk after a
    kill or a power cut is either finished or recognised as unfinished, and `state` tells which.
    """

    def __init__(self, path: Path, group: zarr.Group) -> None:
        self.path = path
        self._group = group
        self._arrays: dict[str, Any] = {name: group[name] for name in ROW_ARRAYS}
        others: dict[str, Any] = {name: group[name] for name in group if name not in ROW_ARRAYS}
        self._others = {name: np.asarray(array[...]) for name, array in others.items()}
        self.documents = {
            name: json.loads(str(text)) for name, text in group.attrs.items() if name not in MARKS
        }

    @classmethod
    def create(
        cls,
        path: Path,
        *,
        rows: int,
        chunk_rows: int,
        parameters: Sequence[str],
        statistics: Sequence[str],
        arrays: Mapping[str, tuple[tuple[str, ...], np.ndarray]],
        documents: Mapping[str, Any],
    ) -> TableStore:
        """Make a store without finished rows; it appears under its name when it is complete.

        Parameters
        ----------
        path : Path
        rows : int
            Number of rows that there will be.
        chunk_rows : int
            Rows that are written, or lost, together.
        parameters, statistics : sequence of str
            Names of the columns.
        arrays : mapping of str to (dimension names, ndarray)
            Others, kept as they are.
        documents : mapping of str to JSON values
        """
        create_group(
            path,
            rows=rows,
            chunk_rows=chunk_rows,
            columns={"parameter": parameters, "statistic": statistics},
            arrays=arrays,
            texts=_texts(documents),
        )
        return cls.open(path)

    @classmethod
    def open(cls, path: Path) -> TableStore:
        """Open a store, for reading or, by who holds its lock, for writing.

        Raises
        ------
        FileNotFoundError
            If there is nothing at `path`.
        ValueError
            If what is there is no store, is damaged, or has another format version.
        """
        if not path.exists():
            raise FileNotFoundError(f"there is no store {path}")
        if not path.is_dir():
            raise ValueError(f"{path} is a file; a store is a folder: choose another name for it")
        try:
            check_zarr(path)
            # By each array's own metadata: consolidated ones are written after these, and a kill leaves them
            # behind.
            group = zarr.open_group(path, mode="r+", use_consolidated=False, zarr_format=3)
            attributes = dict(group.attrs)
        except Exception as error:
            raise ValueError(
                f"{path} cannot be read as a Zarr group: it is damaged, or no store ({describe(error)}); "
                "choose another name, or move it away"
            ) from error
        if attributes.get("format") != STORE_FORMAT:
            raise ValueError(
                f"{path} is a Zarr group, but no store of simulations: it lacks the mark {STORE_FORMAT!r}; "
                "choose another name"
            )
        if attributes.get("format_version") != STORE_VERSION:
            raise ValueError(
                f"{path} has format version {attributes.get('format_version')} and this pymc_kbr reads "
                f"version {STORE_VERSION}; read it with the pymc_kbr that wrote it"
            )
        try:
            if attributes["checksum"] != checksum_of({k: v for k, v in attributes.items() if k not in MARKS}):
                raise ValueError("its attributes do not match their checksum")
            return cls(path, group)
        except Exception as error:
            raise ValueError(f"{path} is damaged: {describe(error)}; restore it, or move it away") from error

    @property
    def rows(self) -> int:
        """Rows that there are or will be."""
        return int(self._arrays["status"].shape[0])

    @property
    def chunk_rows(self) -> int:
        """Rows of a chunk."""
        return int(self._arrays["status"].chunks[0])

    def status(self) -> np.ndarray:
        """Whether each row is unfinished (as are damaged ones), done or failed, shape (rows,)."""
        try:
            return np.asarray(self._arrays["status"][...])
        except Exception:
            status = np.zeros(self.rows, dtype=np.uint8)
        # One by one, since a single damaged chunk fails the read of all.
        for start in range(0, self.rows, self.chunk_rows):
            part = slice(start, start + self.chunk_rows)
            try:
                status[part] = self._arrays["status"][part]
            except Exception:  # a file that a power cut has left incomplete
                continue
        return status

    def state(self, start: int, stop: int) -> str:
        """Of a chunk's rows: "finished", "failed" where some of them failed, "unfinished" or "damaged"."""
        try:
            status = np.asarray(self._arrays["status"][start:stop])
            if np.any(status == UNFINISHED):
                return "unfinished"
            parameters, statistics = self.parameters(start, stop), self.statistics(start, stop)
            messages = self._read("message", start, stop)
        except Exception:  # whatever a file raises that a power cut has left incomplete
            return "damaged"
        # Zarr reads a chunk whose file is gone as fill values, without an error.
        whole = np.isfinite(parameters).all() and np.isfinite(statistics[status == DONE]).all()
        if not (whole and np.all(messages[status == FAILED] != "")):
            return "damaged"
        return "failed" if np.any(status == FAILED) else "finished"

    def parameters(self, start: int, stop: int) -> np.ndarray:
        """Parameters of rows `start` to `stop`."""
        return self._read("parameters", start, stop)

    def statistics(self, start: int, stop: int) -> np.ndarray:
        """Statistics of rows `start` to `stop`; NaN where they failed."""
        return self._read("statistics", start, stop)

    def _read(self, name: str, start: int, stop: int) -> np.ndarray:
        try:
            return np.asarray(self._arrays[name][start:stop])
        except Exception as error:
            raise ValueError(
                f"{self.path} is damaged in the {name} of rows {start} to {stop - 1} ({describe(error)}); "
                "the call of `simulate` that made it makes these rows anew"
            ) from error

    def at(self, name: str, rows: np.ndarray) -> np.ndarray:
        """The array `name` at some rows, ascending; each chunk is read once."""
        parts = []
        for start in (np.unique(rows // self.chunk_rows) * self.chunk_rows).tolist():
            stop = start + self.chunk_rows
            parts.append(self._read(name, start, stop)[rows[(rows >= start) & (rows < stop)] - start])
        return np.concatenate(parts)

    def array(self, name: str) -> np.ndarray | None:
        """One of the other arrays, or None."""
        return self._others.get(name)

    def other_arrays(self, prefix: str) -> dict[str, np.ndarray]:
        """The other arrays whose names begin with `prefix`, without it."""
        named = {name: array for name, array in self._others.items() if name.startswith(prefix)}
        return {name.removeprefix(prefix): array for name, array in named.items()}

    def write(
        self, start: int, parameters: np.ndarray, statistics: np.ndarray, failures: Mapping[int, str]
    ) -> None:
        """Write a chunk of rows: it counts as finished when all of it is on the disk.

        Parameters
        ----------
        start : int
        parameters : ndarray of shape (c, p)
        statistics : ndarray of shape (c, d)
        failures : mapping of int to str
            Row and message of those that failed.

        Raises
        ------
        OSError
            If the disk is full, or the folder may not be written; finished chunks stay readable.
        """
        part = slice(start, start + len(parameters))
        status = np.full(len(parameters), DONE, dtype=np.uint8)
        status[[row - start for row in failures]] = FAILED
        with self._writing():
            self._arrays["parameters"][part] = parameters
            self._arrays["statistics"][part] = statistics
            message = np.full(len(parameters), "", dtype=object)
            for row, text in failures.items():
                message[row - start] = text
            self._arrays["message"][part] = message  # a chunk of empty ones takes no space
            # Last: until it is there the chunk counts as unfinished.
            self._arrays["status"][part] = status

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            done = int(np.sum(self.status() != UNFINISHED))
            raise OSError(
                error.errno,
                f"the store {self.path} cannot be written any more: {os.strerror(error.errno or 0)}; {done} "
                f"of {self.rows} rows are finished and stay readable; make room, and the same call goes on "
                "with the others",
            ) from error

    def extend(self, rows: int) -> None:
        """Make room for more rows."""
        with self._writing():
            for name in ROW_ARRAYS:  # the status last: it says how many rows there are
                array = self._arrays[name]
                array.resize((rows, *array.shape[1:]))
            consolidate(self.path)

    def keep(self, name: str, dims: tuple[str, ...], values: np.ndarray) -> None:
        """Write one of the other arrays, of numbers; what a kill has left of it is NaN, and overwritten."""
        with self._writing():
            add_array(self._group, name, dims, values, fill_value=np.nan, overwrite=True)
            consolidate(self.path)
        self._others[name] = values

    def note(self, name: str, document: Any) -> None:
        """Write one of the documents."""
        self.documents[name] = document
        texts = _texts(self.documents)
        with self._writing():
            # With its checksum in one write, or a kill between two would make the store look damaged.
            self._group.attrs.update({name: texts[name], "checksum": checksum_of(texts)})
            consolidate(self.path)


def _texts(documents: Mapping[str, Any]) -> dict[str, str]:
    return {name: json.dumps(document, sort_keys=True) for name, document in documents.items()}
