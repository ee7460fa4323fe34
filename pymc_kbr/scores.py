"""How well draws and estimates agree with true values."""

from __future__ import annotations

import numpy as np


def rmse(estimates: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Root mean squared error of estimates (k, p) of true values (k, p), shape (p,)."""
    return np.sqrt(np.mean((estimates - truth) ** 2, axis=0))


def crps(draws: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Continuous ranked probability score of draws (m, p) at a true value (p,), each shape (p,).

    Notes
    -----
    E|X - y| - E|X - X'| / 2 under the empirical distribution of the draws (Gneiting and Raftery
    2007, eq. 21); smaller is better, in the parameter's own units.
    """
    m = len(draws)
    ordered = np.sort(draws, axis=0)
    ranks = np.arange(1, m + 1)[:, None]
    half_distance = np.sum((2 * ranks - m - 1) * ordered, axis=0) / m**2
    return np.mean(np.abs(draws - truth), axis=0) - half_distance


def covered(draws: np.ndarray, truth: np.ndarray, probability: float = 0.9) -> np.ndarray:
    """Whether the central interval of draws (m, p) covers a true value (p,), shape (p,)."""
    tail = (1 - probability) / 2
    lower, upper = np.quantile(draws, [tail, 1 - tail], axis=0)
    return (lower <= truth) & (truth <= upper)
