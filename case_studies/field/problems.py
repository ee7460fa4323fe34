"""Two models of fifty numbers whose posteriors are known: README's first example, and normal numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from scipy import stats
from scipy.special import gammaln

import pymc_kbr as pk

NUMBERS = 50
"""Of a data set, in both models."""

Moments = tuple[np.ndarray, np.ndarray]
"""Means and standard deviations (k, p) of the posteriors of k observations."""


@dataclass(frozen=True)
class Problem:
    """A model, its exact posteriors, and what packages are told of it.

    Parameters
    ----------
    priors : dict of str to tuple
        Of each parameter the name of its distribution, in PyMC and in torch, and the arguments.
    statistics : tuple of str
    draw : callable
        PyMC's simulator: from a generator, the parameters and a size to statistics size + (d,).
    exact : callable
        From observations (k, d) and an effort of at most one to `Moments`.
    positive : tuple of int
        Statistics above zero, of which neural networks get the logarithm.
    unit : callable
        From an observation (d,) to a size of each statistic.
    """

    priors: dict[str, tuple[Any, ...]]
    statistics: tuple[str, ...]
    draw: Callable[..., np.ndarray]
    exact: Callable[[np.ndarray, float], Moments]
    positive: tuple[int, ...]
    unit: Callable[[np.ndarray], np.ndarray]

    def model(self, observed: np.ndarray, epsilon: float | np.ndarray = 1.0) -> pm.Model:
        """PyMC's model of an observation (d,); only `sample_smc` uses `epsilon`."""
        with pm.Model(coords={"statistic": list(self.statistics)}) as model:
            free = [getattr(pm, kind)(name, *given) for name, (kind, *given) in self.priors.items()]
            pk.vector_simulator("x", self.draw, *free, observed=observed, dims="statistic", epsilon=epsilon)
        return model

    def table(self, rows: int, seed: int) -> pk.ReferenceTable:
        """Simulations of draws of the prior."""
        model = self.model(np.ones(len(self.statistics)))
        return pk.simulate(rows, model=model, random_seed=seed, progressbar=False)

    def log_prior(self, theta: np.ndarray) -> np.ndarray:
        """Of parameters (k, p)."""
        each = [prior.logpdf(column) for prior, column in zip(self._priors(), theta.T, strict=True)]
        return np.sum(each, axis=0)

    def corners(self) -> tuple[np.ndarray, np.ndarray]:
        """Between which all of the prior lies but a millionth at each end."""
        low, high = np.array([prior.ppf([1e-6, 1 - 1e-6]) for prior in self._priors()]).T
        return low, high

    def _priors(self) -> list[Any]:
        made = {
            "Normal": stats.norm,
            "HalfNormal": lambda scale: stats.halfnorm(0, scale),
            "Uniform": lambda low, high: stats.uniform(low, high - low),
        }
        return [made[kind](*given) for kind, *given in self.priors.values()]


def waiting_times(rng: np.random.Generator, rate: Any, shape: Any, size: Any = None) -> np.ndarray:
    """README's simulator: mean, deviation and median of fifty gamma variables."""
    y = rng.gamma(np.asarray(shape)[..., None], 1 / np.asarray(rate)[..., None], (*(size or ()), NUMBERS))
    return np.stack([y.mean(-1), y.std(-1), np.median(y, -1)], axis=-1)


def normal_numbers(rng: np.random.Generator, mean: Any, deviation: Any, size: Any = None) -> np.ndarray:
    """Mean and deviation of fifty normal numbers."""
    y = rng.normal(np.asarray(mean)[..., None], np.asarray(deviation)[..., None], (*(size or ()), NUMBERS))
    return np.stack([y.mean(-1), y.std(-1)], axis=-1)


def ratios(statistics: np.ndarray) -> np.ndarray:
    """Deviation and median over the mean, whose distribution the rate does not change; in logarithms."""
    return np.log(statistics[:, 1:] / statistics[:, :1])


def waiting_moments(observed: np.ndarray, effort: float = 1.0, seed: int = 5) -> Moments:
    """Exact to Monte Carlo error, by what is known of gamma variables.

    Given the shape, the mean is independent of the two ratios, and has a gamma distribution. Shapes given the
    ratios are those of the nearest of ten million simulations with rate one, moved by a local linear
    regression. They are weighted by the density of the mean, which is integrated over the rate on a grid.
    """
    rng = np.random.default_rng(seed)
    total, kept = int(10_000_000 * effort), int(10_000 * effort**0.5)
    shapes = rng.uniform(0.5, 5, total)
    blocks = [shapes[first : first + 100_000] for first in range(0, total, 100_000)]
    found = np.concatenate([ratios(waiting_times(rng, np.ones(len(b)), b, (len(b),))) for b in blocks])
    unit = found.std(axis=0)
    means, deviations = [], []
    for row, target in zip(observed, ratios(observed), strict=True):
        away = (found - target) / unit
        near = np.argpartition((away**2).sum(axis=1), kept)[:kept]
        design = np.column_stack([np.ones(kept), away[near]])
        logits = np.log((shapes[near] - 0.5) / (5 - shapes[near]))
        logits = logits - away[near] @ np.linalg.lstsq(design, logits, rcond=None)[0][1:]
        shape = 0.5 + 4.5 / (1 + np.exp(-logits))
        log_weights, moments = _of_rate(row[0], shape)
        weights = np.exp(log_weights - log_weights.max())
        weights /= weights.sum()
        rate, square = weights @ moments
        mean = weights @ shape
        means.append([rate, mean])
        deviations.append(np.sqrt([square - rate**2, weights @ (shape - mean) ** 2]))
    return np.array(means), np.array(deviations)


def _of_rate(mean: float, shape: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log density (m,) of a mean given shapes, and means and mean squares (m, 2) of the rate."""
    at_most = min(12.0, 15 / mean)  # the rate is about the shape over the mean, and the prior's deviation 2
    grid = at_most * (np.arange(800) + 0.5) / 800
    a = NUMBERS * shape[:, None]
    logs = a * np.log(NUMBERS * grid * mean) - np.log(mean) - NUMBERS * grid * mean - gammaln(a)
    logs = logs - grid**2 / 8
    highest = logs.max(axis=1, keepdims=True)
    density = np.exp(logs - highest)
    sums = density.sum(axis=1)
    moments = np.stack([density @ grid / sums, density @ grid**2 / sums], axis=1)
    return np.log(sums) + highest[:, 0], moments


def normal_moments(observed: np.ndarray, effort: float = 1.0) -> Moments:
    """On a grid: mean and deviation are all that the posterior of normal numbers depends on."""
    side = int(400 * max(effort, 0.25))
    means, deviations = [], []
    for average, spread in observed:
        places = (np.arange(side) + 0.5) / side
        mean = (average + 10 * spread * (2 * places - 1) / NUMBERS**0.5)[:, None]
        deviation = (spread * (0.5 + 1.5 * places))[None, :]
        logs = -(mean**2 + deviation**2) / 18 - NUMBERS * np.log(deviation)
        logs = logs - NUMBERS * (spread**2 + (average - mean) ** 2) / (2 * deviation**2)
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        centre = np.array([(weights * mean).sum(), (weights * deviation).sum()])
        squares = [(weights * (mean - centre[0]) ** 2).sum(), (weights * (deviation - centre[1]) ** 2).sum()]
        means.append(centre)
        deviations.append(np.sqrt(squares))
    return np.array(means), np.array(deviations)


PROBLEMS = {
    "waiting times": Problem(
        priors={"rate": ("HalfNormal", 2.0), "shape": ("Uniform", 0.5, 5.0)},
        statistics=("mean", "std", "median"),
        draw=waiting_times,
        exact=waiting_moments,
        positive=(0, 1, 2),
        unit=lambda observed: observed,
    ),
    "normal numbers": Problem(
        priors={"mean": ("Normal", 0.0, 3.0), "deviation": ("HalfNormal", 3.0)},
        statistics=("average", "spread"),
        draw=normal_numbers,
        exact=normal_moments,
        positive=(1,),
        unit=lambda observed: np.full(2, observed[1]),
    ),
}
"""README's first example, and that of the page on other packages."""
