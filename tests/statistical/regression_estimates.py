"""How well regressions on raw and on sorted data estimate parameters: linear, of curves, and joint.

``python -m tests.statistical.regression_estimates`` prints the table from the figures that are kept in
``regression_estimates.csv``; ``--record`` makes these figures again, in about two minutes of one core.

Root mean squared errors of 2,000 fresh rows by regressions on 5,000, in deviations of the prior, each
parameter counting alike. The settings of `JointPosteriorMean` were found on these eight problems, of which
none is one of the forty models: 12 components rather than 6, each with the fourth root of its variance rather
than with all or none of it, and curves with a quarter of the variance of the kernel's features.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pymc_kbr.estimators.summaries import make_summary
from tests.statistical.figures import command, read_figures, write_figures

FIGURES = Path(__file__).with_name("regression_estimates.csv")
ROWS, FRESH = 5000, 2000
SUMMARIES = ("linear_posterior_mean", "curved_posterior_mean", "posterior_mean", "joint_posterior_mean")

Law = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]
"""From a generator and a number n to parameters (n, p) and data (n, m)."""


def two_normals(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Share, two centres in order, and the log spread of 60 data."""
    share, spread = rng.beta(2, 3, (n, 1)), rng.normal(0, 0.5, (n, 1))
    centres = np.sort(rng.normal(1, 3, (n, 2)), axis=1)
    first = rng.random((n, 60)) < share
    data = np.where(first, centres[:, :1], centres[:, 1:]) + np.exp(spread) * rng.normal(size=(n, 60))
    return np.hstack([share, centres, spread]), data


def two_lifetimes(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Share, and two log means in order, of 70 exponential data."""
    share, means = rng.uniform(0, 1, (n, 1)), np.sort(rng.normal(0, 1, (n, 2)), axis=1)
    first = rng.random((n, 70)) < share
    data = np.exp(np.where(first, means[:, :1], means[:, 1:])) * rng.exponential(size=(n, 70))
    return np.hstack([share, means]), data


def student(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Place, log spread and log degrees of freedom of 60 data."""
    place, spread = rng.normal(0, 3, (n, 1)), rng.normal(0, 0.7, (n, 1))
    degrees = rng.gamma(2, 5, (n, 1)) + 1
    data = place + np.exp(spread) * rng.standard_t(degrees, size=(n, 60))
    return np.hstack([place, spread, np.log(degrees)]), data


def counts(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Log mean and log shape of 50 negative binomial counts."""
    mean, shape = rng.normal(1.5, 0.8, (n, 1)), rng.normal(0.5, 1, (n, 1))
    rates = rng.gamma(np.exp(shape), np.exp(mean - shape), (n, 50))
    return np.hstack([mean, shape]), rng.poisson(rates).astype(float)


def gammas(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Log shape and log rate of 40 data."""
    theta = rng.normal(0, 0.8, (n, 2))
    return theta, rng.gamma(np.exp(theta[:, :1]), np.exp(-theta[:, 1:]), (n, 40))


def laplace(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Place and log spread of 60 data."""
    place, spread = rng.normal(0, 2, (n, 1)), rng.normal(0, 0.7, (n, 1))
    return np.hstack([place, spread]), place + np.exp(spread) * rng.laplace(size=(n, 60))


def three_normals(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Three centres in order, and two shares, of 100 data of known spread."""
    centres, shares = np.sort(rng.normal(0, 3, (n, 3)), axis=1), rng.dirichlet([2, 2, 2], n)
    which = (rng.random((n, 100, 1)) > shares.cumsum(axis=1)[:, None, :2]).sum(axis=2)
    data = np.take_along_axis(centres, which, axis=1) + 0.7 * rng.normal(size=(n, 100))
    return np.hstack([centres, shares[:, :2]]), data


def change_of_spread(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Place, and the log spread of the first and of the second 30 data."""
    theta = rng.normal(size=(n, 3))
    spread = np.exp(0.7 * np.repeat(theta[:, 1:], 30, axis=1))
    return theta, theta[:, :1] + spread * rng.normal(size=(n, 60))


PROBLEMS: dict[str, tuple[Law, bool]] = {
    "two normal laws, sorted": (two_normals, True),
    "two kinds of lifetimes, sorted": (two_lifetimes, True),
    "Student's law, sorted": (student, True),
    "counts, sorted": (counts, True),
    "a gamma law, sorted": (gammas, True),
    "a Laplace law, raw": (laplace, False),
    "three normal laws, sorted": (three_normals, True),
    "a spread that changes, raw": (change_of_spread, False),
}
"""By name, and whether the data are sorted."""


def lines_of(name: str) -> list[dict[str, object]]:
    """What each summary reached on one problem."""
    law, is_sorted = PROBLEMS[name]
    theta, data = law(np.random.default_rng(1), ROWS + FRESH)
    x = np.sort(data, axis=1) if is_sorted else data
    lines: list[dict[str, object]] = []
    for summary in SUMMARIES:
        began = time.process_time()
        fitted = make_summary(summary, x[:ROWS], theta[:ROWS])
        seconds = time.process_time() - began
        # Back from the summary's scale by the rows that it was fitted to, as these are without themselves.
        at = getattr(fitted, "coordinates", fitted.transform)(x[:ROWS])
        slopes = np.linalg.lstsq(np.column_stack([np.ones(ROWS), at]), theta[:ROWS], rcond=None)[0]
        found = np.column_stack([np.ones(FRESH), fitted.transform(x[ROWS:])]) @ slopes
        share = np.mean((found - theta[ROWS:]) ** 2, axis=0) / theta.var(axis=0)
        figures = {"error": round(float(np.sqrt(share.mean())), 3), "seconds": round(seconds, 1)}
        lines.append({"problem": name, "summary": summary, **figures})
    return lines


def record() -> None:
    """Make the figures again."""
    lines = [line for name in PROBLEMS for line in lines_of(name)]
    write_figures(FIGURES, lines)


def show() -> None:
    """Print errors, a line a problem and a column a summary."""
    errors = {(line["problem"], line["summary"]): line["error"] for line in read_figures(FIGURES)}
    print("| problem | " + " | ".join(SUMMARIES) + " |")
    print("| --- |" + " --- |" * len(SUMMARIES))
    for name in PROBLEMS:
        print(f"| {name} | " + " | ".join(errors[name, summary] for summary in SUMMARIES) + " |")


if __name__ == "__main__":
    command(__doc__, record, show)
