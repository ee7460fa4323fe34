"""Accuracy on held-out rows: ``python -m case_studies.coalescent.accuracy``.

Fits every estimator on the first rows of the project's own table (or of a user's `coal`) and scores it
on the last 1,000, or fits on later rows and scores on the first: root mean squared error of the posterior
mean, CRPS and 90% coverage of the draws. Rows 1 to 100 of `coal` are left out: `coalobs` repeats them.
"neural" is sbi's neural posterior estimation, and needs the extra `rivals`: give it first, and the others
are compared with it row by row.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pymc_kbr as pk
from case_studies.coalescent.data import load_coalescent, read_rda
from case_studies.coalescent.neural import NeuralPosteriorEstimation
from case_studies.destination import add_destination, file_of
from pymc_kbr.arrays.checked_rows import CheckedRows
from pymc_kbr.posterior.scores import covered, crps, rmse
from pymc_kbr.selection.select import choose

HERE = Path(__file__).parent
BOUNDS = {"theta": (2, 10), "rho": (0, 10)}
UNSMOOTHED = {"adjusted_unsmoothed": "adjusted"}
"""Whose draws are atoms as they are."""


def load(coal: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Parameters and statistics of the project's table, or of `coal` without its first 100 rows."""
    if coal is None:
        table = load_coalescent()
        return table.parameters, table.statistics
    frame = read_rda(coal, "coal") if coal.suffix == ".rda" else pd.read_csv(coal)
    values = frame.to_numpy(dtype=float)[100:]
    return values[:, :2], values[:, 2:]


def local_linear(n: int) -> pk.Estimator:
    """Local-linear adjustment on the nearest tenth of n rows, as the R package abc does it."""
    return pk.Adjusted(pk.Rejection(n // 10, kernel="epanechnikov"), "local_linear")


def fit(name: str, table: tuple[np.ndarray, np.ndarray], support: pk.Support, random_seed: int) -> Any:
    """An estimator by its name; "local_linear", "auto", with so much work, and "neural" are three more."""
    if name == "neural":
        bounds = np.array(list(BOUNDS.values())).T
        return NeuralPosteriorEstimation.fit(*table, bounds, random_seed)
    if name == "auto":
        rng = np.random.default_rng(random_seed)
        return choose(CheckedRows.of(*table, support), rng=rng, progressbar=False)
    estimator = local_linear(len(table[0])) if name == "local_linear" else pk.ESTIMATORS[name]()
    return estimator.fit(*table, support, random_seed=random_seed)


def score(
    name: str,
    table: tuple[np.ndarray, np.ndarray],
    held_out: tuple[np.ndarray, np.ndarray],
    draws: int = 1000,
    random_seed: int = 0,
) -> tuple[dict[str, float | str | int], np.ndarray]:
    """One line of the table: an estimator fitted on `table`, scored on `held_out`; and each row's CRPS."""
    support = pk.Support.from_bounds(BOUNDS, list(BOUNDS))
    truth, observed = held_out
    smoothing = "none" if name in UNSMOOTHED else None
    line: dict[str, float | str | int] = {"estimator": name, "rows": len(table[0]), "held_out": len(truth)}
    try:
        started = time.perf_counter()
        estimator = fit(UNSMOOTHED.get(name, name), table, support, random_seed)
        fitted = time.perf_counter()
    except MemoryError as error:
        return {**line, "refused": str(error)}, np.empty((0, len(BOUNDS)))
    means: list[np.ndarray] = []
    scores: list[np.ndarray] = []
    covers: list[np.ndarray] = []
    rng = np.random.default_rng(random_seed)
    seconds_condition = seconds_draw = 0.0
    for part in np.array_split(np.arange(len(truth)), max(1, len(truth) // 50)):
        then = time.perf_counter()
        posteriors = estimator.condition(observed[part])
        conditioned = time.perf_counter()
        drawn = [posterior.draw(draws, rng, smoothing=smoothing) for posterior in posteriors if draws]
        seconds_condition += conditioned - then
        seconds_draw += time.perf_counter() - conditioned
        means.extend(posterior.mean() for posterior in posteriors)
        scores.extend(crps(*pair) for pair in zip(drawn, truth[part], strict=bool(draws)))
        covers.extend(covered(*pair) for pair in zip(drawn, truth[part], strict=bool(draws)))
    columns = {"rmse": rmse(np.array(means), truth)}
    if draws:
        columns |= {"crps": np.mean(scores, axis=0), "coverage_90": np.mean(covers, axis=0)}
    for column, values in columns.items():
        line |= {f"{column}_{parameter}": float(v) for parameter, v in zip(BOUNDS, values, strict=True)}
    line |= {
        "seconds_fit": fitted - started,
        "ms_condition": 1e3 * seconds_condition / len(truth),
        "ms_draw": 1e3 * seconds_draw / len(truth),
    }
    return line, np.array(scores)


def less(scores: dict[str, np.ndarray], name: str, against: str) -> dict[str, float]:
    """The mean difference of an estimator's CRPS from another one's on the same rows, and its error."""
    apart = scores[name] - scores[against]
    error = apart.std(axis=0) / np.sqrt(len(apart))
    columns = {}
    for i, parameter in enumerate(BOUNDS):
        columns[f"crps_less_{against}_{parameter}"] = float(apart[:, i].mean())
        columns[f"standard_error_{parameter}"] = float(error[i])
    return columns


def main() -> None:
    """Score all estimators and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--coal", type=Path, help="coal.rda of abctools, or the same as CSV")
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000])
    parser.add_argument("--held-out", type=int, default=1000)
    parser.add_argument("--first", action="store_true", help="hold out the first rows instead of the last")
    parser.add_argument("--draws", type=int, default=1000, help="of each posterior; 0 scores means alone")
    names = [*pk.ESTIMATORS, *UNSMOOTHED, "local_linear", "auto"]
    parser.add_argument("--estimators", nargs="+", default=names, choices=[*names, "neural"])
    add_destination(parser, "CSV, accuracy.csv or accuracy_coal.csv by default")
    arguments = parser.parse_args()
    parameters, statistics = load(arguments.coal)
    apart = arguments.held_out if arguments.first else len(parameters) - arguments.held_out
    (first, last), (first_x, last_x) = (np.split(rows, [apart]) for rows in (parameters, statistics))
    held_out, rest = (first, first_x), (last, last_x)
    if not arguments.first:
        held_out, rest = rest, held_out
    lines = []
    for rows in arguments.rows:
        n = min(rows, len(rest[0]))
        scores: dict[str, np.ndarray] = {}
        for name in arguments.estimators:
            line, scores[name] = score(name, (rest[0][:n], rest[1][:n]), held_out, arguments.draws)
            if "neural" in scores and len(scores[name]):
                line |= less(scores, name, "neural")
            lines.append(line)
            print(line, flush=True)
    name = "accuracy.csv" if arguments.coal is None else "accuracy_coal.csv"
    result = pd.DataFrame(lines)
    result.round(4).to_csv(file_of(arguments, HERE, name), index=False)
    print(result.to_string(index=False, float_format="{:.3f}".format))


if __name__ == "__main__":
    main()
