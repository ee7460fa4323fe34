"""How well draws and estimates agree with true values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.spatial.distance import pdist


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


def energy_score(draws: np.ndarray, truth: np.ndarray, power: float = 1.0) -> float:
    """The energy score of draws (m, p) at a true value (p,), in the same units; smaller is better.

    Notes
    -----
    E|X - y|^b - E|X - X'|^b / 2 with b = `power` in (0, 2), where pairs are of different draws, so that the
    score's expectation does not depend on m (Gneiting and Raftery 2007, eq. 22). It is the kernel score of
    the kernel -|a - b|^b; at b = 1 in one dimension it is the CRPS. A smaller power gives more weight to
    detail: to modes that are blurred more than to a location that is wrong.
    """
    m = len(draws)
    to_truth = np.mean(np.sum((draws - truth) ** 2, axis=1) ** (power / 2))
    return float(to_truth - np.sum(pdist(draws) ** power) / (m * (m - 1)))


def kernel_score(draws: np.ndarray, truth: np.ndarray, kernel: Callable[..., np.ndarray]) -> float:
    """The kernel score of draws (m, p) at a true value (p,); smaller is better.

    E k(X, X') / 2 - E k(X, y): half the squared RKHS distance less k(y, y) / 2. Pairs are of
    different draws, as in `energy_score`.
    """
    m = len(draws)
    gram = kernel(draws)
    pairs = (gram.sum() - np.trace(gram)) / (m * (m - 1))
    return float(0.5 * pairs - np.mean(kernel(draws, truth[None])))
