"""What a likelihood of independent counts loses, by how many counts of a row are asked.

``python -m tests.statistical.draws_of_counts`` prints the table from ``draws_of_counts.csv``; ``--record``
makes these figures again, in about two minutes of one core: 4,000 rows of twelve counts of five
distributions, two tables each. Nats are those that held-out rows lose on average against the exact
probabilities.
"""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import expit

from pymc_kbr.arrays.exchangeable import Atoms
from pymc_kbr.estimators.likelihood.exchangeable import fit_counts
from pymc_kbr.estimators.likelihood.smooth_function import Effort

FIGURES = Path(__file__).with_suffix(".csv")
ROWS, HELD_OUT, E = 4000, 1000, 12
ASKED = (1, 2, 4, 8)

Draw = Callable[[np.random.Generator, np.ndarray, np.ndarray, tuple[int, int]], np.ndarray]
LogMass = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
DISTRIBUTIONS: dict[str, tuple[Draw, LogMass]] = {
    "poisson": (
        lambda r, a, b, s: r.poisson(np.exp(a + 1), s),
        lambda x, a, b: stats.poisson.logpmf(x, np.exp(a + 1)),
    ),
    "negative_binomial": (
        lambda r, a, b, s: r.poisson(np.exp(a + 0.5) * r.gamma(np.exp(b), np.exp(-b), s)),
        lambda x, a, b: stats.nbinom.logpmf(x, np.exp(b), 1 / (1 + np.exp(a + 0.5 - b))),
    ),
    "beta_binomial": (
        lambda r, a, b, s: r.binomial(10, r.beta(np.exp(a / 2 + 0.5), np.exp(b / 2 + 0.5), s)),
        lambda x, a, b: stats.betabinom.logpmf(x, 10, np.exp(a / 2 + 0.5), np.exp(b / 2 + 0.5)),
    ),
    "zero_inflated": (
        lambda r, a, b, s: r.poisson(np.exp(a / 2 + 1), s) * (r.random(s) < expit(b)),
        lambda x, a, b: np.log(expit(b) * stats.poisson.pmf(x, np.exp(a / 2 + 1)) + expit(-b) * (x == 0)),
    ),
    "geometric": (
        lambda r, a, b, s: r.geometric(expit(-a), s),
        lambda x, a, b: stats.geom.logpmf(x, expit(-a)),
    ),
}


def lines() -> list[dict[str, Any]]:
    """What each distribution loses with each number."""
    found = []
    for name, (draw, log_mass) in DISTRIBUTIONS.items():
        for seed in (0, 1):
            rng = np.random.default_rng(seed)
            theta = rng.uniform(-1.5, 1.5, size=(ROWS + HELD_OUT, 2))
            x = draw(rng, theta[:, :1], theta[:, 1:], (len(theta), E)).astype(float)
            fitted, rest = slice(ROWS), slice(ROWS, None)
            atoms = Atoms.of(x[fitted])
            exact = log_mass(x[rest], theta[rest, :1], theta[rest, 1:]).sum(axis=1)
            for asked in ASKED:
                started = time.process_time()
                masses = fit_counts(
                    theta[fitted], atoms.number(x[fitted]), atoms, np.random.default_rng(2), Effort(),
                    counts_of_a_row=asked,
                )  # fmt: skip
                seconds = time.process_time() - started
                number = np.clip(masses.number(x[rest]), 0, masses.size - 1)
                logs = masses.logs_of_counts(masses.describe(theta[rest]))
                lost = exact - np.take_along_axis(logs, number, axis=1).sum(axis=1)
                found.append(
                    {
                        "distribution": name,
                        "seed": seed,
                        "asked": asked,
                        "values": masses.size,
                        "lost": round(float(lost.mean()), 4),
                        "error": round(float(lost.std() / np.sqrt(HELD_OUT)), 4),
                        "seconds": round(seconds, 2),
                    }
                )
                print(*found[-1].values(), flush=True)
    return found


def show(found: list[dict[str, Any]]) -> None:
    """Print means by how many counts are asked."""
    print("| counts of a row that are asked | nats lost, mean | worst | seconds |")
    print("| --- | --- | --- | --- |")
    for asked in ASKED:
        some = [one for one in found if int(one["asked"]) == asked]
        lost, seconds = ([float(one[name]) for one in some] for name in ("lost", "seconds"))
        print(f"| {asked} | {np.mean(lost):.4f} | {np.max(lost):.4f} | {np.mean(seconds):.1f} |")


if __name__ == "__main__":
    if "--record" in sys.argv[1:]:
        recorded = lines()
        with FIGURES.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(recorded[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(recorded)
    with FIGURES.open() as file:
        show(list(csv.DictReader(file)))
