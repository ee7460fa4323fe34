"""Data sets of all models as columns, the same functions of them in all tables."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from pymc_kbr.arrays.data_sets import DataSets
from pymc_kbr.estimators.sets import SetFeatures
from pymc_kbr.tables.columns import Columns, Variable
from pymc_kbr.tables.reference_table import ReferenceTable

Tables = dict[str, ReferenceTable]


def of_one_width(tables: Tables) -> Tables:
    """Tables whose data sets have room for as many rows as the largest of any table, where they have some."""
    widths: dict[tuple[str, int], int] = {}
    for table in tables.values():
        for one in table.statistic_columns.variables:
            if one.set_columns:
                key = one.name, one.set_columns
                widths[key] = max(widths.get(key, 0), one.size)
    return {name: _widened(table, widths) for name, table in tables.items()} if widths else tables


def _widened(table: ReferenceTable, widths: dict[tuple[str, int], int]) -> ReferenceTable:
    variables, parts, added = [], [], []
    for one, place in zip(
        table.statistic_columns.variables, table.statistic_columns.slices().values(), strict=True
    ):
        size = widths.get((one.name, one.set_columns), one.size)
        variables.append(one if size == one.size else dataclasses.replace(one, shape=(size,)))
        parts.append(place)
        added.append(size - one.size)
    if not any(added):
        return table

    def padded(rows: np.ndarray) -> np.ndarray:
        return np.hstack(
            [np.pad(rows[:, place], ((0, 0), (0, more))) for place, more in zip(parts, added, strict=True)]
        )

    return dataclasses.replace(
        table,
        statistics=padded(table.statistics),
        observed=None if table.observed is None else padded(table.observed[None])[0],
        statistic_columns=Columns(tuple(variables)),
    )


def as_statistics(table: ReferenceTable, observed: Any) -> Any:
    """Observed data sets, one or several as `DataSets`, as statistics (d,) or (k, d) of a table.

    Raises
    ------
    TypeError, ValueError
        If they are no data sets of these columns, or the table has other statistics beside its data sets.
    """
    if not table.set_names:
        return observed
    if len(table.statistic_columns.variables) > 1:
        raise ValueError(
            f"the tables have the statistics {[one.name for one in table.statistic_columns.variables]}, of "
            f"which {table.set_names} are data sets; give the models the observation, and leave `observed` "
            "out"
        )
    if not isinstance(observed, DataSets):
        if isinstance(observed, list | tuple) and len({np.shape(one) for one in observed}) > 1:
            raise ValueError(
                f"observed has {len(observed)} parts of different shapes; give one data set, or several as "
                "`pymc_kbr.arrays.data_sets.DataSets.of(observed)`"
            )
        return table.with_observed(observed).observed
    return np.array([table.with_observed(observed[i]).observed for i in range(len(observed))])


def columns_by_model(tables: Tables, observed: np.ndarray) -> tuple[Tables, np.ndarray]:
    """Tables and observations (k, d) with columns in place of data sets, the same functions in all tables.

    Notes
    -----
    They are the features of `SetFeatures`, fitted to the data sets of all models, without estimates of
    parameters, which differ between models: the classifiers do their own regression on them.
    """
    lengths = [len(table) for table in tables.values()]
    ends = np.cumsum(lengths)[:-1]
    for variable in next(iter(tables.values())).set_names:
        parts = [table.data_sets(variable) for table in tables.values()]
        sets = DataSets(np.vstack([part.rows for part in parts]), np.concatenate([p.sizes for p in parts]))
        features = SetFeatures(estimates=False).fit(sets)
        made = np.split(features(sets), ends)
        columns = Variable(variable, (len(features.names_),), labels=tuple(features.names_))
        place = next(iter(tables.values())).statistic_columns.slices()[variable]
        there = DataSets.of_padded(observed[:, place], sets.columns)
        observed = _put(observed, place, features(there))
        tables = {
            name: _with(table, place, part, columns)
            for (name, table), part in zip(tables.items(), made, strict=True)
        }
    return tables, observed


def _put(rows: np.ndarray, place: slice, columns: np.ndarray) -> np.ndarray:
    return np.hstack([rows[:, : place.start], columns, rows[:, place.stop :]])


def _with(table: ReferenceTable, place: slice, part: np.ndarray, made: Variable) -> ReferenceTable:
    """A table with columns (n, q) in the place of a variable; its observation, which is read, left out."""
    variables = table.statistic_columns.variables
    return dataclasses.replace(
        table,
        statistics=_put(table.statistics, place, part),
        observed=None,
        observed_data={},
        statistic_columns=Columns(tuple(made if one.name == made.name else one for one in variables)),
    )
