"""How a table lies in a Zarr store: its arrays, its marks, and how such a store is made."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import warnings
from collections.abc import Mapping, Sequence
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
        If the disk is full, or the folder may not be written.
    """
    partial = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".partial"))
    try:
        marks = {"format": STORE_FORMAT, "format_version": STORE_VERSION, "checksum": checksum_of(texts)}
        group = zarr.create_group(partial, zarr_format=3, attributes={**marks, **texts})
        _add_row_arrays(group, rows, chunk_rows, columns)
        names = {side: ((side,), np.array(labels, dtype=object)) for side, labels in columns.items()}
        for name, (dims, values) in {**names, **arrays}.items():
            add_array(group, name, dims, values)
        consolidate(partial)
        # `mkdtemp` lets nobody else read it.
        os.chmod(partial, 0o755)
        os.rename(partial, path)
    except OSError as error:
        raise OSError(
            error.errno,
            f"the store {path} cannot be made: {os.strerror(error.errno or 0)}; make room, or choose "
            "a store elsewhere",
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


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


def checksum_of(texts: Mapping[str, Any]) -> str:
    """Of the texts of all documents, in the order of their names."""
    return hashlib.sha256("\0".join(f"{name}={texts[name]}" for name in sorted(texts)).encode()).hexdigest()


def consolidate(path: Path) -> None:
    """Write the metadata of all arrays in one place, where xarray looks for them first."""
    with warnings.catch_warnings():  # that consolidated metadata are no part of the standard yet
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(path)
