"""Three questions of other projects' trackers: ``python -m case_studies.gallery.asked``.

Parameters are drawn from the prior, data are simulated, and the marginals of each method's draws are
compared with those of the exact posterior given the data themselves.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd

import pymc_kbr as pk
from case_studies.destination import add_destination, folder_of
from case_studies.gallery.asked_plot import LEVELS, draw
from case_studies.gallery.asked_problems import ASKED, Asked
from case_studies.gallery.smc import DRAWS, smc_draws

matplotlib.use("Agg")

HERE = Path(__file__).parent
SEED = 20261126
SHOWN = 0
"""The data set whose intervals are drawn."""

EPSILONS = (1.0, 0.1)
"""Of `sample_smc`."""

QUANTILES = (np.arange(DRAWS) + 0.5) / DRAWS

Run = tuple[str, np.ndarray, float, float]
"""Method, draws (m, p), simulations, seconds of the processor."""


def table_of(problem: Asked, statistics: str, parameters: np.ndarray, data: np.ndarray) -> pk.ReferenceTable:
    """The reference table of one kind of statistics."""
    names, columns = list(problem.bounds), problem.statistics[statistics](data)
    labels = [f"s{i}" for i in range(columns.shape[1])]
    frame = pd.DataFrame(np.hstack([parameters, columns]), columns=[*names, *labels])
    bounds = {name: edges for name, edges in problem.bounds.items() if edges != (None, None)}
    return pk.ReferenceTable.from_dataframe(frame, parameters=names, statistics=labels, bounds=bounds)


def ways(problem: Asked, statistics: str) -> Iterator[tuple[str, pk.Estimator | None, bool]]:
    """Name, estimator (none stands for `select`), and whether it is told the parameters' bounds."""
    few = pk.Rejection(problem.tolerance, kernel="epanechnikov")
    yield f"rejection, {statistics}", pk.Rejection(problem.tolerance), True
    if statistics == "raw series":  # forty times more columns than there are nearest rows
        yield f"adjusted, {statistics}", pk.Adjusted(), True
        return
    yield f"regression ABC, {statistics}", pk.Adjusted(few, "local_linear"), False
    yield f"auto, {statistics}", None, True


def of_one_table(problem: Asked, simulations: int, data: np.ndarray, quick: bool) -> Iterator[list[Run]]:
    """Each way's draws given every data set (k, points), from one table of the prior."""
    rng, started = np.random.default_rng(SEED), time.process_time()
    parameters = problem.draw_prior(rng, simulations)
    simulated = problem.data(rng, parameters)
    simulating = time.process_time() - started
    for statistics, summarised in problem.statistics.items():
        table = table_of(problem, statistics, parameters, simulated)
        for name, way, told in ways(problem, statistics):
            rows, started = np.random.default_rng(1), time.process_time()
            if way is None and not quick:
                fitted = pk.select(table, random_seed=1, progressbar=False)
            else:
                way = way or pk.Adjusted()
                # R abc transforms parameters only where it is asked to.
                fitted = (
                    way.fit(table, random_seed=1)
                    if told
                    else way.fit(table.parameters, table.statistics, random_seed=1)
                )
            drawn = [one.draw(DRAWS, rows) for one in fitted.condition(summarised(data))]
            took = simulating + time.process_time() - started
            yield [(name, one, simulations, took) for one in drawn]


def by_smc(problem: Asked, data: np.ndarray, unit: np.ndarray, quick: bool) -> Iterator[Run]:
    """`sample_smc` on one data set (points,), simulated anew."""
    observed = list(problem.statistics.values())[-1](data[None])[0]
    for epsilon in EPSILONS:
        started = time.process_time()
        draws, simulations = smc_draws(problem.model(observed, unit, epsilon), SEED, quick)
        yield f"sample_smc, epsilon {epsilon:g}", draws, simulations, time.process_time() - started


def exact_draws(problem: Asked, weights: np.ndarray) -> np.ndarray:
    """Draws (m, p) of the exact posterior, as a control."""
    picked = np.random.default_rng(SEED).choice(len(weights), DRAWS, p=weights)
    return problem.grid[picked]


def compared(run: Run, problem: Asked, weights: np.ndarray, truth: np.ndarray) -> dict[str, float | str]:
    """Distance of the marginals, ratio of deviations and coverage, means over the parameters."""
    method, draws, simulations, seconds = run
    distance, ratio, covered = [], [], []
    for j, column in enumerate(problem.grid.T):
        order = np.argsort(column)
        # The grid's point at which each quantile is reached.
        places = np.searchsorted(np.cumsum(weights[order]), QUANTILES).clip(0, len(order) - 1)
        exact = column[order][places]
        low, high = np.quantile(draws[:, j], [0.05, 0.95])
        distance.append(np.abs(np.quantile(draws[:, j], QUANTILES) - exact).mean() / exact.std())
        ratio.append(draws[:, j].std() / exact.std())
        covered.append(low <= truth[j] <= high)
    return {
        "method": method,
        "distance": float(np.mean(distance)),
        "ratio": float(np.exp(np.mean(np.log(ratio)))),
        "covered": float(np.mean(covered)),
        "simulations": simulations,
        "seconds": seconds,
    }


def intervals(name: str, run: Run) -> dict[str, object]:
    """Quantiles of the first parameter, for the picture."""
    found = np.quantile(run[1][:, 0], LEVELS)
    return {
        "problem": name,
        "method": run[0],
        **{f"q{level:g}": q for level, q in zip(LEVELS, found, strict=True)},
    }


def of_problem(name: str, sets: int, paired: int, quick: bool) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A line a method and data set; and the intervals given the one that is shown."""
    problem, rng = ASKED[name], np.random.default_rng(SEED + 1)
    truths = problem.draw_prior(rng, sets)
    data = problem.data(rng, truths)
    exact = [problem.exact(one) for one in data]
    unit = problem.unit(rng)
    runs: list[list[Run]] = [[("exact", exact_draws(problem, weights), 0, 0.0) for weights in exact]]
    runs += of_one_table(problem, 1000 if quick else problem.simulations, data, quick)
    each = [list(by_smc(problem, data[i], unit, quick)) for i in range(paired)]
    runs += [list(of_method) for of_method in zip(*each, strict=True)]
    lines = [
        {"problem": name, **compared(run, problem, exact[i], truths[i])}
        for of_method in runs
        for i, run in enumerate(of_method)
    ]
    return pd.DataFrame(lines), pd.DataFrame([intervals(name, of_method[SHOWN]) for of_method in runs])


def summarised(lines: pd.DataFrame) -> pd.DataFrame:
    """A line a problem and method, in their order."""
    groups = lines.groupby(["problem", "method"], sort=False)
    return pd.DataFrame(
        {
            "distance": groups["distance"].median(),
            "largest_distance": groups["distance"].max(),
            "ratio": groups["ratio"].median(),
            "coverage": groups["covered"].mean(),
            "simulations": groups["simulations"].mean(),
            "seconds": groups["seconds"].mean(),
            "data_sets": groups.size(),
        }
    ).reset_index()


def main() -> None:
    """Write asked.csv, a line a problem and method, asked_intervals.csv and asked.png."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", type=int, default=50, help="data sets of each problem")
    parser.add_argument("--paired", type=int, default=5, help="of these, for `sample_smc`")
    parser.add_argument("--problems", nargs="+", choices=list(ASKED), default=list(ASKED))
    parser.add_argument("--quick", action="store_true", help="the exponential, 1,000 simulations")
    add_destination(parser, "folder of asked.csv and its picture")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    sets, paired, problems = arguments.sets, arguments.paired, arguments.problems
    if arguments.quick:
        sets, paired, problems = 2, 1, ["exponential"]
    output, lines, shown = folder_of(arguments, HERE), [], []
    for name in problems:
        found, drawn = of_problem(name, sets, paired, arguments.quick)
        lines.append(summarised(found).round(4))
        shown.append(drawn)
        print(lines[-1].to_string(index=False), flush=True)
        pd.concat(lines).to_csv(output / "asked.csv", index=False)
        pd.concat(shown).to_csv(output / "asked_intervals.csv", index=False, float_format="%.5g")
    draw(pd.concat(shown), output / "asked.png")


if __name__ == "__main__":
    main()
