"""How volume changes on the way from the space without edges to a prior's support."""

from __future__ import annotations

import numpy as np

from pymc_kbr.arrays.bijections import Circular, Interval, Ordered, Simplex, Step, ZeroSum
from pymc_kbr.arrays.support import Support


def log_jacobian(support: Support, parameters: np.ndarray) -> np.ndarray:
    """Log of the volume (n,) at parameters (n, p) that a unit of volume of the free space is taken to.

    Volume is measured as PyMC's densities measure it: of a simplex in all entries but the last, of columns
    that sum to zero in their hyperplane.
    """
    total = np.zeros(len(parameters))
    for block in support.blocks:
        values = parameters[:, list(block.columns)]
        for step in block.steps:
            total += _log_jacobian(step, values, parameters)
            values = step.forward(values, parameters)
    return total


def _log_jacobian(step: Step, values: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    """Of one step, from its freer side to `values`."""
    with np.errstate(divide="ignore"):
        if isinstance(step, Interval):
            return _of_interval(step, values, parameters)
        if isinstance(step, Ordered):
            return np.log(np.diff(values, axis=1)).sum(axis=1)
        if isinstance(step, Simplex):
            return np.log(values).sum(axis=1)
    if isinstance(step, ZeroSum):
        return np.full(len(values), 0.5 * np.log(values.shape[1]))
    assert isinstance(step, Circular)
    return np.zeros(len(values))


def _of_interval(step: Interval, values: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    lower, upper = np.broadcast_arrays(*step.bounds(parameters))
    below, above = np.isfinite(lower), np.isfinite(upper)
    both = below & above
    width = np.where(both, np.where(above, upper, 1) - np.where(below, lower, 0), 1)
    log = np.where(below, np.log(np.where(below, values - lower, 1)), 0)
    log = log + np.where(above, np.log(np.where(above, upper - values, 1)), 0)
    found: np.ndarray = (log - np.log(width)).sum(axis=1)
    return found
