"""The mean of a normal in ten dimensions, under a normal prior and under a uniform one."""

from __future__ import annotations

import numpy as np

from case_studies.sbi_benchmark.priors import Box, Normal
from case_studies.sbi_benchmark.task import Task

SIZE = 10
VARIANCE = 0.1
"""Of the noise, and of the normal prior."""

_NORMAL = Normal(np.eye(SIZE) / np.sqrt(VARIANCE))
_UNIFORM = Box(1.0, SIZE)


def simulate(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Theta plus noise, shape (n, 10)."""
    return theta + rng.normal(0, np.sqrt(VARIANCE), theta.shape)


GAUSSIAN_LINEAR = Task("gaussian_linear", SIZE, SIZE, _NORMAL, simulate)
GAUSSIAN_LINEAR_UNIFORM = Task("gaussian_linear_uniform", SIZE, SIZE, _UNIFORM, simulate)
