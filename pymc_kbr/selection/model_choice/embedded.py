"""The kernel conditional mean of the model's index: one more parameter of the same machinery."""

from __future__ import annotations

import numpy as np

from pymc_kbr.arrays.support import Block, Support
from pymc_kbr.estimators import ConditionalMean
from pymc_kbr.selection.model_choice.rows import Rows

SMALLEST_PROBABILITY = 1e-3
"""Probability that a model keeps where the regression says less."""


class EmbeddedIndex:
    """Kernel ridge regression of each model's indicator on the statistics.

    Its values can lie outside of [0, 1]; what lies below `SMALLEST_PROBABILITY` is raised to it, and the row
    divided by its sum. `raised_` is the share of values for which that was so at the last call.
    """

    def fit(self, rows: Rows, rng: np.random.Generator) -> EmbeddedIndex:
        """See `Classifier`."""
        self._told = np.eye(rows.models)[rows.model]
        self._curves = rows.curves
        self._mean = ConditionalMean(solver="nystroem")
        x = self._curves.transform(rows.statistics)
        others = rows.models - 1
        # Discrete, or rows of data that are counts would be warned of as copies.
        index = Support(others, (Block(tuple(range(others)), smooth=False),))
        self._mean.fit(self._told[:, 1:], x, index, ratio=rows.weights, random_seed=rng)
        return self

    def probabilities(self, statistics: np.ndarray) -> np.ndarray:
        """See `Classifier`."""
        found = self._mean.weights(self._curves.transform(statistics)) @ self._told
        self.raised_ = float(np.mean(found < SMALLEST_PROBABILITY))
        raised = np.maximum(found, SMALLEST_PROBABILITY)  # signed weights may leave a model less than nothing
        return raised / raised.sum(axis=1, keepdims=True)
