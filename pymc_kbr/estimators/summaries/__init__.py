"""From a table's statistics to the coordinates in which distances between them are measured."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from pymc_kbr.arrays.refusals import shown
from pymc_kbr.arrays.scaling import Scaler
from pymc_kbr.estimators.summaries.neural_features import LearntFeatures, NeuralFeatures
from pymc_kbr.estimators.summaries.posterior_mean import (
    CurvedPosteriorMean,
    JointPosteriorMean,
    LinearPosteriorMean,
    PosteriorMean,
)
from pymc_kbr.estimators.summaries.relevance import LearntLengthscales, Relevance
from pymc_kbr.estimators.summaries.transformed import CommonScale, Dependent, Transformed


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
    "curved_posterior_mean": CurvedPosteriorMean,
    "joint_posterior_mean": JointPosteriorMean,
    "transformed": Transformed,
    "common": CommonScale,
    "dependent": Dependent,
    "bayesian": LearntLengthscales,
}
"""The name of each summary that is learnt from parameters and statistics."""


def is_fitted(scale: Any) -> bool:
    """Whether a summary was fitted before: it is then taken as it is."""
    return not isinstance(scale, bool | np.bool_ | str) and hasattr(scale, "transform")


def check_scale(scale: Any, name: str = "scale") -> None:
    """Refuse what is neither True, False, the name of a summary, one to be fitted nor a fitted one."""
    if isinstance(scale, bool | np.bool_) or (isinstance(scale, str) and scale in SUMMARIES):
        return
    if isinstance(scale, str | type) or not (hasattr(scale, "transform") or hasattr(scale, "fit")):
        raise ValueError(
            f"{name} is {shown(scale)}; it may be True, False, {', '.join(map(repr, SUMMARIES))}, a "
            "summary such as NeuralFeatures(), or a fitted summary"
        )


def make_summary(
    scale: Any, statistics: np.ndarray, parameters: np.ndarray, lowest: np.ndarray | None = None
) -> Summary:
    """The summary that an estimator's argument `scale` asks for, fitted to a table."""
    # Shapes: statistics (n, d); parameters (n, p); lowest (d,), or None.
    # scale: True for standard deviations, False for the statistics' own units, a name of `SUMMARIES`, a value
    # that fits one, or a summary that was fitted before.
    # lowest: Of the statistics in other rows: logarithms and roots are taken of those that have some there,
    # too.
    if isinstance(scale, bool | np.bool_):
        return Scaler.fit(statistics, bool(scale))
    if isinstance(scale, str):
        kind = SUMMARIES[scale]
        reach = {"lowest": lowest} if kind in (Transformed, Dependent) else {}
        return kind.fit(statistics, parameters, **reach)
    if not is_fitted(scale):
        return scale.fit(statistics, parameters)
    if scale.size != statistics.shape[1]:
        raise ValueError(
            f"the summary given as scale was fitted on {scale.size} statistics; there are "
            f"{statistics.shape[1]}"
        )
    return scale


__all__ = [
    "SUMMARIES",
    "Dependent",
    "LearntFeatures",
    "LearntLengthscales",
    "LinearPosteriorMean",
    "NeuralFeatures",
    "PosteriorMean",
    "Relevance",
    "Scaler",
    "Summary",
    "Transformed",
    "check_scale",
    "coordinates",
    "is_fitted",
    "make_summary",
]
