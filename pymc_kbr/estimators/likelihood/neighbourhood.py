"""About where posteriors are: near simulations, moved to each observation by a linear regression."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve
from scipy.spatial.distance import cdist


def regression_clouds(
    statistics: np.ndarray,
    free: np.ndarray,
    observed: np.ndarray,
    *,
    # Simulations of each cloud,
    nearest: int = 400,
    # and for each coefficient of a regression at least.
    rows_for_each: int = 5,
    # Of more a regression for each observation takes longer than it saves.
    most_statistics: int = 250,
    # Scaled values farther than this have squares that overflow.
    farthest: float = 1e100,
) -> np.ndarray | None:
    """Clouds (k, c, q) of free parameters (n, q) for scaled observations (k, d); None where rows are few.

    That of an observation which is too far away is NaN.
    M. A. Beaumont, W. Zhang and D. J. Balding, Approximate Bayesian computation in population genetics,
    Genetics 162 (2002), equations 3 to 5.
    """
    # Shapes: statistics (n, d).
    inside = np.isfinite(free).all(axis=1)
    if not np.all(inside):
        statistics, free = statistics[inside], free[inside]
    n, d = statistics.shape
    size = max(nearest, rows_for_each * (d + 1))
    if n < 2 * size or d > most_statistics:
        return None
    clouds = np.full((len(observed), nearest, free.shape[1]), np.nan)
    for cloud, x in zip(clouds, observed, strict=True):
        if not np.all(np.abs(x) < farthest):  # NaN is not, either
            continue
        squares = cdist(statistics, x[None], "sqeuclidean")[:, 0]
        rows = np.argpartition(squares, size)[: size + 1]
        rows = rows[np.lexsort((rows, squares[rows]))]
        squares, rows = squares[rows], rows[:-1]
        weights = 1 - squares[:-1] / max(squares[-1], 1e-300)
        if not np.any(weights > 0):  # all are as far
            weights = np.ones(size)
        away = statistics[rows] - np.average(statistics[rows], axis=0, weights=weights)
        weighted = away * weights[:, None]
        gram = away.T @ weighted
        # Of statistics that are functions of others any coefficients do.
        gram[np.diag_indices_from(gram)] += max(1e-9 * float(np.mean(np.diag(gram))), 1e-300)
        slopes = solve(gram, weighted.T @ free[rows], assume_a="pos")
        cloud[:] = free[rows[:nearest]] + (x - statistics[rows[:nearest]]) @ slopes
    return clouds
