"""Semi-automatic statistics: regression estimates of the parameters.

Of the rows that a regression was fitted on it knows the parameters, so that their own estimates are nearer to
them than those of an observation will be. Where estimators use these rows, each has the estimate of the
regression without it; otherwise posteriors come out too narrow, the more statistics there are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_kbr.arrays.scaling import Scaler
from pymc_kbr.estimators.summaries.of_table import Estimates, StatisticColumns
from pymc_kbr.estimators.summaries.relevance import Relevance
from pymc_kbr.regression.kernel_ridge import KernelRegression
from pymc_kbr.regression.ridge import RidgeRegression

ROWS_FOR_POSTERIOR_MEAN = 10_000
"""Rows of the table on which the regression is fitted."""


@dataclass(frozen=True, eq=False)
class PosteriorMean(Estimates):
    """One statistic a parameter: its conditional mean given all statistics.

    Parameters
    ----------
    relevance : Relevance
        The metric of the regression's kernel.
    regression : KernelRegression
    scaler : Scaler
        Of the predicted means.
    fitted_on : ndarray of shape (n, d)
        The table's statistics.
    left_out : ndarray of shape (n, p)
        Its rows' coordinates, each by the regression without that row.

    Notes
    -----
    The posterior mean is the best statistic of p dimensions for estimating the parameters under squared
    loss; it is estimated by regression on the table, here by kernel ridge regression in the metric of
    `Relevance` instead of the linear one of [1]_, section 3.

    References
    ----------
    .. [1] P. Fearnhead, D. Prangle, Constructing summary statistics for approximate Bayesian computation:
       semi-automatic approximate Bayesian computation, J. R. Statist. Soc. B 74 (2012), 419-474.
    """

    relevance: Relevance
    regression: KernelRegression
    scaler: Scaler
    fitted_on: np.ndarray
    left_out: np.ndarray

    @classmethod
    def fit(cls, statistics: np.ndarray, parameters: np.ndarray) -> PosteriorMean:
        """Regress a table's parameters on its statistics."""
        relevance = Relevance.fit(statistics, parameters)
        step = max(1, len(statistics) // ROWS_FOR_POSTERIOR_MEAN)
        regression = KernelRegression(
            relevance.transform(statistics[::step]), parameters[::step], np.random.default_rng(0)
        )
        predicted = regression.predict(relevance.transform(statistics))
        predicted[::step] = regression.estimates  # without the row itself
        scaler = Scaler.fit(predicted)
        return cls(relevance, regression, scaler, statistics, scaler.transform(predicted))

    @property
    def columns(self) -> StatisticColumns:
        """What reads the statistics first."""
        return self.relevance

    def transform(self, statistics: np.ndarray) -> np.ndarray:
        """Scaled estimates of the parameters given rows of statistics (k, d), shape (k, p)."""
        return self.scaler.transform(self.regression.predict(self.relevance.transform(statistics)))


@dataclass(frozen=True, eq=False)
class LinearPosteriorMean(Estimates):
    """One statistic a parameter: its best linear estimate from all statistics.

    Parameters
    ----------
    standardise : Scaler
    centre : ndarray of shape (d,)
        Means of the scaled statistics.
    regression : RidgeRegression
    scaler : Scaler
        Of the predicted means.
    fitted_on : ndarray of shape (n, d)
        The table's statistics.
    left_out : ndarray of shape (n, p)
        Its rows' coordinates, each by the regression without that row.

    Notes
    -----
    Section 3 of [1]_, with a ridge: for hundreds of statistics, where it takes a second and `PosteriorMean` a
    minute.

    References
    ----------
    .. [1] P. Fearnhead, D. Prangle, Constructing summary statistics for approximate Bayesian computation:
       semi-automatic approximate Bayesian computation, J. R. Statist. Soc. B 74 (2012), 419-474.
    """

    standardise: Scaler
    centre: np.ndarray
    regression: RidgeRegression
    scaler: Scaler
    fitted_on: np.ndarray
    left_out: np.ndarray

    @classmethod
    def fit(
        cls, statistics: np.ndarray, parameters: np.ndarray, *, warns: bool = True
    ) -> LinearPosteriorMean:
        """Regress a table's parameters on its statistics."""
        standardise = Scaler.fit(statistics, warns=warns)
        x = standardise.transform(statistics)
        centre = x.mean(axis=0)
        regression = RidgeRegression(x - centre, parameters)
        scaler = Scaler.fit(regression.estimates, warns=warns)
        left_out = scaler.transform(regression.estimates)
        return cls(standardise, centre, regression, scaler, statistics, left_out)

    @property
    def columns(self) -> StatisticColumns:
        """What reads the statistics first."""
        return self.standardise

    def transform(self, statistics: np.ndarray) -> np.ndarray:
        """Scaled estimates of the parameters given rows of statistics (k, d), shape (k, p)."""
        x = self.standardise.transform(statistics) - self.centre
        return self.scaler.transform(self.regression.predict(x))
