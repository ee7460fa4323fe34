"""The marginal likelihood of points under a Gaussian process on their kernel embedding."""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from pymc_kbr.embedding.jacobian import Jacobian
from pymc_kbr.embedding.prior_covariance import LebesgueMeasure, Measure, weighted_squares

CACHED_ROWS = 128
"""Rows of a matrix that are worked on at once, so few that they stay in the cache."""

LOG_2_PI = float(np.log(2 * np.pi))


class MarginalLikelihood:
    """log p(x_1, ..., x_n | l) and its gradient, on all pairs of points.

    Parameters
    ----------
    points : ndarray of shape (n, D)
        Finite; no column is constant.
    noise : float
        sigma^2, the variance of the empirical embedding about the true one at a point.
    measure : Measure
        nu, from which the prior's covariance is made.

    Notes
    -----
    Eq. 13 of [1]_: log N(m; 0, R + sigma^2 I) + sum_i log gamma_i, with m the empirical embedding at the
    points, R the prior's covariance there, and gamma_i the volume of the Jacobian of the empirical embedding
    (eq. 12), which eq. 28 gives for a Gaussian kernel. The gradient is that of appendix A.5.1, in log l.
    Time is n^3 for one Cholesky factor and the inverse, and D n^2 besides; memory three matrices n x n.

    References
    ----------
    .. [1] S. Flaxman, D. Sejdinovic, J. Cunningham, S. Filippi, Bayesian learning of kernel embeddings, UAI
       (2016).
    """

    def __init__(self, points: np.ndarray, noise: float = 0.1, measure: Measure | None = None) -> None:
        self.points, self.noise = points, noise
        self.measure = LebesgueMeasure() if measure is None else measure
        # Products of points far from the origin would lose the digits of their differences.
        self._centred = points - points.mean(axis=0)
        self._jacobian = Jacobian(self._centred)

    def __call__(self, lengthscale: np.ndarray) -> tuple[float, np.ndarray]:
        """The log marginal likelihood and its gradient in log l.

        Parameters
        ----------
        lengthscale : ndarray of shape (D,)
            l.

        Returns
        -------
        float
        ndarray of shape (D,)

        Raises
        ------
        ValueError
            If the empirical embedding is flat at a point, where the likelihood is zero for every l.
        """
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
        value = -0.5 * float(volume.embedding @ solved) - float(half_log_determinant) - 0.5 * n * LOG_2_PI
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
    ) -> np.ndarray:
        """The gradient (D,) but for rows that are far from all others.

        All parts are sums over pairs of a weight times their squared distance in a column: over each pair
        once, a block of rows at a time.
        """
        n, slopes = len(scaled), np.zeros(scaled.shape[1])
        # What K is weighted with, as (left_i . right_j) + (left_j . right_i).
        by_embedding = solved[:, None] / n
        left, right = np.hstack([left, -by_embedding]), np.hstack([right, np.ones((n, 1))])
        both, swapped = np.hstack([left, right]), np.hstack([right, left])
        for i in range(0, n, CACHED_ROWS):
            rows, upto = slice(i, i + CACHED_ROWS), min(i + CACHED_ROWS, n)
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
