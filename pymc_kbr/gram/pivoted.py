"""Pivoted Cholesky factors of a kernel's Gram matrix, one column or one block of columns at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from os import cpu_count
from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from threadpoolctl import threadpool_limits

from pymc_kbr.kernels import Gaussian, Kernel

ROWS_A_THREAD = 5000
"""Fewest rows that a thread of the greedy factorisation takes: below, starting it costs more."""

TILE = 2048
"""Rows that the blocked factorisation takes at once."""


@contextmanager
def _threads(count: int) -> Iterator[Callable[..., Iterator[None]]]:
    """A `map` whose calls run side by side, each on one BLAS thread."""
    if count == 1:
        yield map
        return
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(count) as threads:
        yield threads.map


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
    with _threads(count) as each:  # a step is a few passes over vectors
        for r in range(len(pivots)):
            best = max(parts, key=lambda part: part.most)
            if sum(part.total for part in parts) <= enough or best.most <= rounding:
                return factor[:, :r], pivots[:r]
            pivots[r] = starts[parts.index(best)] + best.row
            list(each(partial(_Part.add, pivot=best.pivot(r)), parts))
    return factor, pivots


class _Rows:
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
    kernel: Kernel, points: np.ndarray, rank: int, tolerance: float, block: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """As `pivoted_cholesky`, with random pivots, in blocks."""
    n = len(points)
    residual = np.array(kernel.diag(points), dtype=float)
    enough = tolerance * residual.sum()
    rounding = 10 * np.finfo(float).eps * residual.max()
    factor = np.zeros((n, min(rank, n)))
    pivots = np.zeros(factor.shape[1], dtype=int)
    tiles = [slice(i, i + TILE) for i in range(0, n, TILE)]
    parts = [_Rows(kernel, points[tile], factor[tile], residual[tile]) for tile in tiles]
    r = 0
    with _threads(min(cpu_count() or 1, len(parts))) as each:
        while r < factor.shape[1] and residual.sum() > enough and residual.max() > rounding:
            proposed = rng.choice(n, size=block, p=residual / residual.sum())
            taken = accepted(kernel, points[proposed], factor[proposed, :r], rounding, rng)
            new = proposed[taken][: factor.shape[1] - r]
            if not len(new):
                continue
            features = factor[new, :r]
            # `accepted` left only pivots that keep this positive definite
            triangle = cholesky(kernel(points[new]) - features @ features.T, lower=True)
            list(each(partial(_Rows.add, points=points[new], features=features, triangle=triangle), parts))
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
