"""Incomplete Cholesky factors: G is close to F F', and is never formed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from pymc_kbr.arrays.chunks import Chunks
from pymc_kbr.gram.low_rank import LowRankGram
from pymc_kbr.gram.pivoted import accepted, pivoted_cholesky, randomly_pivoted_cholesky
from pymc_kbr.gram.streamed import StreamedGram
from pymc_kbr.kernels import Kernel

LARGEST_RANK = 1000
"""Rank at which a factorisation to a tolerance ends in any case."""

PIVOTS_AT_ONCE = 50
"""Pivots that are proposed at once."""


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
    O(n r) kernel values and O(n r^2) multiplications (Fine and Scheinberg 2001). Not only G but also k(x) is
    approximated, by F f(x), where eq. 5 of the localised draft keeps k(x): one function then stands for
    the kernel everywhere, and weights are in the span of F (see `WoodburyOperator.weights`). On points that
    are read a part at a time pivots are drawn, as in `RandomlyPivotedCholesky`: one pass for each block.
    """

    rank: int | None = None
    tolerance: float = 1e-3

    streams: ClassVar[bool] = True

    def bytes(self, n: int) -> int:
        """Memory of n rows."""
        return 8 * n * min(n, self.rank or LARGEST_RANK)

    def rows(self, n: int) -> int:
        """Rows in one regression."""
        return n

    def gram(
        self, kernel: Kernel, points: np.ndarray | Chunks, rng: np.random.Generator, ridge: float
    ) -> LowRankGram | StreamedGram:
        """The factored Gram matrix of points (n, d)."""
        if isinstance(points, Chunks):
            return streamed_cholesky(
                kernel, points, self.rank or LARGEST_RANK, self.tolerance, PIVOTS_AT_ONCE, rng
            )
        factor, pivots = pivoted_cholesky(kernel, points, self.rank or LARGEST_RANK, self.tolerance)
        return LowRankGram(factor, PivotFeatures(kernel, points[pivots], factor[pivots]))


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
    block: int = PIVOTS_AT_ONCE
    tolerance: float = 1e-3

    streams: ClassVar[bool] = True

    def bytes(self, n: int) -> int:
        """Memory of n rows."""
        return 8 * n * (min(n, self.rank or LARGEST_RANK) + 2 * self.block)

    def rows(self, n: int) -> int:
        """Rows in one regression."""
        return n

    def gram(
        self, kernel: Kernel, points: np.ndarray | Chunks, rng: np.random.Generator, ridge: float
    ) -> LowRankGram | StreamedGram:
        """The factored Gram matrix of points (n, d)."""
        if isinstance(points, Chunks):
            return streamed_cholesky(
                kernel, points, self.rank or LARGEST_RANK, self.tolerance, self.block, rng
            )
        factor, pivots = randomly_pivoted_cholesky(
            kernel, points, self.rank or LARGEST_RANK, self.tolerance, self.block, rng
        )
        return LowRankGram(factor, PivotFeatures(kernel, points[pivots], factor[pivots]))


@dataclass(frozen=True, eq=False)
class PivotFeatures:
    """f(x) = L^-1 k(pivots, x), with L the factor's rows at its pivots.

    Parameters
    ----------
    kernel : Kernel
    pivots : ndarray of shape (r, d)
    triangle : ndarray of shape (r, r)
        L.
    """

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
    """Randomly pivoted incomplete Cholesky, with one pass over the points for each block of pivots.

    See `RandomlyPivotedCholesky`. What each pass makes anew is not kept: the residual of the diagonal, of one
    number a point, is all that has the size of the table.
    """
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
