"""From how many rows posteriors of trials may start: ``python -m tests.statistical.start_rows --record``.

Six problems of `trial_problems`, 20,000 rows each, five data sets of 200 trials. Posteriors that start from
fewer rows are compared with those that start from all, as are those from all with other random numbers: means
in standard deviations, widths, evidences, and processor seconds of a data set. Seven minutes of one core.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np

import pymc_kbr as pk
from pymc_kbr.estimators import kernel_likelihood
from tests.statistical.trial_problems import PROBLEMS, TrialProblem

HERE = Path(__file__).with_suffix(".csv")
ROWS, TRIALS, SETS, DRAWS = 20_000, 200, 5, 4000
TRIED = (500, 1000, 2000, 5000, 10_000)
PROBLEM_NAMES = [name for name in PROBLEMS if name not in ("negative_binomial", "drift_undeclared")]
COLUMNS = ("problem", "start_rows", "means", "widths", "evidence", "seconds")
WHOLE = kernel_likelihood.drawn_posteriors


def posteriors(likelihood: pk.KernelLikelihood, data: list[np.ndarray], rows: int) -> tuple[np.ndarray, ...]:
    """Means, deviations and log evidences of data sets, and seconds of one."""
    kernel_likelihood.drawn_posteriors = partial(WHOLE, densities_at_start=0, fewest_rows=rows)
    begun = time.process_time()
    found = likelihood.condition(data, trials=True)
    seconds = (time.process_time() - begun) / len(data)
    draws = np.stack([each.draw(DRAWS, 1) for each in found])
    evidence = np.array([each.settings["log_evidence"] for each in found])
    return draws.mean(axis=1), draws.std(axis=1), evidence, np.array(seconds)


def lines(name: str) -> list[tuple[object, ...]]:
    """Differences from posteriors that start from all rows, root mean squares."""
    problem: TrialProblem = PROBLEMS[name]
    rng = np.random.default_rng(1)
    theta = problem.draw_prior(ROWS, rng)
    x = problem.draw(theta, rng)
    likelihood = problem.learn(theta, x, 1, particles=DRAWS)
    truths = problem.draw_prior(SETS, rng)
    data = [problem.draw(np.repeat(truth[None], TRIALS, axis=0), rng) for truth in truths]
    means, widths, evidence, _ = posteriors(likelihood, data, ROWS)
    found: list[tuple[object, ...]] = []
    for rows in (*TRIED, ROWS):
        if rows == ROWS:
            likelihood._seed += 1  # other random numbers: what differs then is chance
        m, s, e, seconds = posteriors(likelihood, data, rows)
        away = [(m - means) / widths, np.log(s / widths), e - evidence]
        found.append((name, rows, *(f"{np.sqrt(np.mean(each**2)):.4f}" for each in away), f"{seconds:.2f}"))
        print(*found[-1], flush=True)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*", default=PROBLEM_NAMES)
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
