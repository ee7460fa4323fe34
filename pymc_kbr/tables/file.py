"""Arrays and JSON documents in one NetCDF file: open, versioned, and checked when it is read."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import xarray as xr

from pymc_kbr.tables.codecs import check_heaps, variables_in
from pymc_kbr.tables.errors import describe

FILE_FORMAT = "pymc_kbr reference table"
FILE_VERSION = 1

OF_NETCDF = ("_NCProperties", "_nc3_strict")
"""Attributes of a file that are no table's."""


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
        If the file, or a folder of that name, is there already and `overwrite` is not set.
    FileNotFoundError
        If its folder is not there.
    ValueError
        If `path` is a folder, and `overwrite` is set.
    """
    if path.is_dir():
        kind = ValueError if overwrite else FileExistsError
        raise kind(f"{path} is a folder; give the name of a file, such as {path / 'table.nc'}")
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
        with _here():
            dataset.to_netcdf(partial, engine="h5netcdf", encoding=encoding)
        # `mkstemp` lets nobody else read it.
        os.chmod(partial, 0o644)
        os.replace(partial, path)
    finally:
        Path(partial).unlink(missing_ok=True)


def _here() -> AbstractContextManager[Any]:
    """Keep xarray from writing by Dask's default scheduler, which may be that of a lost cluster."""
    dask = sys.modules.get("dask")
    return dask.config.set(scheduler="synchronous") if dask is not None else nullcontext()


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
        check_heaps(path)
        # By HDF5 alone: of a damaged file xarray would look for dimensions without an end.
        with h5py.File(path, "r") as file:
            arrays = {name: _array(file[name]) for name in variables_in(file)}
            attributes = {name: file.attrs[name] for name in file.attrs if name not in OF_NETCDF}
    except Exception as error:
        raise ValueError(
            f"{path} cannot be read as NetCDF: it is damaged, or no reference table ({describe(error)})"
        ) from error
    if str(attributes.pop("format", None)) != FILE_FORMAT:  # a file may hold anything there
        raise ValueError(
            f"{path} is a NetCDF file, but no reference table: it lacks the mark {FILE_FORMAT!r}"
        )
    version = np.asarray(attributes.pop("format_version", None)).tolist()  # NetCDF makes a list of a number
    version = version[0] if isinstance(version, list) and len(version) == 1 else version
    if version != FILE_VERSION:
        raise ValueError(
            f"{path} has format version {version} and this pymc_kbr reads version {FILE_VERSION}; "
            "read it with the pymc_kbr that wrote it"
        )
    # HDF5 reads a file with flipped bits without a word.
    checksum = attributes.pop("checksum", None)
    if str(checksum) != _checksum(arrays, attributes):
        raise ValueError(f"{path} is damaged: its contents do not match its checksum")
    try:
        return arrays, {name: json.loads(text) for name, text in attributes.items()}
    except Exception as error:
        raise ValueError(f"{path} holds no reference table ({describe(error)})") from error


def _array(dataset: h5py.Dataset) -> np.ndarray:
    """The numbers or texts of a dataset, as xarray has written them."""
    if h5py.check_string_dtype(dataset.dtype) is not None:
        return np.asarray(dataset.asstr()[()], dtype=object)
    array = np.asarray(dataset[()])
    return array.astype(bool) if str(dataset.attrs.get("dtype")) == "bool" else array


def _checksum(arrays: Mapping[str, np.ndarray], texts: Mapping[str, str]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        texts_of = array.dtype.kind in "OUST"
        content = "\0".join(map(str, array)).encode("utf-8", "surrogatepass") if texts_of else array.tobytes()
        # With the shape: the same bytes are another array in another one.
        digest.update(f"{name}{array.shape}".encode() + content)
    for name in sorted(texts):
        digest.update(f"{name}={texts[name]}".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
