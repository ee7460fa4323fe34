"""A Gram matrix of finitely many features, for points that memory does not hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh

from pymc_kbr.arrays.chunks import Chunks
from pymc_kbr.gram.gram import Gram, Operator, raising
from pymc_kbr.gram.low_rank import scaled_rows


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
        inner = self.feature_map
        return StreamedGram(self.points, lambda x: inner(x) - mean, self.rank)

    def regularised(self, ridge: float, scale: np.ndarray | None = None) -> StreamedOperator:
        """S (S G S + ridge I)^-1 S by Woodbury's identity."""
        weights = np.ones(self.size) if scale is None else scale**2
        core = self.core(None if scale is None else weights)

        def factor(r: float) -> tuple[np.ndarray, bool]:
            return cho_factor(core + r * np.eye(self.rank), lower=True)

        least = self.rank * np.finfo(float).eps * float(np.diag(core).max(initial=0.0))
        made, ridge, raised = raising(factor, ridge, least)

        def inner(f: np.ndarray) -> np.ndarray:
            return cho_solve(made, f)  # type: ignore[call-overload]

        def solve(b: np.ndarray) -> np.ndarray:
            right = scaled_rows(weights, b)
            return (right - scaled_rows(weights, self.times(inner(self.transposed_times(right))))) / ridge

        return StreamedOperator(self, inner, solve, None if scale is None else weights, ridge, raised)

    def squared(self, weights: np.ndarray, delta: float) -> StreamedOperator:
        """L G ((L G)^2 + delta I)^-1 L by an eigendecomposition of F' L F."""
        values, vectors = eigh(self.core(weights))

        def inner(f: np.ndarray) -> np.ndarray:
            return vectors @ scaled_rows(values / (values**2 + delta), vectors.T @ f)

        def solve(b: np.ndarray) -> np.ndarray:
            rotated = vectors.T @ self.transposed_times(scaled_rows(weights, b))
            return scaled_rows(weights, self.times(vectors @ scaled_rows(1 / (values**2 + delta), rotated)))

        return StreamedOperator(self, inner, solve, weights, delta, 0)


@dataclass
class StreamedOperator(Operator):
    """diag(scale) F M on the features of new points, and the operator itself, in a pass or two.

    Parameters
    ----------
    gram : StreamedGram
    inner : callable
        M, from (r, k) to (r, k).
    solution : callable
        The operator on (n,) or (n, k).
    scale : ndarray of shape (n,), optional
    ridge : float
    raised : int
    """

    gram: StreamedGram
    inner: Callable[[np.ndarray], np.ndarray]
    solution: Callable[[np.ndarray], np.ndarray]
    scale: np.ndarray | None
    ridge: float
    raised: int

    def solve(self, b: np.ndarray) -> np.ndarray:
        """The operator applied to b (n,) or (n, k)."""
        return self.solution(b)

    def weights(self, x: np.ndarray) -> np.ndarray:
        """The operator applied to the approximated kernel's values at x (k, d): shape (k, n)."""
        weights = self.gram.times(self.inner(self.gram.feature_map(x).T)).T
        return weights if self.scale is None else weights * self.scale
