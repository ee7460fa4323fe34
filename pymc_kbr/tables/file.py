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

from pymc_kbr.arrays.refusals import named
from pymc_kbr.arrays.support import Support
from pymc_kbr.tables.checks import describe
from pymc_kbr.tables.columns import Columns
from pymc_kbr.tables.layout import check_heaps, variables_in
from pymc_kbr.tables.origin import Failures, Origin

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
    """Write a file; it appears under its name only when it is complete."""
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
    """Read arrays and documents back."""
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


# --- a `ReferenceTable` as arrays and documents, and back ---


OBSERVED_DATA = "observed_data_"
"""What the names of the arrays of observed data begin with, in files and in stores."""

PRIOR_RATIO, FAILED_RATIO = "prior_ratio", "failed_prior_ratio"
"""The names of these arrays, of the first one in stores, too."""

IN_A_RESULT, DOCUMENTS, PATH = "reference_table_data", "reference_table_documents", "reference_table"
"""Of a result of ArviZ: the group of a table's arrays, and attributes with its documents, or its store."""


def arrays_of(table: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Arrays by name, with the names of their dimensions."""
    arrays: dict[str, tuple[tuple[str, ...], np.ndarray]] = {
        "parameters": (("row", "parameter"), table.parameters),
        "statistics": (("row", "statistic"), table.statistics),
        "failed_rows": (("failure",), table.failures.rows),
        "failed_parameters": (("failure", "parameter"), table.failures.parameters),
        "parameter": (("parameter",), np.array(table.parameter_names, dtype=object)),
        "statistic": (("statistic",), np.array(table.statistic_names, dtype=object)),
    }
    if table.observed is not None:
        arrays["observed"] = (("statistic",), table.observed)
    if table.prior_ratio is not None:
        arrays[PRIOR_RATIO] = (("row",), table.prior_ratio)
    if table.failures.prior_ratio is not None:
        arrays[FAILED_RATIO] = (("failure",), table.failures.prior_ratio)
    for name, values in table.observed_data.items():
        dims = tuple(f"{OBSERVED_DATA}{name}_dim_{i}" for i in range(values.ndim))
        arrays[f"{OBSERVED_DATA}{name}"] = (dims, values)
    return arrays


def documents_of(table: Any) -> dict[str, Any]:
    """All that is no array, as values of JSON."""
    return {
        "parameter_columns": table.parameter_columns.to_json(),
        "statistic_columns": table.statistic_columns.to_json(),
        "support": table.support.to_json(),
        "failure_messages": list(table.failures.messages),
        # As text, since a seed may have more digits than a float.
        "seed": None if table.seed is None else str(table.seed),
        "provenance": table.provenance,
        "timings": table.timings,
        "origin": table.origin.to_json(),
    }


def check_result(name: str, value: Any) -> None:
    """Refuse what is no result in ArviZ's form."""
    # A result of either ArviZ, or a dict of its groups.
    groups = isinstance(value, Mapping) and any(hasattr(group, "data_vars") for group in value.values())
    if not (groups or hasattr(value, "groups")) or hasattr(value, "iloc"):
        raise TypeError(
            f"{name} is {named(value)}; give a result of `sample_abc`, "
            "an arviz.InferenceData or xarray.DataTree"
        )


def held_by(idata: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and documents of the table that a result of ArviZ holds."""
    check_result("idata", idata)
    try:
        group = idata[IN_A_RESULT]
    except KeyError:
        try:
            path = idata["posterior"].attrs[PATH]
        except KeyError:
            raise ValueError(
                "the result holds no reference table; those of `sample_abc` do, and of `to_arviz(table=...)`"
            ) from None
        raise ValueError(
            f"the reference table of this result stayed in a store; open it: StoredTable.open({path!r})"
        ) from None
    arrays = {str(name): np.array(variable.values) for name, variable in group.variables.items()}
    return arrays, json.loads(group.attrs[DOCUMENTS])


def fields_from(arrays: Mapping[str, np.ndarray], documents: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `ReferenceTable` from what a file holds."""
    return {
        "parameters": arrays["parameters"],
        "statistics": arrays["statistics"],
        "observed": arrays.get("observed"),
        "parameter_columns": Columns.from_json(documents["parameter_columns"]),
        "statistic_columns": Columns.from_json(documents["statistic_columns"]),
        "support": Support.from_json(documents["support"]),
        "failures": Failures(
            arrays["failed_rows"],
            arrays["failed_parameters"],
            tuple(documents["failure_messages"]),
            arrays.get(FAILED_RATIO),
        ),
        "seed": None if documents["seed"] is None else int(documents["seed"]),
        "observed_data": {
            name.removeprefix(OBSERVED_DATA): values
            for name, values in arrays.items()
            if name.startswith(OBSERVED_DATA)
        },
        "provenance": documents["provenance"],
        "timings": documents["timings"],
        "origin": Origin.from_documents(documents),
        "prior_ratio": arrays.get(PRIOR_RATIO),
    }
