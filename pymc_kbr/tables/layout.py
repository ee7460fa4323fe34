"""How a table lies in a Zarr store: its arrays, its marks, and how such a store is made."""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import re
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import zarr
from numcodecs import Zstd
from zarr.codecs import ZstdCodec

from pymc_kbr.arrays.chunks import MOST_DEFLATED, physical_memory

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

DIGESTS = "digest"
"""The array of what each chunk of rows holds."""

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
    """Make a store without finished rows; it appears under its name when it is complete."""
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
            f"the store {path} cannot be made: {os.strerror(error.errno or 0)}; free space, or choose "
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
    """Remove what a killed writer left of a store, by names that it makes alone."""
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
    """Refuse a path within a store, which reads no more with something else in it."""
    around = next((folder for folder in path.resolve().parents if is_store(folder)), None)
    if around is not None:
        raise ValueError(f"{path} is within the store {around}, which it would damage; choose a path outside")


def folder_of_stores(path: Path, parents: bool = False) -> None:
    """Make a folder for several stores where it is missing, and those that it is in if `parents`."""
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
    group: zarr.Group,
    rows: int,
    chunk_rows: int,
    columns: Mapping[str, Sequence[str]],
    *,
    # Which are written together.
    digests_a_file: int = 4096,
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
        chunks=(digests_a_file, len(DIGESTED) + 1),
        dtype="uint32",
        fill_value=0,
        dimension_names=("chunk", "digested"),
        compressors=COMPRESSED,
    )


def problem_of(arrays: Mapping[str, Any], widths: tuple[int, int]) -> str | None:
    """What the arrays with a row for each simulation have other than `create_group` makes them, or None."""
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


# --- which codecs are allowed ---


ZARR_CODECS = frozenset({"bytes", "zstd", "vlen-utf8", "crc32c", "gzip", "blosc", "transpose"})
"""Codecs of Zarr format 3 that only move and compress bytes."""

ZARR_TYPES = frozenset(
    {"bool", "float32", "float64", "string"}
    | {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}
)

HDF5_FILTERS = frozenset({h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32})
"""Those that are part of HDF5; any other would be loaded from a library that the file names."""

HEAP = b"GCOL\x01\0\0\0"
"""What a global heap of HDF5 begins with: its signature and version."""

NO_VARIABLE = b"This is a netCDF dimension but not a netCDF variable"
"""What the dataset of a dimension is called that has a length alone, and is not read."""


def check_zarr(path: Path) -> None:
    """Refuse a Zarr store that asks for anything else, before any of it is decoded."""
    # Arrays lie one level deep; what lies deeper is not read.
    for folder in [path, *(child for child in path.iterdir() if child.is_dir())]:
        for old in (".zarray", ".zgroup", ".zmetadata"):  # may stand beside the metadata of format 3
            if (folder / old).exists():
                raise ValueError(
                    f"{folder / old} is of Zarr format 2, whose filters may run code; only format 3 is read"
                )
        # The root is a group, which has no codecs.
        if folder != path and (folder / "zarr.json").exists():
            _check_array(folder.name, json.loads((folder / "zarr.json").read_text()))


def _check_array(name: str, document: dict[str, Any]) -> None:
    if document.get("node_type") != "array" or str(document.get("data_type")) not in ZARR_TYPES:
        raise ValueError(f"its array {name!r} is of type {document.get('data_type')!r}, which is not read")
    # The specification allows a name alone for a codec without settings.
    asked = [codec.get("name") if isinstance(codec, dict) else codec for codec in document.get("codecs", [])]
    asked += [str(transformer) for transformer in document.get("storage_transformers") or []]
    foreign = [codec for codec in asked if codec not in ZARR_CODECS]
    if foreign:
        raise ValueError(
            f"its array {name!r} asks for the codec {foreign[0]!r}, which may run code and is not read; "
            f"allowed are {sorted(ZARR_CODECS)}"
        )
    # Rows are read a chunk at a time, all else as a whole, whether or not there is anything on the disk.
    shapes = [document["chunk_grid"]["configuration"]["chunk_shape"]]
    if name not in ROW_ARRAYS or name == "status":
        shapes.append(document["shape"])
    kind = str(document["data_type"])
    needed = max(map(math.prod, shapes)) * (1 if kind == "string" else np.dtype(kind).itemsize)
    if needed > physical_memory():
        raise ValueError(f"its array {name!r} needs {needed / 1e9:.3g} GB of memory, more than there is")


def check_texts(chunk: Path, count: int) -> None:
    """Refuse a chunk of texts that says it holds another number of them, for which memory would be taken."""
    if not chunk.exists():
        return
    said = int.from_bytes(bytes(Zstd().decode(chunk.read_bytes())[:4]), "little")
    if said != count:
        raise ValueError(f"its file {chunk.name} claims to hold {said} texts and not {count}")


def check_heaps(path: Path) -> None:
    """Refuse an HDF5 file whose heaps of texts do not add up, over which HDF5 would go without an end."""
    with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at = data.find(HEAP)
        while at >= 0:
            here, end = at + 16, at + int.from_bytes(data[at + 8 : at + 16], "little")
            # Each object is a number, a count, its length and its bytes, to a whole multiple of eight; number
            # zero is what is free, whose length is all of it.
            while end - here >= 16:
                length = int.from_bytes(data[here + 8 : here + 16], "little")
                free = data[here : here + 2] == b"\0\0"
                step = length if free else 16 + -(-length // 8) * 8
                if not 0 < step <= end - here:
                    raise ValueError(f"its heap of texts at byte {at} is damaged")
                here += step
            at = data.find(HEAP, at + len(HEAP))


def variables_in(file: h5py.File) -> list[str]:
    """Names of a file's arrays; refused where it asks for other filters, or data stand in other files."""
    variables = []
    for name in file:
        link = file.get(name, getlink=True)
        if not isinstance(link, h5py.HardLink):
            raise ValueError(f"its {name!r} is a link to elsewhere, which is not followed")
        dataset = file[name]
        if not isinstance(dataset, h5py.Dataset):
            raise ValueError(f"its {name!r} is a group; a table has none")
        creation = dataset.id.get_create_plist()
        filters = {creation.get_filter(i)[0] for i in range(creation.get_nfilters())}
        if filters - HDF5_FILTERS or creation.get_external_count() or dataset.is_virtual:
            raise ValueError(
                f"its dataset {name!r} asks for the HDF5 filters {sorted(filters - HDF5_FILTERS)}, or "
                f"for other files; only the filters {sorted(HDF5_FILTERS)} are read"
            )
        called = dataset.attrs.get("NAME", b"")
        if not (called if isinstance(called, bytes) else str(called).encode()).startswith(NO_VARIABLE):
            _check_dataset(name, dataset, compressed=bool(filters))
            variables.append(name)
    return variables


def _check_dataset(name: str, dataset: h5py.Dataset, *, compressed: bool) -> None:
    """Refuse other types than numbers and texts, and what is longer than its bytes can be."""
    if dataset.dtype.kind not in "biuf" and h5py.check_string_dtype(dataset.dtype) is None:
        raise ValueError(f"its dataset {name!r} is of type {dataset.dtype}, which is not read")
    # HDF5 makes an array of any shape of what is not on the disk.
    most = dataset.id.get_storage_size() * (MOST_DEFLATED if compressed else 1)
    if dataset.size and dataset.nbytes > min(most, physical_memory()):
        raise ValueError(
            f"its dataset {name!r} needs {dataset.nbytes:.3g} bytes; the file holds at most {most:.3g}, and "
            f"this machine has {physical_memory():.3g} of memory"
        )
