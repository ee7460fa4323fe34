"""Kernels between data sets: they need no statistics, and no equal numbers of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_kbr.arrays.data_sets import DataSets
from pymc_kbr.kernels import Kernel
from pymc_kbr.kernels.kernel import squared_distances


@dataclass(frozen=True, eq=False)
class EmbeddingKernel:
    """k(A, B) = exp(-MMD(A, B)^2 / (2 s^2)), with the maximum mean discrepancy of their rows.

    Parameters
    ----------
    kernel : Kernel
        Between rows.
    bandwidth : float
        s.

    Notes
    -----
    MMD is the distance between the means of k(row, .) over either data set, with all pairs (the biased form),
    so that the kernel is positive definite [1]_.

    References
    ----------
    .. [1] A. Christmann, I. Steinwart, Universal kernels on non-standard input spaces, NIPS 23 (2010),
       example 1.

    Examples
    --------
    >>> from pymc_kbr.kernels import Gaussian
    >>> sets = DataSets.of([[0.0, 1.0], [0.0, 1.0, 0.0, 1.0], [5.0]])
    >>> EmbeddingKernel(Gaussian(1.0), 1.0)(sets).round(2)
    array([[1.  , 1.  , 0.41],
           [1.  , 1.  , 0.41],
           [0.41, 0.41, 1.  ]])
    """

    kernel: Kernel
    bandwidth: float

    def __call__(self, a: DataSets, b: DataSets | None = None) -> np.ndarray:
        """The Gram matrix of data sets `a` and `b`, or of `a` alone, shape (n, m)."""
        return np.exp(self.squared(a, b) / (-2 * self.bandwidth**2))

    def squared(self, a: DataSets, b: DataSets | None = None) -> np.ndarray:
        """Squared discrepancies of data sets `a` and `b`, or of `a` alone, shape (n, m)."""
        products = self._products(a, a if b is None else b)
        first = np.diag(products) if b is None else self._own(a)
        second = first if b is None else self._own(b)
        # Rounding may leave less than nothing of two data sets that are alike.
        return np.maximum(first[:, None] + second[None, :] - 2 * products, 0)

    def _own(self, sets: DataSets) -> np.ndarray:
        """Means of the kernel over all pairs of rows of each data set, shape (n,)."""
        return np.array([self.kernel(sets[i]).mean() for i in range(len(sets))])

    def _products(self, a: DataSets, b: DataSets) -> np.ndarray:
        """Means of the kernel over all pairs of rows, shape (n, m)."""
        found = np.empty((len(a), len(b)))
        for i in range(len(a)):
            sums = self.kernel(a[i], b.rows).mean(axis=0)
            found[i] = np.add.reduceat(sums, b.starts) / b.sizes
        return found


@dataclass(frozen=True, eq=False)
class SlicedWassersteinKernel:
    """k(A, B) = exp(-SW(A, B)^2 / (2 s^2)), with the sliced Wasserstein distance of order two.

    Parameters
    ----------
    directions : ndarray of shape (m, q)
        Onto which rows are projected.
    bandwidth : float
        s.
    levels : int
        Of the quantiles that are compared.

    Notes
    -----
    In one dimension the distance is that of the quantile functions in L2, so that the kernel is positive
    definite [1]_; it is averaged over directions.

    References
    ----------
    .. [1] S. Kolouri, Y. Zou, G. Rohde, Sliced Wasserstein kernels for probability distributions, CVPR
       (2016).
    """

    directions: np.ndarray
    bandwidth: float
    levels: int = 200

    def __call__(self, a: DataSets, b: DataSets | None = None) -> np.ndarray:
        """The Gram matrix of data sets `a` and `b`, or of `a` alone, shape (n, m)."""
        return np.exp(self.squared(a, b) / (-2 * self.bandwidth**2))

    def squared(self, a: DataSets, b: DataSets | None = None) -> np.ndarray:
        """Squared distances of data sets `a` and `b`, or of `a` alone, shape (n, m)."""
        functions = self._quantile_functions(a)
        return squared_distances(functions, None if b is None else self._quantile_functions(b))

    def _quantile_functions(self, sets: DataSets) -> np.ndarray:
        levels = (np.arange(self.levels) + 0.5) / self.levels
        parts = [quantiles_of(sets, sets.rows @ direction, levels) for direction in self.directions]
        # Squared distances of rows are then means over levels and directions.
        return np.hstack(parts) / np.sqrt(self.levels * len(self.directions))


# --- quantiles of all data sets ---


def quantiles_of(sets: DataSets, values: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Quantiles of one number a row, for each data set."""
    # Shapes: values (N,); levels (l,); returned: (n, l).
    # By data set first, which is the last key, and by value within it.
    ordered = values[np.lexsort((values, sets.numbers))]
    place = (sets.sizes[:, None] - 1) * levels
    below = np.floor(place).astype(int)
    above = np.minimum(below + 1, sets.sizes[:, None] - 1)
    low, high = (ordered[sets.starts[:, None] + at] for at in (below, above))
    return low + (place - below) * (high - low)
