"""The embedding of a normal distribution under a Gaussian kernel, in closed form."""

from __future__ import annotations

import numpy as np


def gaussian_mean(
    points: np.ndarray, mean: np.ndarray, covariance: np.ndarray, variance: np.ndarray
) -> np.ndarray:
    """E exp(-(y - Z)' V^-1 (y - Z) / 2) of Z ~ N(mean, covariance), V = diag(variance), at points (l, p)."""
    total = covariance + np.diag(variance)
    apart = points - mean
    distances = np.einsum("ij,ij->i", apart, np.linalg.solve(total, apart.T).T)
    # The root of |V| / |V + C|: without a covariance the mean is the kernel itself.
    constant = np.linalg.slogdet(total)[1] - np.log(variance).sum()
    return np.exp(-0.5 * (distances + constant))
