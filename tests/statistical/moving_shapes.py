"""Twice as many parts and functions of a shape: ``python -m tests.statistical.moving_shapes --record``.

Nats that a likelihood of one number, or of a pair, loses to the exact density, a trial, on average over
10,000 fresh trials of the prior, with its standard error. It is learnt from 10,000 to 40,000 simulations.
Three minutes of one core.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import ndtr, ndtri

import pymc_kbr as pk
from case_studies.trial_rivals.problems import Problem
from pymc_kbr.estimators.likelihood import autoregressive

Law = Callable[..., Any]
WHOLE = autoregressive._with_shape


def of_one(names: tuple[str, ...], lower: list[float], upper: list[float], law: Law) -> Problem:
    """A number whose distribution depends on the parameters."""
    return Problem(
        names,
        ("x",),
        np.array(lower),
        np.array(upper),
        lambda theta, rng: law(*theta.T).rvs(random_state=rng)[:, None],
        lambda theta, x: law(*(column[:, None] for column in theta.T)).logpdf(x[:, 0]),
    )


def of_two(lower: list[float], upper: list[float], law: Law) -> Problem:
    """A pair of such numbers with two parameters, which depend as a normal pair does."""

    def draw(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        one, other = rng.standard_normal((2, len(theta)))
        z = np.column_stack([one, theta[:, 2] * one + np.sqrt(1 - theta[:, 2] ** 2) * other])
        return law(theta[:, :1], theta[:, 1:2]).ppf(ndtr(z))  # type: ignore[no-any-return]

    def log_density(theta: np.ndarray, x: np.ndarray) -> np.ndarray:
        each, left = law(theta[:, :1], theta[:, 1:2]), 1 - theta[:, 2:] ** 2
        one, other = (ndtri(np.clip(each.cdf(column), 1e-15, 1 - 1e-15)) for column in x.T)
        squares = (one**2 - 2 * theta[:, 2:] * one * other + other**2) / left
        both = each.logpdf(x[:, 0]) + each.logpdf(x[:, 1])
        return both + 0.5 * (one**2 + other**2 - squares - np.log(left))  # type: ignore[no-any-return]

    ends = np.array([*lower, -0.9]), np.array([*upper, 0.9])
    return Problem(("a", "b", "correlation"), ("x", "y"), *ends, draw, log_density)


PROBLEMS = {
    "normal and exponential": of_one(
        ("mean", "deviation", "wait"),
        [0, 0.2, 0.2],
        [2, 1, 2],
        lambda m, s, w: stats.exponnorm(w / s, loc=m, scale=s),
    ),
    "beta": of_one(("a", "b"), [0.7, 0.7], [5, 5], stats.beta),
    "Weibull": of_one(("shape", "scale"), [0.7, 0.5], [4, 3], lambda k, s: stats.weibull_min(k, scale=s)),
    "Wald": of_one(("mean", "shape"), [0.5, 0.5], [3, 5], lambda m, k: stats.invgauss(m / k, scale=k)),
    "gamma pair": of_two([0.6, 0.5], [5, 2], lambda k, s: stats.gamma(k, scale=s)),
    "beta pair": of_two([0.7, 0.7], [5, 5], stats.beta),
    "Weibull pair": of_two([0.7, 0.5], [4, 2], lambda k, s: stats.weibull_min(k, scale=s)),
}


def nats_lost(of: Problem, rows: int, twice: bool, *, trials: int = 10_000) -> tuple[float, float]:
    """Their mean and its standard error."""
    autoregressive._with_shape = partial(WHOLE, rows_for_twice=0 if twice else rows + 1)
    rng = np.random.default_rng(rows)
    theta = of.draw_prior(rows, rng)
    likelihood = pk.KernelLikelihood("autoregressive").fit(theta, of.draw(theta, rng), random_seed=0)
    lost = []
    for part in np.array_split(of.draw_prior(trials, rng), trials // 200):
        x = of.draw(part, rng)
        exact, learnt = of.log_density(part, x), likelihood.log_likelihoods(part, x)
        lost.append(np.diag(exact) - np.diag(learnt))
    each = np.concatenate(lost)
    return float(each.mean()), float(each.std() / np.sqrt(trials))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--record", action="store_true")
    record, table = parser.parse_args().record, []
    for name, problem in PROBLEMS.items():
        for rows in (10_000, 20_000, 40_000) if len(problem.statistics) == 1 else (10_000, 20_000):
            once, twice = (nats_lost(problem, rows, more) for more in (False, True))
            table.append([name, rows, *(f"{value:.4f}" for value in (*once, *twice))])
            print(*table[-1], flush=True)
    if record:
        with open(Path(__file__).with_suffix(".csv"), "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["problem", "rows", "once", "error_once", "twice", "error_twice"])
            writer.writerows(table)


if __name__ == "__main__":
    main()
