"""Learned likelihoods: seconds of a fit, of draws, and of the choice among estimators."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import numpy as np
import pandas as pd

import pymc_kbr as pk
from case_studies.sbi_benchmark.methods import simulated
from case_studies.sbi_benchmark.tasks import TASKS
from case_studies.speed.measure import Row, seconds

FIT, DRAWS, CHOICE, CHOICE_OF_MANY = 30.0, 5.0, 10.0, 30.0
"""Seconds that they may take on two cores; the last with a thousand statistics."""

HELD_OUT_ROW = 50.0
"""Milliseconds to score one, for ten statistics: forty of them are then two of the choice's seconds."""


def fit_and_draws(rows: int, draws: int) -> Iterator[Row]:
    """Both forms compared, the better one fitted to the five parameters and eight statistics of SLCP."""
    table = simulated(TASKS["slcp"], rows).table
    learnt = pk.KernelLikelihood(particles=draws)
    fit = seconds(lambda: learnt.fit(table.parameters, table.statistics, table.support, random_seed=1))
    what = f"learned likelihood, {rows:,} rows of 8 statistics"
    yield Row(
        f"{what}: seconds of a fit / {FIT:.0f} s", f"{fit:.1f} s", f"{FIT:.0f} s", fit / FIT, "at most 1"
    )
    # The first observation also pays for the density of the prior, which is estimated.
    first, *others = (seconds(partial(learnt.condition, x)) for x in table.statistics[:4])
    drawn = float(np.mean(others))
    yield Row(
        f"{what}: seconds of {draws:,} draws / {DRAWS:.0f} s",
        f"{drawn:.1f} s, {first:.1f} s the first time",
        f"{DRAWS:.0f} s",
        drawn / DRAWS,
        "at most 1",
    )


def choice(rows: int) -> Iterator[Row]:
    """`select`, with and without the fit of what it chose, and the learned likelihood's share of it.

    Six kinds of ten statistics, and a thousand.
    """
    for name, simulate in KINDS.items():
        parameters, statistics = simulate(np.random.default_rng(1), rows)
        names = [f"t{i}" for i in range(parameters.shape[1])], [f"x{i}" for i in range(statistics.shape[1])]
        frame = pd.DataFrame(np.hstack([parameters, statistics]), columns=[*names[0], *names[1]])
        table = pk.ReferenceTable.from_dataframe(frame, parameters=names[0], statistics=names[1])
        size = len(names[1])
        most = CHOICE if size <= 10 else CHOICE_OF_MANY
        started = time.perf_counter()
        found = pk.select(table, random_seed=1, progressbar=False).selection_
        whole = time.perf_counter() - started
        for what, taken in (("with", whole), ("without", whole - found.seconds_of_fit)):
            which = f"select, {rows:,} rows of {size:,} statistics, {name}"
            yield Row(
                f"{which}: seconds {what} the fit / {most:.0f} s",
                f"{taken:.1f} s",
                f"{most:.0f} s",
                taken / most,
                "at most 1",
            )
        # Those of the last rows that it was scored on, beside whatever else the choice does then.
        row = 1e3 * next(
            one.seconds_a_row for one in found.candidates if isinstance(one.fitted, pk.KernelLikelihood)
        )
        most = HELD_OUT_ROW * most / CHOICE
        yield Row(
            f"{which}: milliseconds of a held-out row of the learned likelihood / {most:.0f} ms",
            f"{row:.1f} ms",
            f"{most:.0f} ms",
            row / most,
            "at most 1",
        )


def bent(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Three parameters, a bent map and normal noise."""
    theta, mix = rng.uniform(-2, 2, (rows, 3)), np.random.default_rng(5).normal(size=(3, 10))
    means = np.tanh(theta @ mix) + 0.3 * np.sin(2 * theta @ mix[::-1])
    return theta, means + 0.3 * rng.normal(size=(rows, 10))


def counts(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Counts along a line."""
    theta = rng.normal(size=(rows, 2))
    rates = np.exp(1 + 0.5 * theta[:, :1] + theta[:, 1:] * np.linspace(-1, 1, 10))
    return theta, rng.poisson(rates).astype(float)


def quantiles(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Ten quantiles of sixty data of a shifted gamma distribution."""
    theta = np.column_stack([rng.normal(size=(rows, 2)) * [1, 0.5], rng.uniform(0.5, 2, rows)])
    data = theta[:, :1] + np.exp(theta[:, 1:2]) * rng.gamma(theta[:, 2:], size=(rows, 60))
    return theta, np.quantile(data, np.linspace(0.05, 0.95, 10), axis=1).T


def autoregression(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Ten values of a series from zero on."""
    theta = np.column_stack([rng.uniform(-0.9, 0.9, rows), 0.5 * rng.normal(size=rows)])
    values = np.zeros((rows, 11))
    for i in range(10):
        values[:, i + 1] = theta[:, 0] * values[:, i] + np.exp(theta[:, 1]) * rng.normal(size=rows)
    return theta, values[:, 1:]


def linear(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Ten parameters, each with noise."""
    theta = rng.normal(size=(rows, 10))
    return theta, theta + 0.5 * rng.normal(size=(rows, 10))


def heavy_tails(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Exponentials of a walk."""
    theta = rng.normal(size=(rows, 2))
    walk = rng.normal(size=(rows, 10)).cumsum(axis=1) / 2
    return theta, np.exp(theta[:, :1] + 0.5 * np.exp(0.4 * theta[:, 1:]) * walk)


def curve(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """A thousand values along a decaying wave, with noise."""
    theta, times = rng.uniform(0.5, 2, (rows, 3)), np.linspace(0, 5, 1000)
    means = theta[:, :1] * np.exp(-theta[:, 1:2] * times) * np.cos(4 * theta[:, 2:] * times)
    return theta, means + 0.2 * rng.normal(size=(rows, 1000))


KINDS = {
    "a bent map": bent,
    "counts": counts,
    "quantiles": quantiles,
    "an autoregression": autoregression,
    "ten parameters": linear,
    "heavy tails": heavy_tails,
    "a curve": curve,
}
