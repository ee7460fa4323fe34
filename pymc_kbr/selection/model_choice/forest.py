"""A random forest, the rival: abcrf's way, by scikit-learn."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from pymc_kbr.selection.model_choice.rows import Rows


class Forest:
    """Shares of a forest's trees that vote for each model, half a tree added to each.

    Parameters
    ----------
    trees : int

    Attributes
    ----------
    votes_out_of_bag_ : ndarray of shape (n, models)
        For each row that was fitted, by the trees that did not see it.
    """

    def __init__(self, trees: int = 500) -> None:
        self.trees = trees

    def fit(self, rows: Rows, rng: np.random.Generator) -> Forest:
        """See `Classifier`."""
        seed = int(rng.integers(2**31))
        self._forest = RandomForestClassifier(self.trees, oob_score=True, random_state=seed)
        self._forest.fit(rows.statistics, rows.model, rows.weights)
        self.votes_out_of_bag_ = self._raised(self._forest.oob_decision_function_)
        return self

    def probabilities(self, statistics: np.ndarray) -> np.ndarray:
        """See `Classifier`."""
        return self._raised(self._forest.predict_proba(statistics))

    def _raised(self, votes: np.ndarray) -> np.ndarray:
        # That no tree votes for a model does not make it impossible.
        raised = votes * self.trees + 0.5
        return raised / raised.sum(axis=1, keepdims=True)
