"""From a table's statistics to the coordinates in which distances between them are measured."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from pymc_kbr.arrays.scaling import Scaler
from pymc_kbr.estimators.summaries.learnt_lengthscales import LearntLengthscales
from pymc_kbr.estimators.summaries.posterior_mean import LinearPosteriorMean, PosteriorMean
from pymc_kbr.estimators.summaries.relevance import Relevance
from pymc_kbr.estimators.summaries.transformed import Transformed


class Summary(Protocol):
    """A map of statistics, fitted to a table."""

    @property
    def size(self) -> int:
        """Number of statistics, d."""

    @property
    def kept(self) -> np.ndarray:
        """Which statistics vary in the table, shape (d,)."""

    def transform(self, statistics: np.ndarray) -> np.ndarray:
        """Rows of statistics (k, d) as coordinates (k, q)."""


def coordinates(summary: Summary, statistics: np.ndarray) -> np.ndarray:
    """A table's rows (n, d) as an estimator uses them, (n, q): see `posterior_mean`."""
    of_table = getattr(summary, "coordinates", summary.transform)
    return of_table(statistics)


SUMMARIES: dict[str, Any] = {
    "relevance": Relevance,
    "posterior_mean": PosteriorMean,
    "linear_posterior_mean": LinearPosteriorMean,
    "transformed": Transformed,
    "bayesian": LearntLengthscales,
}
"""The name of each summary that is learnt from parameters and statistics."""


def check_scale(scale: Any) -> None:
    """Refuse what is neither True, False, the name of a summary nor a fitted one."""
    if isinstance(scale, bool | np.bool_) or (isinstance(scale, str) and scale in SUMMARIES):
        return
    if isinstance(scale, str) or not hasattr(scale, "transform"):
        raise ValueError(
            f"scale is {scale!r}; it may be True, False, {', '.join(map(repr, SUMMARIES))}, or a fitted "
            "summary"
        )


def make_summary(scale: Any, statistics: np.ndarray, parameters: np.ndarray) -> Summary:
    """The summary that an estimator's argument `scale` asks for, fitted to a table.

    Parameters
    ----------
    scale : bool, str or Summary
        True for standard deviations, False for the statistics' own units, a name of `SUMMARIES`, or a
        summary that was fitted before.
    statistics : ndarray of shape (n, d)
    parameters : ndarray of shape (n, p)

    Raises
    ------
    ValueError
        If there is no summary of that name, or a fitted one is of another number of statistics.
    """
    if isinstance(scale, bool | np.bool_):
        return Scaler.fit(statistics, bool(scale))
    if isinstance(scale, str):
        return SUMMARIES[scale].fit(statistics, parameters)
    if scale.size != statistics.shape[1]:
        raise ValueError(
            f"the summary given as scale was fitted on {scale.size} statistics; there are "
            f"{statistics.shape[1]}"
        )
    return scale


__all__ = [
    "SUMMARIES",
    "LearntLengthscales",
    "LinearPosteriorMean",
    "PosteriorMean",
    "Relevance",
    "Scaler",
    "Summary",
    "Transformed",
    "check_scale",
    "coordinates",
    "make_summary",
]
