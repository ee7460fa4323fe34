"""Where all data sets lie along directions, how wide they are, and their shape."""

from __future__ import annotations

import numpy as np

from pymc_kbr.arrays.data_sets import DataSets
from pymc_kbr.estimators.sets.sorted_sets import quantiles_of

LEAST_SPREAD = 1e-3
"""Of a data set, in that of all rows: one whose rows are alike has no shape that could be divided by it."""


def shapes_of(sets: DataSets, rows: np.ndarray, lines: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Place, log width and shape of numbers (N, q) along each line (m, q), shape (n, m (2 + levels))."""
    if not len(levels):
        return np.empty((len(sets), 0))
    parts = []
    for direction in lines:
        found = quantiles_of(sets, rows @ direction, np.r_[0.25, 0.5, 0.75, levels])
        place, width = found[:, [1]], (found[:, [2]] - found[:, [0]]) / 2
        width = np.sqrt(width**2 + LEAST_SPREAD**2)
        parts += [place, np.log(width), np.arcsinh((found[:, 3:] - place) / width)]
    return np.hstack(parts)


def shape_names(lines: int, levels: np.ndarray) -> list[str]:
    """Of the columns of `shapes_of`."""
    shape = ["median", "log_width", *(f"shape_{100 * level:.3g}" for level in levels)]
    return [f"line_{i}_{name}" for i in range(lines if len(levels) else 0) for name in shape]


def directions(count: int, columns: int, rng: np.random.Generator) -> np.ndarray:
    """Unit vectors (m, q): the axes, then random ones; one line has one direction."""
    if columns == 1:
        return np.ones((1, 1))
    more = rng.standard_normal((max(0, count - columns), columns))
    return np.vstack([np.eye(columns), more / np.linalg.norm(more, axis=1, keepdims=True)])
