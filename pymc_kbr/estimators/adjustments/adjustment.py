"""What is asked of a regression adjustment."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator


class Adjustment(BaseEstimator):
    """Moves the atoms of simulations with other statistics to where they would be at the observation.

    Parameters live in the unconstrained space (n, q), statistics in the estimator's scale (n, d). An
    adjustment that `streams` can be fitted to some rows of a table and move others.
    """

    streams = False

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

    def for_rows(self, x: np.ndarray, z: np.ndarray, fitted: np.ndarray) -> Self:
        """The fitted adjustment for other rows.

        Parameters
        ----------
        x, z : ndarray of shape (m, d) and (m, q)
        fitted : ndarray of int, shape (m,)
            Their numbers among the rows that it was fitted to; -1 for those it was not.
        """
        other = copy(self)
        other._take(x, z, fitted)
        return other

    def _take(self, x: np.ndarray, z: np.ndarray, fitted: np.ndarray) -> None:
        """Put rows in the place of the fitted ones, where an adjustment `streams`."""
        raise TypeError(
            f"{type(self).__name__} moves the rows that it was fitted to, and no others; take "
            "'local_linear' or "
            "'kernel_ridge' for rows that are read a part at a time"
        )

    @abstractmethod
    def move(self, x: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The parameters of `rows` (m,) moved to the observation x (d,), shape (m, q).

        `weights` (m,) are not negative.
        """


class NoAdjustment(Adjustment):
    """Atoms stay where they are."""

    streams = True

    def fit(self, x: np.ndarray, z: np.ndarray, weights: np.ndarray | None, rng: np.random.Generator) -> Self:
        """Keep the parameters."""
        self.parameters_ = z
        return self

    def _take(self, x: np.ndarray, z: np.ndarray, fitted: np.ndarray) -> None:
        self.parameters_ = z

    def move(self, x: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The parameters of `rows` as they are."""
        return self.parameters_[rows]


def squared_residual_logarithms(residuals: np.ndarray) -> np.ndarray:
    """Log r^2, bounded below at a millionth of the mean square, so that an exact fit is no outlier."""
    squares = residuals**2
    return np.log(np.maximum(squares, 1e-6 * squares.mean(axis=0) + np.finfo(float).tiny))
