"""Posteriors given raw data sets of 50 to 500 rows: ``python -m case_studies.data_sets``."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pymc_kbr as pk
from case_studies.data_sets.picture import draw
from case_studies.data_sets.problems import PROBLEMS, Problem
from case_studies.destination import add_destination, folder_of
from pymc_kbr.posterior.scores import energy_score

HERE = Path(__file__).parent
SEED = 20261124
SIZES = (50, 500)
BY_SIZE = (50, 100, 200, 350, 500)
"""Sizes that g-and-k data sets are scored at, all from the one table."""

OF_A_SIZE = 100
"""Data sets of each of these, at most."""

LEVEL = 0.9
"""Of the intervals that are scored."""


def simulated(
    problem: Problem, sizes: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Parameters (n, p) and a data set of each of `sizes`."""
    low, high = np.array(list(problem.bounds.values())).T
    theta = rng.uniform(low, high, (len(sizes), len(low)))
    return theta, [problem.simulate(rng, one, int(size)) for one, size in zip(theta, sizes, strict=True)]


def own_statistics(problem: Problem, sets: list[np.ndarray]) -> np.ndarray:
    """What the field takes of each data set, and the logarithm of its size, (n, d)."""
    return np.array([[*problem.statistics(one), np.log(len(one))] for one in sets])


def scores(fitted: Any, observed: np.ndarray, truths: np.ndarray, unit: np.ndarray) -> dict[str, np.ndarray]:
    """Energy scores and interval scores (k,) in prior deviations, and coverage (k,)."""
    rng = np.random.default_rng(1)
    energy, interval, covered = [], [], []
    for posterior, truth in zip(fitted.for_scores().condition(observed), truths, strict=True):
        draws = posterior.draw(500, rng)
        energy.append(energy_score(draws / unit, truth / unit, fair=True))
        low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
        missed = np.maximum(low - truth, 0) + np.maximum(truth - high, 0)
        interval.append(np.mean((high - low + 2 / (1 - LEVEL) * missed) / unit))
        covered.append(np.mean((low <= truth) & (truth <= high)))
    return {"energy": np.array(energy), "interval": np.array(interval), "covered": np.array(covered)}


def compared(
    name: str, rows: int, held_out: int, estimator: Any
) -> tuple[list[dict[str, Any]], pd.DataFrame]:
    """A line a kind of columns; and for g-and-k a line a size."""
    problem, rng = PROBLEMS[name], np.random.default_rng([SEED, list(PROBLEMS).index(name)])
    sizes = rng.integers(SIZES[0], SIZES[1] + 1, rows + held_out)
    theta, sets = simulated(problem, sizes, rng)
    names_of = list(problem.bounds)
    frame = pd.DataFrame(theta, columns=names_of)
    raw = pk.ReferenceTable.from_sets(frame[:rows], sets[:rows], bounds=problem.bounds)
    started = time.perf_counter()
    features = pk.SetFeatures().fit(raw)
    # Estimates of the table's rows are without each of them; those of held-out ones are as of any data set.
    columns = np.vstack([raw.with_features(features).statistics, features(sets[rows:])])
    seconds = time.perf_counter() - started
    kinds = {problem.words: own_statistics(problem, sets), "data sets": columns}
    unit, found, lines, of_sizes = theta[:rows].std(axis=0), {}, [], []
    for kind, x in kinds.items():
        names = [f"x{i}" for i in range(x.shape[1])]
        whole = frame.join(pd.DataFrame(x, columns=names))
        table = pk.ReferenceTable.from_dataframe(
            whole[:rows], parameters=names_of, statistics=names, bounds=problem.bounds, discrete=[]
        )
        started = time.perf_counter()
        if estimator == "auto":
            fitted = pk.select(table, random_seed=1, progressbar=False)
        else:
            fitted = estimator.fit(table, random_seed=1)
        took = time.perf_counter() - started
        found[kind] = scores(fitted, x[rows:], theta[rows:], unit)
        lines.append(
            {
                "problem": name,
                "columns": kind,
                "number": x.shape[1],
                "energy_score": found[kind]["energy"].mean(),
                "interval_score": found[kind]["interval"].mean(),
                "coverage": found[kind]["covered"].mean(),
                "seconds_columns": seconds if kind == "data sets" else 0.0,
                "seconds": took,
                "chosen": fitted.selection_.chosen.label if estimator == "auto" else "adjusted",
            }
        )
        if name == "g-and-k":
            of_sizes += _by_size(kind, problem, features, fitted, min(held_out, OF_A_SIZE), unit)
    for line, kind in zip(lines, kinds, strict=True):
        first = found[problem.words]
        for score in ("energy", "interval"):
            lower = (first[score] - found[kind][score]) / first[score].mean()
            line[f"{score}_lower_by"] = lower.mean()
            line[f"{score}_standard_error"] = lower.std() / np.sqrt(len(lower))
    return lines, pd.DataFrame(of_sizes)


def _by_size(
    kind: str, problem: Problem, features: Any, fitted: Any, count: int, unit: np.ndarray
) -> list[dict[str, Any]]:
    """Scores of g-and-k data sets of one size each."""
    lines = []
    for size in BY_SIZE:
        theta, sets = simulated(problem, np.full(count, size), np.random.default_rng([SEED, size]))
        x = features(sets) if kind == "data sets" else own_statistics(problem, sets)
        at = scores(fitted, x, theta, unit)
        lines.append(
            {
                "columns": kind,
                "size": size,
                "energy_score": at["energy"].mean(),
                "interval_score": at["interval"].mean(),
                "standard_error": at["interval"].std() / np.sqrt(count),
                "coverage": at["covered"].mean(),
            }
        )
    return lines


def main() -> None:
    """Write problems.csv, a line a problem and kind of columns, sizes.csv, g-and-k by size, and a picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--simulations", type=int, default=10_000)
    parser.add_argument("--held-out", type=int, default=500)
    parser.add_argument("--problems", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--quick", action="store_true", help="300 simulations of two problems, no choice")
    add_destination(parser, "folder of problems.csv and sizes.csv")
    arguments = parser.parse_args()
    rows, held_out, names = arguments.simulations, arguments.held_out, arguments.problems
    if arguments.quick:
        rows, held_out, names = 300, 20, ["g-and-k", "sites"]
    output, lines = folder_of(arguments, HERE), []
    for name in names:
        made, of_sizes = compared(name, rows, held_out, pk.Adjusted() if arguments.quick else "auto")
        lines += made
        pd.DataFrame(lines).round(4).to_csv(output / "problems.csv", index=False)
        print(pd.DataFrame(made).round(4).to_string(index=False), flush=True)
        if len(of_sizes):
            of_sizes.round(4).to_csv(output / "sizes.csv", index=False)
            print(of_sizes.round(4).to_string(index=False), flush=True)
    if "g-and-k" in names:
        draw(output, output / "data_sets.png")


if __name__ == "__main__":
    main()
