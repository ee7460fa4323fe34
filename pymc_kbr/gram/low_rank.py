"""A Gram matrix of finitely many features, and Woodbury's identity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh, solve

from pymc_kbr.arrays.chunks import Chunks
from pymc_kbr.arrays.refusals import shown
from pymc_kbr.gram.gram import AllRows, Gram, Operator, SquaredOperator, raising
from pymc_kbr.kernels import Kernel, frequencies


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
    """G = F F', of rank r."""

    # Shapes: features (n, r).
    # features: F.
    # feature_map: From points (k, d) to their features (k, r); of the n points themselves it gives F.
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
        return WoodburyOperator(self, scaled, *factored(scaled.T @ scaled, ridge), scale)

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
        """The operator applied to the approximated kernel's values at x (k, d): shape (k, n)."""
        weights = self.scaled @ cho_solve(self.factor, self.gram.feature_map(x).T)
        return (weights if self.scale is None else scaled_rows(self.scale, weights)).T

    def means(self, x: np.ndarray, b: np.ndarray) -> np.ndarray:
        """See `Operator`: by r numbers a column, where weights are n a point."""
        right = b if self.scale is None else scaled_rows(self.scale, b)
        return self.gram.feature_map(x) @ cho_solve(self.factor, self.scaled.T @ right)


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


def factored(core: np.ndarray, ridge: float) -> tuple[Any, float, int]:
    """The Cholesky factor of a matrix (r, r) plus a ridge, the ridge, and how many times it was raised."""
    least = len(core) * np.finfo(float).eps * float(np.diag(core).max(initial=0.0))
    return raising(lambda r: cho_factor(core + r * np.eye(len(core)), lower=True), ridge, least)


def scaled_rows(factor: np.ndarray, b: np.ndarray) -> np.ndarray:
    """diag(factor) b, for b (n,) or (n, k)."""
    return factor * b if b.ndim == 1 else factor[:, None] * b


# --- features of rows that are read in parts ---


@dataclass(frozen=True, eq=False)
class StreamedGram(Gram):
    """G = F F' as `LowRankGram` has it, with the rows of F computed in each pass over the points."""

    # feature_map: From points (b, d) to their features (b, r).
    # rank: r.

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
        return StreamedWoodbury(self, weights, *factored(self.core(weights), ridge))

    def squared(self, weights: np.ndarray, delta: float) -> StreamedSpectral:
        """L G ((L G)^2 + delta I)^-1 L by an eigendecomposition of F' L F."""
        values, vectors = eigh(self.core(weights))
        return StreamedSpectral(self, weights, values, vectors, delta)


@dataclass
class StreamedWoodbury(Operator):
    """S (S F F' S + ridge I)^-1 S, in a pass or two."""

    # Shapes: scale (n,).
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
    """L F (M^2 + delta I)^-1 F' L with M = F' L F = V diag(m) V', in a pass or two."""

    # Shapes: scale (n,); values, vectors (r,), (r, r).
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


# --- Nyström approximation ---


@dataclass(frozen=True)
class Nystroem(AllRows):
    """The kernel projected on landmarks drawn from the rows.

    Parameters
    ----------
    landmarks : int
    sampling : {"uniform", "leverage"}
        Landmarks drawn with equal probabilities, or with those of the rows' ridge leverage scores,
        the diagonal of G (G + n lambda I)^-1, estimated on uniform landmarks first [1]_.

    References
    ----------
    .. [1] A. El Alaoui, M. W. Mahoney, Fast randomized kernel ridge regression with statistical
       guarantees, NIPS 28 (2015).
    """

    landmarks: int = 500
    sampling: str = "uniform"

    def __post_init__(self) -> None:
        if self.sampling not in ("uniform", "leverage"):
            raise ValueError(f"sampling is {shown(self.sampling)}; it may be uniform or leverage")

    streams: ClassVar[bool] = True

    def bytes(self, n: int) -> int:
        """Memory of n rows."""
        # Kernel values at the landmarks, and the features that are made of them.
        return 2 * 8 * n * min(n, self.landmarks)

    def gram(
        self, kernel: Kernel, points: np.ndarray | Chunks, rng: np.random.Generator, ridge: float
    ) -> LowRankGram | StreamedGram:
        """The Gram matrix of points (n, d) on the landmarks' span."""
        n = len(points)
        count = min(self.landmarks, n)
        rows = rng.choice(n, count, replace=False)
        if self.sampling == "leverage" and count < n:
            scores = leverage_scores(landmark_features(kernel, points, rows), ridge)
            rows = rng.choice(n, count, replace=False, p=scores / scores.sum())
        return landmark_features(kernel, points, np.sort(rows))  # in order, each part of a store is read once


@dataclass(frozen=True, eq=False)
class LandmarkFeatures:
    """f(x) = diag(s)^(-1/2) V' k(z, x) of landmarks z, with k(z, z) = V diag(s) V'."""

    # Shapes: landmarks (m, d); mix (m, r).
    kernel: Kernel
    landmarks: np.ndarray
    mix: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """At points x (k, d), shape (k, r)."""
        return self.kernel(x, self.landmarks) @ self.mix


def landmark_features(
    kernel: Kernel, points: np.ndarray | Chunks, rows: np.ndarray
) -> LowRankGram | StreamedGram:
    """The Gram matrix of `LandmarkFeatures`; eigenvalues that are rounding errors are left out."""
    landmarks = points[rows]
    values, vectors = eigh(kernel(landmarks))
    kept = values > len(values) * np.finfo(float).eps * values[-1]
    features = LandmarkFeatures(kernel, landmarks, vectors[:, kept] / np.sqrt(values[kept]))
    if isinstance(points, Chunks):
        return StreamedGram(points, features, int(kept.sum()))
    return LowRankGram(features(points), features)


def leverage_scores(gram: LowRankGram | StreamedGram, ridge: float) -> np.ndarray:
    """The diagonal of F (F' F + ridge I)^-1 F', shape (n,), with a lower bound that leaves no row out."""
    if isinstance(gram, LowRankGram):
        core, parts = gram.features.T @ gram.features, [gram.features]
    else:
        core = gram.core()
        parts = (gram.feature_map(block) for _, block in gram.points.blocks())  # type: ignore[assignment]
    regularised = core + ridge * np.eye(len(core))
    scores = np.concatenate(
        [np.einsum("ij,ji->i", f, solve(regularised, f.T, assume_a="pos")) for f in parts]
    )
    return np.maximum(scores, 1e-3 * scores.mean())


# --- random Fourier features ---


@dataclass(frozen=True, eq=False)
class FourierFeatures:
    """f(x) = (cos(W x), sin(W x)) / sqrt(r / 2) with r / 2 frequencies W, shape (r / 2, d)."""

    frequencies: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """At points x (k, d), shape (k, r)."""
        phase = x @ self.frequencies.T
        return np.hstack([np.cos(phase), np.sin(phase)]) / np.sqrt(len(self.frequencies))


@dataclass(frozen=True)
class RandomFeatures(AllRows):
    """Cosines and sines of random frequencies of a shift-invariant kernel.

    Parameters
    ----------
    features : int
        An even number: a cosine and a sine for each frequency (see `kernels.frequencies`).

    Notes
    -----
    f(x) = (cos(W x), sin(W x)) / sqrt(r / 2) with r / 2 frequencies W, the real form of section 4.4 of the
    localised draft. The ridge is n lambda for n rows, as with every solver, since F F' is about G itself; the
    draft adds m eps to F'F, with m the number of frequencies, which is lambda = m eps / n here.
    """

    features: int = 500

    streams: ClassVar[bool] = True

    def bytes(self, n: int) -> int:
        """Memory of n rows."""
        return 2 * 8 * n * self.features

    def gram(
        self, kernel: Kernel, points: np.ndarray | Chunks, rng: np.random.Generator, ridge: float
    ) -> LowRankGram | StreamedGram:
        """The approximated Gram matrix of points (n, d)."""
        count = max(1, self.features // 2)
        features = FourierFeatures(frequencies(kernel, count, points[0:1].shape[1], rng))
        if isinstance(points, Chunks):
            return StreamedGram(points, features, 2 * count)
        return LowRankGram(features(points), features)
