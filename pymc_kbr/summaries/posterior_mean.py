"""Semi-automatic statistics: regression estimates of the parameters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_kbr.regression import KernelRegression
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
