"""Bandwidths from the data."""

from __future__ import annotations

import numpy as np
from scipy.spatial import KDTree
from scipy.spatial.distance import pdist


def spread_out(n: int, most: int) -> np.ndarray:
    """At most `most` row numbers, evenly spread over n rows: a subsample without randomness."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(int))


def median_heuristic(points: np.ndarray, most: int = 1000) -> float:
    """The median of the pairwise distances, zeros of the diagonal left out.

    Parameters
    ----------
    points : ndarray of shape (n, d)
    most : int
        Rows used, evenly spread over the table.

    Raises
    ------
    ValueError
        If more than half of the pairs, and all of their rows' others, coincide.
    """
    distances = pdist(points[spread_out(len(points), most)])
    median = float(np.median(distances))
    if median == 0:
        apart = distances[distances > 0]
        if not len(apart):
            raise ValueError("all rows coincide; no bandwidth can be taken from them")
        median = float(np.median(apart))
    return median


def conditional_spread(parameters: np.ndarray, statistics: np.ndarray, neighbours: int = 50) -> np.ndarray:
    """The typical standard deviation of each parameter among rows of similar statistics, shape (p,).

    The median over 200 rows of the deviations among each one's nearest rows.
    """
    n = len(parameters)
    if n <= 2 * neighbours:
        spread = parameters.std(axis=0)
    else:
        rows = spread_out(n, 200)
        _, nearest = KDTree(statistics).query(statistics[rows], k=neighbours)
        spread = np.median(parameters[nearest].std(axis=1), axis=0)
    whole = parameters.std(axis=0)
    return np.where(spread > 1e-9 * whole, spread, np.where(whole > 0, whole, 1.0))
