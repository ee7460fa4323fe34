"""What an estimator makes of observations: weights of rows, or of other points."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, eq=False)
class RowWeights:
    """What an estimator makes of k observations.

    Attributes
    ----------
    values : ndarray of shape (k, m)
        Weights, of either sign.
    rows : ndarray of int, shape (k, m), optional
        Of which rows of the fitted table; of all, in their order, where left out.
    points : ndarray of shape (m, p), optional
        Where the weights are not those of rows: the parameters that they are of.
    settings : dict
        What there is to say of these observations, such as how often a ridge was raised.
    """

    values: np.ndarray
    rows: np.ndarray | None = None
    points: np.ndarray | None = None
    settings: dict[str, float] = field(default_factory=dict)

    def over(self, size: int, fitted: np.ndarray | None) -> np.ndarray:
        """Weights (k, size) of all rows that were given, of which the table has those `fitted`, or all."""
        weights = np.zeros((len(self.values), size))
        if self.rows is None:
            weights[:, slice(None) if fitted is None else fitted] = self.values
        else:
            rows = self.rows if fitted is None else fitted[self.rows]
            np.put_along_axis(weights, rows, self.values, axis=1)
        return weights
