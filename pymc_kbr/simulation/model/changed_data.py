"""Data of a model that were changed after a table was simulated from it."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pymc as pm

from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.simulation.model.read import QUICK, inputs_of, read_model
from pymc_kbr.tables.reference_table import ReferenceTable


def with_data_of(table: ReferenceTable, model: pm.Model | None) -> ReferenceTable:
    """A table with its model's data as they are now, where they were others when it was simulated."""
    if model is None or not table.observed_data or not model.observed_RVs:
        return table
    _refuse_other_inputs(table, model)
    now = {rv.name: model.rvs_to_values[rv] for rv in model.observed_RVs}
    now = {name: np.asarray(value.eval(mode=QUICK)) for name, value in now.items()}
    before = table.observed_data
    changed = sorted(
        name
        for name in {*now, *before}
        if not (name in now and name in before and np.array_equal(now[name], before[name], equal_nan=True))
    )
    if not changed:
        return table
    graph = read_model(model)
    mine, theirs = table.statistic_columns, graph.statistics
    sets = set(mine.set_names)
    # A statistic of more data, or of data with other gaps, is another one.
    unchanged = all(
        name in sets or _gaps_of(now, name) == _gaps_of(before, name) for name in changed if name in before
    )
    if not unchanged or [(v.name, v.shape) for v in mine.variables] != [
        (v.name, v.shape) for v in theirs.variables
    ]:
        raise ValueError(
            f"the data of {changed} were changed in the model since the reference table was simulated, and "
            f"are of another size, or have other gaps: {_sizes(now, changed)} for {_sizes(before, changed)}; "
            "what was simulated is not comparable with them: simulate a table from the model as it is now, "
            "or leave the model out"
        )
    known = [name for name in changed if name in graph.known_names]
    if known:
        raise ValueError(
            f"the rows of the reference table are weighted by the density of the data of {known}, and these "
            "data were changed since; simulate a table from the model as it is now, or leave the model out"
        )
    warnings.warn(
        f"the data of {changed} were changed in the model since the reference table was simulated; the "
        "posterior is that of the model's present data. For the table's data leave the model out, or pass "
        "`table.with_observed(table.observed)`",
        UserWarning,
        stacklevel=users_line(),
    )
    return dataclasses.replace(table, observed=graph.observed, observed_data=graph.observed_data)


def _refuse_other_inputs(table: ReferenceTable, model: pm.Model) -> None:
    """Refuse a model whose simulators or priors have other data now than when the table was simulated."""
    before, now = dict(table.origin.inputs), dict(inputs_of(model))
    if changed := sorted(name for name in before if name in now and now[name] != before[name]):
        raise ValueError(
            f"the data of {changed}, which the model is simulated with, were changed since the reference "
            "table was simulated: its rows are those of another model. Simulate a table from the model as it "
            "is now, set the data back, or leave the model out"
        )


def _gaps_of(data: dict[str, np.ndarray], name: str) -> tuple[tuple[int, ...], bytes] | None:
    """Shape of a variable's data, and where they are missing; None where there are none."""
    if name not in data:
        return None
    values = np.asarray(data[name], dtype=float)
    return values.shape, np.isnan(values).tobytes()


def _sizes(data: dict[str, np.ndarray], names: list[str]) -> dict[str, tuple[int, ...]]:
    return {name: np.shape(data[name]) for name in names if name in data}
