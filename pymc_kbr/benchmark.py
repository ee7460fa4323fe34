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
from pymc_kbr.estimators import ConditionalMean, Localised
from pymc_kbr.gram.incomplete_cholesky import pivoted_cholesky, randomly_pivoted_cholesky
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


def exact_conditional_mean(rows: int, observations: int) -> Row:
    """`ConditionalMean`, fitted and conditioned, against bare BLAS and SciPy on the same arrays."""
    rng = np.random.default_rng(0)
    theta, x = rng.normal(size=(rows, 2)), rng.normal(size=(rows, 7))
    observed, bandwidth, ridge = rng.normal(size=(observations, 7)), 3.0, 1e-2

    def ours() -> None:
        ConditionalMean(bandwidth, ridge / rows, solver="exact").fit(theta, x).weights(observed)

    def gram(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        squares = a @ b.T
        squares *= -2
        squares += np.sum(a**2, axis=1)[:, None]
        squares += np.sum(b**2, axis=1)
        squares *= -0.5 / bandwidth**2
        return np.exp(squares, out=squares)

    def bare() -> None:
        matrix = gram(x, x)
        matrix.flat[:: rows + 1] += ridge
        factor = cho_factor(matrix.T, lower=True, overwrite_a=True, check_finite=False)
        cho_solve(factor, gram(x, observed), check_finite=False)

    mine, theirs = seconds(ours, 3), seconds(bare, 3)
    return Row(
        f"exact conditional mean, n = {rows:,}, {observations:,} observations / BLAS, cho_factor, cho_solve",
        f"{mine:.2f} s",
        f"{theirs:.2f} s",
        mine / theirs,
        "at most 1.5",
    )


def incomplete_cholesky(sizes: tuple[int, ...], rank: int) -> list[Row]:
    """Both incomplete Cholesky factorisations against products of the same sizes; and their memory."""
    kernel, rows = Gaussian(2.0), []
    for n in sizes:
        points = np.random.default_rng(0).normal(size=(n, 7))
        factor, pivots = pivoted_cholesky(kernel, points, rank, 0.0)

        def products(factor: np.ndarray = factor, pivots: np.ndarray = pivots) -> None:
            for r in range(rank):
                factor[:, :r] @ factor[pivots[r], :r]

        greedy = seconds(partial(pivoted_cholesky, kernel, points, rank, 0.0), 3)
        vectors = seconds(products, 3)
        rows.append(
            Row(
                f"incomplete Cholesky, n = {n:,}, rank {rank}, d = 7 / its matrix-vector products",
                f"{greedy:.2f} s",
                f"{vectors:.2f} s",
                greedy / vectors,
                "at most 2",
            )
        )
        left, right = np.ascontiguousarray(factor), np.random.default_rng(1).normal(size=(rank, rank))
        blocked = seconds(
            lambda points=points: randomly_pivoted_cholesky(  # type: ignore[misc]
                kernel, points, rank, 0.0, 50, np.random.default_rng(2)
            ),
            3,
        )
        product = seconds(lambda left=left, right=right: left @ right, 10)  # type: ignore[misc]
        rows.append(
            Row(
                f"its randomly pivoted block form / one product of {n:,} x {rank} and {rank} x {rank}",
                f"{blocked:.2f} s",
                f"{product:.2f} s",
                blocked / product,
                "at most 6",
            )
        )
    for name, task in (
        ("incomplete Cholesky", partial(pivoted_cholesky, kernel, points, rank, 0.0)),
        (
            "its block form",
            partial(randomly_pivoted_cholesky, kernel, points, rank, 0.0, 50, np.random.default_rng(2)),
        ),
    ):
        tracemalloc.start()
        task()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        what = f"peak memory of {name}, n = {n:,} / 1 GB"
        rows.append(Row(what, f"{peak / 1e9:.3f} GB", "1 GB", peak / 1e9, "below 1"))
    return rows


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
    rows.append(exact_conditional_mean(2000 if arguments.quick else 5000, observations))
    rows += incomplete_cholesky((25_000,) if arguments.quick else (25_000, 50_000, 100_000), 200)
    print(
        f"{platform.machine()}, {cpu_count()} cores, Python {platform.python_version()}, "
        f"PyMC {version('pymc')}, NumPy {version('numpy')}, SciPy {version('scipy')}"
    )
    for row in rows:
        print(f"{row.what}\n    {row.ours} against {row.other}: ratio {row.ratio:.2f} (wanted: {row.wanted})")


if __name__ == "__main__":
    main()
