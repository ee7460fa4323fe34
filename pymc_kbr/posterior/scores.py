"""How well draws and estimates agree with true values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.spatial.distance import pdist


def rmse(estimates: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Root mean squared error of estimates (k, p) of true values (k, p), shape (p,)."""
    return np.sqrt(np.mean((estimates - truth) ** 2, axis=0))


def crps(draws: np.ndarray, truth: np.ndarray, *, fair: bool = False) -> np.ndarray:
    """Continuous ranked probability score of draws (m, p) at a true value (p,), each shape (p,)."""
    m = len(draws)
    ordered = np.sort(draws, axis=0)
    ranks = np.arange(1, m + 1)[:, None]
    # Of sorted draws the distances of all pairs are a sum over ranks.
    half_distance = np.sum((2 * ranks - m - 1) * ordered, axis=0) / _pairs(m, fair)
    return np.mean(np.abs(draws - truth), axis=0) - half_distance


def _pairs(m: int, fair: bool) -> int:
    """Pairs of m draws, in both orders: all of them, or those of different draws."""
    return m * (m - 1) if fair else m**2


def covered(draws: np.ndarray, truth: np.ndarray, probability: float = 0.9) -> np.ndarray:
    """Whether the central interval of draws (m, p) covers a true value (p,), shape (p,)."""
    tail = (1 - probability) / 2
    lower, upper = np.quantile(draws, [tail, 1 - tail], axis=0)
    return (lower <= truth) & (truth <= upper)


def energy_score(draws: np.ndarray, truth: np.ndarray, power: float = 1.0, *, fair: bool = False) -> float:
    """The energy score of draws (m, p) at a true value (p,), in the same units; smaller is better."""
    # Shapes: draws (m, p); truth (p,).
    to_truth = np.mean(np.sum((draws - truth) ** 2, axis=1) ** (power / 2))
    # Each pair once: half of both orders.
    return float(to_truth - np.sum(pdist(draws) ** power) / _pairs(len(draws), fair))


def kernel_score(
    draws: np.ndarray, truth: np.ndarray, kernel: Callable[..., np.ndarray], *, fair: bool = False
) -> float:
    """The kernel score of draws (m, p) at a true value (p,); smaller is better."""
    gram = kernel(draws)
    total = gram.sum() - np.trace(gram) if fair else gram.sum()
    return float(0.5 * total / _pairs(len(draws), fair) - np.mean(kernel(draws, truth[None])))
