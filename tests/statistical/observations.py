"""What a further observation costs a learned likelihood, and how good its posteriors are.

``python -m tests.statistical.observations`` prints of each problem the milliseconds of processor time for one
observation alone and for each of a hundred together, with a thousand draws; the milliseconds of a Cholesky
factorisation of order 1,000 in the same process; and mean energy scores of the parameters that simulated the
observations, at exponents one and a tenth, in deviations of the prior. Two minutes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import pymc_kbr as pk

Drawn = tuple[np.ndarray, np.ndarray]


def waiting_times(rng: np.random.Generator, n: int) -> Drawn:
    """The README's example: mean, deviation and median of fifty gamma variables."""
    theta = np.column_stack([2 * np.abs(rng.normal(size=n)), rng.uniform(0.5, 5, n)])
    y = rng.gamma(theta[:, 1:], 1 / theta[:, :1], (n, 50))
    return theta, np.stack([y.mean(axis=1), y.std(axis=1), np.median(y, axis=1)], axis=1)


def square(rng: np.random.Generator, n: int) -> Drawn:
    """Two modes."""
    theta = rng.uniform(-2, 2, (n, 1))
    return theta, theta**2 + 0.2 * rng.normal(size=(n, 1))


def moons(rng: np.random.Generator, n: int) -> Drawn:
    """Two thin crescents."""
    theta = rng.uniform(-1, 1, (n, 2))
    angle, radius = rng.uniform(-np.pi / 2, np.pi / 2, n), 0.1 + 0.01 * rng.normal(size=n)
    total, difference = theta.sum(axis=1) / np.sqrt(2), (theta[:, 1] - theta[:, 0]) / np.sqrt(2)
    x = radius * np.cos(angle) + 0.25 - np.abs(total), radius * np.sin(angle) + difference
    return theta, np.column_stack(x)


def banana(rng: np.random.Generator, n: int) -> Drawn:
    """A curved posterior."""
    theta = rng.normal(size=(n, 2))
    x = theta[:, 0], theta[:, 1] + theta[:, 0] ** 2
    return theta, np.column_stack(x) + [0.4, 0.2] * rng.normal(size=(n, 2))


def six(rng: np.random.Generator, n: int) -> Drawn:
    """Six parameters, each with noise."""
    theta = rng.normal(size=(n, 6))
    return theta, theta + 0.5 * rng.normal(size=(n, 6))


def edges(rng: np.random.Generator, n: int) -> Drawn:
    """Posteriors that are cut by the prior's support."""
    theta = rng.uniform(size=(n, 2))
    x = np.maximum(theta[:, 0], theta[:, 1]), theta.sum(axis=1)
    return theta, np.column_stack(x) + 0.05 * rng.normal(size=(n, 2))


PROBLEMS = (waiting_times, square, moons, banana, six, edges)


@dataclass(frozen=True)
class Cost:
    """Milliseconds of processor time for one observation alone and each of many, of LAPACK, and scores."""

    alone: float
    each: float
    cholesky: float
    scores: tuple[float, float]


def cost(
    problem: Callable[[np.random.Generator, int], Drawn],
    form: str,
    *,
    rows: int = 5000,
    observations: int = 100,
    draws: int = 1000,
) -> Cost:
    """Of one problem, with a form of the likelihood."""
    rng = np.random.default_rng(1)
    learnt = pk.KernelLikelihood(form, particles=draws).fit(*problem(rng, rows), random_seed=1)
    theta, x = problem(rng, observations)
    learnt.condition(x[:1])  # the density of the prior is fitted at the first observation
    alone, _ = milliseconds(lambda: learnt.condition(x[0]))
    together, posteriors = milliseconds(lambda: learnt.condition(x))
    unit = learnt.table_.parameters.std(axis=0)
    pairs = [(found.atoms / unit, truth / unit) for found, truth in zip(posteriors, theta, strict=True)]
    scores = [np.mean([energy_score(*pair, exponent) for pair in pairs]) for exponent in (1.0, 0.1)]
    return Cost(alone, together / observations, cholesky(), (float(scores[0]), float(scores[1])))


def milliseconds(task: Callable[[], object]) -> tuple[float, Any]:
    """Of processor time, and what the task returned."""
    started = time.process_time()
    found = task()
    return 1e3 * (time.process_time() - started), found


def cholesky(order: int = 1000) -> float:
    """Milliseconds of LAPACK, the fastest of five."""
    matrix = np.eye(order) + 1 / order
    return min(milliseconds(lambda: np.linalg.cholesky(matrix))[0] for _ in range(5))


def energy_score(draws: np.ndarray, truth: np.ndarray, exponent: float) -> float:
    """Mean distance to the truth less half of that between draws, to a power; lower is better."""
    between = np.linalg.norm(draws[:, None] - draws, axis=2) ** exponent
    spread = between.sum() / (len(draws) * (len(draws) - 1))
    return float(np.mean(np.linalg.norm(draws - truth, axis=1) ** exponent) - spread / 2)


def lines() -> Iterator[str]:
    """What is printed."""
    for problem in PROBLEMS:
        for form in ("location_scale", "autoregressive"):
            found = cost(problem, form)
            yield (
                f"{problem.__name__:14}{form:15}{found.alone:5.0f} ms alone {found.each:5.1f} ms each of a "
                f"hundred, Cholesky {found.cholesky:5.1f} ms, energy scores "
                f"{found.scores[0]:.4f} {found.scores[1]:.5f}"
            )


if __name__ == "__main__":
    for line in lines():
        print(line, flush=True)
