"""Two crescents: the posterior is two thin moons, since the simulator sees a sum only up to its sign."""

from __future__ import annotations

import numpy as np

from case_studies.posterior_draws.problems import moons_simulator
from case_studies.sbi_benchmark.priors import Box
from case_studies.sbi_benchmark.task import Task

_PRIOR = Box(1.0, 2)


def simulate(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A point of a half circle of radius N(0.1, 0.01^2) about (0.25, 0), shifted; shape (n, 2)."""
    return moons_simulator(rng, theta)


TWO_MOONS = Task("two_moons", 2, 2, _PRIOR, simulate)
