"""Whether regression estimates by curves, or joint ones, say more than linear ones, on raw and sorted data.

``python -m tests.statistical.curved_summaries`` prints the table from the figures that are kept in
``curved_summaries.csv``; ``--record`` makes these figures again, in about six minutes of one core.

Energy scores, of power 0.1, of rows held out of the nearest quarter of a table of 6,000 rows, by the best of
the same candidates with each summary, and without one. The five problems are none of the forty models.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pymc_kbr.arrays.checked_rows import CheckedRows
from pymc_kbr.arrays.support import Support
from pymc_kbr.estimators import Adjusted, Estimator, KernelLikelihood, Rejection
from pymc_kbr.selection.select import choose
from tests.statistical.figures import command, read_figures, write_figures

FIGURES = Path(__file__).with_name("curved_summaries.csv")
ROWS, NEAR = 6000, 7
"""Of each table, and the number of the row that stands for the observation."""

SUMMARIES = ("linear_posterior_mean", "curved_posterior_mean", "joint_posterior_mean")


def problems() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, parameters (n, p) and statistics (n, d) of each."""
    rng, n = np.random.default_rng(0), ROWS
    centre, width = rng.normal(0, 2, n), np.abs(rng.normal(0, 1.5, n))
    values = centre[:, None] + width[:, None] * rng.laplace(size=(n, 60))
    yield "60 values of a Laplace law", np.c_[centre, width], values
    share, means = rng.uniform(0, 1, n), np.sort(np.exp(rng.normal(0, 1, (n, 2))), axis=1)
    first = rng.random((n, 70)) < share[:, None]
    lifetimes = np.where(first, means[:, :1], means[:, 1:]) * rng.exponential(size=(n, 70))
    yield "70 sorted lifetimes of two kinds", np.c_[share, np.log(means)], np.sort(lifetimes, axis=1)
    times, height = np.linspace(0, 3, 50), np.abs(rng.normal(0, 2, n))
    decay, noise = np.exp(rng.normal(0, 0.7, n)), np.abs(rng.normal(0, 0.7, n))
    hump = height[:, None] * times * np.exp(-decay[:, None] * times)
    hump += noise[:, None] * rng.normal(size=(n, 50))
    yield "a hump at 50 times, with noise", np.c_[height, decay, noise], hump
    shape, rate = np.exp(rng.normal(0, 0.8, (2, n)))
    yield (
        "40 values of a gamma law",
        np.log(np.c_[shape, rate]),
        rng.gamma(shape[:, None], 1 / rate[:, None], (n, 40)),
    )
    level, slope, x = rng.normal(0, 1, n), rng.normal(0, 1, n), np.linspace(-1, 1, 40)
    odds = np.exp(level[:, None] + slope[:, None] * x)
    counts = rng.binomial(5, odds / (1 + odds), (n, 40)).astype(float)
    yield "40 binomial counts along a line", np.c_[level, slope], counts


def candidates() -> list[Estimator]:
    """Two with each summary, and one with none."""
    nearest = {"kernel": "epanechnikov"}
    of_summaries = [
        one
        for scale in SUMMARIES
        for one in (
            Adjusted(Rejection(ROWS // 10, scale=scale, **nearest), "heteroscedastic_local_linear"),
            KernelLikelihood("location_scale", scale=scale),
        )
    ]
    return [*of_summaries, Adjusted(Rejection(480, **nearest), "kernel_ridge")]


def lines_of(name: str, parameters: np.ndarray, statistics: np.ndarray) -> list[dict[str, Any]]:
    """What each candidate reached on one problem, the best first."""
    rows = CheckedRows.trusted(parameters, statistics, Support.unbounded(parameters.shape[1]), None)
    rng = np.random.default_rng(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen = choose(rows, rng=rng, candidates=candidates(), near=statistics[NEAR], progressbar=False)
    kept = ("candidate", "rows", "score", "excess", "standard_error")
    return [{"problem": name, **{key: line[key] for key in kept}} for line in chosen.selection_.table()]


def record() -> None:
    """Make the figures again."""
    lines = [line for problem in problems() for line in lines_of(*problem)]
    for line in lines:
        line |= {key: round(line[key], 4) for key in ("score", "excess", "standard_error")}
    write_figures(FIGURES, lines)


def read() -> list[dict[str, str]]:
    """The figures that are kept."""
    return read_figures(FIGURES)


def show() -> None:
    """Print how far each candidate is behind the best one of its problem."""
    print("| problem | candidate | behind the best | standard error |\n| --- | --- | --- | --- |")
    for line in read():
        print(f"| {line['problem']} | {line['candidate']} | {line['excess']} | {line['standard_error']} |")


if __name__ == "__main__":
    command(__doc__, record, show)
