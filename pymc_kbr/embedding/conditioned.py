"""A Gaussian process given noisy values of it, whole or through a few landmarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from pymc_kbr.embedding.marginal_low_rank import LANDMARK_JITTER
from pymc_kbr.embedding.prior_covariance import Measure

MATRIX_ENTRIES_AT_ONCE = 4_000_000
"""Entries of matrices of many rows that are formed at once."""


@dataclass(frozen=True, eq=False)
class Conditioned:
    """The process given its values at all its points.

    Parameters
    ----------
    landmarks : ndarray of shape (m, D)
    weights : ndarray of shape (m,)
        With the covariances c (m,) of a point with the landmarks, c' weights is the mean there.
    factor : tuple
        Of C = R + sigma^2 I, as `scipy.linalg.cho_factor` gives it.
    """

    landmarks: np.ndarray
    weights: np.ndarray
    factor: Any

    @classmethod
    def on(
        cls, points: np.ndarray, values: np.ndarray, measure: Measure, lengthscale: np.ndarray, noise: float
    ) -> Self:
        """Given values (n,) at points (n, D).

        Raises
        ------
        numpy.linalg.LinAlgError
            If the noise is so small that rounding leaves C singular.
        """
        covariance = measure.covariance(points, points, lengthscale)
        covariance.flat[:: len(points) + 1] += noise
        factor = cho_factor(covariance, lower=True)
        return cls(points, cho_solve(factor, values), factor)

    def explained(self, cross: np.ndarray) -> np.ndarray:
        """E (m, l), with c' E the variance that the values explain, of covariances c (l, m)."""
        return cho_solve(self.factor, cross.T)


@dataclass(frozen=True, eq=False)
class ThroughLandmarks:
    """The same with Nystroem's covariance U A^-1 U', U the rows' covariances with m landmarks and A theirs.

    Parameters
    ----------
    landmarks, weights
        As of `Conditioned`.
    triangle : ndarray of shape (m, m)
        L, with A = L L' but for a jitter.
    factor : tuple
        Of B = sigma^2 I + V V', V = L^-1 U'.
    noise : float

    Notes
    -----
    B has no eigenvalue below sigma^2, however many rows there are. In sigma^2 A + U' U, which is L B L', the
    smallest would be lost to the rounding of the largest.
    """

    landmarks: np.ndarray
    weights: np.ndarray
    triangle: np.ndarray
    factor: Any
    noise: float

    @classmethod
    def on(
        cls,
        points: np.ndarray,
        values: np.ndarray,
        landmarks: np.ndarray,
        measure: Measure,
        lengthscale: np.ndarray,
        noise: float,
    ) -> Self:
        """Given values (n,) at points (n, D), through landmarks (m, D) of which no two coincide."""
        own = measure.covariance(landmarks, landmarks, lengthscale)
        own.flat[:: len(own) + 1] += LANDMARK_JITTER * np.mean(np.diag(own))
        triangle = cholesky(own, lower=True)
        inner, projected = noise * np.eye(len(own)), np.zeros(len(own))
        for rows in np.array_split(
            np.arange(len(points)), -(-len(points) * len(own) // MATRIX_ENTRIES_AT_ONCE)
        ):
            cross = measure.covariance(points[rows], landmarks, lengthscale)
            v = solve_triangular(triangle, cross.T, lower=True)
            inner += v @ v.T
            projected += v @ values[rows]
        factor = cho_factor(inner, lower=True)
        weights = solve_triangular(triangle, cho_solve(factor, projected), lower=True, trans="T")
        return cls(landmarks, weights, triangle, factor, noise)

    def explained(self, cross: np.ndarray) -> np.ndarray:
        """As of `Conditioned`: A^-1 - sigma^2 (L B L')^-1, times the covariances."""
        # By Woodbury's identity, which makes that of A^-1 U' C^-1 U A^-1.
        half = solve_triangular(self.triangle, cross.T, lower=True)
        return solve_triangular(
            self.triangle, half - self.noise * cho_solve(self.factor, half), lower=True, trans="T"
        )
