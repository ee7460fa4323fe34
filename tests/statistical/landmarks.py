"""Which landmarks of a conditional are left out, and what that does to new rows.

``python -m tests.statistical.landmarks`` prints the table from the figures of ``landmarks.csv``;
``--record`` makes these again, in some forty minutes of one core.

A table of 5,000 rows of each problem is learnt by the autoregressive form, and 3,000 other rows are scored. A
landmark is left out if its variance, given those that were taken before, is below a share of the mean
variance. A figure is by how much the mean log density of new rows is higher than with all landmarks, in nats,
with its standard error, and the share of landmarks that remain. Problems are those of `race_problems`, of no
benchmark.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import numpy as np

import pymc_kbr as pk
from pymc_kbr.estimators.likelihood import smooth_function
from tests.statistical import race_problems as race
from tests.statistical.figures import command, read_figures, write_figures

Problem = Callable[[np.random.Generator, int], race.Drawn]

FIGURES = Path(__file__).with_name("landmarks.csv")
ROWS, FRESH = 5000, 3000
NEGLIGIBLE = 0.0, 1e-5, 1e-7, 1e-9


class Counting:
    """The rule with another share, and how many landmarks it was given and kept."""

    def __init__(self, negligible: float) -> None:
        self.negligible, self.given, self.left = negligible, 0, 0

    def __call__(self, gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As `smooth_function.independent`; all landmarks, with a jitter, where the share is zero."""
        if self.negligible:
            found = WHOLE(gram, negligible=self.negligible)
        else:
            found = np.arange(len(gram)), np.linalg.cholesky(smooth_function.with_jitter(gram))
        self.given, self.left = self.given + len(gram), self.left + len(found[0])
        return found


WHOLE = smooth_function.independent


def densities(problem: Problem, negligible: float) -> tuple[np.ndarray, float]:
    """Log densities of new rows, and the share of landmarks that is left."""
    rng, counting = np.random.default_rng(5), Counting(negligible)
    rows, (theta, x) = problem(rng, ROWS), problem(rng, FRESH)
    with patch.object(smooth_function, "independent", counting):
        learnt = pk.KernelLikelihood("autoregressive").fit(*rows, random_seed=1)
    evaluation = learnt._evaluation
    logs = evaluation.log_density(evaluation.describe(theta), evaluation.prepare(x))
    return logs, counting.left / counting.given


def lines_of(problem: Problem) -> list[dict[str, str | float]]:
    """The figures of one problem."""
    whole, _ = densities(problem, NEGLIGIBLE[0])
    found: list[dict[str, str | float]] = []
    for negligible in NEGLIGIBLE[1:]:
        logs, left = densities(problem, negligible)
        gain, error = np.mean(logs - whole), np.std(logs - whole) / np.sqrt(len(logs))
        found.append(
            {
                "problem": problem.__name__,
                "negligible": negligible,
                "gain": f"{gain:.4f}",
                "error": f"{error:.4f}",
                "left": f"{left:.3f}",
            }
        )
    return found


def record() -> None:
    """Make the figures."""
    write_figures(FIGURES, [line for problem in race.PROBLEMS for line in lines_of(problem)])


def show() -> None:
    """Print the table."""
    lines = read_figures(FIGURES)
    print("| problem |" + "".join(f" {share:g} |" for share in NEGLIGIBLE[1:]))
    print("| --- |" + " --- |" * len(NEGLIGIBLE[1:]))
    for name in dict.fromkeys(line["problem"] for line in lines):
        mine = [line for line in lines if line["problem"] == name]
        cells = (
            f" {float(line['gain']):+.4f} ± {line['error']}, {float(line['left']):.0%} |" for line in mine
        )
        print(f"| {name} |" + "".join(cells))
    for share in NEGLIGIBLE[1:]:
        mine = [line for line in lines if float(line["negligible"]) == share]
        gain, left = (np.mean([float(line[key]) for line in mine]) for key in ("gain", "left"))
        print(f"{share:g}: {gain:+.4f} nats and {left:.0%} of the landmarks on average")


if __name__ == "__main__":
    command(__doc__, record, show)
