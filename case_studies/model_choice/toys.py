"""Models with exact evidence: counts, a variance that is known or not, and nested regressions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import betaln, gammaln, logsumexp

import pymc_kbr as pk

Draws = Callable[[int, np.random.Generator], tuple[np.ndarray, np.ndarray]]
"""From a number of rows n to parameters (n, p) and data (n, size)."""


@dataclass(frozen=True)
class Toy:
    """Models of the same data.

    Parameters
    ----------
    models : dict of str to callable
    statistics : callable
        From data (n, size) to statistics (n, d).
    log_evidence : callable
        From data (k, size) to the log evidence (k, models).
    """

    models: dict[str, Draws]
    statistics: Callable[[np.ndarray], np.ndarray]
    log_evidence: Callable[[np.ndarray], np.ndarray]

    def tables(self, rows: int, rng: np.random.Generator) -> dict[str, pk.ReferenceTable]:
        """So many rows of each model."""
        found = {}
        for name, draw in self.models.items():
            parameters, data = draw(rows, rng)
            statistics = self.statistics(data)
            names = (
                [f"a{i}" for i in range(parameters.shape[1])],
                [f"s{i}" for i in range(statistics.shape[1])],
            )
            frame = pd.DataFrame(np.hstack([parameters, statistics]), columns=[*names[0], *names[1]])
            found[name] = pk.ReferenceTable.from_dataframe(
                frame, parameters=names[0], statistics=names[1], discrete=[]
            )
        return found

    def observations(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Statistics of so many data sets of each model, their models, and the exact probabilities."""
        data = np.vstack([draw(count, rng)[1] for draw in self.models.values()])
        logs = self.log_evidence(data)
        exact = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        return self.statistics(data), np.repeat(np.arange(len(self.models)), count), exact


def _counts() -> Toy:
    """Ten counts: Poisson with rate ~ Gamma(2, 1), or geometric with probability ~ Beta(2, 2)."""

    def poisson(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        rate = rng.gamma(2, 1, (n, 1))
        return rate, rng.poisson(rate, (n, 10)).astype(float)

    def geometric(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        probability = rng.beta(2, 2, (n, 1))
        return probability, rng.geometric(probability, (n, 10)) - 1.0

    def statistics(data: np.ndarray) -> np.ndarray:
        return np.column_stack([data.sum(axis=1), gammaln(data + 1).sum(axis=1)])

    def log_evidence(data: np.ndarray) -> np.ndarray:
        total, size = data.sum(axis=1), data.shape[1]
        of_poisson = gammaln(2 + total) - (2 + total) * np.log(1 + size) - gammaln(data + 1).sum(axis=1)
        of_geometric = betaln(2 + size, 2 + total) - betaln(2, 2)
        return np.column_stack([of_poisson, of_geometric])

    return Toy({"Poisson": poisson, "geometric": geometric}, statistics, log_evidence)


def _variances() -> Toy:
    """Twenty normal data of mean ~ Normal(0, 1): variance one, or variance ~ inverse Gamma(3, 3)."""

    def known(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        mean = rng.normal(size=(n, 1))
        return mean, mean + rng.normal(size=(n, 20))

    def unknown(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        variance = 1 / rng.gamma(3, 1 / 3, (n, 1))
        mean = np.sqrt(variance) * rng.normal(size=(n, 1))
        return np.hstack([mean, variance]), mean + np.sqrt(variance) * rng.normal(size=(n, 20))

    def statistics(data: np.ndarray) -> np.ndarray:
        return np.column_stack([data.mean(axis=1), data.var(axis=1)])

    def log_evidence(data: np.ndarray) -> np.ndarray:
        size = data.shape[1]
        # The mean has the data's variance, times one: sums of squares about a mean shrunk by 1 / (size + 1).
        squares = np.sum(data**2, axis=1) - data.sum(axis=1) ** 2 / (size + 1)
        constant = -0.5 * size * np.log(2 * np.pi) - 0.5 * np.log(size + 1)
        of_unknown = (
            3 * np.log(3) - gammaln(3) + gammaln(3 + size / 2) - (3 + size / 2) * np.log(3 + squares / 2)
        )
        return np.column_stack([constant - squares / 2, constant + of_unknown])

    return Toy({"known": known, "unknown": unknown}, statistics, log_evidence)


def _regressions() -> Toy:
    """Thirty data on an intercept, on one input more, or two: coefficients ~ Normal(0, .5), noise of one."""
    inputs = np.random.default_rng(7).normal(size=(30, 2))
    designs = [np.column_stack([np.ones(30), inputs[:, :k]]) for k in range(3)]

    def model(design: np.ndarray) -> Draws:
        def draw(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
            coefficients = 0.5 * rng.normal(size=(n, design.shape[1]))
            return coefficients, coefficients @ design.T + rng.normal(size=(n, 30))

        return draw

    def statistics(data: np.ndarray) -> np.ndarray:
        coefficients, residual, *_ = np.linalg.lstsq(designs[2], data.T, rcond=None)
        return np.column_stack([coefficients.T, residual])

    def log_evidence(data: np.ndarray) -> np.ndarray:
        found = []
        for design in designs:
            covariance = np.eye(30) + 0.25 * design @ design.T
            inverse, (_, log_determinant) = np.linalg.inv(covariance), np.linalg.slogdet(covariance)
            found.append(-0.5 * log_determinant - 0.5 * np.einsum("ki,ij,kj->k", data, inverse, data))
        return np.column_stack(found)

    return Toy({f"{k} inputs": model(design) for k, design in enumerate(designs)}, statistics, log_evidence)


TOYS = {
    "Poisson or geometric": _counts,
    "variance known or not": _variances,
    "nested regressions": _regressions,
}
