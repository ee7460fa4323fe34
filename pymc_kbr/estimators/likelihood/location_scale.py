"""The first form: a mean and a triangular factor of the parameters, and residuals of one law."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from pymc_kbr.estimators.likelihood.basis import Basis, Landmarks, make_basis
from pymc_kbr.estimators.likelihood.conditional_mean import mean_basis, regress, regress_weighted
from pymc_kbr.estimators.likelihood.normal_mixture import NormalMixture, fit_mixture
from pymc_kbr.estimators.likelihood.spread import LARGEST_LOG, choose_spread, fit_spread, standardised
from pymc_kbr.kernels import median_heuristic

MEAN_LANDMARKS = 1000
"""Of the mean's kernel."""

JOINT_LANDMARKS, POINTS_A_PARAMETER = 300, 24
"""Of the factor's kernels: one of all parameters, and one of each by itself."""

SHARE_OF_DEVIATION = 0.35
"""Bandwidth of a kernel of one parameter, of its deviation."""

RIDGES = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
"""For the factor, tried from the first on."""

MOST_PAIRED = 24
"""Statistics up to which entries below the diagonal depend on the parameters."""

HELD_OUT = 0.2
"""Share of the rows on which ridge and size of the mixture are chosen."""


@dataclass(frozen=True, eq=False)
class LocationScale:
    """x = m(theta) + (T(theta) W)^-1 z, with W constant, T lower triangular and z of a normal mixture.

    Parameters
    ----------
    mean, spread : Landmarks
        Kernels of m and of T.
    mean_coefficients : ndarray of shape (1 + q + l, e)
        Of the constant, the parameters and the kernels.
    spread_coefficients : ndarray of shape (1 + q + s, e + e * e)
        Of the logarithms of T's diagonal, and of all its entries, zero but below the diagonal.
    whiten : ndarray of shape (e, e)
        W, lower triangular.
    mixture : NormalMixture
    """

    mean: Landmarks
    spread: Landmarks
    mean_coefficients: np.ndarray
    spread_coefficients: np.ndarray
    whiten: np.ndarray
    mixture: NormalMixture

    def describe(self, theta: Any, xp: Any = np) -> Any:
        """Means, logarithms of the diagonal and entries below it at parameters (k, q): (k, 2 e + e^2)."""
        means = xp.dot(self.mean.raw(theta, xp), self.mean_coefficients)
        spread = xp.dot(self.spread.raw(theta, xp), self.spread_coefficients)
        return xp.concatenate([means, spread], axis=1)

    def log_density(self, described: Any, points: Any, xp: Any = np) -> Any:
        """Log densities (k, r): see `Form`."""
        e = len(self.whiten)
        logs = xp.maximum(xp.minimum(described[:, e : 2 * e], LARGEST_LOG), -LARGEST_LOG)
        r = xp.matmul(points - described[:, None, :e], self.whiten.T)
        z = xp.exp(logs)[:, None, :] * r
        if self._paired:
            below = xp.reshape(described[:, 2 * e :], (-1, e, e))
            z = z + xp.matmul(r, xp.swapaxes(below, 1, 2))
        volume = xp.sum(logs, axis=1)[:, None] + np.log(np.diag(self.whiten)).sum()
        return self.mixture.log_density(z, xp) + volume

    def draw(self, described: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One draw (k, e) for each of k parameters."""
        e = len(self.whiten)
        z = self.mixture.draw(len(described), rng)
        logs = np.clip(described[:, e : 2 * e], -LARGEST_LOG, LARGEST_LOG)
        r = np.empty_like(z)
        for j in range(e):
            left = z[:, j]
            if self._paired and j > 0:
                entries = described[:, 2 * e + j * e : 2 * e + j * e + j]
                left = left - np.sum(entries * r[:, :j], axis=1)
            r[:, j] = left * np.exp(-logs[:, j])
        return described[:, :e] + solve_triangular(self.whiten, r.T, lower=True).T

    def transforms(self, described: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Conditional distribution functions (k, e): see `Form`."""
        e = len(self.whiten)
        logs = np.clip(described[:, e : 2 * e], -LARGEST_LOG, LARGEST_LOG)
        r = (points - described[:, :e]) @ self.whiten.T
        z = np.exp(logs) * r
        if self._paired:
            below = described[:, 2 * e :].reshape(-1, e, e)
            z = z + np.einsum("kij,kj->ki", below, r)
        return self.mixture.transforms(z)

    @property
    def _paired(self) -> bool:
        return self.spread_coefficients.shape[1] > len(self.whiten)


def fit_location_scale(theta: np.ndarray, points: np.ndarray, rng: np.random.Generator) -> LocationScale:
    """Fit mean, factor and mixture, one after the other, and the mean again by what the factor says.

    Parameters
    ----------
    theta : ndarray of shape (n, q)
    points : ndarray of shape (n, e)
    rng : numpy.random.Generator

    Notes
    -----
    Mean: kernel ridge regression with a linear part, whose leave-one-out residuals go on. Factor: penalised
    normal likelihood of these, at the smallest ridge that helps held-out rows. The mean is then regressed
    with weights, where these lower a statistic's weighted leave-one-out error, and the factor fitted to the
    new residuals.
    """
    n, e = points.shape
    held_out = np.zeros(n, dtype=bool)
    held_out[rng.permutation(n)[: max(1, int(HELD_OUT * n))]] = True
    seed = int(rng.integers(2**31))
    # Where statistics are correlated, what little noise there is between them says the most.
    into, points = _decorrelated(theta, points)
    of_mean, features = mean_basis(theta, points, MEAN_LANDMARKS, rng)
    mean = regress(features, of_mean.penalties, points)
    again = _whitening(mean.residuals)
    into, points = again @ into, points @ again.T
    mean = regress(features, of_mean.penalties, points)
    of_spread, parts = _spread_basis(theta, rng)
    pairs = np.tril_indices(e, -1) if e <= MOST_PAIRED else (np.empty(0, int), np.empty(0, int))
    whiten = _whitening(mean.residuals)
    r = mean.residuals @ whiten.T
    w, ridge = choose_spread(parts, r, of_spread.penalties, RIDGES, pairs, held_out)
    precisions = _precisions(parts @ w, pairs, whiten)
    mean = regress_weighted(features, of_mean.penalties, points, precisions, mean)
    whiten = _whitening(mean.residuals)
    r = mean.residuals @ whiten.T
    w = fit_spread(parts, r, ridge * of_spread.penalties, pairs, None)
    z, _ = standardised(parts, r, w, pairs)
    return LocationScale(
        of_mean.landmarks,
        of_spread.landmarks,
        of_mean.mix @ solve_triangular(into, mean.coefficients.T, lower=True).T,
        of_spread.mix @ _squared(w, e, pairs),
        whiten @ into,
        fit_mixture(z, held_out, seed),
    )


def _decorrelated(theta: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A lower triangular factor (e, e), and points (n, e) whose linear residuals it makes uncorrelated."""
    columns = np.column_stack([np.ones(len(theta)), theta])
    slopes, *_ = np.linalg.lstsq(columns, points, rcond=None)
    into = _whitening(points - columns @ slopes)
    return into, points @ into.T


def _spread_basis(theta: np.ndarray, rng: np.random.Generator) -> tuple[Basis, np.ndarray]:
    """Kernels of each parameter by itself, and one of all."""
    n, q = theta.shape
    levels = (np.arange(POINTS_A_PARAMETER) + 0.5) / POINTS_A_PARAMETER
    groups = []
    for j in range(q):
        centres, precisions = np.zeros((POINTS_A_PARAMETER, q)), np.zeros((POINTS_A_PARAMETER, q))
        centres[:, j] = np.quantile(theta[:, j], levels)
        precisions[:, j] = (SHARE_OF_DEVIATION * theta[:, j].std()) ** -2
        groups.append(Landmarks(centres, precisions))
    if q > 1:
        chosen = theta[rng.permutation(n)[:JOINT_LANDMARKS]]
        groups.append(Landmarks(chosen, np.full(chosen.shape, median_heuristic(theta) ** -2)))
    return make_basis(theta, groups)


def _whitening(residuals: np.ndarray) -> np.ndarray:
    """Lower triangular W with W times the residuals of unit covariance."""
    cov = np.atleast_2d(np.cov(residuals.T))
    unit = np.sqrt(np.diag(cov))
    factor = cholesky(cov / unit / unit[:, None] + 1e-9 * np.eye(len(cov)), lower=True)
    return solve_triangular(factor, np.eye(len(cov)), lower=True) / unit


def _precisions(values: np.ndarray, pairs: tuple[np.ndarray, np.ndarray], whiten: np.ndarray) -> np.ndarray:
    """One over the variance (n, e) of each statistic at each row."""
    n, e = len(values), len(whiten)
    factor = np.zeros((n, e, e))
    factor[:, np.arange(e), np.arange(e)] = np.exp(np.clip(values[:, :e], -LARGEST_LOG, LARGEST_LOG))
    factor[:, pairs[0], pairs[1]] = values[:, e:]
    inverse = np.linalg.inv(factor @ whiten)
    return 1 / np.sum(inverse**2, axis=2)


def _squared(w: np.ndarray, e: int, pairs: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Coefficients of entries below the diagonal in the places of a square matrix, row by row."""
    if not len(pairs[0]):
        return w
    whole = np.zeros((len(w), e + e * e))
    whole[:, :e] = w[:, :e]
    whole[:, e + pairs[0] * e + pairs[1]] = w[:, e:]
    return whole
