"""A generalised linear model of spikes: 100 Bernoulli trials, a white-noise stimulus and its filter.

The statistics are sufficient: the number of spikes, and the sum of the stimulus 0 to 8 steps before
each. The raw task sees the hundred zeros and ones; both have the same posterior.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from case_studies.sbi_benchmark.priors import Normal
from case_studies.sbi_benchmark.task import Task

SIZE = 10
STEPS = 100
SEED = 42
"""Of the legacy generator that the stimulus is drawn from."""


def _prior() -> Normal:
    """Offset of variance two; a filter whose second differences are penalised."""
    lags = SIZE - 1
    difference = np.eye(lags) - np.eye(lags, k=-1)
    root = np.zeros((SIZE, SIZE))
    root[0, 0] = np.sqrt(0.5)
    root[1:, 1:] = difference @ difference + np.diag(np.sqrt(np.arange(lags) / lags))
    return Normal(root)


def _design() -> np.ndarray:
    """A column of ones, then the stimulus 0 to 8 steps before; shape (100, 10)."""
    legacy = np.random.RandomState(SEED)
    stimulus = legacy.normal(size=STEPS)
    columns = [np.ones(STEPS)]
    columns += [np.concatenate([np.zeros(lag), stimulus[: STEPS - lag]]) for lag in range(SIZE - 1)]
    return np.column_stack(columns)


DESIGN = _design()
_PRIOR = _prior()


def simulate_raw(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Spikes, zeros and ones of shape (n, 100)."""
    return (rng.random((len(theta), STEPS)) < expit(theta @ DESIGN.T)).astype(float)


def simulate(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Sufficient statistics of the spikes, shape (n, 10)."""
    return simulate_raw(theta, rng) @ DESIGN


BERNOULLI_GLM = Task("bernoulli_glm", SIZE, SIZE, _PRIOR, simulate)
BERNOULLI_GLM_RAW = Task(
    "bernoulli_glm_raw",
    SIZE,
    STEPS,
    _PRIOR,
    simulate_raw,
    folder="bernoulli_glm",
    observation_file="observation_raw.csv",
)
