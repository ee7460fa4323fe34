"""Random Fourier features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pymc_kbr.arrays.chunks import Chunks
from pymc_kbr.gram.low_rank import LowRankGram
from pymc_kbr.gram.streamed import StreamedGram
from pymc_kbr.kernels import Kernel, frequencies


@dataclass(frozen=True, eq=False)
class FourierFeatures:
    """f(x) = (cos(W x), sin(W x)) / sqrt(r / 2) with r / 2 frequencies W, shape (r / 2, d)."""

    frequencies: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """At points x (k, d), shape (k, r)."""
        phase = x @ self.frequencies.T
        return np.hstack([np.cos(phase), np.sin(phase)]) / np.sqrt(len(self.frequencies))


@dataclass(frozen=True)
class RandomFeatures:
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

    def rows(self, n: int) -> int:
        """Rows in one regression."""
        return n

    def gram(
        self, kernel: Kernel, points: np.ndarray | Chunks, rng: np.random.Generator, ridge: float
    ) -> LowRankGram | StreamedGram:
        """The approximated Gram matrix of points (n, d)."""
        count = max(1, self.features // 2)
        features = FourierFeatures(frequencies(kernel, count, points[0:1].shape[1], rng))
        if isinstance(points, Chunks):
            return StreamedGram(points, features, 2 * count)
        return LowRankGram(features(points), features)
