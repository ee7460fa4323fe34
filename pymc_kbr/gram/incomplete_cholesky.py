"""Incomplete Cholesky factors: G is close to F F', and is never formed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from os import cpu_count
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from threadpoolctl import threadpool_limits

from pymc_kbr.chunks import Chunks
from pymc_kbr.gram.low_rank import LowRankGram
from pymc_kbr.gram.streamed import StreamedGram
from pymc_kbr.kernels import Gaussian, Kernel

MOST = 1000
"""Rank at which a factorisation to a tolerance ends in any case."""

BLOCK = 50
"""Pivots that are proposed at once."""

ROWS_A_THREAD = 5000
"""Fewest rows that a thread of the greedy factorisation takes: below, starting it costs more."""


@dataclass(frozen=True)
class IncompleteCholesky:
    """Pivots at the largest residual of the diagonal, one column at a time.

    Parameters
    ----------
    rank : int, optional
        Number of columns at most; 1000, or the number of rows, where left out.
    tolerance : float
        The factorisation ends when trace(G - F F') is at most this share of trace(G).

    Notes
    -----
    O(n r) kernel values and O(n r^2) multiplications (Fine and Scheinberg 2001). On points that are read
    a part at a time pivots are drawn, as in `RandomlyPivotedCholesky`: one pass for each block of them.
    """

    rank: int | None = None
    tolerance: float = 1e-3

    streams: ClassVar[bool] = True

    def bytes(self, n: int) -> int:
        """Memory of n rows."""
        return 8 * n * min(n, self.rank or MOST)

    def rows(self, n: int) -> int:
        """Rows in one regression."""
        return n

    def gram(
        self, kernel: Kernel, points: np.ndarray | Chunks, rng: np.random.Generator, ridge: float
    ) -> LowRankGram | StreamedGram:
        """The factored Gram matrix of points (n, d)."""
        if isinstance(points, Chunks):
            return streamed_cholesky(kernel, points, self.rank or MOST, self.tolerance, BLOCK, rng)
        factor, pivots = pivoted_cholesky(kernel, points, self.rank or MOST, self.tolerance)
        return LowRankGram(factor, feature_map_of(kernel, points[pivots], factor[pivots]))


@dataclass(frozen=True)
class RandomlyPivotedCholesky:
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
    block: int = BLOCK
    tolerance: float = 1e-3

    streams: ClassVar[bool] = True

    def bytes(self, n: int) -> int:
        """Memory of n rows."""
        return 8 * n * (min(n, self.rank or MOST) + 2 * self.block)

    def rows(self, n: int) -> int:
        """Rows in one regression."""
        return n

    def gram(
        self, kernel: Kernel, points: np.ndarray | Chunks, rng: np.random.Generator, ridge: float
    ) -> LowRankGram | StreamedGram:
        """The factored Gram matrix of points (n, d)."""
        if isinstance(points, Chunks):
            return streamed_cholesky(kernel, points, self.rank or MOST, self.tolerance, self.block, rng)
        factor, pivots = randomly_pivoted_cholesky(
            kernel, points, self.rank or MOST, self.tolerance, self.block, rng
        )
        return LowRankGram(factor, feature_map_of(kernel, points[pivots], factor[pivots]))


def feature_map_of(
    kernel: Kernel, pivots: np.ndarray, triangle: np.ndarray
) -> Callable[[np.ndarray], np.ndarray]:
    """f(x) = L^-1 k(pivots, x), with L the factor's rows at its pivots."""

    def features(x: np.ndarray) -> np.ndarray:
        return solve_triangular(triangle, kernel(pivots, x), lower=True, check_finite=False).T

    return features


def columns_of(kernel: Kernel, points: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """From a few of points (n, d) to their columns (n, b) of the Gram matrix."""
    if isinstance(kernel, Gaussian):
        return kernel.columns_of(points)
    return lambda chosen: kernel(points, chosen)


class _Part:
    """Some of the rows of a greedy factorisation: what is left of their diagonal, and the largest of it."""

    def __init__(self, kernel: Kernel, points: np.ndarray, factor: np.ndarray) -> None:
        self.points, self.factor = points, factor
        self._columns = columns_of(kernel, points)
        self._explained = np.empty(len(points))
        self._pivots: list[int] = []
        self._residual = np.array(kernel.diag(points), dtype=float)
        self._look()

    def _look(self) -> None:
        self.row = int(np.argmax(self._residual))
        self.most, self.total = self._residual[self.row], self._residual.sum()

    def pivot(self, r: int) -> _Pivot:
        """The row of the largest residual, of which there are r features so far."""
        at = self.row
        return _Pivot(self, at, self.points[at : at + 1], self.factor[at, :r].copy(), self.most)

    def add(self, pivot: _Pivot) -> None:
        """The factor's column of a pivot, of these rows or of others."""
        part, row, point, features, left = pivot
        r = len(features)
        column = self._columns(point)[:, 0]
        column -= np.matmul(self.factor[:, :r], features, out=self._explained)
        column /= np.sqrt(left)
        column[self._pivots] = 0
        self.factor[:, r] = column
        np.square(column, out=column)
        self._residual -= column
        if part is self:
            self._pivots.append(row)
            self._residual[row] = 0
        self._look()


class _Pivot(NamedTuple):
    """A row of one part, and what its column is made of."""

    part: _Part
    row: int
    point: np.ndarray
    features: np.ndarray
    residual: float


def pivoted_cholesky(
    kernel: Kernel, points: np.ndarray, rank: int, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """A factor F (n, r) with trace(G - F F') <= tolerance * trace(G) or r = `rank`, and its pivots (r,)."""
    factor = np.zeros((len(points), min(rank, len(points))), order="F")
    count = max(1, min(cpu_count() or 1, len(points) // ROWS_A_THREAD))
    starts = np.linspace(0, len(points), count + 1).astype(int)
    parts = [_Part(kernel, points[i:j], factor[i:j]) for i, j in pairwise(starts)]
    enough = tolerance * sum(part.total for part in parts)
    rounding = np.finfo(float).eps * max(part.most for part in parts)
    pivots = np.zeros(factor.shape[1], dtype=int)
    # A step is a few passes over vectors: threads share the rows, each on one BLAS thread.
    with ExitStack() as stack:
        if count > 1:
            stack.enter_context(threadpool_limits(1, user_api="blas"))
        each = stack.enter_context(ThreadPoolExecutor(count)).map if count > 1 else map
        for r in range(len(pivots)):
            best = max(parts, key=lambda part: part.most)
            if sum(part.total for part in parts) <= enough or best.most <= rounding:
                return factor[:, :r], pivots[:r]
            pivots[r] = starts[parts.index(best)] + best.row
            list(each(_Part.add, parts, [best.pivot(r)] * len(parts)))
    return factor, pivots


def randomly_pivoted_cholesky(
    kernel: Kernel, points: np.ndarray, rank: int, tolerance: float, block: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """As `pivoted_cholesky`, with random pivots, in blocks."""
    residual = np.array(kernel.diag(points), dtype=float)
    enough = tolerance * residual.sum()
    rounding = 10 * np.finfo(float).eps * residual.max()
    factor = np.zeros((len(points), min(rank, len(points))))
    pivots = np.zeros(factor.shape[1], dtype=int)
    columns_at = columns_of(kernel, points)
    r = 0
    while r < factor.shape[1] and residual.sum() > enough and residual.max() > rounding:
        proposed = rng.choice(len(points), size=block, p=residual / residual.sum())
        taken = _accepted(kernel, points[proposed], factor[proposed, :r], rounding, rng)
        new = proposed[taken][: factor.shape[1] - r]
        if not len(new):
            continue
        columns = columns_at(points[new])
        columns -= factor[:, :r] @ factor[new, :r].T
        # `_accepted` left only pivots that keep this positive definite
        triangle = cholesky(columns[new], lower=True)
        columns = solve_triangular(triangle, columns.T, lower=True, overwrite_b=True, check_finite=False).T
        columns[pivots[:r]] = 0
        columns[new] = np.tril(columns[new])
        factor[:, r : r + len(new)] = columns
        pivots[r : r + len(new)] = new
        residual -= np.einsum("ij,ij->i", columns, columns)
        np.maximum(residual, 0, out=residual)
        r += len(new)
        residual[pivots[:r]] = 0
    return factor[:, :r], pivots[:r]


def streamed_cholesky(
    kernel: Kernel, points: Chunks, rank: int, tolerance: float, block: int, rng: np.random.Generator
) -> StreamedGram:
    """Randomly pivoted incomplete Cholesky, with one pass over the points for each block of pivots.

    See `RandomlyPivotedCholesky`. What each pass makes anew is not kept: the residual of the diagonal, of one
    number a point, is all that has the size of the table.
    """
    n = len(points)
    residual = np.concatenate([np.asarray(kernel.diag(rows), dtype=float) for _, rows in points.blocks()])
    enough, rounding = tolerance * residual.sum(), 10 * np.finfo(float).eps * residual.max()
    numbers = np.empty(0, dtype=np.int64)
    pivots, known = points[0:0], np.empty((block, 0))
    features = feature_map_of(kernel, pivots, np.empty((0, 0)))
    while len(pivots) < min(rank, n) and residual.sum() > enough and residual.max() > rounding:
        proposed = rng.choice(n, size=block, p=residual / residual.sum())
        offered = points[proposed]
        if len(pivots):
            known = features(offered)
        taken = _accepted(kernel, offered, known, rounding, rng)[: min(rank, n) - len(pivots)]
        if not len(taken):
            continue
        numbers = np.concatenate([numbers, proposed[taken]])
        pivots = np.vstack([pivots, offered[taken]])
        features = feature_map_of(kernel, pivots, _triangle(kernel(pivots)))
        for part, rows in points.blocks():
            f = features(rows)
            residual[part] = kernel.diag(rows) - np.einsum("ij,ij->i", f, f)
        np.maximum(residual, 0, out=residual)
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


def _accepted(
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
