"""Three problems of other projects' issue trackers, with exact posteriors on a grid."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pymc as pm
from scipy.signal import lfilter

Generator = np.random.Generator
Simulator = Callable[[Generator, np.ndarray], np.ndarray]

POINTS = 4096
"""Of a series."""

WAITS = 20
"""Exponential numbers, of which the mean is observed."""

STATISTICS = 100
"""Of the third problem; a group of ten shares half of its noise's variance."""


@dataclass(frozen=True)
class Asked:
    """A prior, a simulator of raw data, what users make of these, and the exact posterior.

    Parameters
    ----------
    prior : callable
        Registers the parameters in the PyMC model around it and returns them in order.
    draw_prior : callable
        ``draw_prior(rng, n)``, an array (n, p).
    data : callable
        ``data(rng, parameters (n, p))``, raw data (n, points).
    statistics : mapping of str to callable
        Of raw data (n, points), arrays (n, d), by what they are called; the last are those for `sample_smc`.
    log_density : callable
        ``log_density(grid (g, p), one data set (points,))``, the posterior's at the grid, an array (g,).
    grid : ndarray of shape (g, p)
    bounds : mapping of str to tuple
        Of the parameters, for tables.
    tolerance : float
        Of rejection and of the regression on the nearest rows.
    simulations : int
        Rows of the table.
    divided : bool
        Whether `sample_smc` gets statistics over their prior predictive deviations.
    """

    prior: Callable[[], list]
    draw_prior: Callable[[Generator, int], np.ndarray]
    data: Simulator
    statistics: Mapping[str, Callable[[np.ndarray], np.ndarray]]
    log_density: Callable[[np.ndarray, np.ndarray], np.ndarray]
    grid: np.ndarray
    bounds: Mapping[str, tuple[float | None, float | None]]
    tolerance: float
    simulations: int
    divided: bool = True

    def exact(self, data: np.ndarray) -> np.ndarray:
        """Posterior weights of the grid's points given one data set, of sum one; (g,)."""
        logs = self.log_density(self.grid, data)
        weights = np.exp(logs - logs.max())
        return weights / weights.sum()

    def unit(self, rng: Generator) -> np.ndarray:
        """What `sample_smc` divides statistics by, (d,)."""
        found = list(self.statistics.values())[-1](self.data(rng, self.draw_prior(rng, 1000)))
        return found.std(axis=0) if self.divided else np.ones(found.shape[1])

    def model(self, observed: np.ndarray, unit: np.ndarray, epsilon: float) -> pm.Model:
        """The PyMC model whose distance is that of the last statistics (d,) over `unit` (d,)."""
        summarised = list(self.statistics.values())[-1]

        def scaled(rng: Generator, *passed: object) -> np.ndarray:
            parameters = np.array([[np.asarray(one).item() for one in passed[:-1]]])  # the size comes last
            return summarised(self.data(rng, parameters))[0] / unit

        with pm.Model() as model:
            pm.Simulator("x", scaled, *self.prior(), epsilon=epsilon, observed=observed / unit)
        return model


def series(rng: Generator, parameters: np.ndarray) -> np.ndarray:
    """An autoregression of order one, from zero; (n, 4096)."""
    noise = rng.standard_normal((len(parameters), POINTS))
    return np.stack([lfilter([1.0], [1.0, -phi], e) for phi, e in zip(parameters[:, 0], noise, strict=True)])


def autocovariances(data: np.ndarray) -> np.ndarray:
    """Of lags zero to three; (n, 4)."""
    return np.stack([(data[:, lag:] * data[:, : POINTS - lag]).mean(axis=1) for lag in range(4)], axis=1)


def of_series(grid: np.ndarray, data: np.ndarray) -> np.ndarray:
    """Log posterior of an autoregression under a uniform prior; (g,)."""
    before, after = data[:-1], data[1:]
    return grid[:, 0] * (before @ after) - grid[:, 0] ** 2 * (before @ before) / 2


def of_waits(grid: np.ndarray, data: np.ndarray) -> np.ndarray:
    """Log posterior of exponential numbers by their mean on a grid that is regular in logarithms; (g,)."""
    logs = np.log(grid[:, 0])
    return -WAITS * (logs + data.mean() / grid[:, 0]) - (logs / 3) ** 2 / 2


def _hundred() -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (3, 100) of both parameters and their product, and a root of the noise's covariance."""
    rng = np.random.default_rng(20261125)
    groups = np.kron(np.eye(STATISTICS // 10), np.ones((10, 10)))
    return rng.normal(size=(3, STATISTICS)), 6 * np.linalg.cholesky((groups + np.eye(STATISTICS)) / 2)


COEFFICIENTS, ROOT = _hundred()


def _mean(parameters: np.ndarray) -> np.ndarray:
    a, b = parameters.T
    return np.column_stack([a, b, a * b]) @ COEFFICIENTS


def hundred(rng: Generator, parameters: np.ndarray) -> np.ndarray:
    """A hundred statistics of two parameters and of their product, under correlated noise; (n, 100)."""
    return _mean(parameters) + rng.standard_normal((len(parameters), STATISTICS)) @ ROOT.T


def of_hundred(grid: np.ndarray, data: np.ndarray) -> np.ndarray:
    """Log posterior given the hundred statistics; (g,)."""
    apart = np.linalg.solve(ROOT, (data - _mean(grid)).T)
    return -0.5 * (apart**2).sum(axis=0) - 0.5 * (grid**2).sum(axis=1)


def _square() -> np.ndarray:
    side = np.linspace(-4, 4, 321)
    return np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)


ASKED = {
    "4,096 points": Asked(
        lambda: [pm.Uniform("phi", -0.95, 0.95)],
        lambda rng, n: rng.uniform(-0.95, 0.95, (n, 1)),
        series,
        {"raw series": lambda data: data, "autocovariances": autocovariances},
        of_series,
        np.linspace(-0.95, 0.95, 20_001)[:, None],
        {"phi": (-0.95, 0.95)},
        0.05,
        2000,
    ),
    "exponential": Asked(
        lambda: [pm.LogNormal("scale", 0, 3)],
        lambda rng, n: np.exp(rng.normal(0, 3, (n, 1))),
        lambda rng, parameters: parameters * rng.standard_exponential((len(parameters), WAITS)),
        {"mean": lambda data: data.mean(axis=1, keepdims=True)},
        of_waits,
        np.exp(np.linspace(-18, 18, 24_001))[:, None],
        {"scale": (0, None)},
        0.05,
        2000,
        divided=False,  # these deviations are those of the few largest
    ),
    "a hundred statistics": Asked(
        lambda: [pm.Normal("a", 0, 1), pm.Normal("b", 0, 1)],
        lambda rng, n: rng.standard_normal((n, 2)),
        hundred,
        {"statistics": lambda data: data},
        of_hundred,
        _square(),
        {"a": (None, None), "b": (None, None)},
        0.25,  # twice as many rows as the regression has coefficients
        1000,
    ),
}
"""By the names of asked.csv."""
