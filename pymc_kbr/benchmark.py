"""Speed as ratios to something run beside it: ``python -m pymc_kbr.benchmark``."""

from __future__ import annotations

import argparse
import logging
import platform
import time
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from os import cpu_count
from pathlib import Path

import numpy as np
import pymc as pm
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial import KDTree

from pymc_kbr.datasets import load_coalescent
from pymc_kbr.estimators import Localised
from pymc_kbr.kernels import Gaussian
from pymc_kbr.simulation import simulate


@dataclass(frozen=True)
class Row:
    """One line of the benchmark: what was measured, ours, the other's, and their ratio."""

    what: str
    ours: str
    other: str
    ratio: float
    wanted: str


def seconds(task: Callable[[], object], repetitions: int = 1) -> float:
    """The shortest of some runs."""
    best = np.inf
    for _ in range(repetitions):
        started = time.perf_counter()
        task()
        best = min(best, time.perf_counter() - started)
    return best


def normal_sample(rng: np.random.Generator, mean: np.ndarray, scale: np.ndarray, size: object) -> np.ndarray:
    """100 normal data, for one parameter or a batch of them."""
    return mean + scale * rng.standard_normal(size)  # type: ignore[call-overload]


def normal_model(sum_stat: str) -> pm.Model:
    """Two parameters and 100 data."""
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1)
        scale = pm.HalfNormal("scale", 1)
        data = np.random.default_rng(0).normal(1, 2, 100)
        pm.Simulator("y", normal_sample, mean, scale, sum_stat=sum_stat, observed=data)
    return model


def batched_simulation(rows: int, prior_predictive_rows: int) -> list[Row]:
    """`simulate` against `pm.sample_prior_predictive`, a draw; and its memory against the table's."""
    model = normal_model("mean")
    simulate(1000, model=model, random_seed=0, progressbar=False)
    pm.sample_prior_predictive(10, model=model, random_seed=0)
    theirs = seconds(lambda: pm.sample_prior_predictive(prior_predictive_rows, model=model, random_seed=0))
    other = 1e6 * theirs / prior_predictive_rows
    rng = np.random.default_rng(0)
    mean, scale = rng.normal(size=(1024, 1)), rng.exponential(size=(1024, 1))
    bare = 1e6 / 1024 * seconds(lambda: normal_sample(rng, mean, scale, (1024, 100)), 50)
    table = []
    for cores in (1, 2):
        taken = seconds(
            partial(simulate, rows, model=model, random_seed=0, cores=cores, progressbar=False), 3
        )
        ours = 1e6 * taken / rows
        table.append(
            Row(
                f"simulate, {rows:,} draws, {cores} core(s) / pm.sample_prior_predictive",
                f"{ours:.2f} us a draw ({bare:.2f} us of it the simulator itself)",
                f"{other:.0f} us a draw",
                other / ours,
                "at least 100",
            )
        )
    rows = min(rows, 200_000)
    model = normal_model("identity")
    tracemalloc.start()
    made = simulate(rows, model=model, random_seed=0, progressbar=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    size = made.parameters.nbytes + made.statistics.nbytes
    table.append(
        Row(
            f"peak memory of simulate, {rows:,} rows of 102 columns / the table",
            f"{peak / 1e6:.0f} MB",
            f"{size / 1e6:.0f} MB",
            peak / size,
            "below 2",
        )
    )
    return table


def localised(parameters: np.ndarray, statistics: np.ndarray, observed: np.ndarray, neighbours: int) -> Row:
    """SciPy's neighbour search and Cholesky solves alone, one after the other, over `Localised`."""
    estimator = Localised(neighbours).fit(parameters, statistics)
    ours = seconds(lambda: estimator.condition(observed), 3)

    tree = KDTree(estimator.statistics_)
    x = estimator.scaler_.transform(observed)
    search = seconds(lambda: tree.query(x, k=neighbours, workers=-1), 3)
    nearest = estimator.statistics_[tree.query(x[0], k=neighbours)[1]]
    gram = Gaussian(estimator.bandwidth_)(nearest)
    gram.flat[:: neighbours + 1] += estimator.settings()["regularisation"] * neighbours
    copies = [np.asfortranarray(gram) for _ in range(50)]
    right = np.ones(neighbours)

    def solve_all() -> None:
        for matrix in copies:
            cho_solve(cho_factor(matrix, check_finite=False), right, check_finite=False)

    cholesky = seconds(solve_all, 3) / len(copies) * len(observed)
    return Row(
        f"localised, {len(parameters):,} rows, {len(observed):,} observations, m = {neighbours}: "
        "SciPy's search and Cholesky / ours",
        f"{ours:.2f} s",
        f"{search:.2f} s + {cholesky:.2f} s",
        (search + cholesky) / ours,
        "at least 0.5",
    )


def coalescent_arrays(coal: Path | None, observations: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Parameters and statistics to fit on, and observations held out: our data, or a user's `coal`."""
    if coal is None:
        table = load_coalescent()
        parameters, statistics = table.parameters, table.statistics
        parameters, statistics = parameters[:70_000], statistics[:70_000]
    else:
        import pandas as pd

        values = pd.read_csv(coal).to_numpy(dtype=float)[100:]  # rows 1 to 100 are `coalobs`
        parameters, statistics = values[:, :2], values[:, 2:]
    return parameters[:-observations], statistics[:-observations], statistics[-observations:]


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, in a minute")
    parser.add_argument("--coal", type=Path, help="coal as CSV, of abctools, in place of our own data")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("pymc").setLevel(logging.ERROR)

    rows = batched_simulation(*((100_000, 5_000) if arguments.quick else (1_000_000, 20_000)))
    observations = 200 if arguments.quick else 1000
    arrays = coalescent_arrays(arguments.coal, observations)
    rows += [localised(*arrays, neighbours) for neighbours in ((500,) if arguments.quick else (500, 1000))]
    print(
        f"{platform.machine()}, {cpu_count()} cores, Python {platform.python_version()}, "
        f"PyMC {version('pymc')}, NumPy {version('numpy')}, SciPy {version('scipy')}"
    )
    for row in rows:
        print(f"{row.what}\n    {row.ours} against {row.other}: ratio {row.ratio:.2f} (wanted: {row.wanted})")


if __name__ == "__main__":
    main()
