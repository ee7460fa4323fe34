"""What an estimator makes of observations: weights of rows, or of other points."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, eq=False)
class RowWeights:
    """What an estimator makes of k observations."""

    # Shapes: values (k, m); rows (k, m); points (m, p).

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
