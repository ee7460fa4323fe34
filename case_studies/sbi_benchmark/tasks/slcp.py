"""SLCP, a simple likelihood with a complex posterior: four points of a normal in the plane.

The parameters are the mean, the two deviations before squaring, and the correlation before tanh, so
that the posterior has four modes. With distractors, 92 columns that tell nothing are mixed in.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from case_studies.sbi_benchmark.priors import Box
from case_studies.sbi_benchmark.task import Task

POINTS = 4
JITTER = 1e-6
"""Added to both variances."""

DISTRACTORS = 92
PARTS = 20
FREEDOM = 2
SEED = 42
"""Of the legacy generator that the mixture of the distractors and the order of columns are drawn from."""

_PRIOR = Box(3.0, 5)


def covariance(theta: np.ndarray) -> np.ndarray:
    """Of one point given each row of theta (n, 5), shape (n, 2, 2)."""
    first, second = theta[:, 2] ** 2, theta[:, 3] ** 2
    shared = np.tanh(theta[:, 4]) * first * second
    rows = [first**2 + JITTER, shared, shared, second**2 + JITTER]
    return np.stack(rows, axis=-1).reshape(-1, 2, 2)


def simulate(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Four points side by side, shape (n, 8)."""
    root = np.linalg.cholesky(covariance(theta))
    noise = rng.normal(size=(len(theta), POINTS, 2)) @ np.swapaxes(root, 1, 2)
    return (theta[:, None, :2] + noise).reshape(len(theta), 2 * POINTS)


@cache
def distractors() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The fixed parts of the noise: centres (20, 92), roots (20, 92, 92), and the order of 100 columns."""
    legacy = np.random.RandomState(SEED)
    centres = 15 * legacy.normal(size=(PARTS, DISTRACTORS))
    roots = np.empty((PARTS, DISTRACTORS, DISTRACTORS))
    for part in range(PARTS):
        below = np.tril(legacy.normal(size=(DISTRACTORS, DISTRACTORS)))
        roots[part] = 3 * (below + np.diag(np.exp(legacy.normal(size=DISTRACTORS))))
    return centres, roots, legacy.permutation(DISTRACTORS + 2 * POINTS)


def simulate_with_distractors(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The eight columns and 92 of a mixture of Student's t, all in a fixed order; shape (n, 100)."""
    centres, roots, order = distractors()
    informative = simulate(theta, rng)
    n = len(theta)
    part = rng.integers(PARTS, size=n)
    noise = rng.normal(size=(n, DISTRACTORS)) / np.sqrt(rng.chisquare(FREEDOM, (n, 1)) / FREEDOM)
    for k in range(PARTS):
        rows = part == k
        noise[rows] = centres[k] + noise[rows] @ roots[k].T
    return np.hstack([informative, noise])[:, order]


SLCP = Task("slcp", 5, 2 * POINTS, _PRIOR, simulate)
SLCP_DISTRACTORS = Task(
    "slcp_distractors",
    5,
    2 * POINTS + DISTRACTORS,
    _PRIOR,
    simulate_with_distractors,
    folder="slcp",
    observation_file="observation_distractors.csv",
)
