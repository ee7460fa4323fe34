"""Semi-automatic statistics: regression estimates of the parameters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_kbr.regression import KernelRegression, RidgeRegression
from pymc_kbr.summaries.relevance import Relevance
from pymc_kbr.summaries.scaling import Scaler

MOST_ROWS = 10_000
"""Rows of the table on which the regression is fitted."""


@dataclass(frozen=True, eq=False)
class PosteriorMean:
    """One statistic a parameter: its conditional mean given all statistics.

    Parameters
    ----------
    relevance : Relevance
        The metric of the regression's kernel.
    regression : KernelRegression
    scaler : Scaler
        Of the predicted means.

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

    @classmethod
    def fit(cls, statistics: np.ndarray, parameters: np.ndarray) -> PosteriorMean:
        """Regress a table's parameters on its statistics."""
        relevance = Relevance.fit(statistics, parameters)
        step = max(1, len(statistics) // MOST_ROWS)
        regression = KernelRegression(
            relevance.transform(statistics[::step]), parameters[::step], np.random.default_rng(0)
        )
        predicted = regression.predict(relevance.transform(statistics))
        return cls(relevance, regression, Scaler.fit(predicted))

    @property
    def size(self) -> int:
        """Number of statistics, d."""
        return self.relevance.size

    @property
    def kept(self) -> np.ndarray:
        """Columns that vary."""
        return self.relevance.kept

    def transform(self, statistics: np.ndarray) -> np.ndarray:
        """Scaled estimates of the parameters given rows of statistics (k, d), shape (k, p)."""
        return self.scaler.transform(self.regression.predict(self.relevance.transform(statistics)))


@dataclass(frozen=True, eq=False)
class LinearPosteriorMean:
    """One statistic a parameter: its best linear estimate from all statistics.

    Parameters
    ----------
    standardise : Scaler
    centre : ndarray of shape (d,)
        Means of the scaled statistics.
    regression : RidgeRegression
    scaler : Scaler
        Of the predicted means.

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

    @classmethod
    def fit(cls, statistics: np.ndarray, parameters: np.ndarray) -> LinearPosteriorMean:
        """Regress a table's parameters on its statistics."""
        standardise = Scaler.fit(statistics)
        x = standardise.transform(statistics)
        centre = x.mean(axis=0)
        regression = RidgeRegression(x - centre, parameters)
        return cls(standardise, centre, regression, Scaler.fit(regression.predict(x - centre)))

    @property
    def size(self) -> int:
        """Number of statistics, d."""
        return self.standardise.size

    @property
    def kept(self) -> np.ndarray:
        """Columns that vary."""
        return self.standardise.kept

    def transform(self, statistics: np.ndarray) -> np.ndarray:
        """Scaled estimates of the parameters given rows of statistics (k, d), shape (k, p)."""
        x = self.standardise.transform(statistics) - self.centre
        return self.scaler.transform(self.regression.predict(x))
