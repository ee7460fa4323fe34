"""Incomplete Cholesky factors: G is close to F F', and is never formed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from pymc_kbr.arrays.chunks import Chunks
from pymc_kbr.arrays.threads import parallel_map
from pymc_kbr.gram.gram import AllRows
from pymc_kbr.gram.low_rank import LowRankGram, StreamedGram
from pymc_kbr.kernels import Gaussian, Kernel


def _most_columns(rank: int | None, *, usual: int = 1000) -> int:
    """The rank at which a factorisation to a tolerance ends in any case."""
    return rank or usual


@dataclass(frozen=True)
class IncompleteCholesky(AllRows):
    """Pivots at the largest residual of the diagonal, one column at a time.

    Parameters
    ----------
    rank : int, optional
        Number of columns at most; 1000, or the number of rows, where left out.
    tolerance : float
        The factorisation ends when trace(G - F F') is at most this share of trace(G).

    Notes
    -----
    O(n r) kernel values and O(n r^2) multiplications (Fine and Scheinberg 2001). Not only G but also k(x) is
    approximated, by F f(x), where eq. 5 of the localised draft keeps k(x): one function then
    replaces the kernel everywhere, and weights are in the span of F (see `WoodburyOperator.weights`). On
    points that are read a part at a time pivots are drawn, as in `RandomlyPivotedCholesky`: one pass for each
    block.
    """

    rank: int | None = None
    tolerance: float = 1e-3

    streams: ClassVar[bool] = True

    def bytes(self, n: int) -> int:
        """Memory of n rows."""
        return 8 * n * min(n, _most_columns(self.rank))

    def gram(
        self, kernel: Kernel, points: np.ndarray | Chunks, rng: np.random.Generator, ridge: float
    ) -> LowRankGram | StreamedGram:
        """The factored Gram matrix of points (n, d)."""
        if isinstance(points, Chunks):
            return streamed_cholesky(
                kernel, points, _most_columns(self.rank), self.tolerance, RandomlyPivotedCholesky.block, rng
            )
        factor, pivots = pivoted_cholesky(kernel, points, _most_columns(self.rank), self.tolerance)
        return LowRankGram(factor, PivotFeatures(kernel, points[pivots], factor[pivots]))


@dataclass(frozen=True)
class RandomlyPivotedCholesky(AllRows):
    """Pivots drawn in proportion to the residual of the diagonal, a block of columns at a time.

    Parameters
    ----------
    rank : int, optional
        Number of columns at most; 1000, or the number of rows, where left out.
    block : int
        Pivots proposed at once. Columns are made by matrix products of this width.
    tolerance : float
        As in `IncompleteCholesky`.

    Notes
    -----
    Proposals of a block are taken in turn, each with the share of its residual that the pivots before
    it have left as its probability, so that the pivots are distributed as if drawn one by one [2]_.

    References
    ----------
    .. [1] Y. Chen, E. N. Epperly, J. A. Tropp, R. J. Webber, Randomly pivoted Cholesky, Comm. Pure
       Appl. Math. 78 (2025), 995-1041.
    .. [2] E. N. Epperly, J. A. Tropp, R. J. Webber, Embrace rejection: kernel matrix approximation by
       accelerated randomly pivoted Cholesky, arXiv:2410.03969 (2024).
    """

    rank: int | None = None
    block: int = 50
    tolerance: float = 1e-3

    streams: ClassVar[bool] = True

    def bytes(self, n: int) -> int:
        """Memory of n rows."""
        return 8 * n * (min(n, _most_columns(self.rank)) + 2 * self.block)

    def gram(
        self, kernel: Kernel, points: np.ndarray | Chunks, rng: np.random.Generator, ridge: float
    ) -> LowRankGram | StreamedGram:
        """The factored Gram matrix of points (n, d)."""
        if isinstance(points, Chunks):
            return streamed_cholesky(
                kernel, points, _most_columns(self.rank), self.tolerance, self.block, rng
            )
        factor, pivots = randomly_pivoted_cholesky(
            kernel, points, _most_columns(self.rank), self.tolerance, self.block, rng
        )
        return LowRankGram(factor, PivotFeatures(kernel, points[pivots], factor[pivots]))


@dataclass(frozen=True, eq=False)
class PivotFeatures:
    """f(x) = L^-1 k(pivots, x), with L the factor's rows at its pivots."""

    # Shapes: pivots (r, d); triangle (r, r).
    kernel: Kernel
    pivots: np.ndarray
    triangle: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """At points x (k, d), shape (k, r)."""
        values = self.kernel(self.pivots, x)
        return solve_triangular(self.triangle, values, lower=True, check_finite=False).T


def streamed_cholesky(
    kernel: Kernel, points: Chunks, rank: int, tolerance: float, block: int, rng: np.random.Generator
) -> StreamedGram:
    """Randomly pivoted incomplete Cholesky, with one pass over the points for each block of pivots."""
    n = len(points)
    residual = np.concatenate([np.asarray(kernel.diag(rows), dtype=float) for _, rows in points.blocks()])
    enough, rounding = tolerance * residual.sum(), 10 * np.finfo(float).eps * residual.max()
    numbers = np.empty(0, dtype=np.int64)
    pivots, known = points[0:0], np.empty((block, 0))
    features = PivotFeatures(kernel, pivots, np.empty((0, 0)))
    while len(pivots) < min(rank, n) and residual.sum() > enough and residual.max() > rounding:
        proposed = rng.choice(n, size=block, p=residual / residual.sum())
        offered = points[proposed]
        if len(pivots):
            known = features(offered)
        taken = accepted(kernel, offered, known, rounding, rng)[: min(rank, n) - len(pivots)]
        if not len(taken):
            continue
        numbers = np.concatenate([numbers, proposed[taken]])
        pivots = np.vstack([pivots, offered[taken]])
        features = PivotFeatures(kernel, pivots, _triangle(kernel(pivots)))
        for part, rows in points.blocks():
            f = features(rows)
            residual[part] = kernel.diag(rows) - np.einsum("ij,ij->i", f, f)
        np.maximum(residual, 0, out=residual)
        # Exactly, or rounding would have a pivot proposed again.
        residual[numbers] = 0
    return StreamedGram(points, features, len(pivots))


def _triangle(gram: np.ndarray) -> np.ndarray:
    """A Cholesky factor; pivots were accepted so that there is one, but for rounding."""
    added = 0.0
    while True:
        try:
            return cholesky(gram + added * np.eye(len(gram)), lower=True)
        except np.linalg.LinAlgError:
            added = max(10 * added, len(gram) * np.finfo(float).eps * float(np.diag(gram).max()))


# --- pivoted Cholesky factors ---


AS_EXACT = 1e-9
"""Residual of a factor, as a share of the trace, at which it is taken in place of the exact matrix."""


def pivoted_cholesky(
    kernel: Kernel, points: np.ndarray, rank: int, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """A factor F (n, r) with trace(G - F F') <= tolerance * trace(G) or r = `rank`, and its pivots (r,)."""
    residual = np.array(kernel.diag(points), dtype=float)
    enough = tolerance * residual.sum()
    rounding = np.finfo(float).eps * residual.max()
    columns = columns_of(kernel, points)
    explained = np.empty(len(points))
    # By columns: each step multiplies by all columns so far and writes one.
    factor = np.zeros((len(points), min(rank, len(points))), order="F")
    pivots = np.zeros(factor.shape[1], dtype=int)
    for r in range(factor.shape[1]):
        pivot = int(np.argmax(residual))
        if residual.sum() <= enough or residual[pivot] <= rounding:
            return factor[:, :r], pivots[:r]
        column = columns(points[pivot : pivot + 1])[:, 0]
        np.dot(factor[:, :r], factor[pivot, :r], out=explained)
        column -= explained
        column /= np.sqrt(residual[pivot])
        column[pivots[:r]] = 0  # exactly, where rounding leaves a little
        factor[:, r], pivots[r] = column, pivot
        np.square(column, out=column)
        residual -= column
        residual[pivot] = 0
    return factor, pivots


class _RowTile:
    """A few rows of a blocked factorisation, so few that what is made on the way stays in the cache."""

    def __init__(self, kernel: Kernel, points: np.ndarray, factor: np.ndarray, residual: np.ndarray) -> None:
        self._columns = columns_of(kernel, points)
        self._factor, self._residual = factor, residual

    def add(self, points: np.ndarray, features: np.ndarray, triangle: np.ndarray) -> None:
        """The factor's columns of some pivots, of which there are r features so far."""
        r = features.shape[1]
        columns = self._columns(points)
        columns -= self._factor[:, :r] @ features.T
        columns = solve_triangular(triangle, columns.T, lower=True, overwrite_b=True, check_finite=False).T
        self._factor[:, r : r + len(points)] = columns
        self._residual -= np.einsum("ij,ij->i", columns, columns)
        np.maximum(self._residual, 0, out=self._residual)


def randomly_pivoted_cholesky(
    kernel: Kernel,
    points: np.ndarray,
    rank: int,
    tolerance: float,
    block: int,
    rng: np.random.Generator,
    *,
    rows_a_thread: int = 2048,
) -> tuple[np.ndarray, np.ndarray]:
    """As `pivoted_cholesky`, with random pivots, in blocks."""
    n = len(points)
    residual = np.array(kernel.diag(points), dtype=float)
    enough = tolerance * residual.sum()
    rounding = 10 * np.finfo(float).eps * residual.max()
    factor = np.zeros((n, min(rank, n)))
    pivots = np.zeros(factor.shape[1], dtype=int)
    tiles = [slice(i, i + rows_a_thread) for i in range(0, n, rows_a_thread)]
    # Slices, and so views: each part writes to its rows of the factor and of the residual.
    parts = [_RowTile(kernel, points[tile], factor[tile], residual[tile]) for tile in tiles]
    r = 0
    with ExitStack() as stack:
        each: Callable[..., Iterable[None]] = map
        if len(parts) > 1:
            each = stack.enter_context(parallel_map(len(parts)))
        while r < factor.shape[1] and residual.sum() > enough and residual.max() > rounding:
            proposed = rng.choice(n, size=block, p=residual / residual.sum())
            taken = accepted(kernel, points[proposed], factor[proposed, :r], rounding, rng)
            new = proposed[taken][: factor.shape[1] - r]
            if not len(new):  # all proposals were explained by those before them: propose again
                continue
            features = factor[new, :r]
            # `accepted` left only pivots that keep this positive definite
            triangle = cholesky(kernel(points[new]) - features @ features.T, lower=True)
            add = partial(_RowTile.add, points=points[new], features=features, triangle=triangle)
            list(each(add, parts))
            factor[pivots[:r], r : r + len(new)] = 0
            factor[new, r : r + len(new)] = triangle
            pivots[r : r + len(new)] = new
            r += len(new)
            residual[pivots[:r]] = 0
    return factor[:, :r], pivots[:r]


def accepted(
    kernel: Kernel, points: np.ndarray, features: np.ndarray, rounding: float, rng: np.random.Generator
) -> list[int]:
    """Which of a block's proposals become pivots."""
    core = kernel(points) - features @ features.T
    offered = np.diag(core).copy()
    taken: list[int] = []
    for i in range(len(core)):
        left = core[i, i]
        if left > max(rounding, rng.random() * offered[i]):
            taken.append(i)
            column = core[i:, i] / np.sqrt(left)
            core[i:, i:] -= np.outer(column, column)
    return taken


def columns_of(kernel: Kernel, points: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """From a few of points (n, d) to their columns (n, b) of the Gram matrix."""
    if isinstance(kernel, Gaussian):
        return kernel.columns_of(points)
    return lambda chosen: kernel(points, chosen)
