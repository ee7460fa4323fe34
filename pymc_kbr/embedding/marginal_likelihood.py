"""The marginal likelihood of points under a Gaussian process on their kernel embedding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from pymc_kbr.arrays.refusals import shown, squarable
from pymc_kbr.kernels import Gaussian


class MarginalLikelihood:
    """log p(x_1, ..., x_n | l) and its gradient, on all pairs of points."""

    # Shapes: points (n, D).
    def __init__(self, points: np.ndarray, noise: float = 0.1, measure: Measure | None = None) -> None:
        self.points, self.noise = points, noise
        self.measure = LebesgueMeasure() if measure is None else measure
        # Products of points far from the origin would lose the digits of their differences.
        self._centred = points - points.mean(axis=0)
        self._jacobian = Jacobian(self._centred)

    def __call__(self, lengthscale: np.ndarray) -> tuple[float, np.ndarray]:
        """The log marginal likelihood and its gradient in log l."""
        # Shapes: lengthscale (D,).
        scaled, n = self._centred / lengthscale, len(self._centred)
        root = self._quarter(scaled)
        volume = self._jacobian(root * root, scaled, lengthscale)
        covariance, plain = self._covariance(root, lengthscale)
        covariance.flat[:: n + 1] += self.noise
        # The transpose of an array in C's order is one in Fortran's, which LAPACK takes as it is.
        factor, failed = dpotrf(covariance.T, lower=0, overwrite_a=1, clean=0)
        if failed:
            raise np.linalg.LinAlgError(
                f"the covariance is not positive definite with noise {self.noise}; take a larger one"
            )
        solved = dpotrs(factor, volume.embedding, lower=0)[0]
        half_log_determinant = np.log(np.diagonal(factor)).sum()
        value = (
            -0.5 * float(volume.embedding @ solved)
            - float(half_log_determinant)
            - 0.5 * n * np.log(2 * np.pi)
        )
        inverse = dpotri(factor, lower=0, overwrite_c=1)[0].T  # its lower triangle
        slopes = self._slopes(root, inverse, solved, volume.left, volume.right, scaled, lengthscale, plain)
        return value + volume.log, slopes + volume.slopes

    def _quarter(self, scaled: np.ndarray) -> np.ndarray:
        """exp(-|a - b|^2 / 4) for all pairs: the kernel's root, and the prior's covariance but a factor."""
        half_norms = -0.25 * np.einsum("ij,ij->i", scaled, scaled)[:, None]
        ones = np.ones_like(half_norms)
        exponents = np.hstack([0.5 * scaled, half_norms, ones]) @ np.hstack([scaled, ones, half_norms]).T
        return np.exp(exponents, out=exponents)

    def _covariance(self, root: np.ndarray, lengthscale: np.ndarray) -> tuple[np.ndarray, float | None]:
        """R, and its constant factor over `root` where that is all it has besides."""
        if isinstance(self.measure, LebesgueMeasure):
            constant = float(self.measure.variance(self.points[:1], lengthscale)[0])
            return constant * root, constant
        return self.measure.covariance(self.points, self.points, lengthscale), None

    def _slopes(
        self,
        root: np.ndarray,
        inverse: np.ndarray,
        solved: np.ndarray,
        left: np.ndarray,
        right: np.ndarray,
        scaled: np.ndarray,
        lengthscale: np.ndarray,
        constant: float | None,
        *,
        # Rows of a matrix in a block that fits into the cache.
        cached_rows: int = 128,
    ) -> np.ndarray:
        """The gradient (D,) but for rows that are far from all others."""
        n, slopes = len(scaled), np.zeros(scaled.shape[1])
        # What K is weighted with, as (left_i . right_j) + (left_j . right_i).
        by_embedding = solved[:, None] / n
        left, right = np.hstack([left, -by_embedding]), np.hstack([right, np.ones((n, 1))])
        both, swapped = np.hstack([left, right]), np.hstack([right, left])
        for i in range(0, n, cached_rows):
            rows, upto = slice(i, i + cached_rows), min(i + cached_rows, n)
            own = root[rows, :upto]
            of_covariance = np.outer(solved[rows], solved[:upto])
            of_covariance -= inverse[rows, :upto]
            if constant is None:
                a, b = self.points[rows], self.points[:upto]
                of_covariance *= self.measure.covariance(a, b, lengthscale)
            else:
                of_covariance *= constant
                of_covariance *= own
            diagonal = np.tril(of_covariance[:, i:upto])
            diagonal.flat[:: upto - i + 1] *= 0.5  # a pair of a point with itself counts once, others twice
            of_covariance[:, i:upto] = diagonal
            slopes += self.measure.slopes(self.points[rows], self.points[:upto], lengthscale, of_covariance)
            of_kernel = both[rows] @ swapped[:upto].T
            of_kernel *= own
            of_kernel *= own
            of_kernel[:, i:upto] = np.tril(of_kernel[:, i:upto], -1)
            of_covariance *= 0.5
            of_kernel += of_covariance
            slopes += weighted_squares(of_kernel, scaled[rows], scaled[:upto])
        return slopes


# --- prior covariance ---


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
    """The Lebesgue measure: r is stationary."""

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
    """A finite measure, nu(du) = exp(-|u - c|^2 / (2 g^2)) du."""

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
    """Refuse what is no measure on points of some columns."""
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


# --- the Jacobian ---


class FlatEmbedding(ValueError):
    """The gradient is zero at a point, and the marginal likelihood with it."""


class Volume(NamedTuple):
    """The empirical embedding (n,) at its points, the sum of log gamma, and what its gradient is made of."""

    embedding: np.ndarray
    log: float
    slopes: np.ndarray
    left: np.ndarray
    right: np.ndarray


class Jacobian:
    """gamma_i = |gradient of the empirical embedding| at its points, for a Gaussian kernel."""

    # Shapes: points (n, D).
    def __init__(self, points: np.ndarray) -> None:
        _, self._group, counts = np.unique(points, axis=0, return_inverse=True, return_counts=True)
        self._group = self._group.reshape(-1)  # NumPy 2.0 gives a column
        self._alike = counts[self._group]

    def __call__(
        self,
        kernel: np.ndarray,
        scaled: np.ndarray,
        lengthscale: np.ndarray,
        *,
        # Sum of a point's kernel values with all others below which they are computed anew, by their ratios.
        least_sum: float = 1e-60,
        # A derivative below this share of the summands' sizes is the rounding of zero.
        rounding: float = 1e3 * np.finfo(float).eps,
    ) -> Volume:
        """The volume at points over their lengthscales (n, D); overwrites their Gram matrix (n, n)."""
        n = len(scaled)
        self._take_out_coincident(kernel)
        # Both sums over j of k_ij (x_j - x_i) by one product.
        sums = kernel @ np.hstack([scaled, np.ones((n, 1))])
        total = sums[:, -1]
        embedding = (total + self._alike) / n
        towards = sums[:, :-1] - scaled * total[:, None]
        logs = np.zeros(n)
        far = np.flatnonzero(total < least_sum)
        of_far = [self._by_ratios(int(i), scaled) for i in far]
        for i, (weights, exponent) in zip(far, of_far, strict=True):
            towards[i], total[i], logs[i] = weights @ (scaled - scaled[i]), weights.sum(), -exponent
        size = np.sqrt(np.sum((towards / lengthscale) ** 2, axis=1))
        summands = total * np.max(np.abs(scaled).max(axis=0) / lengthscale)
        _refuse_flat(np.flatnonzero(~(size > rounding * summands)), n)
        pull = towards / (lengthscale * size[:, None]) ** 2
        slopes = -2 * np.sum((towards / (lengthscale * size[:, None])) ** 2, axis=0)
        for i, (weights, _) in zip(far, of_far, strict=True):
            apart = scaled - scaled[i]
            slopes += (weights * (apart @ pull[i])) @ apart**2
        # Their pairs were summed just now, by ratios: not once more through `left` and `right`.
        pull[far] = 0.0
        left = np.hstack([pull, -np.einsum("ij,ij->i", pull, scaled)[:, None]])
        right = np.hstack([scaled, np.ones((n, 1))])
        return Volume(embedding, float(np.sum(logs + np.log(size / n))), slopes, left, right)

    def _take_out_coincident(self, kernel: np.ndarray) -> None:
        """Set the kernel of pairs that coincide to zero, which else rounding would put in the place of it."""
        np.fill_diagonal(kernel, 0.0)
        for i in np.flatnonzero(self._alike > 1):
            kernel[i, self._group == self._group[i]] = 0.0

    def _by_ratios(self, i: int, scaled: np.ndarray) -> tuple[np.ndarray, float]:
        """Kernel values of row i with the others over the largest of them, and minus that one's logarithm."""
        exponents = 0.5 * np.sum((scaled - scaled[i]) ** 2, axis=1)
        exponents[self._group == self._group[i]] = np.inf
        nearest = float(np.min(exponents))
        return np.exp(nearest - exponents), nearest


def _refuse_flat(rows: np.ndarray, n: int) -> None:
    if len(rows):
        raise FlatEmbedding(
            f"the empirical embedding is flat at {len(rows)} of {n} rows, the first of them row {rows[0]}: "
            "the others lie symmetrically about it, and the marginal likelihood is zero; give points "
            "that are not on a symmetric grid, or take bandwidth='median'"
        )
