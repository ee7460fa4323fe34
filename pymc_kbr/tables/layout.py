"""How a table lies in a Zarr store: its arrays, its marks, and how such a store is made."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import ZstdCodec

STORE_FORMAT = "pymc_kbr table store"
STORE_VERSION = 1

COMPRESSED = [ZstdCodec(level=1, checksum=True)]
"""Every array is compressed, and a damaged part of it is recognised."""

UNFINISHED, DONE, FAILED = range(3)
"""What the array ``status`` says of a row."""

MARKS = ("format", "format_version", "checksum")
"""Attributes that are no documents."""

ROW_ARRAYS = ("parameters", "statistics", "message", "status")
"""The arrays that have a row for each simulation, in the order in which a chunk of them is written."""

DIGESTS, DIGESTS_A_FILE = "digest", 4096
"""The array of what each chunk of rows holds, and how many of them one file has."""

DIGESTED = ("parameters", "statistics", "message", "status")
"""Its first columns: CRC-32 of a chunk of these arrays. The last one is the number of rows they are of."""

TOKEN = "token"
"""The document that no other store has. Digests are of it, too: chunks of two stores are not confused."""

ARRAYS = "arrays"
"""The document with a checksum of each array that has no row for each simulation."""


def create_group(
    path: Path,
    *,
    rows: int,
    chunk_rows: int,
    columns: Mapping[str, Sequence[str]],
    arrays: Mapping[str, tuple[tuple[str, ...], np.ndarray]],
    texts: Mapping[str, str],
) -> None:
    """Make a store without finished rows; it appears under its name when it is complete.

    Parameters
    ----------
    path : Path
        Where nothing is, locked by this process.
    rows, chunk_rows : int
    columns : mapping
        Names of the columns of the sides "parameter" and "statistic".
    arrays : mapping of str to (dimension names, ndarray)
        Others.
    texts : mapping of str to str
        Its documents.

    Raises
    ------
    OSError
        If the disk is full, the folder may not be written, or something is at `path` by now.
    """
    partial = _begun(path)
    try:
        os.mkdir(partial)
        marks = {"format": STORE_FORMAT, "format_version": STORE_VERSION, "checksum": checksum_of(texts)}
        group = zarr.create_group(partial, zarr_format=3, attributes={**marks, **texts})
        _add_row_arrays(group, rows, chunk_rows, columns)
        names = {side: ((side,), np.array(labels, dtype=object)) for side, labels in columns.items()}
        for name, (dims, values) in {**names, **arrays}.items():
            add_array(group, name, dims, values)
        consolidate(partial)
        if os.path.lexists(path):  # renaming would replace an empty folder
            raise FileExistsError(17, os.strerror(17))
        os.rename(partial, path)
    except OSError as error:
        raise OSError(
            error.errno,
            f"the store {path} cannot be made: {os.strerror(error.errno or 0)}; make room, or choose "
            "a store elsewhere",
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _begun(path: Path) -> Path:
    """The folder in which a store is made: one for each name, since one process at a time makes it."""
    return path.parent / f".{path.name}.pymc_kbr.partial"


_PART = re.compile(r"(zarr|c|\d+)\.[0-9a-f]{32}\.partial")
"""The name under which Zarr writes a file before it has its own."""


def remove_leftovers(path: Path) -> None:
    """Remove what a killed writer left of a store, or of one that was to be there: names that it makes alone.

    Does nothing where something else than a store is at `path`.
    """
    if _is_folder(_begun(path)):
        shutil.rmtree(_begun(path), ignore_errors=True)
    if not is_store(path):
        return
    for folder in _folders_of(path):
        for file in os.scandir(folder):
            if _PART.fullmatch(file.name) and file.is_file(follow_symlinks=False):
                Path(file.path).unlink(missing_ok=True)


def _folders_of(store: Path) -> list[Path]:
    """The folders into which Zarr writes files: of the group, its arrays, and their chunks."""
    folders = [store]
    for array in store.iterdir():
        if _is_folder(array) and (array / "zarr.json").is_file():
            chunks = array / "c"
            folders += [array, *([chunks] if _is_folder(chunks) else [])]
            if _is_folder(chunks):
                folders += [each for each in chunks.iterdir() if each.name.isdigit() and _is_folder(each)]
    return folders


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def attributes_at(path: Path) -> dict[str, Any]:
    """The attributes of the group at a path, by its file alone; none where there is no such file."""
    try:
        document = json.loads((path / "zarr.json").read_bytes())
        return dict(document["attributes"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def is_store(path: Path) -> bool:
    """Whether what is at a path has the mark of a store."""
    return attributes_at(path).get("format") == STORE_FORMAT


def check_outside(path: Path) -> None:
    """Refuse a path within a store, which reads no more with something else in it.

    Raises
    ------
    ValueError
        That names the store.
    """
    around = next((folder for folder in path.resolve().parents if is_store(folder)), None)
    if around is not None:
        raise ValueError(f"{path} is within the store {around}, which it would damage; choose a path outside")


def folder_of_stores(path: Path, parents: bool = False) -> None:
    """Make a folder for several stores where it is missing, and those that it is in if `parents`.

    Raises
    ------
    FileNotFoundError
        If the folder that it is to be in is missing.
    ValueError
        If it is a file, itself a store, or within one.
    """
    check_outside(path)
    if (path / "zarr.json").exists():
        raise ValueError(
            f"{path} is itself a store; give a folder in which several stores are made, such as "
            f"{path.with_suffix('')}_rounds"
        )
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file; give a folder, in which several stores are made")
    if not (parents or path.parent.is_dir()):
        raise FileNotFoundError(f"there is no folder {path.parent}; make it first")
    path.mkdir(parents=parents, exist_ok=True)


def add_array(
    group: zarr.Group, name: str, dims: tuple[str, ...], values: np.ndarray, **settings: Any
) -> None:
    """Write an array, whole, into a store; with further settings of Zarr's."""
    kind: Any = str if values.dtype == object else values.dtype
    made = group.create_array(
        name, shape=values.shape, dtype=kind, dimension_names=dims, compressors=COMPRESSED, **settings
    )
    made[...] = values


def _add_row_arrays(
    group: zarr.Group, rows: int, chunk_rows: int, columns: Mapping[str, Sequence[str]]
) -> None:
    """The arrays with a row for each simulation, empty: chunks that are all fill value take no space."""
    for name, side, dtype, empty in (
        ("parameters", "parameter", "float64", np.nan),
        ("statistics", "statistic", "float64", np.nan),
        ("message", None, str, ""),
        ("status", None, "uint8", UNFINISHED),
    ):
        width = () if side is None else (len(columns[side]),)
        group.create_array(
            name,
            shape=(rows, *width),
            chunks=(chunk_rows, *width),
            dtype=dtype,
            fill_value=empty,
            dimension_names=("row",) if side is None else ("row", side),
            compressors=COMPRESSED,
        )
    group.create_array(
        DIGESTS,
        shape=(-(-rows // chunk_rows), len(DIGESTED) + 1),
        chunks=(DIGESTS_A_FILE, len(DIGESTED) + 1),
        dtype="uint32",
        fill_value=0,
        dimension_names=("chunk", "digested"),
        compressors=COMPRESSED,
    )


def problem_of(arrays: Mapping[str, Any], widths: tuple[int, int]) -> str | None:
    """What the arrays with a row for each simulation have other than `create_group` makes them, or None.

    A byte of their metadata decides what the same files are read as.
    """
    status = arrays["status"]
    expected: dict[str, tuple[tuple[int, ...], Any, Callable[[Any], Any]]] = {
        "parameters": ((widths[0],), np.dtype("f8"), np.isnan),
        "statistics": ((widths[1],), np.dtype("f8"), np.isnan),
        "message": ((), None, lambda value: value == ""),
        "status": ((), np.dtype("u1"), lambda value: value == UNFINISHED),
    }
    for name, (width, dtype, is_empty) in expected.items():
        array = arrays[name]
        if (
            array.shape[1:] != width
            or array.shape[0] < status.shape[0]  # longer ones are left by a kill while it was extended
            or array.chunks != (status.chunks[0], *width)
            or (dtype is not None and array.dtype != dtype)
            or not is_empty(array.fill_value)
        ):
            return f"the metadata of its array {name!r} are not those that it was made with"
    return None


def checksum_of(texts: Mapping[str, Any]) -> str:
    """Of the texts of all documents, in the order of their names."""
    return hashlib.sha256("\0".join(f"{name}={texts[name]}" for name in sorted(texts)).encode()).hexdigest()


def checksum_of_array(values: np.ndarray) -> str:
    """Of an array's shape, type and bytes."""
    text = values.dtype.kind in "OTU"
    content = "\0".join(map(str, values.ravel())).encode() if text else values.tobytes()
    kind = "text" if text else values.dtype.str
    return hashlib.sha256(f"{values.shape}{kind}".encode() + content).hexdigest()


def consolidate(store: Any) -> None:
    """Write the metadata of all arrays in one place, where xarray looks for them first."""
    with warnings.catch_warnings():  # that consolidated metadata are no part of the standard yet
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(store)
