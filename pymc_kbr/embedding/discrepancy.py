"""The maximum mean discrepancy between samples."""

from __future__ import annotations

import numpy as np

from pymc_kbr.arrays.scaling import unit_deviations
from pymc_kbr.kernels import Gaussian, median_heuristic


def squared_discrepancies(sets: list[np.ndarray]) -> np.ndarray:
    """Squared maximum mean discrepancies (s, s) between sets of points, each of shape (m, q)."""
    deviation = unit_deviations(np.vstack(sets))
    scaled = [points / deviation for points in sets]
    kernel = Gaussian(median_heuristic(np.vstack(scaled)))
    inner = np.empty((len(sets), len(sets)))
    for i, one in enumerate(scaled):
        for j, other in enumerate(scaled[: i + 1]):
            inner[i, j] = inner[j, i] = kernel(one, other).mean()
    norms = np.diag(inner)
    return norms[:, None] + norms[None, :] - 2 * inner
