"""A table of data sets as one of columns, where nobody has made these."""

from __future__ import annotations

from typing import Any

from pymc_kbr.estimators.sets.features import SetFeatures


def columns_of_sets(table: Any) -> Any:
    """A table whose data sets, if it has any, are columns by `SetFeatures` with its defaults."""
    for name in table.set_names:
        table = table.with_features(SetFeatures().fit(table, variable=name), name)
    return table


def most_columns(statistics: Any, parameters: int) -> int:
    """How many statistics `columns_of_sets` makes at most of the variables of a table's statistics."""
    # An estimate of each parameter, and the size.
    made: int = sum(parameters + 1 if one.set_columns else one.size for one in statistics.variables)
    return made
