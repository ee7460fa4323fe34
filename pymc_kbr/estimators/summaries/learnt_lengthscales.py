"""Statistics over the lengthscales that are learnt from them alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_kbr.arrays.scaling import Scaler
from pymc_kbr.embedding.learnt_lengthscale import learn_lengthscale
from pymc_kbr.estimators.summaries.relevance import ByColumns


@dataclass(frozen=True, eq=False)
class LearntLengthscales(ByColumns):
    """Scaled statistics, each over its own lengthscale of maximum marginal likelihood.

    Parameters
    ----------
    scaler : Scaler
    lengthscale : ndarray of shape (kept statistics,)
        In deviations of each.

    Notes
    -----
    Bayesian learning of kernel embeddings, on at most 1000 rows: see `learn_lengthscale`. The parameters are
    not looked at, so that a statistic which says nothing of them is not told from one that does: "relevance"
    is for that.
    """

    scaler: Scaler
    lengthscale: np.ndarray

    @classmethod
    def fit(cls, statistics: np.ndarray, parameters: np.ndarray) -> LearntLengthscales:
        """Learn from a table's statistics."""
        scaler = Scaler.fit(statistics)
        learnt = learn_lengthscale(scaler.transform(statistics), separate=True)
        return cls(scaler, learnt.lengthscale)

    def transform(self, statistics: np.ndarray) -> np.ndarray:
        """Rows of statistics (k, d) over their lengthscales, shape (k, number of columns kept)."""
        return self.scaler.transform(statistics) / self.lengthscale
