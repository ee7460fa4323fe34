"""A table of data sets as one of columns that stand for them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from pymc_kbr.tables.columns import Columns, Variable
from pymc_kbr.tables.data_sets import DataSets
from pymc_kbr.tables.reference_table import ReferenceTable


def set_variable(table: ReferenceTable, name: str | None) -> Variable:
    """The variable of a table that holds data sets.

    Raises
    ------
    ValueError
        If it has none, none of that name, or several and no name is given.
    """
    names = table.set_names
    if not names:
        raise ValueError(
            f"the table holds no data sets, but the statistics {table.statistic_names[:8]}; data sets are "
            "simulated by `set_simulator`, or given to `ReferenceTable.from_sets`"
        )
    if name is None and len(names) > 1:
        raise ValueError(f"the table has data sets of {names}; name one of them: variable={names[0]!r}")
    if name is not None and name not in names:
        raise ValueError(f"variable is {name!r}; the table has data sets of {names}")
    chosen = names[0] if name is None else name
    return next(one for one in table.statistic_columns.variables if one.name == chosen)


def sets_of(table: ReferenceTable, variable: Variable) -> DataSets:
    """The data sets (n) of a table's variable."""
    part = table.statistics[:, table.statistic_columns.slices()[variable.name]]
    return DataSets.of_padded(part, variable.set_columns)


def with_columns(table: ReferenceTable, variable: Variable, features: Any) -> ReferenceTable:
    """The table with the columns that features make of a variable's data sets in place of these."""
    whole, place = table.statistic_columns, table.statistic_columns.slices()[variable.name]

    def replaced(statistics: np.ndarray) -> np.ndarray:
        sets = DataSets.of_padded(statistics[:, place], variable.set_columns)
        parts = [statistics[:, : place.start], features(sets), statistics[:, place.stop :]]
        return np.hstack(parts)

    made = Variable(variable.name, (len(features.names_),), labels=tuple(features.names_))
    columns = tuple(made if one.name == variable.name else one for one in whole.variables)
    return dataclasses.replace(
        table,
        statistics=replaced(table.statistics),
        observed=None if table.observed is None else replaced(table.observed[None])[0],
        statistic_columns=Columns(columns),
    )
