"""The exact Gram matrix and Cholesky factors of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, lu_factor, lu_solve

from pymc_kbr.gram.gram import Gram, Operator, SquaredOperator, raising
from pymc_kbr.gram.low_rank import LowRankGram
from pymc_kbr.kernels import Kernel


class DenseGram(Gram):
    """G = (k(x_i, x_j)), formed for each factorisation and not kept."""

    # Shapes: points (n, d); base (n,), or None.
    # base: Weights of sum one about whose mean the features are centred.
    def __init__(self, kernel: Kernel, points: np.ndarray, base: np.ndarray | None = None) -> None:
        self.kernel, self.points, self.base = kernel, points, base
        self._base_mean: np.ndarray | None = None

    def _mean(self, base: np.ndarray) -> np.ndarray:
        """The features' mean at the points, shape (n,)."""
        if self._base_mean is None:
            self._base_mean = _apply(self.kernel, self.points, base)
        return self._base_mean

    def matrix(self) -> np.ndarray:
        """G, shape (n, n)."""
        gram = self.kernel(self.points)
        if self.base is None:
            return gram
        # Known here at no cost: `cross` would have to make the matrix again for it.
        self._base_mean = gram @ self.base
        return centred_gram(gram, self.base)

    @property
    def size(self) -> int:
        """Number of points, n."""
        return len(self.points)

    def apply(self, v: np.ndarray) -> np.ndarray:
        """G times v (n,) or (n, k)."""
        if self.base is None:
            return _apply(self.kernel, self.points, v)
        # (G - m 1' - 1 m' + b'm 1 1') v with m = G b: the centred matrix is not formed.
        mean = self._mean(self.base)
        total = v.sum(axis=0)
        rest = _apply(self.kernel, self.points, v) - np.multiply.outer(mean, total)
        return rest - (mean @ v - self.base @ mean * total)

    def cross(self, x: np.ndarray) -> np.ndarray:
        """The kernel between the points and new ones x (k, d), shape (n, k)."""
        cross = self.kernel(self.points, x)
        if self.base is not None:
            mean = self._mean(self.base)
            cross -= (self.base @ cross - self.base @ mean)[None, :]
            cross -= mean[:, None]
        return cross

    def centred(self, base: np.ndarray) -> DenseGram:
        """The Gram matrix of features less their mean under weights `base` (n,) of sum one."""
        return DenseGram(self.kernel, self.points, base)

    def regularised(self, ridge: float, scale: np.ndarray | None = None) -> CholeskyOperator:
        """S (S G S + ridge I)^-1 S by Cholesky factorisation."""
        n = len(self.points)

        def factor(r: float) -> tuple[np.ndarray, bool]:
            gram = self.matrix()
            if scale is not None:
                gram *= scale[:, None]
                gram *= scale[None, :]
            gram.flat[:: n + 1] += r
            # the transpose of a symmetric matrix is in the order that LAPACK overwrites without a copy
            return cho_factor(gram.T, lower=True, overwrite_a=True, check_finite=False)

        # About the backward error of a Cholesky factorisation: what is less is lost in it.
        largest = self.kernel.diag(self.points) * (1 if scale is None else scale**2)
        made, ridge, raised = raising(factor, ridge, n * np.finfo(float).eps * float(largest.max()))
        return CholeskyOperator(self, made, ridge, raised, scale)  # type: ignore[arg-type]

    def squared(self, weights: np.ndarray, delta: float) -> ShiftedOperator:
        """L G ((L G)^2 + delta I)^-1 L by one complex factorisation."""
        shifted = weights[:, None] * self.matrix() + 0j
        shifted.flat[:: len(weights) + 1] += 1j * np.sqrt(delta)
        return ShiftedOperator(self, lu_factor(shifted, overwrite_a=True), weights, delta)


@dataclass
class CholeskyOperator(Operator):
    """S (S G S + ridge I)^-1 S."""

    gram: DenseGram
    factor: tuple[np.ndarray, bool]
    ridge: float
    raised: int
    scale: np.ndarray | None

    def solve(self, b: np.ndarray) -> np.ndarray:
        """The operator applied to b (n,) or (n, k)."""
        if self.scale is None:
            return cho_solve(self.factor, b, check_finite=False)
        scale = self.scale if b.ndim == 1 else self.scale[:, None]
        return scale * cho_solve(self.factor, scale * b, check_finite=False)

    def weights(self, x: np.ndarray) -> np.ndarray:
        """The operator applied to the kernel's values at new points x (k, d): shape (k, n)."""
        return self.solve(self.gram.cross(x)).T


@dataclass
class ShiftedOperator(SquaredOperator):
    """L G ((L G)^2 + delta I)^-1 L, as the real part of (L G + i sqrt(delta) I)^-1 L."""

    gram: DenseGram
    factor: tuple[np.ndarray, np.ndarray]
    scale: np.ndarray
    ridge: float
    raised: int = 0

    def solve(self, b: np.ndarray) -> np.ndarray:
        """The operator applied to b (n,) or (n, k)."""
        scale = self.scale if b.ndim == 1 else self.scale[:, None]
        return np.real(lu_solve(self.factor, scale * b + 0j))

    def weights(self, x: np.ndarray) -> np.ndarray:
        """The operator applied to the kernel's values at new points x (k, d): shape (k, n)."""
        return self.solve(self.gram.cross(x)).T

    def dual_weights(self, x: np.ndarray) -> np.ndarray:
        """See `SquaredOperator`: G L + i sqrt(delta) I is the transpose of what was factored."""
        return np.real(lu_solve(self.factor, self.gram.cross(x) + 0j, trans=1)).T


def _apply(kernel: Kernel, points: np.ndarray, v: np.ndarray, block: int = 1024) -> np.ndarray:
    """The Gram matrix times v, a block of rows at a time."""
    return np.concatenate(
        [kernel(points[i : i + block], points) @ v for i in range(0, len(points), block)], axis=0
    )


def centred_gram(gram: np.ndarray, base: np.ndarray) -> np.ndarray:
    """The Gram matrix (n, n) of features less their mean under weights `base` (n,) of sum one; in place."""
    mean = gram @ base
    constant = base @ mean
    gram -= mean[:, None]
    gram -= mean[None, :] - constant
    return gram


# --- a Gram matrix that is computed once and kept ---


class CachedGram(DenseGram):
    """`DenseGram` with its matrix in memory, for what factors another part or scale of it again and again."""

    # Shapes: points (n, d); kept (n, n); base (n,).
    def __init__(
        self, kernel: Kernel, points: np.ndarray, kept: np.ndarray, base: np.ndarray | None = None
    ) -> None:
        super().__init__(kernel, points, base)
        self.kept = kept

    @classmethod
    def of(cls, kernel: Kernel, points: np.ndarray) -> CachedGram:
        """The matrix of points (n, d)."""
        return cls(kernel, points, kernel(points))

    def _mean(self, base: np.ndarray) -> np.ndarray:
        return self.kept @ base

    def matrix(self) -> np.ndarray:
        """A copy of G, shape (n, n)."""
        # Centring and factorisation write into the matrix they are given.
        copy = self.kept.copy()
        return copy if self.base is None else centred_gram(copy, self.base)

    def apply(self, v: np.ndarray) -> np.ndarray:
        """G times v (n,) or (n, k)."""
        if self.base is None:
            return self.kept @ v
        mean, total = self._mean(self.base), v.sum(axis=0)
        rest = self.kept @ v - np.multiply.outer(mean, total)
        return rest - (mean @ v - self.base @ mean * total)

    def centred(self, base: np.ndarray) -> CachedGram:
        """The Gram matrix of features less their mean under weights `base` (n,) of sum one."""
        return CachedGram(self.kernel, self.points, self.kept, base)

    def part(self, rows: np.ndarray) -> CachedGram:
        """The Gram matrix of some of the points, without centring."""
        return CachedGram(self.kernel, self.points[rows], self.kept[np.ix_(rows, rows)])


def part_of(gram: Gram, rows: np.ndarray) -> Gram:
    """The Gram matrix of some rows of another one, exact or of finitely many features."""
    if isinstance(gram, LowRankGram):
        return LowRankGram(gram.features[rows], gram.feature_map)
    if isinstance(gram, CachedGram):
        return gram.part(rows)
    raise TypeError(f"rows of a {type(gram).__name__} cannot be taken alone; take an exact or low-rank one")
