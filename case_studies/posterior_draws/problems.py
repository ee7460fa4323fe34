"""Two benchmark problems whose posteriors can be drawn exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold, cross_val_score
from sklearn.neural_network import MLPClassifier

import pymc_kbr as pk


@dataclass(frozen=True)
class Problem:
    """A prior, a simulator and its exact posterior.

    Parameters
    ----------
    size : int
        Number of parameters.
    prior : callable
        From a generator and a number to parameters (n, p).
    simulator : callable
        From a generator and parameters (n, p) to statistics (n, d).
    posterior : callable
        From a generator, an observation (d,) and a number to exact draws (n, p).
    bounds : tuple of float, optional
        Of every parameter.
    """

    size: int
    prior: Callable[[np.random.Generator, int], np.ndarray]
    simulator: Callable[[np.random.Generator, np.ndarray], np.ndarray]
    posterior: Callable[[np.random.Generator, np.ndarray, int], np.ndarray]
    bounds: tuple[float, float] | None = None

    def table(self, n: int, rng: np.random.Generator) -> pk.ReferenceTable:
        """A reference table of n rows."""
        theta = self.prior(rng, n)
        x = self.simulator(rng, theta)
        names = [f"theta_{i}" for i in range(theta.shape[1])]
        statistics = [f"x_{i}" for i in range(x.shape[1])]
        return pk.ReferenceTable.from_dataframe(
            pd.DataFrame(np.hstack([theta, x]), columns=[*names, *statistics]),
            parameters=names,
            statistics=statistics,
            bounds=None if self.bounds is None else dict.fromkeys(names, self.bounds),
        )


def crescent(rng: np.random.Generator, n: int) -> np.ndarray:
    """Points of the moons' noise, shape (n, 2)."""
    angle, radius = rng.uniform(-np.pi / 2, np.pi / 2, n), rng.normal(0.1, 0.01, n)
    return np.column_stack([radius * np.cos(angle) + 0.25, radius * np.sin(angle)])


def moons_simulator(rng: np.random.Generator, theta: np.ndarray) -> np.ndarray:
    """The noise, shifted by what the parameters decide up to a sign."""
    shift = np.column_stack([-np.abs(theta.sum(axis=1)), theta[:, 1] - theta[:, 0]]) / np.sqrt(2)
    return crescent(rng, len(theta)) + shift


def moons_posterior(rng: np.random.Generator, observed: np.ndarray, n: int) -> np.ndarray:
    """Exact draws: given the noise p, p - x gives the parameters but for a sign; the Jacobian is constant."""
    drawn: list[np.ndarray] = []
    while sum(map(len, drawn)) < n:
        apart = crescent(rng, n) - observed
        total, difference = rng.choice([-1.0, 1.0], n) * apart[:, 0], -apart[:, 1]
        theta = np.column_stack([total - difference, total + difference]) / np.sqrt(2)
        drawn.append(theta[(apart[:, 0] >= 0) & np.all(np.abs(theta) <= 1, axis=1)])
    return np.vstack(drawn)[:n]


TWO_MOONS = Problem(
    2, lambda rng, n: rng.uniform(-1, 1, (n, 2)), moons_simulator, moons_posterior, bounds=(-1, 1)
)
GAUSSIAN_LINEAR = Problem(
    10,
    lambda rng, n: rng.normal(0, np.sqrt(0.1), (n, 10)),
    lambda rng, theta: theta + rng.normal(0, np.sqrt(0.1), theta.shape),
    lambda rng, observed, n: observed / 2 + rng.normal(0, np.sqrt(0.05), (n, 10)),
)
PROBLEMS = {"gaussian_linear": GAUSSIAN_LINEAR, "two_moons": TWO_MOONS}


def c2st(draws: np.ndarray, exact: np.ndarray, random_seed: int = 1) -> float:
    """Classifier two-sample test: accuracy of telling draws from exact ones; 0.5 is perfect.

    A network of two hidden layers of 10 p units, 5-fold cross-validation.
    """
    p = draws.shape[1]
    points = np.vstack([draws, exact])
    points = (points - exact.mean(axis=0)) / exact.std(axis=0)
    labels = np.repeat([0, 1], [len(draws), len(exact)])
    network = MLPClassifier((10 * p, 10 * p), max_iter=1000, random_state=random_seed)
    folds = KFold(5, shuffle=True, random_state=random_seed)
    return float(cross_val_score(network, points, labels, cv=folds, scoring="accuracy").mean())
