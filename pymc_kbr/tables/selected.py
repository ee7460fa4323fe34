"""A table with some of its statistics."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from pymc_kbr.arrays.refusals import names_of
from pymc_kbr.tables.columns import Columns, Variable


def columns_named(names: Sequence[str], columns: Columns) -> np.ndarray:
    """Numbers of the columns that are named, by themselves or by their variable.

    Raises
    ------
    TypeError, ValueError
        If a name is unknown or a column is named twice, or there is none.
    """
    names = names_of("statistics", names)
    of_variables, start = {}, 0
    for variable in columns.variables:
        of_variables[variable.name] = list(range(start, start + variable.size))
        start += variable.size
    known = {name: [i] for i, name in enumerate(columns.names)} | of_variables
    unknown = [name for name in names if name not in known]
    if unknown or not len(names):
        few = columns.names if len(columns.names) <= 20 else [*columns.names[:20], "..."]
        raise ValueError(f"statistics names {unknown or 'nothing'}; the table has {few}")
    found = [column for name in names for column in known[name]]
    twice = sorted({columns.names[i] for i in found if found.count(i) > 1})
    if twice:
        raise ValueError(f"statistics names {twice} twice; name each column once")
    return np.array(found)


def there(table: Any) -> list[str] | None:
    """Names of the statistics that a table's observation has; None where none is missing."""
    if table.observed is None or not np.any(np.isnan(table.observed)):
        return None
    names: list[str] = table.statistic_names
    return [name for name, value in zip(names, table.observed, strict=True) if not np.isnan(value)]


def without_missing(table: Any) -> Any:
    """A table, in memory or on the disk, with the statistics that its observation has."""
    names = there(table)
    return table if names is None else table.with_statistics(names)


def columns_of(chosen: np.ndarray, whole: Columns) -> Columns:
    """Some columns, each a variable of its own; data sets stay whole.

    Raises
    ------
    ValueError
        If some columns of data sets are chosen without the others, or in another order.
    """
    owners = [variable for variable in whole.variables for _ in variable.column_names]
    slices, kept, at = whole.slices(), list[Variable](), 0
    while at < len(chosen):
        owner, place = owners[chosen[at]], slices[owners[chosen[at]].name]
        taken = owner.size if owner.set_columns else 1
        if not owner.set_columns:
            kept.append(Variable(whole.names[chosen[at]], discrete=owner.discrete))
        elif np.array_equal(chosen[at : at + taken], np.arange(place.start, place.stop)):
            kept.append(owner)
        else:
            raise ValueError(
                f"statistics names {whole.names[chosen[at]]!r}, which is part of the data sets "
                f"{owner.name!r}; name {owner.name!r}, or leave it out"
            )
        at += taken
    return Columns(tuple(kept))


def of_statistics(table: Any, names: Sequence[str]) -> Any:
    """See `ReferenceTable.with_statistics`."""
    chosen = columns_named(names, table.statistic_columns)
    noise = table.origin.noise
    return dataclasses.replace(
        table,
        statistics=table.statistics[:, chosen],
        observed=None if table.observed is None else table.observed[chosen],
        observed_data={},
        statistic_columns=columns_of(chosen, table.statistic_columns),
        origin=dataclasses.replace(
            table.origin, noise=tuple(np.array(table.noise)[chosen]) if noise else noise
        ),
    )
