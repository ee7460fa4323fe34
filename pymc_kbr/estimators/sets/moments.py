"""First and second moments of all data sets at once."""

from __future__ import annotations

import numpy as np

from pymc_kbr.arrays.data_sets import DataSets

LEAST_VARIANCE = 1e-6
"""Of a column of a data set, in units of all rows: one whose rows are alike has a logarithm, too."""


def means_of(sets: DataSets, rows: np.ndarray) -> np.ndarray:
    """Means (n, q) of numbers (N, q), one row for each of the rows of the data sets."""
    return np.add.reduceat(rows, sets.starts, axis=0) / sets.sizes[:, None]


def moments_of(sets: DataSets, rows: np.ndarray) -> np.ndarray:
    """Means, log deviations and correlations of numbers (N, q), shape (n, 2 q + q (q - 1) / 2)."""
    means = means_of(sets, rows)
    centred = rows - np.repeat(means, sets.sizes, axis=0)
    # In units of the farthest row: squares of heavy tails are within range.
    unit = np.maximum(np.maximum.reduceat(np.abs(centred), sets.starts, axis=0), 1.0)
    centred /= np.repeat(unit, sets.sizes, axis=0)
    variances = means_of(sets, centred**2) + LEAST_VARIANCE / unit / unit
    below = np.tril_indices(rows.shape[1], -1)
    products = means_of(sets, centred[:, below[0]] * centred[:, below[1]])
    correlations = products / np.sqrt(variances[:, below[0]] * variances[:, below[1]])
    # Means of heavy tails are heavy-tailed: by the inverse hyperbolic sine they are near a logarithm.
    return np.hstack([np.arcsinh(means), 0.5 * np.log(variances) + np.log(unit), correlations])


def moment_names(columns: int) -> list[str]:
    """Of the columns of `moments_of`."""
    own = [f"{what}_{i}" for what in ("mean", "log_deviation") for i in range(columns)]
    return [*own, *(f"correlation_{i}_{j}" for i, j in zip(*np.tril_indices(columns, -1), strict=True))]
