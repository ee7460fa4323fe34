"""Rows that outlive a crash: a Zarr store that is written chunk by chunk, as it goes."""

from __future__ import annotations

import errno
import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import zarr
from filelock import FileLock, Timeout
from zarr.storage import LocalStore

from pymc_kbr.arrays.rows import LARGEST
from pymc_kbr.tables.checks import describe
from pymc_kbr.tables.columns import Columns
from pymc_kbr.tables.file import PRIOR_RATIO
from pymc_kbr.tables.layout import (
    ARRAYS,
    DIGESTED,
    DIGESTS,
    DONE,
    FAILED,
    MARKS,
    ROW_ARRAYS,
    STORE_FORMAT,
    STORE_VERSION,
    TOKEN,
    UNFINISHED,
    add_array,
    attributes_at,
    check_outside,
    check_texts,
    check_zarr,
    checksum_of,
    checksum_of_array,
    consolidate,
    create_group,
    problem_of,
    remove_leftovers,
)

BEYOND = f"the simulator returned numbers beyond {LARGEST:g}, whose sums no float holds"
"""What went wrong in a row that no table takes."""


class _Gone(FileNotFoundError):
    """A store's folder, or one of its arrays, is not where it was."""


class _Folder(LocalStore):
    """A folder that is written only as long as it is the one that was opened."""

    def __init__(self, root: Path | str, *, read_only: bool = False) -> None:
        super().__init__(root, read_only=read_only)
        self._opened = os.stat(root)
        self._identity = _identity_of(self.root)
        self._seen: tuple[int, int, int] | None = None

    def check(self, key: str) -> None:
        """Refuse to write where the folder, or the array that `key` belongs to, is gone."""
        try:
            if "/c" in key:
                os.stat(self.root / key.split("/")[0] / "zarr.json")
            now = os.stat(self.root / "zarr.json")
        except (FileNotFoundError, NotADirectoryError) as error:
            raise _Gone(errno.ENOENT, os.strerror(errno.ENOENT)) from error
        # The number of a folder that was removed is given to the next one: contents tell, read where the
        # file is another one.
        seen = (now.st_ino, now.st_mtime_ns, now.st_size)
        if seen != self._seen and _identity_of(self.root) != self._identity:
            raise _Gone(errno.ENOENT, os.strerror(errno.ENOENT))
        self._seen = seen

    def moved_to(self) -> Path | None:
        """Where the folder is by now, if it was renamed beside where it was."""
        try:
            for entry in os.scandir(self.root.parent):
                found = Path(entry.path)
                if entry.is_dir() and os.path.samestat(os.stat(found), self._opened):
                    others = found == self.root and (found / "zarr.json").exists()
                    if not others or _identity_of(found) == self._identity:
                        return found
        except OSError:
            pass
        return None

    async def set(self, key: str, value: Any) -> None:
        self.check(key)
        await super().set(key, value)

    async def set_if_not_exists(self, key: str, value: Any) -> None:
        self.check(key)
        await super().set_if_not_exists(key, value)

    async def delete(self, key: str) -> None:
        self.check(key)
        await super().delete(key)

    async def delete_dir(self, prefix: str) -> None:
        self.check("zarr.json")
        await super().delete_dir(prefix)

    def set_sync(self, key: str, value: Any) -> None:  # of later versions of Zarr
        self.check(key)
        super().set_sync(key, value)

    def delete_sync(self, key: str) -> None:
        self.check(key)
        super().delete_sync(key)


def _identity_of(path: Path) -> list[Any]:
    attributes = attributes_at(path)
    return [attributes.get(name) for name in (TOKEN, "identity", "seed")]


class TableStore:
    """A Zarr group (format 3) in the layout of xarray, which `xarray.open_zarr` reads alone."""

    def __init__(self, path: Path, group: zarr.Group, folder: _Folder) -> None:
        self.path = path
        self._group, self._folder = group, folder
        missing = [name for name in ROW_ARRAYS if name not in group]
        if missing:
            raise ValueError(f"its arrays {missing} are gone")
        self._arrays: dict[str, Any] = {name: group[name] for name in ROW_ARRAYS}
        self.documents = {
            name: json.loads(str(text)) for name, text in group.attrs.items() if name not in MARKS
        }
        p, d = (
            Columns.from_json(self.documents[f"{side}_columns"]).size for side in ("parameter", "statistic")
        )
        problem = problem_of(self._arrays, (p, d))
        if problem:
            raise ValueError(problem)
        # Earlier versions, and those who have lost them, have none: nothing is compared then.
        self._digests = self._read_digests(group)
        self._salt = crc32(self.documents.get(TOKEN, "").encode())
        self._kept: dict[str, np.ndarray] = {}
        self._states: dict[tuple[int, int], str] = {}
        self._extremes: dict[tuple[int, int], tuple[float, int]] = {}

    def _read_digests(self, group: zarr.Group) -> np.ndarray:
        digests = np.zeros((self.chunks, len(DIGESTED) + 1), dtype=np.uint32)
        try:
            self._arrays[DIGESTS] = group[DIGESTS]
            if self._arrays[DIGESTS].dtype != digests.dtype:
                raise ValueError("its type is another")
            found = np.asarray(self._arrays[DIGESTS][...])
            digests[: len(found)] = found[: self.chunks]
        except Exception:
            self._arrays.pop(DIGESTS, None)
        return digests

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
        """Make a store without finished rows; it appears under its name when it is complete."""
        checksums = {name: checksum_of_array(values) for name, (_, values) in arrays.items()}
        create_group(
            path,
            rows=rows,
            chunk_rows=chunk_rows,
            columns={"parameter": parameters, "statistic": statistics},
            arrays=arrays,
            texts=_texts({**documents, ARRAYS: checksums, TOKEN: uuid.uuid4().hex}),
        )
        return cls.open(path)

    @classmethod
    def open(cls, path: Path) -> TableStore:
        """Open a store, for reading or, by who holds its lock, for writing."""
        if not path.exists():
            raise FileNotFoundError(f"there is no store {path}")
        if not path.is_dir():
            raise ValueError(f"{path} is a file; a store is a folder: choose another name for it")
        try:
            found = sorted(os.listdir(path))
            if not found:
                raise ValueError("the folder is empty")
            check_zarr(path)
            if "zarr.json" not in found:
                raise ValueError("it has no zarr.json")
            folder = _Folder(path)
            # By each array's own metadata: consolidated ones are written after these, and a kill leaves them
            # behind.
            group = zarr.open_group(folder, mode="r+", use_consolidated=False, zarr_format=3)
            attributes = dict(group.attrs)
        except Exception as error:
            raise ValueError(
                f"{path} cannot be read as a Zarr group: it is damaged, or no store ({describe(error)}); "
                "nothing in it was touched: choose another name, such as one in it, or move it away"
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
            return cls(path, group, folder)
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

    @property
    def chunks(self) -> int:
        """How many there are or will be."""
        return -(-self.rows // self.chunk_rows)

    def status(self) -> np.ndarray:
        """Whether each row is unfinished (as are damaged ones), done or failed, shape (rows,)."""
        try:
            status = np.asarray(self._arrays["status"][...])
        except Exception:
            status = np.zeros(self.rows, dtype=np.uint8)
            # One by one, since a single damaged chunk fails the read of all.
            for start in range(0, self.rows, self.chunk_rows):
                part = slice(start, start + self.chunk_rows)
                try:
                    status[part] = self._arrays["status"][part]
                except Exception:  # a file that a power cut has left incomplete
                    continue
        for chunk in np.flatnonzero(self._digests[:, -1]).tolist():
            part = slice(chunk * self.chunk_rows, (chunk + 1) * self.chunk_rows)
            if not self._matches("status", chunk, status[part]):
                status[part] = UNFINISHED
        status[self.beyond] = FAILED
        return status

    @cached_property
    def beyond(self) -> np.ndarray:
        """Rows that hold numbers which no table takes; only earlier versions wrote them as done."""
        if self.digested:
            return np.empty(0, dtype=int)
        found = []
        for start in range(0, self.rows, self.chunk_rows):
            for read in (self.parameters, self.statistics):
                try:
                    values = read(start, min(start + self.chunk_rows, self.rows))
                except ValueError:  # said where it is read
                    continue
                found.append(start + np.flatnonzero(_are_beyond(values)))
        return np.unique(np.concatenate(found)) if found else np.empty(0, dtype=int)

    @property
    def digested(self) -> bool:
        """Whether it is noted what each chunk holds; earlier versions did not."""
        return DIGESTS in self._arrays

    def _matches(self, name: str, chunk: int, values: np.ndarray) -> bool:
        """Whether a chunk of an array is what was written there, as far as that is known."""
        rows = int(self._digests[chunk, -1])
        return not rows or self._digest(values[:rows]) == self._digests[chunk, DIGESTED.index(name)]

    def _digest(self, values: np.ndarray) -> int:
        if values.dtype.kind in "OTU":
            return crc32("\0".join(map(str, values)).encode(), self._salt)
        return crc32(np.ascontiguousarray(values).data, self._salt)

    @property
    def lost(self) -> int:
        """How many rows were finished once and are not any more: damaged, or gone."""
        unfinished = np.flatnonzero(self.status() == UNFINISHED)
        return int(np.sum(unfinished % self.chunk_rows < self._digests[unfinished // self.chunk_rows, -1]))

    @property
    def unverified(self) -> np.ndarray:
        """Numbers of the finished chunks that have no digest."""
        if TOKEN not in self.documents:  # of earlier versions, which noted nothing
            return np.empty(0, dtype=int)
        finished = self.status()[:: self.chunk_rows] != UNFINISHED
        return np.flatnonzero(finished & (self._digests[:, -1] == 0))

    def there(self) -> np.ndarray:
        """Whether each row is finished, and its files are there, shape (rows,); no row is read."""
        status = self.status()
        for chunk in range(self.chunks):
            part = slice(chunk * self.chunk_rows, (chunk + 1) * self.chunk_rows)
            needed = [
                *(["parameters"] if np.any(status[part] != UNFINISHED) else []),
                *(["statistics"] if np.any(status[part] == DONE) else []),
            ]
            if not all((self.path / name / "c" / str(chunk) / "0").is_file() for name in needed):
                status[part] = UNFINISHED
        return status != UNFINISHED

    def state(self, start: int, stop: int) -> str:
        """Of a chunk's rows: "finished", "failed" where some of them failed, "unfinished" or "damaged"."""
        if (start, stop) not in self._states:
            self._states[start, stop] = self._look(start, stop)
        return self._states[start, stop]

    def _look(self, start: int, stop: int) -> str:
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
        self._note_extremes(start, parameters, status == DONE)
        return "failed" if np.any(status == FAILED) else "finished"

    def _note_extremes(self, start: int, parameters: np.ndarray, done: np.ndarray) -> None:
        rows = np.flatnonzero(done)
        if not len(rows):
            return
        for sign in (-1, 1):
            signed = sign * parameters[rows]
            for column, i in enumerate(signed.argmax(axis=0).tolist()):
                found = float(signed[i, column]), start + int(rows[i])
                self._extremes[column, sign] = max(self._extremes.get((column, sign), found), found)

    def whole_rows(self, rows: int) -> np.ndarray:
        """Which of the first rows are in chunks that are finished and not damaged, shape (rows,)."""
        found = np.zeros(rows, dtype=bool)
        for start in range(0, rows, self.chunk_rows):
            stop = min(start + self.chunk_rows, rows)
            found[start:stop] = self.state(start, stop) in ("finished", "failed")
        return found

    def done(self, rows: int) -> np.ndarray:
        """Which of these have not failed."""
        return self.whole_rows(rows) & (self.status()[:rows] == DONE)

    def extreme_rows(self, rows: int) -> np.ndarray:
        """Those with the smallest and the largest value of each parameter."""
        self.whole_rows(rows)
        return np.unique([row for _, row in self._extremes.values() if row < rows]).astype(int)

    def parameters(self, start: int, stop: int) -> np.ndarray:
        """Parameters of rows `start` to `stop`."""
        return self._read("parameters", start, stop)

    def statistics(self, start: int, stop: int) -> np.ndarray:
        """Statistics of rows `start` to `stop`; NaN where they failed."""
        return self._read("statistics", start, stop)

    def _read(self, name: str, start: int, stop: int) -> np.ndarray:
        size = self.chunk_rows
        # Whole chunks, which Zarr reads anyway: by these it is seen whether they are what was written there.
        first, last = start // size, -(-stop // size)
        try:
            if name == "message":
                for chunk in range(first, last):
                    check_texts(self.path / name / "c" / str(chunk), size)
            values = np.asarray(self._arrays[name][first * size : last * size])
            if name in DIGESTED:
                for chunk in range(first, last):
                    part = values[(chunk - first) * size : (chunk - first + 1) * size]
                    if not self._matches(name, chunk, part):
                        raise ValueError("they are not what was written there")
        except Exception as error:
            raise ValueError(
                f"{self.path} is damaged in the {name} of rows {start} to {stop - 1} ({describe(error)}); "
                "the call of `simulate` that made it makes these rows anew"
            ) from error
        return values[start - first * size : stop - first * size]

    def at(self, name: str, rows: np.ndarray) -> np.ndarray:
        """The array `name` at some rows, ascending; each chunk is read once."""
        parts = []
        for start in (np.unique(rows // self.chunk_rows) * self.chunk_rows).tolist():
            stop = start + self.chunk_rows
            parts.append(self._read(name, start, stop)[rows[(rows >= start) & (rows < stop)] - start])
        return np.concatenate(parts)

    def array(self, name: str) -> np.ndarray | None:
        """One of the other arrays, or None where there is none."""
        if name not in self._kept:
            checksums = self.documents.get(ARRAYS, {})
            try:
                if name not in self._group and name not in checksums:
                    return None
                found: Any = self._group[name]  # type: ignore[index]
                if found.dtype.kind not in "biuf":  # none of these holds texts
                    raise ValueError(f"it is of type {found.dtype}")
                values = np.asarray(found[...])
                if name in checksums and checksum_of_array(values) != checksums[name]:
                    raise ValueError("it is not what it was when the store was made")
            except Exception as error:
                if name == PRIOR_RATIO:  # which is made from the others, and made again
                    return None
                raise ValueError(
                    f"{self.path} is damaged: its array {name!r} is gone or cannot be read "
                    f"({describe(error)}); restore it, or move the store away: `xarray.open_zarr` reads what "
                    "is left"
                ) from error
            self._kept[name] = values
        return self._kept[name]

    def needed(self, name: str) -> np.ndarray:
        """One of the other arrays, which every store has."""
        found = self.array(name)
        if found is None:
            raise ValueError(
                f"{self.path} is damaged: its array {name!r} is gone; restore it, or choose another store: "
                f"`StoredTable.open({str(self.path)!r}).load()` reads the rows"
            )
        return found

    def other_arrays(self, prefix: str) -> dict[str, np.ndarray]:
        """The other arrays whose names begin with `prefix`, without it."""
        names = {*os.listdir(self.path), *self.documents.get(ARRAYS, {})}
        found = {name: self.array(name) for name in sorted(names) if name.startswith(prefix)}
        return {name.removeprefix(prefix): array for name, array in found.items() if array is not None}

    def write(
        self, start: int, parameters: np.ndarray, statistics: np.ndarray, failures: Mapping[int, str]
    ) -> None:
        """Write a chunk of rows: it counts as finished when all of it is on the disk."""
        # Shapes: parameters (c, p); statistics (c, d).
        chunk = start // self.chunk_rows
        self._states = {part: state for part, state in self._states.items() if part[0] != start}
        part = slice(start, start + len(parameters))
        beyond = np.flatnonzero(_are_beyond(parameters) | _are_beyond(statistics))
        failures = {**{start + int(i): BEYOND for i in beyond}, **failures}
        status = np.full(len(parameters), DONE, dtype=np.uint8)
        status[[row - start for row in failures]] = FAILED
        with self._writing():
            for name in self._arrays:  # all, before the first is written
                self._folder.check(f"{name}/c")
            if np.any(self._status_of(part) != UNFINISHED):  # else old and new rows would be mixed by a kill
                self._write_digest(chunk, None)
                self._arrays["status"][part] = UNFINISHED
            self._arrays["parameters"][part] = parameters
            self._arrays["statistics"][part] = statistics
            message = np.full(len(parameters), "", dtype=object)
            for row, text in failures.items():
                message[row - start] = text
            self._arrays["message"][part] = message  # a chunk of empty ones takes no space
            # Last: until it is there the chunk counts as unfinished.
            self._arrays["status"][part] = status
            self._write_digest(chunk, (parameters, statistics, message, status))

    def _status_of(self, part: slice) -> np.ndarray:
        try:
            return np.asarray(self._arrays["status"][part])
        except Exception:
            return np.full(1, FAILED, dtype=np.uint8)  # whatever it was

    def _write_digest(self, chunk: int, values: tuple[np.ndarray, ...] | None) -> None:
        """Note what a chunk holds, or that this is not known."""
        if not self.digested:
            return
        self._digests[chunk] = 0
        if values is not None:
            self._digests[chunk] = [*map(self._digest, values), len(values[0])]
        of_a_file = self._arrays[DIGESTS].chunks[0]
        first = chunk // of_a_file * of_a_file
        file = slice(first, first + of_a_file)
        self._arrays[DIGESTS][file] = self._digests[file]

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except _Gone as error:
            raise self._gone() from error
        except OSError as error:
            done = int(np.sum(self.there()))
            raise OSError(
                error.errno,
                f"the store {self.path} cannot be written any more: {os.strerror(error.errno or 0)}; {done} "
                f"of {self.rows} rows are finished and stay readable; free space, and the same call "
                "continues with the others",
            ) from error

    def _gone(self) -> OSError:
        """What to say of a store that is not where it was."""
        moved = self._folder.moved_to()
        if moved is None:
            what = "is gone (it was removed, replaced, or moved to another folder)"
            advice = "bring it back to where it was"
            safe = "the rows that it had are wherever it is now"
        elif moved == self.path:
            what, advice = "has lost files of its own", "restore these, or choose another store"
            safe = f"{int(np.sum(self.there()))} of {self.rows} rows are left in it"
        else:
            what, advice = f"was renamed to {moved}", "give the store its old name, or the call its new one"
            try:
                count = int(np.sum(TableStore.open(moved).there()))
                safe = f"{count} of {self.rows} rows are finished there, and safe"
            except (OSError, ValueError) as error:
                safe = f"it cannot be read there ({describe(error)})"
        return FileNotFoundError(
            errno.ENOENT,
            f"the store {self.path} {what} while it was written; {safe}; {advice}, and the same "
            "call continues",
        )

    def extend(self, rows: int) -> None:
        """Extend the arrays by further rows."""
        with self._writing():
            names = [*ROW_ARRAYS[:-1], *([DIGESTS] if DIGESTS in self._arrays else []), "status"]
            for name in names:  # the status last: it says how many rows there are
                array = self._arrays[name]
                length = -(-rows // self.chunk_rows) if name == DIGESTS else rows
                array.resize((length, *array.shape[1:]))
            consolidate(self._folder)
        more = np.zeros((self.chunks - len(self._digests), self._digests.shape[1]), dtype=np.uint32)
        self._digests = np.concatenate([self._digests, more])

    def keep(self, name: str, dims: tuple[str, ...], values: np.ndarray) -> None:
        """Write one of the other arrays, of numbers; what a kill has left of it is NaN, and overwritten."""
        with self._writing():
            add_array(self._group, name, dims, values, fill_value=np.nan, overwrite=True)
            consolidate(self._folder)
        self._kept[name] = values

    def remember(self, name: str, values: Any) -> None:
        """Hold an array, or a document, in memory alone."""
        if isinstance(values, np.ndarray):
            self._kept[name] = values
        else:
            self.documents[name] = values

    def note(self, name: str, document: Any) -> None:
        """Write one of the documents."""
        self.documents[name] = document
        texts = _texts(self.documents)
        with self._writing():
            # With its checksum in one write, or a kill between two would make the store look damaged.
            self._group.attrs.update({name: texts[name], "checksum": checksum_of(texts)})
            consolidate(self._folder)


def _texts(documents: Mapping[str, Any]) -> dict[str, str]:
    return {name: json.dumps(document, sort_keys=True) for name, document in documents.items()}


def _are_beyond(values: np.ndarray) -> np.ndarray:
    """Which rows (n,) hold finite numbers that no table takes."""
    if not len(values) or not values.size or np.nanmax(np.abs(values), initial=0.0) <= LARGEST:
        return np.zeros(len(values), dtype=bool)
    return np.any((np.abs(values) > LARGEST) & np.isfinite(values), axis=1)


# --- one writer at a time ---


def real_path(path: Path) -> Path:
    """A store's path without symbolic links, by which all writers lock the same store."""
    try:
        found = path.resolve()
        found.is_dir()
    except (OSError, RuntimeError, ValueError) as error:
        words = f"{str(path)!r} cannot be followed ({error}); choose another name for the store"
        raise ValueError(words) from error
    return found


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process write to a store; the lock ends with its process, however that ends."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent}; make it first")
    check_outside(path)
    for folder in [path.parent, *([path] if path.is_dir() else [])]:
        if not os.access(folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
            raise PermissionError(f"{folder} may not be written; choose a store elsewhere, or allow it")
    # A name that nobody else gives: `poetry.lock` beside a store "poetry" is a user's file.
    beside = path.parent / f".{path.name}.pymc_kbr.lock"
    lock = FileLock(beside)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise BlockingIOError(
            f"another process is writing to the store {path}; wait until it has ended, or choose "
            "another store"
        ) from None
    except OSError as error:
        raise type(error)(
            error.errno, f"{beside} cannot be made ({error.strerror}); choose a store elsewhere"
        ) from error
    try:
        remove_leftovers(path)
        yield
    finally:
        with suppress(OSError):  # the folder may be gone by now
            beside.unlink()  # while it is locked: who opens the old file sees that it is gone
        lock.release()
