"""Incomplete Cholesky factorisations against their multiply-adds."""

from __future__ import annotations

import tracemalloc
from functools import partial

import numpy as np

from case_studies.speed.measure import Row, seconds
from pymc_kbr.gram.incomplete_cholesky import pivoted_cholesky, randomly_pivoted_cholesky
from pymc_kbr.kernels import Gaussian


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
                "at most 2" if n >= 100_000 else "no limit",
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
                "at most 6" if n >= 100_000 else "no limit",
            )
        )
    return rows + _peaks(kernel, points, rank)


def _peaks(kernel: Gaussian, points: np.ndarray, rank: int) -> list[Row]:
    """The memory of both factorisations of points (n, d)."""
    rows = []
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
        what = f"peak memory of {name}, n = {len(points):,} / 1 GB"
        rows.append(Row(what, f"{peak / 1e9:.3f} GB", "1 GB", peak / 1e9, "below 1"))
    return rows
