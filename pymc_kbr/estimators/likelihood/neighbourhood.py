"""About where posteriors are: near simulations, moved to each observation by a linear regression."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve


def regression_clouds(
    statistics: np.ndarray,
    free: np.ndarray,
    observed: np.ndarray,
    *,
    # Simulations of each cloud,
    nearest: int = 400,
    # and for each coefficient of a regression at least.
    rows_for_each: int = 5,
) -> np.ndarray | None:
    """Clouds (k, c, q) of free parameters (n, q) for scaled observations (k, d); None where rows are few.

    M. A. Beaumont, W. Zhang and D. J. Balding, Approximate Bayesian computation in population genetics,
    Genetics 162 (2002), equations 3 to 5.
    """
    # Shapes: statistics (n, d).
    inside = np.isfinite(free).all(axis=1)
    statistics, free = statistics[inside], free[inside]
    n, d = statistics.shape
    size = max(nearest, rows_for_each * (d + 1))
    if n < 2 * size:
        return None
    clouds = np.empty((len(observed), nearest, free.shape[1]))
    for cloud, x in zip(clouds, observed, strict=True):
        squares = ((statistics - x) ** 2).sum(axis=1)
        rows = np.argpartition(squares, size)[: size + 1]
        rows = rows[np.lexsort((rows, squares[rows]))]
        squares, rows = squares[rows], rows[:-1]
        weights = 1 - squares[:-1] / max(squares[-1], 1e-300)
        if not np.any(weights > 0):  # all are as far
            weights = np.ones(size)
        away = np.column_stack([np.ones(size), statistics[rows] - x])
        weighted = away * weights[:, None]
        gram = away.T @ weighted
        # Of statistics that are functions of others any coefficients do.
        gram[np.diag_indices_from(gram)] += 1e-9 * np.mean(np.diag(gram))
        slopes = solve(gram, weighted.T @ free[rows], assume_a="pos")[1:]
        cloud[:] = free[rows[:nearest]] - away[:nearest, 1:] @ slopes
    return clouds
