"""Covariance of a Gaussian process whose draws lie in the space of a Gaussian kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pymc_kbr.arrays.refusals import shown, squarable
from pymc_kbr.kernels import Gaussian


class Measure(Protocol):
    """A measure nu; r(a, b) = integral of k(a, u) k(u, b) nu(du), with k Gaussian of lengthscales l (D,)."""

    def covariance(self, a: np.ndarray, b: np.ndarray, lengthscale: np.ndarray) -> np.ndarray:
        """The values of r between the rows of `a` (n, D) and `b` (m, D), shape (n, m)."""

    def variance(self, a: np.ndarray, lengthscale: np.ndarray) -> np.ndarray:
        """The values of r(a, a), shape (n,)."""

    def slopes(
        self, a: np.ndarray, b: np.ndarray, lengthscale: np.ndarray, weighted: np.ndarray
    ) -> np.ndarray:
        """What r has beside exp(-|a - b|^2 / (4 l^2)) in sum_ij weighted_ij d log r_ij / d log l, (D,)."""


@dataclass(frozen=True)
class LebesgueMeasure:
    """The Lebesgue measure: r is stationary.

    Parameters
    ----------
    normalised : bool
        Whether r is divided by its value at a = b, so that a prior of variance one does not depend on units.

    Notes
    -----
    r(a, b) = pi^(D/2) prod l exp(-sum (a - b)^2 / (4 l^2)), eq. 25 of [1]_; there theta is l^2. The authors'
    program leaves the constant out, as `normalised` does. The measure is not finite, so that draws of the
    prior lie in the kernel's space only on bounded sets; it is the limit of wide Gaussian ones.

    References
    ----------
    .. [1] S. Flaxman, D. Sejdinovic, J. Cunningham, S. Filippi, Bayesian learning of kernel embeddings, UAI
       (2016).
    """

    normalised: bool = True

    def covariance(self, a: np.ndarray, b: np.ndarray, lengthscale: np.ndarray) -> np.ndarray:
        """The values of r, shape (n, m)."""
        return self._constant(lengthscale) * _wider(lengthscale)(a, b)

    def variance(self, a: np.ndarray, lengthscale: np.ndarray) -> np.ndarray:
        """The values of r(a, a), shape (n,)."""
        return np.full(len(a), self._constant(lengthscale))

    def slopes(
        self, a: np.ndarray, b: np.ndarray, lengthscale: np.ndarray, weighted: np.ndarray
    ) -> np.ndarray:
        """What the constant adds: log prod l has the slope one in each."""
        return np.full(a.shape[1], 0.0 if self.normalised else weighted.sum())

    def _constant(self, lengthscale: np.ndarray) -> float:
        return 1.0 if self.normalised else float(np.prod(np.sqrt(np.pi) * lengthscale))


@dataclass(frozen=True)
class GaussianMeasure:
    """A finite measure, nu(du) = exp(-|u - c|^2 / (2 g^2)) du.

    Parameters
    ----------
    deviation : float
        g, in the units of the points.
    centre : float or tuple of float, length D
        c.

    Raises
    ------
    TypeError, ValueError
        If the deviation is no positive number, or the centre is not finite.

    Notes
    -----
    Appendix A.3 of Flaxman et al. 2016, with its mean corrected: completing the square in u gives
    m = S Sigma^-1 (x + y), with S = (2 Sigma^-1 + g^-2 I)^-1 (printed: the inverse of S). What follows from
    it is as printed, (2 pi)^(D/2) |S|^(1/2) exp(-sum (x - y)^2 / (4 l^2) - sum z^2 / (2 g^2 + l^2)), with
    z = (x + y) / 2 - c.
    """

    deviation: float
    centre: float | tuple[float, ...] = 0.0

    def __post_init__(self) -> None:
        """Refuse what is no such measure."""
        squarable("deviation", self.deviation)
        if not np.all(np.isfinite(self.centre)):
            raise ValueError(f"centre is {self.centre}; it must be finite")

    def covariance(self, a: np.ndarray, b: np.ndarray, lengthscale: np.ndarray) -> np.ndarray:
        """The values of r, shape (n, m)."""
        root = np.sqrt(4 * self.deviation**2 + 2 * lengthscale**2)
        # z^2 / (2 g^2 + l^2) is (a - (2 c - b))^2 / (2 root^2): the distance to a point mirrored at c.
        middle = Gaussian(tuple(root.tolist()))(a, 2 * np.asarray(self.centre) - b)
        middle *= self._constant(lengthscale)
        middle *= _wider(lengthscale)(a, b)
        return middle

    def variance(self, a: np.ndarray, lengthscale: np.ndarray) -> np.ndarray:
        """The values of r(a, a), shape (n,)."""
        spread = 2 * self.deviation**2 + lengthscale**2
        return self._constant(lengthscale) * np.exp(-np.sum((a - self.centre) ** 2 / spread, axis=1))

    def slopes(
        self, a: np.ndarray, b: np.ndarray, lengthscale: np.ndarray, weighted: np.ndarray
    ) -> np.ndarray:
        """What the constant and the midpoints' norms add."""
        spread = 2 * self.deviation**2 + lengthscale**2
        doubled = weighted_squares(weighted, a - self.centre, self.centre - b)  # of a + b - 2 c
        share = 2 * self.deviation**2 / spread
        return share * weighted.sum() + doubled / 2 * (lengthscale / spread) ** 2

    def _constant(self, lengthscale: np.ndarray) -> float:
        variance = 1 / (2 / lengthscale**2 + self.deviation**-2)
        return float(np.prod(np.sqrt(2 * np.pi * variance)))


def check_measure(measure: Measure | None, columns: int) -> None:
    """Refuse what is no measure on points of some columns.

    Raises
    ------
    TypeError
        If it has no `covariance`, `variance` and `slopes`, or is a class and no object of it.
    ValueError
        If its centre has another number of columns.
    """
    if measure is None:
        return
    methods = all(hasattr(measure, name) for name in ("covariance", "variance", "slopes"))
    if isinstance(measure, type) or not methods:
        raise TypeError(
            f"measure is {shown(measure)}; give a LebesgueMeasure(), a GaussianMeasure(...), or leave it out"
        )
    if isinstance(measure, GaussianMeasure) and np.size(measure.centre) not in (1, columns):
        raise ValueError(
            f"the measure's centre has {np.size(measure.centre)} columns and the points {columns}; give one "
            "number for all, or one for each"
        )


def weighted_squares(weights: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """sum_ij weights_ij (a_iq - b_jq)^2 for each column q, shape (D,), without an array (n, m, D)."""
    cross = np.einsum("iq,iq->q", a, weights @ b)
    return weights.sum(axis=1) @ a**2 + weights.sum(axis=0) @ b**2 - 2 * cross


def _wider(lengthscale: np.ndarray) -> Gaussian:
    """The kernel exp(-sum (a - b)^2 / (4 l^2))."""
    return Gaussian(tuple((np.sqrt(2) * lengthscale).tolist()))
