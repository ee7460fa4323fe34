"""The maximum mean discrepancy between samples."""

from __future__ import annotations

import numpy as np

from pymc_kbr.arrays.scaling import unit_deviations
from pymc_kbr.embedding.learnt_lengthscale import learn_lengthscale
from pymc_kbr.kernels import Gaussian, median_heuristic


def squared_discrepancies(sets: list[np.ndarray], bandwidth: str = "median") -> np.ndarray:
    """Squared maximum mean discrepancies (s, s) between sets of points, each of shape (m, q).

    Under a Gaussian kernel on standardised points, its bandwidth by the median heuristic or "bayesian".
    """
    deviation = unit_deviations(np.vstack(sets))
    scaled = [points / deviation for points in sets]
    pooled = np.vstack(scaled)
    kernel = (
        learn_lengthscale(pooled).kernel if bandwidth == "bayesian" else Gaussian(median_heuristic(pooled))
    )
    inner = np.empty((len(sets), len(sets)))
    for i, one in enumerate(scaled):
        for j, other in enumerate(scaled[: i + 1]):
            inner[i, j] = inner[j, i] = kernel(one, other).mean()
    norms = np.diag(inner)  # pairs of a point with itself are kept: a squared distance, never negative
    return norms[:, None] + norms[None, :] - 2 * inner
