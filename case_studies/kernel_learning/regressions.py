"""Learnt bandwidths where a posterior's mean is regressed, beside those of the least left-out error."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

import pymc_kbr as pk
from case_studies.coalescent.data import load_coalescent
from pymc_kbr.kernels import Gaussian, median_heuristic
from pymc_kbr.regression.choose_ridge import SCALES, choose_kernel_and_ridge

Problem = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]
"""From a generator and a number of rows to parameters (n, p) and statistics (n, d)."""


def waves(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Theta = sin(3 x_1) + x_2^2 / 2 with a little noise."""
    x = rng.uniform(-2, 2, size=(rows, 2))
    return (np.sin(3 * x[:, :1]) + x[:, 1:] ** 2 / 2) + 0.2 * rng.normal(size=(rows, 1)), x


def linear_gaussian(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Four noisy linear statistics of two normal parameters."""
    theta = rng.normal(size=(rows, 2))
    mix = np.array([[1.0, 0.0, 0.5, 1.0], [0.0, 2.0, -0.5, 1.0]])
    return theta, theta @ mix + 0.5 * rng.normal(size=(rows, 4))


def clusters(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """A function within each of nine clouds on a grid, whose distances are many times its scale."""
    centres = 14.0 * rng.integers(3, size=(rows, 2))
    inside = rng.normal(size=(rows, 2))
    return np.sin(2 * inside[:, :1]) + 0.2 * rng.normal(size=(rows, 1)), centres + inside


def useless(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The waves, with fifty statistics that say nothing."""
    theta, x = waves(rng, rows)
    return theta, np.hstack([x, rng.normal(size=(rows, 50))])


def coalescent(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the coalescent's table."""
    table = load_coalescent()
    chosen = rng.choice(len(table), rows, replace=False)
    return table.parameters[chosen], table.statistics[chosen]


PROBLEMS: dict[str, Problem] = {
    "coalescent": coalescent,
    "waves": waves,
    "linear_gaussian": linear_gaussian,
    "clusters": clusters,
    "useless": useless,
}
METHODS: dict[str, Callable[[], pk.Estimator]] = {
    "left_out": lambda: pk.ConditionalMean(),
    "median": lambda: pk.ConditionalMean("median"),
    "bayesian": lambda: pk.ConditionalMean("bayesian"),
    "scale_bayesian": lambda: pk.ConditionalMean(scale="bayesian"),
    "scale_relevance": lambda: pk.ConditionalMean(scale="relevance"),
}


def regressions(quick: bool, output: Path) -> None:
    """Mean squared errors of posterior means of held-out rows (regressions.csv)."""
    trials, rows, held_out = (1, 200, 100) if quick else (5, 1000, 1000)
    lines = []
    for name, problem in PROBLEMS.items():
        errors: dict[str, list[float]] = {method: [] for method in METHODS}
        for trial in range(trials):
            theta, x = problem(np.random.default_rng([5, trial]), rows + held_out)
            unit = theta[:rows].std(axis=0)
            for method, make in METHODS.items():
                fitted = make().fit(theta[:rows], x[:rows], random_seed=1)
                means = fitted.weights(x[rows:]) @ theta[:rows]
                errors[method].append(float(np.mean(((means - theta[rows:]) / unit) ** 2)))
        line: dict[str, float | str] = {"problem": name, "trials": trials}
        line |= {method: float(np.mean(found)) for method, found in errors.items()}
        line["bayesian_over_left_out"] = float(np.mean(errors["bayesian"]) / np.mean(errors["left_out"]))
        lines.append(line)
        pd.DataFrame(lines).round(4).to_csv(output / "regressions.csv", index=False)
        print(line, flush=True)


def gaussian_alone(theta: np.ndarray, x: np.ndarray) -> pk.Estimator:
    """The leave-one-out choice among Gaussian kernels, without the linear one."""
    scaled, standard = x / x.std(axis=0), theta / theta.std(axis=0)
    median = median_heuristic(scaled)
    choice = choose_kernel_and_ridge(scaled, standard, [Gaussian(scale * median) for scale in SCALES])
    return pk.ConditionalMean(float(choice.kernel.bandwidth))  # type: ignore[attr-defined]


def linear(quick: bool, output: Path) -> None:
    """How often leave-one-out takes the linear kernel, and its error without that one (linear.csv)."""
    trials, rows, held_out = (1, 200, 100) if quick else (5, 1000, 1000)
    lines = []
    for name in ("coalescent", "linear_gaussian"):
        errors: dict[str, list[float]] = {"left_out": [], "gaussian": [], "bayesian": []}
        taken = 0
        for trial in range(trials):
            theta, x = PROBLEMS[name](np.random.default_rng([5, trial]), rows + held_out)
            unit = theta[:rows].std(axis=0)
            makers: dict[str, Callable[[], pk.Estimator]] = {**METHODS}
            makers |= {"gaussian": partial(gaussian_alone, theta[:rows], x[:rows])}
            for method, found in errors.items():
                fitted = makers[method]().fit(theta[:rows], x[:rows], random_seed=1)
                means = fitted.weights(x[rows:]) @ theta[:rows]
                found.append(float(np.mean(((means - theta[rows:]) / unit) ** 2)))
                taken += method == "left_out" and np.isinf(fitted.bandwidth_)  # type: ignore[attr-defined]
        line: dict[str, float | str] = {"problem": name, "trials": trials, "linear_taken": int(taken)}
        line |= {method: float(np.mean(found)) for method, found in errors.items()}
        line["bayesian_over_gaussian"] = float(np.mean(errors["bayesian"]) / np.mean(errors["gaussian"]))
        lines.append(line)
        pd.DataFrame(lines).round(4).to_csv(output / "linear.csv", index=False)
        print(line, flush=True)
