"""Semi-automatic statistics from curves of each statistic: for raw and for sorted data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from pymc_kbr.arrays.scaling import Scaler
from pymc_kbr.estimators.summaries.of_table import Estimates, StatisticColumns
from pymc_kbr.estimators.summaries.posterior_mean import LinearPosteriorMean

QUANTILES = 199
"""Of each statistic, between which its normal scores are interpolated."""

DEGREE = 3
"""Of the polynomials of normal scores."""


@dataclass(frozen=True, eq=False)
class Curves:
    """Each statistic in its deviations, and Hermite polynomials of its normal scores.

    Parameters
    ----------
    standardise : Scaler
    quantiles : ndarray of shape (q, d)
        Of each statistic that varies.
    scores : ndarray of shape (q,)
        Normal scores of the quantiles.
    """

    standardise: Scaler
    quantiles: np.ndarray
    scores: np.ndarray

    @classmethod
    def fit(cls, statistics: np.ndarray) -> Curves:
        """Of a table's statistics (n, d)."""
        standardise = Scaler.fit(statistics)
        levels = (np.arange(QUANTILES) + 0.5) / QUANTILES
        return cls(standardise, np.quantile(statistics[:, standardise.kept], levels, axis=0), ndtri(levels))

    def normal_scores(self, statistics: np.ndarray) -> np.ndarray:
        """Of rows of statistics (k, d), shape (k, q); beyond the table those of its ends."""
        kept = statistics[:, self.standardise.kept]
        columns = zip(kept.T, self.quantiles.T, strict=True)
        return np.column_stack([np.interp(x, of_x, self.scores) for x, of_x in columns])

    def transform(self, statistics: np.ndarray) -> np.ndarray:
        """Rows of statistics (k, d), and polynomials of their normal scores: (k, q (1 + degree))."""
        z = self.normal_scores(statistics)
        polynomials, before = [z], np.ones_like(z)
        for degree in range(1, DEGREE):  # He_{k + 1}(z) = z He_k(z) - k He_{k - 1}(z)
            polynomials.append(z * polynomials[-1] - degree * before)
            before = polynomials[-2]
        return np.hstack([self.standardise.transform(statistics), *polynomials])


@dataclass(frozen=True, eq=False)
class CurvedPosteriorMean(Estimates):
    """One statistic a parameter: its best linear estimate from all statistics and curves of each.

    Parameters
    ----------
    curves : Curves
    regression : LinearPosteriorMean
        Of the parameters on the curves.
    fitted_on : ndarray of shape (n, d)
        The table's statistics.
    left_out : ndarray of shape (n, p)
        Its rows' coordinates, each by the regression without that row.

    Notes
    -----
    Section 3 of [1]_ regresses on powers of the data up to the fourth. Powers of heavy-tailed data are those
    of a few rows; here they are Hermite polynomials of each statistic's normal scores, which are bounded,
    beside the statistic itself. A spread or a shape of raw data is linear in such curves, not in the data.

    References
    ----------
    .. [1] P. Fearnhead, D. Prangle, Constructing summary statistics for approximate Bayesian computation:
       semi-automatic approximate Bayesian computation, J. R. Statist. Soc. B 74 (2012), 419-474.
    """

    curves: Curves
    regression: LinearPosteriorMean
    fitted_on: np.ndarray
    left_out: np.ndarray

    @classmethod
    def fit(cls, statistics: np.ndarray, parameters: np.ndarray) -> CurvedPosteriorMean:
        """Regress a table's parameters on curves of its statistics."""
        curves = Curves.fit(statistics)
        # Of constant curves: of constant statistics there was a warning.
        regression = LinearPosteriorMean.fit(curves.transform(statistics), parameters, warns=False)
        return cls(curves, regression, statistics, regression.left_out)

    @property
    def columns(self) -> StatisticColumns:
        """What reads the statistics first."""
        return self.curves.standardise

    def transform(self, statistics: np.ndarray) -> np.ndarray:
        """Scaled estimates of the parameters given rows of statistics (k, d), shape (k, p)."""
        return self.regression.transform(self.curves.transform(statistics))
