"""Exact Gram matrices of some rows only: a subsample, or parts that are averaged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_kbr.gram.dense import DenseGram
from pymc_kbr.gram.gram import Gram, Operator
from pymc_kbr.kernels import Kernel


@dataclass(frozen=True, eq=False)
class BlockGram(Gram):
    """Blocks of rows, each with its own regression; what they predict is averaged.

    Parameters
    ----------
    kernel : Kernel
    points : ndarray of shape (n, d)
    blocks : tuple of ndarray of int
        Row numbers. Rows in none of them get no weight.
    base : ndarray of shape (n,), optional
        Weights of sum one, about whose mean within each block the features are centred.

    Notes
    -----
    A block of m rows has m / n of the ridge n * lambda: lambda is the same in all of them.
    """

    kernel: Kernel
    points: np.ndarray
    blocks: tuple[np.ndarray, ...]
    base: np.ndarray | None = None

    def _grams(self) -> list[DenseGram]:
        grams = []
        for rows in self.blocks:
            base = None
            if self.base is not None:
                total = self.base[rows].sum()
                # A block whose rows all have no weight still needs a mean.
                base = self.base[rows] / total if total > 0 else np.full(len(rows), 1 / len(rows))
            grams.append(DenseGram(self.kernel, self.points[rows], base))
        return grams

    @property
    def size(self) -> int:
        """Number of points, n."""
        return len(self.points)

    def apply(self, v: np.ndarray) -> np.ndarray:
        """G times v (n,) or (n, k), with zeros between different blocks."""
        out = np.zeros_like(v, dtype=float)
        for rows, gram in zip(self.blocks, self._grams(), strict=True):
            out[rows] = gram.apply(v[rows])
        return out

    def cross(self, x: np.ndarray) -> np.ndarray:
        """The kernel between the points and new ones x (k, d), shape (n, k); zero outside the blocks."""
        out = np.zeros((len(self.points), len(x)))
        for rows, gram in zip(self.blocks, self._grams(), strict=True):
            out[rows] = gram.cross(x)
        return out

    def centred(self, base: np.ndarray) -> BlockGram:
        """Each block with its features less their mean under `base` in that block."""
        return BlockGram(self.kernel, self.points, self.blocks, base)

    def regularised(self, ridge: float, scale: np.ndarray | None = None) -> BlockOperator:
        """S (S G S + ridge I)^-1 S in each block, averaged."""
        n = len(self.points)
        return self._operator(
            [
                gram.regularised(ridge * len(rows) / n, None if scale is None else scale[rows])
                for rows, gram in zip(self.blocks, self._grams(), strict=True)
            ],
            ridge,
        )

    def squared(self, weights: np.ndarray, delta: float) -> BlockOperator:
        """L G ((L G)^2 + delta I)^-1 L in each block, averaged."""
        n = len(self.points)
        return self._operator(
            [
                # A block's weights sum to its share of the rows, and so do the eigenvalues of L G: delta
                # stands beside their squares.
                gram.squared(weights[rows], delta * (len(rows) / n) ** 2)
                for rows, gram in zip(self.blocks, self._grams(), strict=True)
            ],
            delta,
        )

    def _operator(self, operators: list, ridge: float) -> BlockOperator:
        return BlockOperator(self.blocks, tuple(operators), len(self.points), ridge)


@dataclass
class BlockOperator(Operator):
    """The operators of blocks, averaged in proportion to their sizes."""

    blocks: tuple[np.ndarray, ...]
    operators: tuple[Operator, ...]
    n: int
    ridge: float

    def __post_init__(self) -> None:
        self.raised = sum(operator.raised for operator in self.operators)
        size = sum(map(len, self.blocks))
        self._shares = [len(rows) / size for rows in self.blocks]

    def solve(self, b: np.ndarray) -> np.ndarray:
        """The operator applied to b (n,) or (n, k)."""
        out = np.zeros_like(b, dtype=float)
        for rows, operator, share in zip(self.blocks, self.operators, self._shares, strict=True):
            out[rows] = share * operator.solve(b[rows])
        return out

    def weights(self, x: np.ndarray) -> np.ndarray:
        """The operator applied to the kernel's values at new points x (k, d): shape (k, n)."""
        out = np.zeros((len(x), self.n))
        for rows, operator, share in zip(self.blocks, self.operators, self._shares, strict=True):
            out[:, rows] = share * operator.weights(x)
        return out
