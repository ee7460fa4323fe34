"""Estimators against bare LAPACK and SciPy's tree, and how their cost grows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial import KDTree

from case_studies.coalescent.data import load_coalescent
from case_studies.speed.measure import Row, seconds
from pymc_kbr.arrays.scaling import Scaler
from pymc_kbr.estimators import ConditionalMean, Localised
from pymc_kbr.kernels import Gaussian


def localised(parameters: np.ndarray, statistics: np.ndarray, observed: np.ndarray, neighbours: int) -> Row:
    """SciPy's neighbour search and Cholesky solves alone, one after the other, over `Localised`."""
    estimator = Localised(neighbours).fit(parameters, statistics)
    ours = seconds(lambda: estimator.condition(observed), 3)

    scaler, chosen = Scaler.fit(statistics), estimator.settings()
    scaled, x = scaler.transform(statistics), scaler.transform(observed)
    tree = KDTree(scaled)
    search = seconds(lambda: tree.query(x, k=neighbours, workers=-1), 3)
    nearest = scaled[tree.query(x[0], k=neighbours)[1]]
    gram = Gaussian(chosen["bandwidth"])(nearest)
    gram.flat[:: neighbours + 1] += chosen["regularisation"] * neighbours
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


def linear_table(rows: int, observations: int, d: int = 7) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Parameters (rows, 2), noisy linear statistics (rows, d), and observations."""
    rng = np.random.default_rng(0)
    theta, mix = rng.normal(size=(rows + observations, 2)), rng.normal(size=(2, d))
    x = theta @ mix + rng.normal(size=(rows + observations, d))
    return theta[:rows], x[:rows], x[rows:]


def localised_batch(rows: int, observations: int, neighbours: int = 200) -> list[Row]:
    """SciPy's tree query and one batched Cholesky factorisation, over `Localised`."""
    theta, x, observed = linear_table(rows, observations)
    scaler = Scaler.fit(x)
    scaled, there = scaler.transform(x), scaler.transform(observed)
    tree = KDTree(scaled)
    estimator = Localised(neighbours).fit(theta, x)
    chosen = estimator.settings()
    ours = seconds(lambda: estimator.condition(observed), 5)
    search = seconds(lambda: tree.query(there, k=neighbours, workers=-1), 5)
    near = scaled[tree.query(there, k=neighbours)[1]]
    stack = np.stack([Gaussian(chosen["bandwidth"])(rows) for rows in near])
    stack[:, range(neighbours), range(neighbours)] += chosen["regularisation"] * neighbours
    cholesky = seconds(lambda: np.linalg.cholesky(stack), 5)
    return [
        Row(
            f"localised, n = {rows:,}, d = 7, m = {neighbours}, "
            f"{len(observed):,} observations: SciPy's search and a batched Cholesky / ours",
            f"{ours:.2f} s",
            f"{search:.2f} s + {cholesky:.2f} s",
            (search + cholesky) / ours,
            "at least 0.6",
        )
    ]


def growth(largest: int, observations: int) -> list[Row]:
    """Exponents of the cost in n over a decade."""
    sizes = [largest // 10, round(largest / 10**0.5), largest]
    fits, conditions = [], []
    for rows in sizes:
        theta, x, observed = linear_table(rows, observations)
        settings = {"neighbours": 200, "bandwidth": 2.0, "regularisation": 1e-3}
        fits.append(seconds(lambda: Localised(**settings).fit(theta, x), 5))  # type: ignore[arg-type]  # noqa: B023
        estimator = Localised(**settings).fit(theta, x)  # type: ignore[arg-type]
        conditions.append(seconds(lambda: estimator.condition(observed), 5))  # noqa: B023
    table = []
    for what, taken, wanted in (("fit", fits, "at most 1.1"), ("condition", conditions, "at most 0.5")):
        exponent = float(np.polyfit(np.log(sizes), np.log(taken), 1)[0])
        shown = ", ".join(f"{s:.3g} s" for s in taken)
        ns = ", ".join(f"{n:,}" for n in sizes)
        table.append(Row(f"localised, to {what}: exponent of n at {ns}", shown, "n", exponent, wanted))
    return table
