"""An exact Gram matrix that is formed once and kept, and its parts."""

from __future__ import annotations

import numpy as np

from pymc_kbr.gram.dense import DenseGram, centred_gram
from pymc_kbr.gram.gram import Gram
from pymc_kbr.gram.low_rank import LowRankGram
from pymc_kbr.kernels import Kernel


class KeptGram(DenseGram):
    """`DenseGram` with its matrix in memory, for what factors another part or scale of it again and again.

    Parameters
    ----------
    kernel : Kernel
    points : ndarray of shape (n, d)
    kept : ndarray of shape (n, n)
        The kernel's values, without centring; it is not written to.
    base : ndarray of shape (n,), optional
        Weights of sum one about whose mean the features are centred.
    """

    def __init__(
        self, kernel: Kernel, points: np.ndarray, kept: np.ndarray, base: np.ndarray | None = None
    ) -> None:
        super().__init__(kernel, points, base)
        self.kept = kept

    @classmethod
    def of(cls, kernel: Kernel, points: np.ndarray) -> KeptGram:
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

    def centred(self, base: np.ndarray) -> KeptGram:
        """The Gram matrix of features less their mean under weights `base` (n,) of sum one."""
        return KeptGram(self.kernel, self.points, self.kept, base)

    def part(self, rows: np.ndarray) -> KeptGram:
        """The Gram matrix of some of the points, without centring."""
        return KeptGram(self.kernel, self.points[rows], self.kept[np.ix_(rows, rows)])


def part_of(gram: Gram, rows: np.ndarray) -> Gram:
    """The Gram matrix of some rows of another one, exact or of finitely many features.

    Raises
    ------
    TypeError
        If the Gram matrix is of another kind, whose rows do not stand by themselves.
    """
    if isinstance(gram, LowRankGram):
        return LowRankGram(gram.features[rows], gram.feature_map)
    if isinstance(gram, KeptGram):
        return gram.part(rows)
    raise TypeError(
        f"rows of a {type(gram).__name__} do not stand by themselves; take an exact or low-rank one"
    )
