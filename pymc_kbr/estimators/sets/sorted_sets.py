"""Quantiles of all data sets at once."""

from __future__ import annotations

import numpy as np

from pymc_kbr.arrays.data_sets import DataSets


def quantiles_of(sets: DataSets, values: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Quantiles of one number a row, for each data set.

    Parameters
    ----------
    sets : DataSets
    values : ndarray of shape (N,)
        One for each of their rows.
    levels : ndarray of shape (l,)
        Between zero and one.

    Returns
    -------
    ndarray of shape (n, l)
        Straight lines between the sorted values, as of `numpy.quantile`.
    """
    # By data set first, which is the last key, and by value within it.
    ordered = values[np.lexsort((values, sets.numbers))]
    place = (sets.sizes[:, None] - 1) * levels
    below = np.floor(place).astype(int)
    above = np.minimum(below + 1, sets.sizes[:, None] - 1)
    low, high = (ordered[sets.starts[:, None] + at] for at in (below, above))
    return low + (place - below) * (high - low)
