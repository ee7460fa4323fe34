"""From which effective share on draws of a mixture are taken: `python -m tests.statistical.effective_share`.

The problems of `race_problems`, 10,000 rows and a hundred observations each, 1,000 draws of a posterior.
Shares are compared with one half: processor milliseconds of an observation, energy scores of the parameters
that simulated the observations, in deviations of the prior, and the standard error of their mean difference.
``--record`` writes the table. Twenty minutes of one core.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from functools import partial
from pathlib import Path

import numpy as np

import pymc_kbr as pk
from pymc_kbr.estimators.likelihood import tempered
from tests.statistical.observations import energy_score, milliseconds
from tests.statistical.race_problems import PROBLEMS

HERE = Path(__file__).with_suffix(".csv")
ROWS, OBSERVATIONS, DRAWS = 10_000, 100, 1000
TRIED = (0.5, 0.25, 0.125)
COLUMNS = ("problem", "least_effective", "milliseconds", "energy_score", "difference", "standard_error")
WHOLE = tempered.beginnings
NAMES = [problem.__name__ for problem in PROBLEMS]


def lines(name: str) -> list[tuple[object, ...]]:
    """Of one problem, a line for each share."""
    rng = np.random.default_rng(1)
    problem = PROBLEMS[NAMES.index(name)]
    likelihood = pk.KernelLikelihood(particles=DRAWS).fit(*problem(rng, ROWS), random_seed=0)
    theta, x = problem(rng, OBSERVATIONS)
    unit = likelihood.table_.parameters.std(axis=0)
    likelihood.condition(x[:1])  # the density of the prior is fitted at the first observation
    found: list[tuple[object, ...]] = []
    first = np.zeros(0)
    for share in TRIED:
        tempered.beginnings = partial(WHOLE, least_effective=share)
        taken, posteriors = milliseconds(partial(likelihood.condition, x))
        pairs = zip(posteriors, theta, strict=True)
        scores = np.array([energy_score(each.atoms / unit, truth / unit, 1.0) for each, truth in pairs])
        first = first if first.size else scores
        away = scores - first
        error = away.std() / np.sqrt(len(away))
        each = f"{taken / len(x):.0f}", *(f"{value:.4f}" for value in (scores.mean(), away.mean(), error))
        found.append((name, share, *each))
        print(*found[-1], flush=True)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("problems", nargs="*", default=NAMES)
    parser.add_argument("--record", action="store_true", help=f"write {HERE.name}")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    found = [line for name in arguments.problems for line in lines(name)]
    if arguments.record:
        with HERE.open("w", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerows([COLUMNS, *found])


if __name__ == "__main__":
    main()
