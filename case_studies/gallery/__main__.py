"""Six simulators against what their users do today: ``python -m case_studies.gallery``.

Parameters are drawn from the prior, data are simulated, and each method's draws are scored on the parameters.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd

import pymc_kbr as pk
from case_studies.destination import add_destination, folder_of
from case_studies.gallery.plot import draw
from case_studies.gallery.problems import PROBLEMS, Problem
from case_studies.gallery.smc import DRAWS, smc_draws
from pymc_kbr.posterior.scores import energy_score

matplotlib.use("Agg")

HERE = Path(__file__).parent
SEED = 20261124
LEVEL = 0.9
"""Of the intervals whose coverage is counted."""

EPSILONS = (1.0, 0.3)
"""Of `sample_smc`, in prior predictive deviations of the statistics."""

REGRESSION = pk.Adjusted(pk.Rejection(0.05, kernel="epanechnikov"), "local_linear")
"""What R abc does at its usual tolerance."""

ONE_TABLE = {"regression ABC": REGRESSION, "one table, auto": None}
"""Estimators of a table of the prior; none stands for `select`."""

Run = tuple[str, np.ndarray, int, float]
"""Method, draws (m, p), simulations, seconds of the processor."""


def tables(
    problem: Problem, simulations: int, held_out: int
) -> tuple[pk.ReferenceTable, pk.ReferenceTable, float]:
    """A table of the prior, one of other rows to condition on, and the processor's seconds for a row."""
    unknown = problem.model(np.zeros(problem.number))
    started = time.process_time()
    table = pk.simulate(simulations, model=unknown, random_seed=SEED, progressbar=False)
    took = time.process_time() - started
    tests = pk.simulate(held_out, model=unknown, random_seed=SEED + 1, progressbar=False)
    return table, tests, took / simulations


def of_one_table(table: pk.ReferenceTable, observed: np.ndarray, quick: bool) -> Iterator[list[Run]]:
    """Each estimator's draws given every row of `observed` (k, d); the seconds are shared among the rows."""
    for name, estimator in ONE_TABLE.items():
        started, rng = time.process_time(), np.random.default_rng(1)
        if estimator is None and not quick:
            fitted = pk.select(table, random_seed=1, progressbar=False).for_scores()
        else:
            fitted = (estimator or pk.Adjusted()).fit(table, random_seed=1).for_scores()
        once = time.process_time() - started
        started = time.process_time()
        drawn = [posterior.draw(DRAWS, rng) for posterior in fitted.condition(observed)]
        each = (time.process_time() - started) / len(observed)
        yield [(name, one, len(table), once + each) for one in drawn]


def one_by_one(problem: Problem, row: np.ndarray, unit: np.ndarray, seed: int, quick: bool) -> Iterator[Run]:
    """Methods that simulate anew for each data set."""
    for epsilon in EPSILONS[: 1 if quick else None]:
        started = time.process_time()
        draws, simulations = smc_draws(problem.model(row, unit, epsilon), seed, quick)
        yield f"sample_smc, epsilon {epsilon:g}", draws, simulations, time.process_time() - started


def scored(
    problem: str, number: int, run: Run, truth: np.ndarray, unit: np.ndarray, of_all: bool
) -> dict[str, object]:
    """The energy score in prior deviations, and the share of intervals that hold the truth."""
    method, draws, simulations, seconds = run
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return {
        "problem": problem,
        "method": method,
        "data_set": number,
        "energy_score": energy_score(draws / unit, truth / unit, fair=True),
        "covered": np.mean((low <= truth) & (truth <= high)),
        "simulations": simulations,
        "seconds": seconds,
        "paired": of_all,
    }


def compared(name: str, simulations: int, held_out: int, paired: int, quick: bool) -> pd.DataFrame:
    """A line a method and data set; the first `paired` data sets are given to every method."""
    problem = PROBLEMS[name]
    table, tests, row_took = tables(problem, simulations, held_out)
    truths, unit = tests.parameters, table.parameters.std(axis=0)
    lines = []
    for runs in of_one_table(table, tests.statistics, quick):
        for i, (method, draws, used, seconds) in enumerate(runs):
            run = method, draws, used, seconds + simulations * row_took
            lines.append(scored(name, i, run, truths[i], unit, i < paired))
    spread = table.statistics.std(axis=0)
    for i in range(paired):
        for run in one_by_one(problem, tests.statistics[i], spread, SEED + i, quick):
            lines.append(scored(name, i, run, truths[i], unit, True))
    return pd.DataFrame(lines)


def summarised(lines: pd.DataFrame) -> pd.DataFrame:
    """A line a problem and method, on the data sets that all methods had and on all there are."""
    found = []
    for (problem, method), group in lines.groupby(["problem", "method"], sort=False):
        paired = group[group["paired"]]
        regression = lines[(lines["problem"] == problem) & lines["paired"]].query(
            "method == 'regression ABC'"
        )
        less = paired["energy_score"].to_numpy() - regression["energy_score"].to_numpy()
        found.append(
            {
                "problem": problem,
                "method": method,
                "simulations": paired["simulations"].mean(),
                "seconds": paired["seconds"].mean(),
                "energy_score": paired["energy_score"].mean(),
                "less_regression": less.mean(),
                "standard_error": less.std(ddof=1) / np.sqrt(len(less)),
                "coverage": paired["covered"].mean(),
                "data_sets": len(group),
                "energy_score_all": group["energy_score"].mean(),
                "coverage_all": group["covered"].mean(),
            }
        )
    return pd.DataFrame(found)


def main() -> None:
    """Write gallery.csv, a line a problem and method, and gallery.png."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--simulations", type=int, default=10_000)
    parser.add_argument("--held-out", type=int, default=100)
    parser.add_argument("--paired", type=int, default=10, help="data sets given to every method")
    parser.add_argument("--problems", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--quick", action="store_true", help="one problem, 300 simulations, two data sets")
    add_destination(parser, "folder of gallery.csv and gallery.png")
    arguments = parser.parse_args()
    simulations, held_out, paired = arguments.simulations, arguments.held_out, arguments.paired
    names = arguments.problems
    if arguments.quick:
        simulations, held_out, paired, names = 300, 10, 2, ["queue"]
    output, lines = folder_of(arguments, HERE), []
    for name in names:
        lines.append(compared(name, simulations, held_out, paired, arguments.quick))
        found = summarised(pd.concat(lines, ignore_index=True))
        found.round(4).to_csv(output / "gallery.csv", index=False)
        print(found[found["problem"] == name].round(4).to_string(index=False), flush=True)
    draw(found, output / "gallery.png")


if __name__ == "__main__":
    main()
