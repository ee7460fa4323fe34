"""The marginal likelihood of many points, with a prior's covariance of low rank."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from pymc_kbr.arrays.subsample import spread_out
from pymc_kbr.embedding.jacobian import Jacobian
from pymc_kbr.embedding.prior_covariance import LebesgueMeasure, Measure, weighted_squares
from pymc_kbr.kernels import Gaussian

KERNEL_ROWS_AT_ONCE = 512
"""Rows whose kernel values with all others are formed at once."""

LANDMARK_JITTER = 1e-7
"""Of the mean variance, added to the covariance of the landmarks."""


class LowRankMarginalLikelihood:
    """log p(x_1, ..., x_n | l) and its gradient, with Nystroem's form of the prior's covariance.

    Parameters
    ----------
    points : ndarray of shape (n, D)
    landmarks : int
        Rows through which the covariance is formed, evenly spread; with all n it is exact but for the
        jitter.
    noise, measure
        As of `MarginalLikelihood`.

    Notes
    -----
    R is replaced by U A^-1 U', U the covariances with m landmarks and A theirs. The empirical embedding and
    its Jacobian stay exact, formed a block of rows at a time: time D n^2 + n m^2, memory n m. The prior is
    then that of a process of rank m.
    """

    def __init__(
        self, points: np.ndarray, landmarks: int = 500, noise: float = 0.1, measure: Measure | None = None
    ) -> None:
        self.points, self.noise = points, noise
        self.measure = LebesgueMeasure() if measure is None else measure
        rows = spread_out(len(points), landmarks)
        # Of landmarks that coincide one is kept: two would make their covariance singular.
        self._landmarks = np.sort(rows[np.unique(points[rows], axis=0, return_index=True)[1]])
        self._centred = points - points.mean(axis=0)
        self._jacobian = Jacobian(self._centred)

    def __call__(self, lengthscale: np.ndarray) -> tuple[float, np.ndarray]:
        """The log marginal likelihood and its gradient (D,) in log l: see `MarginalLikelihood`."""
        scaled = self._centred / lengthscale
        embedding, of_embedding = np.empty(len(scaled)), np.empty_like(scaled)
        value, slopes = 0.0, np.zeros(scaled.shape[1])
        for i in range(0, len(scaled), KERNEL_ROWS_AT_ONCE):
            rows = np.arange(i, min(i + KERNEL_ROWS_AT_ONCE, len(scaled)))
            kernel = Gaussian(1.0)(scaled[rows], scaled)
            volume = self._jacobian.of_rows(rows, kernel, scaled, lengthscale)
            embedding[rows] = volume.embedding
            value += volume.log
            slopes += volume.slopes
            near, squares = kernel @ np.hstack([scaled, scaled**2]), scaled[rows]
            first, second = np.hsplit(near, 2)
            total = kernel.sum(axis=1)[:, None]
            of_embedding[rows] = (squares**2 * total - 2 * squares * first + second) / len(scaled)
            kernel *= volume.left @ volume.right.T
            slopes += weighted_squares(kernel, scaled[rows], scaled)
        of_process, process_slopes = self._process(embedding, of_embedding, lengthscale)
        return value + of_process, slopes + process_slopes

    def _process(self, y: np.ndarray, of_y: np.ndarray, lengthscale: np.ndarray) -> tuple[float, np.ndarray]:
        """Log N(y; 0, U A^-1 U' + sigma^2 I) and its gradient, with dy / d log l = `of_y` (n, D)."""
        n, s2, few = len(y), self.noise, self.points[self._landmarks]
        u = self.measure.covariance(self.points, few, lengthscale)
        a = self.measure.covariance(few, few, lengthscale)
        jittered = a + LANDMARK_JITTER * np.mean(np.diag(a)) * np.eye(len(a))
        triangle = cholesky(jittered, lower=True)
        v = solve_triangular(triangle, u.T, lower=True)
        of_b = cho_factor(s2 * np.eye(len(a)) + v @ v.T, lower=True)
        inner = cho_solve(of_b, v @ y)
        alpha = (y - v.T @ inner) / s2
        log_determinant = 2 * np.log(np.diag(of_b[0])).sum() + (n - len(a)) * np.log(s2)
        value = -0.5 * (y @ alpha + log_determinant + n * np.log(2 * np.pi))
        # Derivatives of the value in U and A, from the right and from both sides by the triangle's inverse.
        in_v = np.outer(alpha, inner) - cho_solve(of_b, v).T
        in_l = 0.5 * (cho_solve(of_b, v @ v.T) - np.outer(inner, inner))
        in_u = solve_triangular(triangle, in_v.T, lower=True, trans="T").T
        half = solve_triangular(triangle, in_l, lower=True, trans="T")
        in_a = solve_triangular(triangle, half.T, lower=True, trans="T")
        slopes = -alpha @ of_y
        everywhere = slice(None)
        for rows, weighted in ((everywhere, in_u * u), (self._landmarks, in_a * a)):
            slopes = slopes + self.measure.slopes(self.points[rows], few, lengthscale, weighted)
            scaled = self._centred[rows] / lengthscale
            slopes += 0.5 * weighted_squares(weighted, scaled, self._centred[self._landmarks] / lengthscale)
        # The jitter is a share of the variance, whose slope it has.
        of_jitter = np.diag(in_a) * (np.diag(jittered) - np.diag(a))
        slopes += of_jitter.sum() * self._slope_of_variance(few, lengthscale)
        return float(value), slopes

    def _slope_of_variance(self, few: np.ndarray, lengthscale: np.ndarray) -> np.ndarray:
        """D log of the mean variance of the landmarks / d log l, (D,)."""
        variance = self.measure.variance(few, lengthscale)
        return self.measure.slopes(few, few, lengthscale, np.diag(variance / variance.sum()))
