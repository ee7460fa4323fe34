"""Arrays and JSON documents in one NetCDF file: open, versioned, and checked when it is read."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from pymc_kbr.tables.codecs import check_hdf5

FILE_FORMAT = "pymc_kbr reference table"
FILE_VERSION = 1


def write(
    path: Path,
    arrays: Mapping[str, tuple[tuple[str, ...], np.ndarray]],
    documents: Mapping[str, Any],
    *,
    overwrite: bool = False,
) -> None:
    """Write a file; it appears under its name only when it is complete.

    Parameters
    ----------
    path : Path
        Where to; ``.nc`` is the usual ending.
    arrays : mapping of str to (dimension names, ndarray)
        Compressed without loss. Strings are arrays of objects.
    documents : mapping of str to JSON values
        Kept as attributes of the file.
    overwrite : bool
        Whether an existing file may be replaced.

    Raises
    ------
    FileExistsError
        If the file is there already and `overwrite` is not set.
    IsADirectoryError
        If it is a folder and `overwrite` is set.
    FileNotFoundError
        If its folder is not there.
    """
    if path.is_dir():
        raise (IsADirectoryError if overwrite else FileExistsError)(
            f"{path} is there already and is a folder, which no table replaces; give the name of a file, "
            f"such as {path / 'table.nc'}"
        )
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} is there already; choose another name, or pass overwrite=True")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent}; make it first")
    texts = {name: json.dumps(document, sort_keys=True) for name, document in documents.items()}
    dataset = xr.Dataset(
        dict(arrays),
        attrs={
            "format": FILE_FORMAT,
            "format_version": FILE_VERSION,
            "checksum": _checksum({name: array for name, (_, array) in arrays.items()}, texts),
            **texts,
        },
    )
    encoding = {
        name: {
            "zlib": True,
            "complevel": 4,
            "shuffle": True,
            "_FillValue": None,
            "chunksizes": (min(len(array), 100_000), *(1 for _ in array.shape[1:])),  # column by column
        }
        for name, (_, array) in arrays.items()
        if array.ndim and array.size and array.dtype.kind in "fiu"
    }
    # In the same folder, so that renaming it is atomic.
    handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".partial")
    os.close(handle)
    try:
        dataset.to_netcdf(partial, engine="h5netcdf", encoding=encoding)
        # `mkstemp` lets nobody else read it.
        os.chmod(partial, 0o644)
        os.replace(partial, path)
    finally:
        Path(partial).unlink(missing_ok=True)


def read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read arrays and documents back.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is no reference table, is damaged, is a store, or was written by another format version.
    """
    if (path / "zarr.json").exists():
        raise ValueError(
            f"{path} is a store of simulations; open it with `StoredTable.open`, and `load` it from there"
        )
    if not path.is_file():
        folder = ": that is a folder" if path.is_dir() else ""
        raise FileNotFoundError(f"there is no file {path}{folder}")
    try:
        # First, since decoding may run what the file asks for.
        check_hdf5(path)
        with xr.open_dataset(path, engine="h5netcdf", decode_times=False) as opened:
            dataset = opened.load()
    except Exception as error:
        raise ValueError(
            f"{path} cannot be read as NetCDF: it is damaged, or no reference table ({error})"
        ) from error
    attributes = dict(dataset.attrs)
    if attributes.pop("format", None) != FILE_FORMAT:
        raise ValueError(
            f"{path} is a NetCDF file, but no reference table: it lacks the mark {FILE_FORMAT!r}"
        )
    version = attributes.pop("format_version", None)
    if version != FILE_VERSION:
        raise ValueError(
            f"{path} has format version {version} and this pymc_kbr reads version {FILE_VERSION}; "
            "read it with the pymc_kbr that wrote it"
        )
    # HDF5 reads a file with flipped bits without a word.
    checksum = attributes.pop("checksum", None)
    arrays = {str(name): np.array(variable.values) for name, variable in dataset.variables.items()}
    if checksum != _checksum(arrays, attributes):
        raise ValueError(f"{path} is damaged: its contents do not match its checksum")
    return arrays, {name: json.loads(text) for name, text in attributes.items()}


def _checksum(arrays: Mapping[str, np.ndarray], texts: Mapping[str, str]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        content = "\0".join(map(str, array)).encode() if array.dtype.kind in "OUST" else array.tobytes()
        # With the shape: the same bytes are another array in another one.
        digest.update(f"{name}{array.shape}".encode() + content)
    for name in sorted(texts):
        digest.update(f"{name}={texts[name]}".encode())
    return digest.hexdigest()
