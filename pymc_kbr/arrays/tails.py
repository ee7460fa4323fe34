"""Statistics whose tails are heavy: measured by deviations, rows in their middle are alike."""

from __future__ import annotations

import numpy as np

HEAVY = 6.0
"""Distance of the outermost half per cent from the median, in halves of the central 68%, from which a tail is
heavy: 2.6 for a normal law, 5.6 for an exponential one.
"""


def heavy_tailed(statistics: np.ndarray) -> np.ndarray:
    """Which columns of rows (n, d) have a heavy tail on either side, bool of shape (d,).

    Columns with 68% of the rows at one value have none.
    """
    lowest, lower, middle, upper, highest = np.quantile(statistics, [0.005, 0.16, 0.5, 0.84, 0.995], axis=0)
    width = (upper - lower) / 2
    return (width > 0) & (np.maximum(highest - middle, middle - lowest) > HEAVY * width)


def heavy_where_defined(statistics: np.ndarray, near: np.ndarray | None = None) -> bool:
    """Whether a column of rows (n, d) has a heavy tail, and an observation (d,) is not below all rows.

    There it may have no logarithm and no root.
    """
    if near is not None and np.any(near < statistics.min(axis=0)):
        return False
    return bool(np.any(heavy_tailed(statistics)))
