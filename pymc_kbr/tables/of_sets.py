"""Data sets in a table, and columns that stand for them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from pymc_kbr.arrays.data_sets import DataSets
from pymc_kbr.arrays.refusals import shown
from pymc_kbr.tables.checks import observation
from pymc_kbr.tables.columns import Columns, Variable


def observed_set(observed: Any, variable: Variable) -> np.ndarray:
    """An observed data set as the entries (d,) of a table's variable."""
    # One entry is the data set's size, the others are its rows.
    data = DataSets.of([observed], variable.set_columns, variable.set_labels)
    most = (variable.size - 1) // variable.set_columns
    if data.sizes[0] > most:
        raise ValueError(
            f"the observed data set has {data.sizes[0]} rows, and those of {variable.name!r} at most {most}; "
            "simulate larger ones, or allow for it by `from_sets(largest=...)`"
        )
    return data.padded(most)[0]


def observation_of(table: Any, observed: Any) -> np.ndarray | None:
    """See `ReferenceTable.with_observed`."""
    columns = table.statistic_columns
    if table.set_names and len(columns.variables) == 1:
        return observed_set(observed, columns.variables[0])
    return observation(observed, columns.names)


def set_variable(table: Any, name: str | None) -> Variable:
    """The variable of a table that holds data sets."""
    names = table.set_names
    if not names:
        raise ValueError(
            f"the table holds no data sets, but the statistics {table.statistic_names[:8]}; data sets are "
            "simulated by `set_simulator`, or given to `ReferenceTable.from_sets`"
        )
    if name is None and len(names) > 1:
        raise ValueError(f"the table has data sets of {names}; name one of them: variable={names[0]!r}")
    if name is not None and name not in names:
        raise ValueError(f"variable is {shown(name)}; the table has data sets of {names}")
    chosen = names[0] if name is None else name
    return next(one for one in table.statistic_columns.variables if one.name == chosen)


def sets_of(table: Any, name: str | None) -> DataSets:
    """See `ReferenceTable.data_sets`."""
    variable = set_variable(table, name)
    part = table.statistics[:, table.statistic_columns.slices()[variable.name]]
    return dataclasses.replace(DataSets.of_padded(part, variable.set_columns), names=variable.set_labels)


def with_columns(table: Any, features: Any, name: str | None) -> Any:
    """See `ReferenceTable.with_features`."""
    variable = set_variable(table, name)
    whole, place = table.statistic_columns, table.statistic_columns.slices()[variable.name]

    def replaced(statistics: np.ndarray) -> np.ndarray:
        sets = DataSets.of_padded(statistics[:, place], variable.set_columns)
        sets = dataclasses.replace(sets, names=variable.set_labels)
        return np.hstack([statistics[:, : place.start], features(sets), statistics[:, place.stop :]])

    made = Variable(variable.name, (len(features.names_),), labels=tuple(features.names_))
    columns = tuple(made if one.name == variable.name else one for one in whole.variables)
    return dataclasses.replace(
        table,
        statistics=replaced(table.statistics),
        observed=None if table.observed is None else replaced(table.observed[None])[0],
        statistic_columns=Columns(columns),
    )
