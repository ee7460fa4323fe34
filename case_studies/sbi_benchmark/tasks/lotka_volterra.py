"""Predators and prey at ten times, with log-normal noise.

Solutions are those of the equations. Where prey nearly die out (below about 1e-6), a solver that works
with the populations themselves at moderate tolerances leaves them; such rows lie far from any observation.
"""

from __future__ import annotations

import numpy as np

from case_studies.sbi_benchmark.priors import LogNormals
from case_studies.sbi_benchmark.task import Task
from case_studies.sbi_benchmark.tasks.predator_prey import log_populations

START = (30.0, 1.0)
INTERVAL, TIMES = 2.1, 10
STEP = 0.01
NOISE = 0.1
SMALLEST, LARGEST = 1e-10, 1e4
"""The medians of the noise are kept between these, which is part of the task's definition."""

_PRIOR = LogNormals((-0.125, -3.0, -0.125, -3.0), (0.5, 0.5, 0.5, 0.5))


def log_medians(theta: np.ndarray) -> np.ndarray:
    """Of the statistics: prey at ten times, then predators; shape (n, 20)."""
    logs = log_populations(theta, START, INTERVAL, TIMES, STEP).reshape(len(theta), 2 * TIMES)
    return np.clip(logs, np.log(SMALLEST), np.log(LARGEST))


def simulate(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Observed populations, shape (n, 20)."""
    medians = log_medians(theta)
    return np.exp(medians + rng.normal(0, NOISE, medians.shape))


LOTKA_VOLTERRA = Task("lotka_volterra", 4, 2 * TIMES, _PRIOR, simulate)
