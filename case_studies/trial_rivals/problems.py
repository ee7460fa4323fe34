"""Four problems of single trials whose density is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from case_studies.reaction_times import drift_diffusion


@dataclass(frozen=True)
class Problem:
    """A model of one trial, whose prior is uniform between two corners.

    Parameters
    ----------
    parameters, statistics : tuple of str
    lower, upper : ndarray of shape (p,)
    draw : callable
        From parameters (n, p) and a generator to trials (n, d).
    log_density : callable
        From parameters (k, p) and trials (r, d) to (k, r).
    rows : int
        Simulated trials that likelihoods are learnt from.
    trials : int
        Of a data set.
    discrete : int
        How many of the last statistics are whole numbers from zero on.
    positive : tuple of int
        Columns of times, of which neural likelihoods get the logarithm.
    """

    parameters: tuple[str, ...]
    statistics: tuple[str, ...]
    lower: np.ndarray
    upper: np.ndarray
    draw: Callable[[np.ndarray, np.random.Generator], np.ndarray]
    log_density: Callable[[np.ndarray, np.ndarray], np.ndarray]
    rows: int = 20_000
    trials: int = 200
    discrete: int = 0
    positive: tuple[int, ...] = ()

    def draw_prior(self, count: int, rng: np.random.Generator, margin: float = 0.0) -> np.ndarray:
        """Parameters (count, p), away from each edge by a share of the range."""
        away = margin * (self.upper - self.lower)
        return rng.uniform(self.lower + away, self.upper - away, (count, len(self.lower)))


def g_and_k_quantile(z: np.ndarray, g: np.ndarray, k: np.ndarray) -> np.ndarray:
    """The quantile function of g-and-k at standard normal quantiles, with location 0, scale 1 and c = 0.8."""
    return (1 + 0.8 * np.tanh(g * z / 2)) * (1 + z**2) ** k * z


def g_and_k_normal(values: np.ndarray, g: np.ndarray, k: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Standard normal quantiles of values under g-and-k, and the logarithm of the function's slope there.

    By bisection of the quantile function, which increases.
    """
    shape = np.broadcast_shapes(values.shape, g.shape, k.shape)
    low, high = (np.full(shape, end) for end in (-12.0, 12.0))
    for _ in range(45):
        middle = (low + high) / 2
        above = g_and_k_quantile(middle, g, k) > values
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    z = (low + high) / 2
    tanh = np.tanh(g * z / 2)
    skewed, heavy = 1 + 0.8 * tanh, (1 + z**2) ** k
    slope = heavy * (0.4 * g * (1 - tanh**2) * z + skewed * (1 + 2 * k * z**2 / (1 + z**2)))
    return z, np.log(slope)


def _draw_pairs(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    g, k, correlation = theta[:, :1], theta[:, 1:2], theta[:, 2]
    one, other = rng.standard_normal((2, len(theta)))
    z = np.column_stack([one, correlation * one + np.sqrt(1 - correlation**2) * other])
    return g_and_k_quantile(z, g, k)


def _log_density_of_pairs(theta: np.ndarray, x: np.ndarray) -> np.ndarray:
    g, k, correlation = (column[:, None] for column in theta.T)
    (one, slope), (other, other_slope) = (g_and_k_normal(column[None], g, k) for column in x.T)
    left = 1 - correlation**2
    squares = (one**2 - 2 * correlation * one * other + other**2) / left
    return -squares / 2 - np.log(2 * np.pi) - np.log(left) / 2 - slope - other_slope


def _mean(theta: np.ndarray) -> np.ndarray:
    return np.exp(0.7 * theta + 0.5)


PROBLEMS = {
    "drift diffusion": Problem(
        drift_diffusion.NAMES,
        ("rt", "choice"),
        drift_diffusion.LOWER,
        drift_diffusion.UPPER,
        lambda theta, rng: drift_diffusion.simulate(rng, theta),
        drift_diffusion.log_density,
        discrete=1,
        positive=(0,),
    ),
    "g-and-k pairs": Problem(
        ("g", "k", "correlation"),
        ("x", "y"),
        np.array([0.0, 0.0, -0.9]),
        np.array([3.0, 0.5, 0.9]),
        _draw_pairs,
        _log_density_of_pairs,
    ),
    "counts": Problem(
        ("theta",),
        ("x",),
        np.array([-3.0]),
        np.array([3.0]),
        lambda theta, rng: rng.poisson(_mean(theta)).astype(float),
        lambda theta, x: stats.poisson.logpmf(x[:, 0], _mean(theta)),
        rows=10_000,
        trials=400,
        discrete=1,
    ),
    "normal": Problem(
        ("mean", "deviation"),
        ("x",),
        np.array([-3.0, 0.3]),
        np.array([3.0, 3.0]),
        lambda theta, rng: rng.normal(theta[:, :1], theta[:, 1:]),
        lambda theta, x: stats.norm.logpdf(x[:, 0], theta[:, :1], theta[:, 1:]),
        trials=500,
    ),
}
"""Drift diffusion; two g-and-k numbers that depend as a normal pair does; Poisson counts; normal numbers."""
