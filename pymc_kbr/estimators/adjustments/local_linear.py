"""Adjustment by a linear regression on the weighted rows, as in the R package abc."""

from __future__ import annotations

import warnings
from typing import Self

import numpy as np

from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.estimators.adjustments.adjustment import Adjustment, squared_residual_logarithms
from pymc_kbr.posterior.doubt import PosteriorWarning

FARTHEST_REGRESSION = 10.0
"""Deviations of one residual by which the regression at the observation may be off without a warning."""


class LocalLinearAdjustment(Adjustment):
    """Residuals of a weighted linear regression on the rows that carry weight.

    Parameters
    ----------
    heteroscedastic : bool
        Whether residuals are also scaled by the ratio of their expected sizes there and here.

    Notes
    -----
    theta_i - b' (x_i - x), with b from least squares weighted as the rows are [1]_; heteroscedastic as in
    `KernelRidgeAdjustment`, with a second linear regression.

    References
    ----------
    .. [1] M. Beaumont, W. Zhang, D. Balding, Approximate Bayesian computation in population genetics,
       Genetics 162 (2002), 2025-2035.
    """

    streams = True

    def __init__(self, heteroscedastic: bool = False) -> None:
        self.heteroscedastic = heteroscedastic

    def fit(self, x: np.ndarray, z: np.ndarray, weights: np.ndarray | None, rng: np.random.Generator) -> Self:
        """Keep the rows."""
        self.statistics_, self.parameters_ = x, z
        return self

    def _take(self, x: np.ndarray, z: np.ndarray, fitted: np.ndarray) -> None:
        self.statistics_, self.parameters_ = x, z

    def move(self, x: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The intercept at x plus the residuals of `rows`.

        Raises
        ------
        ValueError
            If too few rows carry weight for as many slopes.

        Warns
        -----
        PosteriorWarning
            If the rows hardly vary in a direction in which the observation differs from them.
        """
        count = int(np.sum(weights > 0))
        if count < 2 * (len(x) + 1):
            raise ValueError(
                f"{count} rows carry weight and the local-linear adjustment fits {len(x) + 1} coefficients "
                "to them; take at least twice as many rows (a larger share accepted), or the adjustment "
                "'kernel_ridge', which uses all rows"
            )
        root = np.sqrt(weights)[:, None]
        # About the observation: the intercept is what is wanted there.
        design = np.hstack([np.ones((len(rows), 1)), self.statistics_[rows] - x])
        z = self.parameters_[rows]
        inverse = np.linalg.pinv(root * design)
        # The regression at the observation is a sum of the rows' parameters with these factors.
        error = float(np.linalg.norm(inverse[0] * root[:, 0]))
        if error > FARTHEST_REGRESSION:
            warnings.warn(
                f"the local-linear regression is uncertain at the observation by {error:.2g} deviations of "
                "its residuals: the statistics of the rows with weight are collinear, and the observation's "
                "are not; take fewer statistics, scale='linear_posterior_mean', or the adjustment "
                "'kernel_ridge'",
                PosteriorWarning,
                stacklevel=users_line(),
            )
        coefficients = inverse @ (root * z)
        residuals = z - design @ coefficients
        if self.heteroscedastic:
            slopes = inverse @ (root * squared_residual_logarithms(residuals))
            logs = design @ slopes
            # Beyond all rows a straight line of logarithms is of no residual any more, and soon of no float.
            here = np.clip(slopes[0], logs.min(axis=0), logs.max(axis=0))
            residuals = residuals * np.exp(0.5 * (here - logs))
        return coefficients[0] + residuals
