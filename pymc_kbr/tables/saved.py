"""A `ReferenceTable`, which uses this file, as the arrays and documents of a file, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from pymc_kbr.arrays.refusals import named
from pymc_kbr.arrays.support import Support
from pymc_kbr.tables.columns import Columns
from pymc_kbr.tables.failures import Failures
from pymc_kbr.tables.origin import Origin

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
    """Refuse what is no result in ArviZ's form.

    Raises
    ------
    TypeError
    """
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
