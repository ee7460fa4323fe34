"""The Gaussian kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from pymc_kbr.kernels.kernel import Composable


@dataclass(frozen=True)
class Gaussian(Composable):
    """k(a, b) = exp(-|a - b|^2 / (2 s^2)).

    Parameters
    ----------
    bandwidth : float or tuple of float, length p
        s, one for all dimensions or one for each.

    Examples
    --------
    >>> Gaussian(1.0)(np.array([[0.0], [2.0]])).round(3)
    array([[1.   , 0.135],
           [0.135, 1.   ]])
    """

    bandwidth: float | tuple[float, ...]

    def __call__(self, a: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
        """The Gram matrix of the rows of `a` (n, p) and `b` (m, p), or of `a` alone, shape (n, m)."""
        if np.ndim(self.bandwidth) == 0:
            # All in place: the memory that solvers plan for is one matrix of this size.
            gram = squared_distances(a, b)
            gram *= -0.5 / np.square(self.bandwidth)
        else:
            # With the root of two in the units squared distances are the exponents, and need no factor.
            scale = np.sqrt(2) * np.asarray(self.bandwidth)
            gram = squared_distances(a / scale, None if b is None else b / scale)
            np.negative(gram, out=gram)
        return np.exp(gram, out=gram)

    def columns_of(self, points: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """From a few of points (n, p) to their columns (n, b) of the Gram matrix, for many such calls.

        What all calls share is computed once; a call is one matrix product and the exponentials.
        """
        centre = points.mean(axis=0)

        def augmented(a: np.ndarray, swapped: bool = False) -> np.ndarray:
            scaled = (a - centre) / np.asarray(self.bandwidth)
            half_norms = -0.5 * np.einsum("ij,ij->i", scaled, scaled)[:, None]
            # (a, -|a|^2 / 2, 1) . (b, 1, -|b|^2 / 2) = -|a - b|^2 / 2: the exponent by the product alone
            last = [half_norms, np.ones_like(half_norms)]
            return np.asfortranarray(np.hstack([scaled, *(last[::-1] if swapped else last)]))

        left = augmented(points)
        if _lose_digits(-2 * left[:, -2]):
            scale = np.sqrt(2) * np.asarray(self.bandwidth)
            return lambda chosen: np.exp(-cdist(points / scale, chosen / scale, "sqeuclidean"))

        def columns(chosen: np.ndarray) -> np.ndarray:
            exponents = left @ augmented(chosen, swapped=True).T
            return np.exp(exponents, out=exponents)

        return columns

    def diag(self, a: np.ndarray) -> np.ndarray:
        """The diagonal of the Gram matrix of `a`, shape (n,)."""
        return np.ones(len(a))


def squared_distances(a: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
    """Squared Euclidean distances between the rows of `a` (n, p) and `b` (m, p), shape (n, m).

    Computed by one matrix product about a common centre; what rounding makes negative is zero.
    """
    if len(a) == 0:
        return np.empty((0, 0 if b is None else len(b)))
    centre = a.mean(axis=0)  # distances of points far from the origin lose no digits in the product
    same, given = b is None, (a, a if b is None else b)
    a, b = (side - centre for side in given)
    norms_a, norms_b = np.einsum("ij,ij->i", a, a), np.einsum("ij,ij->i", b, b)
    if _lose_digits(norms_a):
        found: np.ndarray = cdist(*given, "sqeuclidean")
        return found
    squares = a @ b.T
    squares *= -2
    squares += norms_a[:, None]
    squares += norms_b[None, :]
    np.maximum(squares, 0, out=squares)
    if same:
        # As `diag` has it: rounding would leave the distance of a point to itself above zero.
        np.fill_diagonal(squares, 0)
    return squares


LOST = 1e-6
"""Of their median, within which the smallest squared norm is that of points on one side of their mean."""


def _lose_digits(norms: np.ndarray) -> bool:
    """Whether a point so far from all others has moved the mean that their differences are lost to rounding.

    Squared norms (n,) about the mean are then alike, being all the squared distance from the others to the
    mean, and of |a|^2 + |b|^2 - 2 a'b nothing but rounding is left, of either sign.
    """
    if len(norms) < 3:
        return False
    middle = np.partition(norms, len(norms) // 2)[len(norms) // 2]
    return bool(middle - norms.min() < LOST * middle and norms.max() > 2 * middle)
