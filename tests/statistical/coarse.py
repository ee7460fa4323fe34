"""How often the warning `coarse` fires at 400 models whose posterior is known.

``python -m tests.statistical.coarse`` prints the table from the figures that are kept in ``coarse.csv``;
``--record`` makes these figures again, in about 20 minutes of one core.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from pymc_kbr.arrays.checked_rows import CheckedRows
from pymc_kbr.arrays.threads import one_blas_thread
from pymc_kbr.checking.coarseness import Coarseness, coarseness
from pymc_kbr.estimators import Adjusted, ConditionalMean, Estimator, KernelLikelihood, Localised, Rejection
from pymc_kbr.estimators.adjustments import JointNeighbours
from pymc_kbr.selection.select import choose
from tests.statistical.coarse_models import KINDS, Problem, problem

FIGURES = Path(__file__).with_name("coarse.csv")
MODELS, SETTLED_ON = 400, 100
"""All of them, and those on which the limits were settled: the others check these."""

OFF_IN_MEAN, OFF_IN_WIDTH = 0.5, 1.6
"""Posterior deviations, and the factor, by which a posterior is off."""

LIKELIHOOD_ROWS, LIKELIHOOD_STATISTICS = 3000, 8
"""Above which another estimator is taken in the place of a learned likelihood, which would take minutes."""


def estimator_of(number: int, n: int, d: int) -> Estimator | None:
    """The estimator of a model; None stands for "auto"."""

    def nearest(accepted: float, scale: Any = True) -> Rejection:
        return Rejection(accepted, kernel="epanechnikov", scale=scale)

    short = n <= LIKELIHOOD_ROWS and d <= LIKELIHOOD_STATISTICS
    return (
        None,
        Adjusted(nearest(0.1), "heteroscedastic_local_linear"),
        Adjusted(),
        Adjusted(nearest(0.1, "linear_posterior_mean"), "heteroscedastic_local_linear"),
        KernelLikelihood() if short else Adjusted(nearest(0.1), "heteroscedastic_kernel_ridge"),
        Localised(),
        Adjusted(nearest(min(400, n // 2)), JointNeighbours()),
        KernelLikelihood() if short else Adjusted(nearest(0.3), "local_linear"),
        ConditionalMean() if n <= 1500 else Rejection(100),
    )[(number // len(KINDS) + number) % 9]


def posterior_of(number: int, given: Problem) -> tuple[Any, str]:
    """The posterior of a model, and what made it."""
    n, d = given.statistics.shape
    chosen, rng = estimator_of(number, n, d), np.random.default_rng([1, number])
    table = given.parameters, given.statistics, given.support
    if chosen is None:
        fitted = choose(CheckedRows.of(*table), rng=rng, near=given.observed, progressbar=False)
        name = f"auto: {type(fitted).__name__}"
    else:
        fitted = chosen.fit(*table, random_seed=rng)
        name = type(fitted).__name__
    if isinstance(fitted, Adjusted):
        name += f" {type(fitted.estimator_).__name__} {type(fitted.adjustment_).__name__}"
    return fitted.under(given.log_prior).condition(given.observed), name


def line(number: int) -> dict[str, Any]:
    """What is found at one model."""
    given = problem(number)
    started = time.perf_counter()
    with one_blas_thread():
        posterior, name = posterior_of(number, given)
    fitted = time.perf_counter()
    drawn = posterior.draw(2000, np.random.default_rng([2, number]))
    error = np.abs(drawn.mean(axis=0) - given.mean) / given.deviation
    width = np.log(drawn.std(axis=0) / given.deviation)
    checked = time.perf_counter()
    found = coarseness(posterior, given.table(), log_prior=given.log_prior, random_seed=3)
    return {
        "number": number,
        "kind": given.kind,
        "estimator": name,
        "rows": len(given.parameters),
        "parameters": given.parameters.shape[1],
        "statistics": given.statistics.shape[1],
        "error": round(float(error.max()), 3),
        "widest": round(float(np.exp(width.max())), 3),
        "narrowest": round(float(np.exp(width.min())), 3),
        "moved": "" if found is None else round(float(found.moved.max()), 3),
        "resized": "" if found is None else round(float(np.abs(found.resized).max()), 3),
        "simulations": "" if found is None else f"{found.simulations:.3g}",
        "seconds_fit": round(fitted - started, 2),
        "seconds_check": round(time.perf_counter() - checked, 2),
    }


def is_off(one: dict[str, Any]) -> bool:
    """Whether a posterior is off."""
    wide, narrow = float(one["widest"]) > OFF_IN_WIDTH, float(one["narrowest"]) < 1 / OFF_IN_WIDTH
    return float(one["error"]) > OFF_IN_MEAN or wide or narrow


def fires(
    one: dict[str, Any], moved: float = Coarseness.most_moved, resized: float = Coarseness.most_resized
) -> bool:
    """Whether the warning fires."""
    return one["moved"] != "" and (float(one["moved"]) > moved or float(one["resized"]) > resized)


def rates(lines: list[dict[str, Any]]) -> tuple[float, float]:
    """The share of posteriors that are off at which the warning fires, and of those that are right."""
    off, right = ([fires(one) for one in lines if is_off(one) == which] for which in (True, False))
    return float(np.mean(off)), float(np.mean(right))


def read() -> list[dict[str, Any]]:
    """The figures that are kept."""
    with FIGURES.open() as file:
        return list(csv.DictReader(file))


def record() -> None:
    """Make the figures again."""
    lines = []
    for number in range(MODELS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of estimators, about tables that are meant to be poor
            lines.append(line(number))
        print(*lines[-1].values(), flush=True)
        with FIGURES.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(lines)


def show(lines: list[dict[str, Any]]) -> None:
    """Print how often the warning fires."""
    print(
        "| models | off, fires | off, silent | right, fires | right, silent | of those off | of those right |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    halves = lines[:SETTLED_ON], lines[SETTLED_ON:]
    for name, part in zip(("settled on", "checked at", "all"), (*halves, lines), strict=True):
        counts = [
            sum(is_off(one) == off and fires(one) == fired for one in part)
            for off in (True, False)
            for fired in (True, False)
        ]
        share = rates(part)
        print(f"| {name} | {' | '.join(map(str, counts))} | {share[0]:.1%} | {share[1]:.1%} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="make the figures again")
    if parser.parse_args().record:
        record()
    show(read())
