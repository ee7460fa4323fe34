"""What is asked of a regression adjustment."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator


class Adjustment(BaseEstimator):
    """Moves the atoms of simulations with other statistics to where they would be at the observation.

    Parameters live in the unconstrained space (n, q), statistics in the estimator's scale (n, d).
    """

    @abstractmethod
    def fit(self, x: np.ndarray, z: np.ndarray, weights: np.ndarray | None, rng: np.random.Generator) -> Self:
        """Learn from statistics x (n, d) and parameters z (n, q), what does not depend on an observation.

        `weights` (n,) are the density ratio of another prior, or None.
        """

    def fit_sharing(
        self,
        fitted: Adjustment,
        x: np.ndarray,
        z: np.ndarray,
        weights: np.ndarray | None,
        rng: np.random.Generator,
    ) -> Self:
        """`fit`, with what another adjustment has computed of the same rows where that helps."""
        return self.fit(x, z, weights, rng)

    @abstractmethod
    def move(self, x: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The parameters of `rows` (m,) moved to the observation x (d,), shape (m, q).

        `weights` (m,) are not negative.
        """


class NoAdjustment(Adjustment):
    """Atoms stay where they are."""

    def fit(self, x: np.ndarray, z: np.ndarray, weights: np.ndarray | None, rng: np.random.Generator) -> Self:
        """Keep the parameters."""
        self.parameters_ = z
        return self

    def move(self, x: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The parameters of `rows` as they are."""
        return self.parameters_[rows]


def squared_residual_logarithms(residuals: np.ndarray) -> np.ndarray:
    """Log r^2, bounded below at a millionth of the mean square, so that an exact fit is no outlier."""
    squares = residuals**2
    return np.log(np.maximum(squares, 1e-6 * squares.mean(axis=0) + np.finfo(float).tiny))
