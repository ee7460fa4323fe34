"""Pivoted Cholesky factors of a kernel's Gram matrix, one column or one block of columns at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from pymc_kbr.arrays.threads import side_by_side
from pymc_kbr.kernels import Gaussian, Kernel

AS_EXACT = 1e-9
"""Residual of a factor, as a share of the trace, at which it is taken in place of the exact matrix."""

ROWS_A_THREAD = 2048
"""Rows that a thread of the blocked factorisation takes at once."""


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
    kernel: Kernel, points: np.ndarray, rank: int, tolerance: float, block: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """As `pivoted_cholesky`, with random pivots, in blocks."""
    n = len(points)
    residual = np.array(kernel.diag(points), dtype=float)
    enough = tolerance * residual.sum()
    rounding = 10 * np.finfo(float).eps * residual.max()
    factor = np.zeros((n, min(rank, n)))
    pivots = np.zeros(factor.shape[1], dtype=int)
    tiles = [slice(i, i + ROWS_A_THREAD) for i in range(0, n, ROWS_A_THREAD)]
    # Slices, and so views: each part writes to its rows of the factor and of the residual.
    parts = [_RowTile(kernel, points[tile], factor[tile], residual[tile]) for tile in tiles]
    r = 0
    with ExitStack() as stack:
        each: Callable[..., Iterable[None]] = map
        if len(parts) > 1:
            each = stack.enter_context(side_by_side(len(parts)))
        while r < factor.shape[1] and residual.sum() > enough and residual.max() > rounding:
            proposed = rng.choice(n, size=block, p=residual / residual.sum())
            taken = accepted(kernel, points[proposed], factor[proposed, :r], rounding, rng)
            new = proposed[taken][: factor.shape[1] - r]
            if not len(new):  # all proposals were told by those before them: propose again
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
