"""Posteriors of observations with gaps: ``python -m case_studies.missing_statistics``."""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

import pymc_kbr as pk
from case_studies.destination import add_destination, folder_of
from case_studies.missing_statistics.picture import draw

HERE = Path(__file__).parent
PARAMETERS = 2
DRAWS = 2000


def linear_gaussian(statistics: int, random_seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Loadings (d, p) and deviations (d,) of the noise, of two standard normal parameters."""
    rng = np.random.default_rng(random_seed)
    return rng.normal(size=(statistics, PARAMETERS)), rng.uniform(0.4, 1.0, statistics)


def exact(x: np.ndarray, loadings: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviations of the posterior given the statistics (d,) that are not NaN."""
    there = ~np.isnan(x)
    a, precision = loadings[there], 1 / noise[there] ** 2
    covariance = np.linalg.inv(np.eye(PARAMETERS) + (a.T * precision) @ a)
    return covariance @ (a.T * precision) @ x[there], np.sqrt(np.diag(covariance))


def simulated(
    n: int, loadings: np.ndarray, noise: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Parameters (n, p) and statistics (n, d)."""
    theta = rng.normal(size=(n, PARAMETERS))
    return theta, theta @ loadings.T + noise * rng.normal(size=(n, len(noise)))


def errors(estimators: dict[str, Any], rows: int, observations: int) -> pd.DataFrame:
    """A line an estimator and a number of gaps: error of the mean and of the width over all patterns."""
    loadings, noise = linear_gaussian(4, 1)
    rng = np.random.default_rng(2)
    theta, x = simulated(rows, loadings, noise, rng)
    _, whole = simulated(observations, loadings, noise, rng)
    lines = []
    for name, estimator in estimators.items():
        fitted = _fitted(name, estimator, theta, x)
        for gaps in range(4):
            patterns = list(itertools.combinations(range(4), gaps))
            observed = np.repeat(whole, len(patterns), axis=0)
            for row, missing in zip(observed, itertools.cycle(patterns), strict=False):
                row[list(missing)] = np.nan
            off, widths = [], []
            for row, posterior in zip(observed, fitted.condition(observed), strict=True):
                mean, deviation = exact(row, loadings, noise)
                drawn = posterior.draw(DRAWS, 1)
                off.append(np.abs(posterior.mean() - mean) / deviation)
                widths.append(drawn.std(axis=0) / deviation)
            by_pattern = np.array(off).reshape(observations, len(patterns), PARAMETERS)
            lines.append(
                {
                    "estimator": name,
                    "missing": gaps,
                    "patterns": len(patterns),
                    "mean_error": np.mean(off),
                    "largest_pattern_error": float(np.max(np.mean(by_pattern, axis=(0, 2)))),
                    "width_ratio": np.mean(widths),
                }
            )
    return pd.DataFrame(lines)


def _fitted(name: str, estimator: Any, theta: np.ndarray, x: np.ndarray) -> Any:
    if name != "auto":
        return clone(estimator).fit(theta, x, random_seed=1)
    frame = pd.DataFrame(np.hstack([theta, x]))
    frame.columns = ["a", "b", *(f"s{i}" for i in range(x.shape[1]))]  # type: ignore[assignment]
    table = pk.ReferenceTable.from_dataframe(frame, parameters=["a", "b"], statistics=list(frame.columns[2:]))
    return pk.select(table, random_seed=1, progressbar=False)


def seconds(estimators: dict[str, Any], rows: int, observations: int) -> pd.DataFrame:
    """Seconds of the processor of so many observations with one pattern of gaps, and with fifty."""
    loadings, noise = linear_gaussian(6, 3)
    rng = np.random.default_rng(4)
    theta, x = simulated(rows, loadings, noise, rng)
    _, whole = simulated(observations, loadings, noise, rng)
    patterns = [list(p) for k in range(1, 6) for p in itertools.combinations(range(6), k)][:50]
    one, fifty = whole.copy(), whole.copy()
    one[:, patterns[0]] = np.nan
    for number, row in enumerate(fifty):
        row[patterns[number % len(patterns)]] = np.nan
    lines = []
    for name, estimator in estimators.items():
        fitted = _fitted(name, estimator, theta, x).for_scores()
        took = []
        for observed in (one, fifty):
            started = time.process_time()  # what else the machine does is no part of the ratio
            fitted.condition(observed)
            took.append(time.process_time() - started)
        lines.append(
            {"estimator": name, "one_pattern": took[0], "fifty_patterns": took[1], "ratio": took[1] / took[0]}
        )
    return pd.DataFrame(lines)


def main() -> None:
    """Write gaps.csv, its picture and seconds.csv."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--observations", type=int, default=10, help="with each pattern")
    parser.add_argument(
        "--estimators", nargs="+", default=["adjusted", "localised", "kernel_likelihood", "auto"]
    )
    parser.add_argument("--quick", action="store_true", help="100 rows, 2 observations, adjusted alone")
    add_destination(parser, "folder of gaps.csv and seconds.csv")
    arguments = parser.parse_args()
    rows, count, many = (100, 2, 60) if arguments.quick else (arguments.rows, arguments.observations, 1000)
    names = ["adjusted"] if arguments.quick else arguments.estimators
    estimators = {name: None if name == "auto" else pk.ESTIMATORS[name]() for name in names}
    output = folder_of(arguments, HERE)
    found = errors(estimators, rows, count)
    found.round(4).to_csv(output / "gaps.csv", index=False)
    print(found.round(4).to_string(index=False))
    fast = {name: estimator for name, estimator in estimators.items() if name in ("adjusted", "localised")}
    draw(output, output / "missing_statistics.png")
    timed = seconds(fast, rows, many)
    timed.round(3).to_csv(output / "seconds.csv", index=False)
    print(timed.round(3).to_string(index=False))


if __name__ == "__main__":
    main()
