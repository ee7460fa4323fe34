"""Gram matrices of a filter: made once, of all states or of all observations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pymc_kbr.arrays.refusals import shown
from pymc_kbr.gram import (
    AS_EXACT,
    Auto,
    Exact,
    Gram,
    IncompleteCholesky,
    LowRankGram,
    RandomlyPivotedCholesky,
    Solver,
    make_solver,
)
from pymc_kbr.gram.kept import KeptGram
from pymc_kbr.kernels import Gaussian, Kernel, Product, Sum

FEWEST_FOR_FACTOR = 100
"""Rows from which "auto" looks whether a factorisation is so good."""


def gram_of(
    solver: Any, kernel: Kernel, points: np.ndarray, rng: np.random.Generator
) -> KeptGram | LowRankGram:
    """The Gram matrix of points (n, d), kept in memory, or of finitely many features.

    Parameters
    ----------
    solver : str or Solver
        "auto" takes incomplete Cholesky where a rank of a quarter of the rows leaves out no more than
        `AS_EXACT` of the trace, otherwise the exact matrix while it fits into the budget of `Auto`.

    Raises
    ------
    ValueError
        If the solver makes blocks of rows, which are no features of new points.
    """
    solver, n = make_solver(solver), len(points)
    if isinstance(solver, Auto):
        if n >= FEWEST_FOR_FACTOR:
            # At a quarter of the rank it costs a sixteenth of the exact factorisation: to look is cheap.
            tried = IncompleteCholesky(max(1, min(n // 4, 500)), AS_EXACT).gram(kernel, points, rng, 0.0)
            if isinstance(tried, LowRankGram) and _left_out(tried, kernel, points) <= AS_EXACT:
                return tried
        exact = Exact().bytes(n) <= solver.memory
        return (
            KeptGram.of(kernel, points)
            if exact
            else _low_rank(RandomlyPivotedCholesky(tolerance=1e-6), kernel, points, rng)
        )
    return (
        KeptGram.of(kernel, points) if isinstance(solver, Exact) else _low_rank(solver, kernel, points, rng)
    )


def _low_rank(solver: Solver, kernel: Kernel, points: np.ndarray, rng: np.random.Generator) -> LowRankGram:
    # Only leverage scores ask for a ridge, before lambda is chosen: that of a usual lambda.
    made: Gram = solver.gram(kernel, points, rng, 1e-3 * len(points))
    if not isinstance(made, LowRankGram):
        raise ValueError(
            f"solver is {shown(solver)}, which makes blocks of rows; a filter takes 'exact', 'auto', "
            "'incomplete_cholesky', 'randomly_pivoted_cholesky', 'nystroem' or 'random_features'"
        )
    return made


def _left_out(gram: LowRankGram, kernel: Kernel, points: np.ndarray) -> float:
    whole = float(kernel.diag(points).sum())
    return (whole - float(np.sum(gram.features**2))) / whole


@dataclass(frozen=True)
class Joint:
    """k(z, z') l(u, u') of rows that hold z in their first columns and u in the others.

    Parameters
    ----------
    first, second : Kernel
    columns : int
        Of z.
    """

    first: Kernel
    second: Kernel
    columns: int

    def __call__(self, a: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
        """The Gram matrix, shape (n, m)."""
        b = a if b is None else b
        k = self.columns
        return self.first(a[:, :k], b[:, :k]) * self.second(a[:, k:], b[:, k:])

    def diag(self, a: np.ndarray) -> np.ndarray:
        """Its diagonal, shape (n,)."""
        return self.first.diag(a[:, : self.columns]) * self.second.diag(a[:, self.columns :])


def of_columns(kernel: Kernel, columns: np.ndarray) -> Kernel:
    """The kernel on some columns alone: where it has a bandwidth for each, on theirs."""
    if isinstance(kernel, Sum | Product):
        return replace(kernel, left=of_columns(kernel.left, columns), right=of_columns(kernel.right, columns))
    if isinstance(kernel, Gaussian) and np.ndim(kernel.bandwidth):
        return Gaussian(tuple(np.asarray(kernel.bandwidth)[columns].tolist()))
    return kernel
