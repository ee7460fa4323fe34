"""By how many standard errors a smaller ridge of a spread must gain, for what new rows are worth.

``python -m tests.statistical.ridges_of_spreads`` prints the table from the figures that are kept in
``ridges_of_spreads.csv``; ``--record`` makes these again, in some five minutes of one core.

Of each problem three tables of 1,000 rows are learnt by the location and scale form, and 3,000 other
rows are scored. A figure is by how much their mean log density is higher than where any gain will do, in
nats; the first column has that itself. Problems are those of `race_problems` with up to
twenty continuous statistics, and five whose noise has tails, modes or bends.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import numpy as np

import pymc_kbr as pk
from pymc_kbr.estimators.likelihood import spread
from tests.statistical import race_problems as race
from tests.statistical.figures import command, read_figures, write_figures

FIGURES = Path(__file__).with_name("ridges_of_spreads.csv")
ROWS, FRESH, TABLES, FITS = 1000, 3000, 3, 1
ERRORS = 0.0, 1.0, 2.0

MIX = np.array([[1, 0.3, 0], [0, 1, 0.3], [0.2, 0, 1]])


def two_scales(rng: np.random.Generator, n: int) -> race.Drawn:
    """Noise that is ten times as wide in half of the rows."""
    theta = rng.uniform(-5, 5, (n, 2))
    return theta, theta + np.where(rng.random((n, 1)) < 0.5, 1.0, 0.1) * rng.normal(size=(n, 2))


def far_apart(rng: np.random.Generator, n: int) -> race.Drawn:
    """The same of a wider prior and other shares."""
    theta = rng.uniform(-12, 12, (n, 2))
    return theta, theta + np.where(rng.random((n, 1)) < 0.4, 1.3, 0.13) * rng.normal(size=(n, 2))


def of_three(rng: np.random.Generator, n: int) -> race.Drawn:
    """Such noise in three statistics."""
    theta = 2 * rng.normal(size=(n, 3))
    return theta, theta @ MIX + np.where(rng.random((n, 1)) < 0.7, 0.8, 0.05) * rng.normal(size=(n, 3))


def arcs(rng: np.random.Generator, n: int) -> race.Drawn:
    """Noise on an arc."""
    theta = rng.uniform(-1, 1, (n, 2))
    angle, radius = rng.uniform(-1.5, 1.5, n), 0.1 + 0.01 * rng.normal(size=n)
    means = np.c_[theta[:, 0] ** 2, theta[:, 1]]
    return theta, means + radius[:, None] * np.c_[np.cos(angle), np.sin(angle)]


def either_side(rng: np.random.Generator, n: int) -> race.Drawn:
    """Noise with two modes."""
    theta = rng.normal(size=(n, 2))
    side = np.where(rng.random((n, 1)) < 0.5, 1, -1)
    return theta, theta * [1, 0.5] + side + 0.2 * rng.normal(size=(n, 2))


CONTINUOUS: list[Callable[[np.random.Generator, int], race.Drawn]] = [
    race.loaded, race.in_a_box, race.bent, race.mirrored, race.student, race.beside_twelve, race.raw_normal,
    race.noisy_series, race.jumps, race.two_kinds, race.ridge, race.groups, race.lognormal, race.rings,
]  # fmt: skip


def lines_of(problem: Callable[[np.random.Generator, int], race.Drawn]) -> list[dict[str, object]]:
    """A line for each number of standard errors."""
    theta, x = problem(np.random.default_rng(99), FRESH)
    found = []
    for errors in ERRORS:
        densities = []
        for table in range(1, TABLES + 1):
            rows = problem(np.random.default_rng(table), ROWS)
            for seed in range(FITS):
                with patch.dict(spread.choose_spread.__kwdefaults__, errors_gained=errors):
                    learnt = pk.KernelLikelihood("location_scale").fit(*rows, random_seed=seed)
                evaluation = learnt._evaluation
                logs = evaluation.log_density(evaluation.describe(theta), evaluation.prepare(x))
                densities.append(float(np.mean(logs)))
        name = problem.__name__
        found.append({"problem": name, "errors": errors, "density": f"{np.mean(densities):.4f}"})
    return found


def record() -> None:
    """Make the figures."""
    problems = [two_scales, far_apart, of_three, arcs, either_side, *CONTINUOUS]
    lines = [line for problem in problems for line in lines_of(problem)]
    write_figures(FIGURES, lines)


def gains() -> dict[str, list[float]]:
    """The density where any gain will do, and by how much it is higher for each other number."""
    lines = read_figures(FIGURES)
    found: dict[str, list[float]] = {}
    for line in lines:
        row = found.setdefault(line["problem"], [])
        row.append(float(line["density"]) - (row[0] if row else 0.0))
    return found


def show() -> None:
    """Print the table."""
    print("| problem | any gain |" + "".join(f" {errors:g} |" for errors in ERRORS[1:]))
    print("| --- |" + " --- |" * len(ERRORS))
    for problem, (first, *others) in gains().items():
        print(f"| {problem} | {first:.3f} |" + "".join(f" {gain:+.3f} |" for gain in others))


if __name__ == "__main__":
    command(__doc__, record, show)
