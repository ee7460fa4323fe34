"""A Gram matrix of finitely many features, and Woodbury's identity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh

from pymc_kbr.gram.gram import Gram, Operator, SquaredOperator, raising


@dataclass(frozen=True, eq=False)
class CentredFeatures:
    """The features of points x (k, d) less a mean (r,), shape (k, r)."""

    feature_map: Callable[[np.ndarray], np.ndarray]
    mean: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """At points x (k, d), shape (k, r)."""
        return self.feature_map(x) - self.mean


@dataclass(frozen=True, eq=False)
class LowRankGram(Gram):
    """G = F F', of rank r.

    Parameters
    ----------
    features : ndarray of shape (n, r)
        F.
    feature_map : callable
        From points (k, d) to their features (k, r); of the n points themselves it gives F.
    """

    features: np.ndarray
    feature_map: Callable[[np.ndarray], np.ndarray]

    @property
    def size(self) -> int:
        """Number of points, n."""
        return len(self.features)

    @property
    def rank(self) -> int:
        """Number of features, r."""
        return self.features.shape[1]

    def apply(self, v: np.ndarray) -> np.ndarray:
        """G times v (n,) or (n, k)."""
        return self.features @ (self.features.T @ v)

    def cross(self, x: np.ndarray) -> np.ndarray:
        """The kernel between the points and new ones x (k, d), shape (n, k)."""
        return self.features @ self.feature_map(x).T

    def centred(self, base: np.ndarray, overwrite: bool = False) -> LowRankGram:
        """The Gram matrix of features less their mean under weights `base` (n,) of sum one."""
        mean = base @ self.features
        features = np.subtract(self.features, mean, out=self.features if overwrite else None)
        return LowRankGram(features, CentredFeatures(self.feature_map, mean))

    def regularised(self, ridge: float, scale: np.ndarray | None = None) -> WoodburyOperator:
        """S (S G S + ridge I)^-1 S by Woodbury's identity."""
        scaled = self.features if scale is None else scale[:, None] * self.features
        core = scaled.T @ scaled

        def factor(r: float) -> tuple[np.ndarray, bool]:
            return cho_factor(core + r * np.eye(len(core)), lower=True)

        least = len(core) * np.finfo(float).eps * float(np.diag(core).max(initial=0.0))
        made, ridge, raised = raising(factor, ridge, least)
        return WoodburyOperator(self, scaled, made, ridge, raised, scale)  # type: ignore[arg-type]

    def squared(self, weights: np.ndarray, delta: float) -> SpectralOperator:
        """L G ((L G)^2 + delta I)^-1 L by an eigendecomposition of F' L F."""
        weighted = weights[:, None] * self.features
        # F' L F is symmetric whatever the weights' signs, which L G is not: r x r and real eigenvalues.
        values, vectors = eigh(self.features.T @ weighted)
        return SpectralOperator(self, weighted, values, vectors, delta)


@dataclass
class WoodburyOperator(Operator):
    """S (S F F' S + ridge I)^-1 S."""

    gram: LowRankGram
    scaled: np.ndarray
    factor: tuple[np.ndarray, bool]
    ridge: float
    raised: int
    scale: np.ndarray | None

    def solve(self, b: np.ndarray) -> np.ndarray:
        """The operator applied to b (n,) or (n, k): eq. 5 of the localised draft."""
        right = b if self.scale is None else scaled_rows(self.scale, b)
        inner = cho_solve(self.factor, self.scaled.T @ right)
        solved = (right - self.scaled @ inner) / self.ridge
        return solved if self.scale is None else scaled_rows(self.scale, solved)

    def weights(self, x: np.ndarray) -> np.ndarray:
        """The operator applied to the approximated kernel's values at x (k, d): shape (k, n).

        S F (F' S S F + ridge I)^-1 f(x), which equals `solve` of F f(x) and subtracts nothing. Eq. 5 of the
        localised draft has the kernel's own values k(x), which is `solve` of these: what of k(x) lies
        outside the span of F is then divided by the ridge alone, so that weights grow with the
        factorisation's error over the ridge instead of with the error.
        """
        weights = self.scaled @ cho_solve(self.factor, self.gram.feature_map(x).T)
        return (weights if self.scale is None else scaled_rows(self.scale, weights)).T


@dataclass
class SpectralOperator(SquaredOperator):
    """L F (M^2 + delta I)^-1 F' L with M = F' L F = V diag(m) V', Woodbury's form of the squared rule."""

    gram: LowRankGram
    weighted: np.ndarray
    values: np.ndarray
    vectors: np.ndarray
    ridge: float
    raised: int = 0

    def solve(self, b: np.ndarray) -> np.ndarray:
        """The operator applied to b (n,) or (n, k)."""
        inner = self.vectors.T @ (self.weighted.T @ b)
        return self.weighted @ (self.vectors @ scaled_rows(1 / (self.values**2 + self.ridge), inner))

    def weights(self, x: np.ndarray) -> np.ndarray:
        """The operator applied to the approximated kernel's values at x (k, d): shape (k, n)."""
        return (self.weighted @ self._inner(x)).T

    def dual_weights(self, x: np.ndarray) -> np.ndarray:
        """See `SquaredOperator`."""
        return (self.gram.features @ self._inner(x)).T

    def _inner(self, x: np.ndarray) -> np.ndarray:
        """M (M^2 + delta I)^-1 on the features of points x (k, d), shape (r, k)."""
        inner = self.vectors.T @ self.gram.feature_map(x).T
        return self.vectors @ scaled_rows(self.values / (self.values**2 + self.ridge), inner)


def scaled_rows(factor: np.ndarray, b: np.ndarray) -> np.ndarray:
    """diag(factor) b, for b (n,) or (n, k)."""
    return factor * b if b.ndim == 1 else factor[:, None] * b
