"""Whether statistics look like independent draws of one distribution, in any order or sorted."""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata


def seems_exchangeable(
    statistics: np.ndarray,
    parameters: np.ndarray,
    *,
    # Rows that are compared, at most.
    most_rows: int = 2000,
    # Unsorted columns that are compared, at most: of many more pairs one differs by chance.
    most_columns: int = 100,
    # Standard errors by which two statistics, or two pairs of them, differ.
    errors_between: float = 5.0,
    # Statistics: means and deviations of fewer say little.
    fewest: int = 8,
    fewest_rows: int = 200,
    # Share of equal neighbours in sorted rows: of continuous draws there are none.
    most_equal: float = 0.001,
) -> bool:
    """Whether rows (n, d) may be sets of d continuous draws with one distribution given parameters (n, q)."""
    n, d = statistics.shape
    if d < fewest or n < fewest_rows:
        return False
    looked = np.linspace(0, n - 1, min(n, most_rows)).astype(int)
    rows = statistics[looked]
    ordered = np.sort(rows, axis=1)
    if np.mean(np.diff(ordered, axis=1) == 0) > most_equal:
        return False
    if np.array_equal(ordered, rows):
        return _spaced_as_draws(ordered)
    rows = rows[:, np.linspace(0, d - 1, min(d, most_columns)).astype(int)]
    # Of ranks, so that no tail decides; from each row's mean, as the parameters move all its values.
    ranks = rankdata(rows).reshape(rows.shape) / rows.size - 0.5
    away = ranks - ranks.mean(axis=1, keepdims=True)
    spread = away**2 - np.mean(away**2, axis=1, keepdims=True)
    if max(_errors(away), _errors(spread)) > errors_between:
        return False
    for level in (rankdata(parameters[looked], axis=0) / len(looked) - 0.5).T:
        if max(_errors(level[:, None] * away), _errors(level[:, None] * spread)) > errors_between:
            return False
    return max(_errors_of_pairs(away), _errors_of_pairs(spread)) < errors_between


def _spaced_as_draws(
    ordered: np.ndarray,
    *,
    # Variance of sorted draws' spacings, over that of exponential spacings: that of draws is no less.
    least_uneven: float = 0.9,
) -> bool:
    """Whether neighbouring spacings of sorted rows (n, d) are as uneven as those of draws."""
    spacings = np.diff(ordered, axis=1)
    both = spacings[:, 1:] + spacings[:, :-1]
    shares = spacings[:, :-1][both > 0] / both[both > 0]
    return float(np.mean((shares - 0.5) ** 2)) > least_uneven / 12


def _errors_of_pairs(columns: np.ndarray) -> float:
    """The largest difference of a covariance of two columns (n, d) from those of others, in its errors."""
    n, d = columns.shape
    pairs = np.triu_indices(d, 1)
    products = (columns.T @ columns / n)[pairs]
    variances = ((columns**2).T @ columns**2 / n)[pairs] - products**2
    return float(np.max(np.abs(products - products.mean()) / np.sqrt(variances / n)))


def _errors(columns: np.ndarray) -> float:
    """The largest mean of columns (n, d) in its standard errors."""
    errors = columns.std(axis=0) / np.sqrt(len(columns))
    return float(np.max(np.abs(columns.mean(axis=0)) / np.maximum(errors, 1e-300)))
