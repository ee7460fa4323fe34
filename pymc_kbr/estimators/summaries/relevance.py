"""Statistics stretched along the directions that inform about the parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh

from pymc_kbr.arrays.scaling import Scaler
from pymc_kbr.arrays.weighted import spread_out
from pymc_kbr.embedding.learnt_lengthscale import learn_lengthscale
from pymc_kbr.gram import pivoted_cholesky
from pymc_kbr.kernels import Gaussian, median_heuristic, parameter_kernel
from pymc_kbr.regression.choose_ridge import SCALES, choose_kernel_and_ridge

# --- shared by all summaries ---


class StatisticColumns(Protocol):
    """What knows the columns of the statistics that a summary reads."""

    @property
    def size(self) -> int:
        """Number of statistics, d."""

    @property
    def kept(self) -> np.ndarray:
        """Columns that vary, shape (d,)."""


class ByColumns:
    """A summary that reads statistics through its `scaler`."""

    scaler: StatisticColumns

    @property
    def columns(self) -> StatisticColumns:
        """What reads the statistics first."""
        return self.scaler

    @property
    def size(self) -> int:
        """Number of statistics, d."""
        return self.columns.size

    @property
    def kept(self) -> np.ndarray:
        """Columns that vary."""
        return self.columns.kept


class Estimates(ByColumns, ABC):
    """A summary that estimates the parameters by a regression, which has seen those of the table's rows."""

    fitted_on: np.ndarray
    """The table's statistics."""
    left_out: np.ndarray
    """Its rows' coordinates, each by the regression without that row."""

    @abstractmethod
    def transform(self, statistics: np.ndarray) -> np.ndarray:
        """Scaled estimates of the parameters given rows of statistics (k, d), shape (k, p)."""

    def coordinates(self, statistics: np.ndarray) -> np.ndarray:
        """As `transform`; `left_out` of the very rows that the regression was fitted on."""
        # By value, as rows are copied on the way.
        return self.left_out if np.array_equal(statistics, self.fitted_on) else self.transform(statistics)


# --- relevant directions ---


@dataclass(frozen=True, eq=False)
class Relevance(ByColumns):
    """Scaled statistics times a matrix that shortens uninformative directions."""

    # Shapes: matrix (kept statistics, kept statistics).
    # With f(x) the conditional mean embedding of the parameters, M = mean_i grad f(x_i) grad f(x_i)' is large
    # along directions in which the posterior changes (Fukumizu and Leng 2014); distances are (x - y)' M (x -
    # y). Gradients are taken again in the metric found so far: with many useless statistics the first kernel
    # is wide.
    scaler: Scaler
    matrix: np.ndarray

    @classmethod
    def fit(
        cls,
        statistics: np.ndarray,
        parameters: np.ndarray,
        *,
        # Length to which a direction is shortened, at least.
        shortest_direction: float = 0.1,
        # Rounds, each of which measures gradients in the metric of the previous one.
        metric_rounds: int = 3,
        # Bandwidths of later rounds, as multiples of the median heuristic.
        later_scales: tuple[float, float, float] = (0.5, 1.0, 2.0),
        # Rows on which gradients are measured,
        rows_for_gradients: int = 2000,
        # of so many features of the parameters.
        parameter_features: int = 50,
    ) -> Relevance:
        """Measure a table's gradients, on at most 2000 rows."""
        scaler = Scaler.fit(statistics)
        rows = spread_out(len(statistics), rows_for_gradients)
        x, theta = scaler.transform(statistics[rows]), parameters[rows]
        targets = pivoted_cholesky(parameter_kernel(theta), theta, parameter_features, 1e-3)[0]
        targets = targets - targets.mean(axis=0)
        matrix = np.eye(x.shape[1])
        scales: tuple[float, ...] = SCALES
        for _ in range(metric_rounds):
            gradients = mean_gradients(x @ matrix, targets, scales)
            scales = later_scales
            # Slopes along x times the matrix, back along x by the chain rule.
            metric = matrix @ gradients @ matrix
            values, vectors = eigh(metric)
            if not values[-1] > 0:
                break
            # The symmetric root: distances of what it maps are those in the metric.
            matrix = (vectors * np.sqrt(np.maximum(values / values[-1], 0))) @ vectors.T
        return cls(scaler, (1 - shortest_direction) * matrix + shortest_direction * np.eye(len(matrix)))

    def transform(self, statistics: np.ndarray) -> np.ndarray:
        """Rows of statistics (k, d) in the metric, shape (k, number of columns kept)."""
        return self.scaler.transform(statistics) @ self.matrix


def mean_gradients(
    x: np.ndarray,
    targets: np.ndarray,
    scales: tuple[float, ...] = SCALES,
    *,
    # Rows on which bandwidth and ridge of each round are chosen.
    rows_for_metric: int = 500,
) -> np.ndarray:
    """mean_i grad f(x_i) grad f(x_i)', shape (d, d), of a kernel ridge regression f of targets (n, t)."""
    median = median_heuristic(x)
    choice = choose_kernel_and_ridge(
        x, targets, [Gaussian(scale * median) for scale in scales], targets=targets, most=rows_for_metric
    )
    kernel = choice.kernel
    gram = kernel(x)
    regularised = gram.copy()
    regularised.flat[:: len(x) + 1] += choice.ridge
    factor = cho_factor(regularised, overwrite_a=True)
    solved, ones = cho_solve(factor, targets), cho_solve(factor, np.ones(len(x)))
    # An intercept without penalty leaves coefficients of sum zero.
    coefficients = solved - np.outer(ones, solved.sum(axis=0) / ones.sum())
    fitted = gram @ coefficients
    gradients = np.stack(
        [gram @ (column[:, None] * coefficients) - column[:, None] * fitted for column in x.T]
    )
    flat = gradients.reshape(x.shape[1], -1) / kernel.bandwidth**2  # type: ignore[attr-defined]
    return flat @ flat.T / len(x)


@dataclass(frozen=True, eq=False)
class LearntLengthscales(ByColumns):
    """Scaled statistics, each over its own lengthscale of maximum marginal likelihood."""

    # Shapes: lengthscale (kept statistics,).
    # lengthscale: In deviations of each.
    # Bayesian learning of kernel embeddings, on at most 1000 rows: see `learn_lengthscale`. The parameters
    # are not looked at, so that an uninformative statistic counts as an informative one does: "relevance" is
    # for that.
    scaler: Scaler
    lengthscale: np.ndarray

    @classmethod
    def fit(cls, statistics: np.ndarray, parameters: np.ndarray) -> LearntLengthscales:
        """Learn from a table's statistics."""
        scaler = Scaler.fit(statistics)
        learnt = learn_lengthscale(scaler.transform(statistics), separate=True)
        return cls(scaler, learnt.lengthscale)

    def transform(self, statistics: np.ndarray) -> np.ndarray:
        """Rows of statistics (k, d) over their lengthscales, shape (k, number of columns kept)."""
        return self.scaler.transform(statistics) / self.lengthscale
