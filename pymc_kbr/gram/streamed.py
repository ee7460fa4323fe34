"""A Gram matrix of finitely many features, for points that memory does not hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh

from pymc_kbr.arrays.chunks import Chunks
from pymc_kbr.gram.gram import Gram, Operator, raising
from pymc_kbr.gram.low_rank import CentredFeatures, scaled_rows


@dataclass(frozen=True, eq=False)
class StreamedGram(Gram):
    """G = F F' as `LowRankGram` has it, with the rows of F made anew in each pass over the points.

    Parameters
    ----------
    points : Chunks
    feature_map : callable
        From points (b, d) to their features (b, r).
    rank : int
        r.
    """

    points: Chunks
    feature_map: Callable[[np.ndarray], np.ndarray]
    rank: int

    @property
    def size(self) -> int:
        """Number of points, n."""
        return len(self.points)

    def apply(self, v: np.ndarray) -> np.ndarray:
        """G times v (n,) or (n, k), in two passes."""
        return self.times(self.transposed_times(v))

    def times(self, inner: np.ndarray) -> np.ndarray:
        """F times (r,) or (r, k), in one pass."""
        out = np.empty((self.size, *inner.shape[1:]))
        for part, block in self.points.blocks():
            out[part] = self.feature_map(block) @ inner
        return out

    def transposed_times(self, v: np.ndarray) -> np.ndarray:
        """F' times (n,) or (n, k), in one pass."""
        out = np.zeros((self.rank, *v.shape[1:]))
        for part, block in self.points.blocks():
            out += self.feature_map(block).T @ v[part]
        return out

    def core(self, weights: np.ndarray | None = None) -> np.ndarray:
        """F' diag(weights) F, shape (r, r), in one pass."""
        core = np.zeros((self.rank, self.rank))
        for part, block in self.points.blocks():
            features = self.feature_map(block)
            core += features.T @ (features if weights is None else weights[part, None] * features)
        return core

    def cross(self, x: np.ndarray) -> np.ndarray:
        """The kernel between the points and new ones x (k, d), shape (n, k)."""
        return self.times(self.feature_map(x).T)

    def centred(self, base: np.ndarray) -> StreamedGram:
        """The Gram matrix of features less their mean under weights `base` (n,) of sum one."""
        mean = self.transposed_times(base)  # in one pass, and no features are kept
        return StreamedGram(self.points, CentredFeatures(self.feature_map, mean), self.rank)

    def regularised(self, ridge: float, scale: np.ndarray | None = None) -> StreamedWoodbury:
        """S (S G S + ridge I)^-1 S by Woodbury's identity."""
        # S stands on both sides of the features, or of what solves for them: its square is all that is
        # needed.
        weights = None if scale is None else scale**2
        core = self.core(weights)

        def factor(r: float) -> tuple[np.ndarray, bool]:
            return cho_factor(core + r * np.eye(self.rank), lower=True)

        least = self.rank * np.finfo(float).eps * float(np.diag(core).max(initial=0.0))
        made, ridge, raised = raising(factor, ridge, least)
        return StreamedWoodbury(self, weights, made, ridge, raised)  # type: ignore[arg-type]

    def squared(self, weights: np.ndarray, delta: float) -> StreamedSpectral:
        """L G ((L G)^2 + delta I)^-1 L by an eigendecomposition of F' L F."""
        values, vectors = eigh(self.core(weights))
        return StreamedSpectral(self, weights, values, vectors, delta)


@dataclass
class StreamedWoodbury(Operator):
    """S (S F F' S + ridge I)^-1 S, in a pass or two.

    Parameters
    ----------
    gram : StreamedGram
    scale : ndarray of shape (n,), optional
        The square of S; the identity where left out.
    factor : tuple
        Of F' S S F + ridge I, by Cholesky.
    ridge : float
    raised : int
    """

    gram: StreamedGram
    scale: np.ndarray | None
    factor: tuple[np.ndarray, bool]
    ridge: float
    raised: int

    def solve(self, b: np.ndarray) -> np.ndarray:
        """The operator applied to b (n,) or (n, k)."""
        right = self._scaled(b)
        inner = cho_solve(self.factor, self.gram.transposed_times(right))
        return (right - self._scaled(self.gram.times(inner))) / self.ridge

    def weights(self, x: np.ndarray) -> np.ndarray:
        """The operator applied to the approximated kernel's values at x (k, d): shape (k, n)."""
        inner = cho_solve(self.factor, self.gram.feature_map(x).T)
        return self._scaled(self.gram.times(inner)).T

    def _scaled(self, b: np.ndarray) -> np.ndarray:
        return b if self.scale is None else scaled_rows(self.scale, b)


@dataclass
class StreamedSpectral(Operator):
    """L F (M^2 + delta I)^-1 F' L with M = F' L F = V diag(m) V', in a pass or two.

    Parameters
    ----------
    gram : StreamedGram
    scale : ndarray of shape (n,)
        L.
    values, vectors : ndarray of shape (r,), (r, r)
        m and V.
    ridge : float
        Delta.
    """

    gram: StreamedGram
    scale: np.ndarray
    values: np.ndarray
    vectors: np.ndarray
    ridge: float
    raised: int = 0

    def solve(self, b: np.ndarray) -> np.ndarray:
        """The operator applied to b (n,) or (n, k)."""
        rotated = self.vectors.T @ self.gram.transposed_times(scaled_rows(self.scale, b))
        inner = self.vectors @ scaled_rows(1 / (self.values**2 + self.ridge), rotated)
        return scaled_rows(self.scale, self.gram.times(inner))

    def weights(self, x: np.ndarray) -> np.ndarray:
        """The operator applied to the approximated kernel's values at x (k, d): shape (k, n)."""
        rotated = self.vectors.T @ self.gram.feature_map(x).T
        inner = self.vectors @ scaled_rows(self.values / (self.values**2 + self.ridge), rotated)
        return scaled_rows(self.scale, self.gram.times(inner)).T
