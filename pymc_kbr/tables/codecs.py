"""Which codecs a file or a store may ask for: those that turn bytes into numbers and text, and nothing else.

A codec named in a file decides what happens when the file is read, and some of them, such as a pickle filter,
run what the file says. So names are looked at first, and only those that are known here are decoded.
"""

from __future__ import annotations

import json
import math
import mmap
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numcodecs import Zstd

from pymc_kbr.arrays.memory import MOST_DEFLATED, physical_memory
from pymc_kbr.tables.layout import ROW_ARRAYS

ZARR_CODECS = frozenset({"bytes", "zstd", "vlen-utf8", "crc32c", "gzip", "blosc", "transpose"})
"""Codecs of Zarr format 3 that only move and compress bytes."""

ZARR_TYPES = frozenset(
    {"bool", "float32", "float64", "string"}
    | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)

HDF5_FILTERS = frozenset({h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32})
"""Those that are part of HDF5; any other would be loaded from a library that the file names."""

HEAP = b"GCOL\x01\0\0\0"
"""What a global heap of HDF5 begins with: its signature and version."""

NO_VARIABLE = b"This is a netCDF dimension but not a netCDF variable"
"""What the dataset of a dimension is called that has a length alone, and is not read."""


def check_zarr(path: Path) -> None:
    """Refuse a Zarr store that asks for anything else, before any of it is decoded.

    Raises
    ------
    ValueError
        That names the array and the codec.
    """
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
    """Refuse a chunk of texts that says it holds another number of them, for which memory would be taken.

    Parameters
    ----------
    chunk : Path
        Compressed with Zstandard; nothing may be there.
    count : int

    Raises
    ------
    ValueError, RuntimeError
        If it says so, or is no such chunk.
    """
    if not chunk.exists():
        return
    said = int.from_bytes(bytes(Zstd().decode(chunk.read_bytes())[:4]), "little")
    if said != count:
        raise ValueError(f"its file {chunk.name} claims to hold {said} texts and not {count}")


def check_heaps(path: Path) -> None:
    """Refuse an HDF5 file whose heaps of texts do not add up, over which HDF5 would go without an end.

    Raises
    ------
    ValueError
        If there is one, or the file is empty.
    """
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
    """Names of a file's arrays; refused where it asks for other filters, or data stand in other files.

    Raises
    ------
    ValueError
        That names the dataset.
    """
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
