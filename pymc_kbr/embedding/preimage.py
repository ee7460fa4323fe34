"""The point that represents an embedding."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from pymc_kbr.embedding.embedding import Embedding
from pymc_kbr.kernels import Gaussian


def mode(embedding: Embedding, starts: int = 5, iterations: int = 200) -> np.ndarray:
    """The point whose feature is nearest to an embedding, shape (p,): the pre-image."""
    if isinstance(embedding.atoms.kernel, Gaussian):
        return _fixed_point(embedding, starts, iterations)
    kernel, points = embedding.atoms.kernel, embedding.atoms.points

    def gap(y: np.ndarray) -> float:
        return float(kernel.diag(y[None])[0] - 2 * embedding(y[None])[0])

    nearest = points[np.argsort(kernel.diag(points) - 2 * embedding(points))[:starts]]
    ends = [minimize(gap, y, method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-12}) for y in nearest]
    return min(ends, key=lambda end: end.fun).x


def _fixed_point(embedding: Embedding, starts: int, iterations: int) -> np.ndarray:
    """The highest end of fixed-point iterations from several atoms, for a Gaussian kernel."""
    points, weights = embedding.atoms.points, embedding.weights
    heaviest = points[np.argsort(weights)[::-1][:200]]
    descending = heaviest[np.argsort(embedding(heaviest))[::-1]]
    best, highest = descending[0], -np.inf
    # From atoms of all heights, since the highest ones may all lie on one peak.
    for y in descending[:: max(1, len(descending) // starts)][:starts]:
        height = float(embedding(y[None])[0])
        for _ in range(iterations):
            similar = embedding.atoms.kernel(y[None], points)[0] * weights
            total = similar.sum()
            if total <= 0:  # negative weights prevail here: the fixed point's mean is no mean
                break
            step = similar @ points / total - y
            while (risen := float(embedding((y + step)[None])[0])) < height and np.abs(step).max() > 0:
                step = step / 2
                if np.all(np.abs(step) <= 1e-10 * (1 + np.abs(y))):
                    break
            if risen <= height:
                break
            y, height = y + step, risen
            if np.all(np.abs(step) <= 1e-8 * (1 + np.abs(y))):
                break
        if height > highest:
            best, highest = y, height
    return best
