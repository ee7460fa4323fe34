"""Nystroem's approximation: the kernel on the span of some landmarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.linalg import eigh, solve

from pymc_kbr.arrays.chunks import Chunks
from pymc_kbr.arrays.refusals import shown
from pymc_kbr.gram.low_rank import LowRankGram
from pymc_kbr.gram.streamed import StreamedGram
from pymc_kbr.kernels import Kernel


@dataclass(frozen=True)
class Nystroem:
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

    def rows(self, n: int) -> int:
        """Rows in one regression."""
        return n

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
    """f(x) = diag(s)^(-1/2) V' k(z, x) of landmarks z, with k(z, z) = V diag(s) V'.

    Parameters
    ----------
    kernel : Kernel
    landmarks : ndarray of shape (m, d)
        z.
    mix : ndarray of shape (m, r)
        V diag(s)^(-1/2).
    """

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
    """The diagonal of F (F' F + ridge I)^-1 F', shape (n,), with a floor that leaves no row out."""
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
