"""The common mean of two normals in the plane, one of a tenth of the other's deviation."""

from __future__ import annotations

import numpy as np

from case_studies.sbi_benchmark.priors import Box
from case_studies.sbi_benchmark.task import Task

DEVIATIONS = np.array([1.0, 0.1])
"""Of the two parts, which are equally likely."""

_PRIOR = Box(10.0, 2)


def simulate(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Theta plus s z, with one s for both columns; shape (n, 2)."""
    return theta + rng.choice(DEVIATIONS, (len(theta), 1)) * rng.normal(size=theta.shape)


GAUSSIAN_MIXTURE = Task("gaussian_mixture", 2, 2, _PRIOR, simulate)
