"""What ``rounds="auto"`` makes of models whose table is too coarse, with the same number of simulations.

``python -m tests.statistical.coarse_rounds`` prints the table from the figures that are kept in
``coarse_rounds.csv``; ``--record`` makes these figures again, in about ten minutes of one core.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm

import pymc_kbr as pk
from tests.statistical import coarse
from tests.statistical.coarse_models import HALF_WIDTH, KINDS, Problem, problem

FIGURES = Path(__file__).with_name("coarse_rounds.csv")
MOST_ROWS, MOST_STATISTICS, MODELS = 2000, 10, 10
"""Of the models that are taken, and how many of them."""

ESTIMATOR = "adjusted"
"""For both ways; "auto" would take an hour."""


def numbers() -> list[int]:
    """The first models of each kind whose posterior is off, as kept in ``coarse.csv``, of moderate size."""
    found: dict[str, int] = {}
    for one in coarse.read():
        small = int(one["rows"]) <= MOST_ROWS and int(one["statistics"]) <= MOST_STATISTICS
        if small and coarse.is_off(one) and one["kind"] not in found:
            found[one["kind"]] = int(one["number"])
    return [found[kind.__name__] for kind in KINDS if kind.__name__ in found][:MODELS]


def model_of(given: Problem) -> pm.Model:
    """The same as a PyMC model."""

    def simulate(rng: np.random.Generator, theta: np.ndarray, size: Any) -> np.ndarray:
        return given.simulate(np.atleast_2d(theta), rng).reshape(*theta.shape[:-1], -1)

    p = given.parameters.shape[1]
    with pm.Model() as model:
        theta = (
            pm.Uniform("theta", -HALF_WIDTH, HALF_WIDTH, shape=p)
            if given.uniform
            else pm.Normal("theta", 0, 1, shape=p)
        )
        pk.vector_simulator("x", simulate, theta, observed=given.observed)
    return model


def line(number: int, rounds: str | None) -> dict[str, Any]:
    """What is found at one model."""
    given, started = problem(number), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = pk.sample_abc(
            2000,
            model=model_of(given),
            estimator=ESTIMATOR,
            simulations=len(given.parameters),
            rounds=rounds,
            random_seed=1,
            progressbar=False,
        )["posterior"]
    drawn = found["theta"].values[0]
    width = drawn.std(axis=0) / given.deviation
    return {
        "number": number,
        "kind": given.kind,
        "simulations": len(given.parameters),
        "rounds": rounds or "",
        "error": round(float(np.max(np.abs(drawn.mean(axis=0) - given.mean) / given.deviation)), 3),
        "widest": round(float(width.max()), 3),
        "narrowest": round(float(width.min()), 3),
        "coarse": int("coarse: " in found.attrs["warnings"]),
        "done": found.attrs.get("rounds", ""),
        "seconds": round(time.perf_counter() - started, 1),
    }


def record() -> None:
    """Make the figures again."""
    lines = []
    for number in numbers():
        for rounds in (None, "auto"):
            lines.append(line(number, rounds))
            print(*lines[-1].values(), flush=True)
            with FIGURES.open("w", newline="") as file:
                writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(lines)


def show() -> None:
    """Print error and widths of both ways."""
    with FIGURES.open() as file:
        lines = list(csv.DictReader(file))
    print("| model | simulations | error of the mean | with rounds | widths | with rounds |")
    print("| --- " * 6 + "|")
    for one, other in zip(lines[::2], lines[1::2], strict=True):
        widths = (f"{x['narrowest']} to {x['widest']}" for x in (one, other))
        errors = one["error"], other["error"]
        print(f"| {' | '.join([one['kind'], one['simulations'], *errors, *widths])} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="make the figures again")
    if parser.parse_args().record:
        record()
    show()
