"""Adjustment by a kernel ridge regression on all rows."""

from __future__ import annotations

from typing import Self

import numpy as np

from pymc_kbr.estimators.adjustments.adjustment import Adjustment, squared_residual_logarithms
from pymc_kbr.regression.kernel_ridge import KernelRegression

ROWS_FOR_SPREAD, RANK_FOR_SPREAD = 400, 200
"""Rows and rank for the second regression's settings: logarithms of squares are noise, above all."""


class KernelRidgeAdjustment(Adjustment):
    """Residuals of a regression on the whole table, moved to the observation.

    Parameters
    ----------
    heteroscedastic : bool
        Whether residuals are also scaled by the ratio of their expected sizes there and here.

    Notes
    -----
    theta_i + m(x) - m_{-i}(x_i), with m the kernel ridge regression and m_{-i} the same without row i:
    residuals of fitted rows would be too small. (Those of rows that it was not fitted to are theta_i -
    m(x_i).) Heteroscedastic: m(x) + (theta_i - m_{-i}(x_i)) s(x) / s(x_i), where log s^2 is a second
    regression, on the logarithms of squared residuals [1]_.

    References
    ----------
    .. [1] M. Blum, O. François, Non-linear regression models for approximate Bayesian computation,
       Stat. Comput. 20 (2010), 63-73, eq. 7.
    """

    streams = True

    def __init__(self, heteroscedastic: bool = False) -> None:
        self.heteroscedastic = heteroscedastic

    def fit(self, x: np.ndarray, z: np.ndarray, weights: np.ndarray | None, rng: np.random.Generator) -> Self:
        """Fit the regressions."""
        return self._finish(KernelRegression(x, z, rng, weights), x, weights, rng)

    def fit_sharing(
        self,
        fitted: Adjustment,
        x: np.ndarray,
        z: np.ndarray,
        weights: np.ndarray | None,
        rng: np.random.Generator,
    ) -> Self:
        """`fit`, with the first regression of another one on the same rows."""
        if not isinstance(fitted, KernelRidgeAdjustment):
            return self.fit(x, z, weights, rng)
        return self._finish(fitted.mean_, x, weights, rng)

    def _finish(
        self, mean: KernelRegression, x: np.ndarray, weights: np.ndarray | None, rng: np.random.Generator
    ) -> Self:
        self.mean_ = mean
        self._residuals = mean.residuals
        self.leverages_capped_ = self.mean_.leverages_capped
        if self.heteroscedastic:
            logs = squared_residual_logarithms(self.mean_.residuals)
            self.spread_ = KernelRegression(x, logs, rng, weights, most=ROWS_FOR_SPREAD, rank=RANK_FOR_SPREAD)
            self._logs = logs - self.spread_.residuals  # each by the regression without that row
        return self

    def _take(self, x: np.ndarray, z: np.ndarray, fitted: np.ndarray) -> None:
        # What was fitted has its residual without itself; of others the regression knows nothing.
        known = (fitted >= 0)[:, None]
        self._residuals = np.where(known, self._residuals[fitted], z - self.mean_.predict(x))
        if self.heteroscedastic:
            self._logs = np.where(known, self._logs[fitted], self.spread_.predict(x))

    def move(self, x: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The regression at x plus the residuals of `rows`."""
        residuals = self._residuals.take(rows, axis=0)
        if self.heteroscedastic:
            residuals = residuals * np.exp(
                0.5 * (self.spread_.predict(x[None]) - self._logs.take(rows, axis=0))
            )
        return self.mean_.predict(x[None]) + residuals
