"""An epidemic of susceptible, infected and recovered: tested samples of the infected at ten times."""

from __future__ import annotations

import numpy as np

from case_studies.sbi_benchmark.priors import LogNormals
from case_studies.sbi_benchmark.task import Task
from case_studies.sbi_benchmark.tasks.predator_prey import log_populations

POPULATION = 1e6
INTERVAL, TIMES = 17.0, 10
STEP = 0.25
TESTED = 1000

_PRIOR = LogNormals((float(np.log(0.4)), float(np.log(0.125))), (0.5, 0.2))


def infected(theta: np.ndarray) -> np.ndarray:
    """Share of the population that is infected on days 0, 17, ..., 153; shape (n, 10)."""
    contact, recovery = theta.T
    rates = np.column_stack([np.zeros_like(contact), contact, recovery, contact])
    start = (1 - 1 / POPULATION, 1 / POPULATION)
    return np.exp(log_populations(rates, start, INTERVAL, TIMES, STEP)[:, 1])


def simulate(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Counts among 1,000 tested at each time, shape (n, 10)."""
    return rng.binomial(TESTED, np.clip(infected(theta), 0, 1)).astype(float)


SIR = Task("sir", 2, TIMES, _PRIOR, simulate)
