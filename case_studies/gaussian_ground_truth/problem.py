"""A joint normal distribution of parameters and statistics, another prior, and the exact posterior mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Problem:
    """Draws of the joint distribution and of a prior, and observations with their posterior means.

    Attributes
    ----------
    parameters, statistics : ndarray of shape (n, d)
    prior : ndarray of shape (l, d)
    observed, exact : ndarray of shape (k, d)
    """

    parameters: np.ndarray
    statistics: np.ndarray
    prior: np.ndarray
    observed: np.ndarray
    exact: np.ndarray

    def error(self, means: np.ndarray) -> float:
        """Squared distance from the exact posterior means, averaged over observations."""
        return float(np.mean(np.sum((means - self.exact) ** 2, axis=1)))


def draw_problem(
    d: int,
    rng: np.random.Generator,
    *,
    xu: bool,
    n: int = 200,
    prior_draws: int = 200,
    observations: int = 200,
    from_prior: bool = False,
) -> Problem:
    """One random problem of section 5.1 of Xu 2022 (V = A'A / 2d + 2I) or of Fukumizu 2013 (V = A'A + 2I).

    Statistics have mean one and parameters mean zero; the prior has half the parameters' covariance.
    With `from_prior` parameters are drawn from the prior instead of the joint distribution, as in
    section 5.2 of Fukumizu 2013.
    """
    a = rng.normal(size=(2 * d, 2 * d))
    v = a.T @ a / (2 * d if xu else 1) + 2 * np.eye(2 * d)
    v_x, v_t, v_xt = v[:d, :d], v[d:, d:], v[:d, d:]
    slope = np.linalg.solve(v_t, v_xt.T).T  # of the statistics on the parameters
    noise = v_x - slope @ v_xt.T
    half = np.linalg.cholesky(v_t / 2)
    theta = rng.normal(size=(n, d)) @ (half if from_prior else np.linalg.cholesky(v_t)).T
    x = 1 + theta @ slope.T + rng.normal(size=(n, d)) @ np.linalg.cholesky(noise).T
    prior = rng.normal(size=(prior_draws, d)) @ half.T
    observed = rng.normal(size=(observations, d)) @ np.linalg.cholesky(v_x).T
    gain = np.linalg.solve(slope @ v_t @ slope.T / 2 + noise, slope @ v_t / 2).T
    return Problem(theta, x, prior, observed, (observed - 1) @ gain.T)
