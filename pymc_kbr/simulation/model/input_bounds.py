"""Bounds of a simulator's inputs, as far as the graph shows them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pymc.model.core import Model
from pytensor.graph.basic import Variable
from pytensor.scalar import basic, math
from pytensor.tensor.elemwise import Elemwise

from pymc_kbr.arrays.bijections import Interval
from pymc_kbr.tables.reference_table import ReferenceTable

VIEWS = {"ViewOp", "DimShuffle", "Reshape", "Subtensor", "AdvancedSubtensor", "AdvancedSubtensor1"}
"""Classes, by name since versions differ in which they have, that take entries and change none of them."""

RANGES: dict[type, tuple[float, float]] = {
    basic.Exp: (0.0, np.inf),
    basic.Sqr: (0.0, np.inf),
    math.Softplus: (0.0, np.inf),
    math.Sigmoid: (0.0, 1.0),
}
"""Functions whose values have bounds."""

Bounds = tuple[float, float]


def input_bounds(inputs: Sequence[Variable], model: Model, table: ReferenceTable) -> Bounds:
    """Lower and upper bound that hold for every entry of all of these; infinite where none is known."""
    free = set(model.free_RVs)
    bounds = [_bounds(each, free, table) for each in inputs]
    return min(lower for lower, _ in bounds), max(upper for _, upper in bounds)


def _bounds(variable: Variable, free: set[Variable], table: ReferenceTable) -> Bounds:
    while variable not in free and variable.owner is not None:
        op = variable.owner.op
        scalar = type(op.scalar_op) if isinstance(op, Elemwise) else None
        if scalar in RANGES:
            return RANGES[scalar]
        if type(op).__name__ not in VIEWS and scalar not in (basic.Identity, basic.Cast):
            return -np.inf, np.inf
        variable = variable.owner.inputs[0]
    return (
        _bounds_of_columns(table, table.parameter_columns.slices()[variable.name])
        if variable in free
        else (-np.inf, np.inf)
    )


def _bounds_of_columns(table: ReferenceTable, columns: slice) -> Bounds:
    lower, upper = np.full(table.support.size, -np.inf), np.full(table.support.size, np.inf)
    for block in table.support.blocks:
        step = block.steps[0] if len(block.steps) == 1 else None
        if isinstance(step, Interval) and step.lower_slopes is None and step.upper_slopes is None:
            lower[list(block.columns)], upper[list(block.columns)] = step.lower, step.upper
    return float(lower[columns].min()), float(upper[columns].max())
