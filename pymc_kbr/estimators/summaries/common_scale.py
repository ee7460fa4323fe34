"""One unit for all statistics, as for the elements of a data set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from pymc_kbr.arrays.scaling import Scaler


@dataclass(frozen=True, eq=False)
class CommonScale(Scaler):
    """All statistics from one centre and in one unit.

    Distances between sorted draws are then those of their quantile functions, Wasserstein's of order two.
    """

    @classmethod
    def fit(cls, statistics: np.ndarray, parameters: Any = None, *, warns: bool = True) -> Self:
        """Of a table's rows (n, d): the median, or zero where all are positive, and the median distance.

        Raises
        ------
        ValueError
            If all columns are constant.

        Warns
        -----
        UserWarning
            If some columns are constant; they are dropped.
        """
        kept = Scaler.fit(statistics, scaled=False, warns=warns).kept
        values = statistics[:, kept]
        # Logarithms of positive numbers are of those that the user has, up to a factor.
        centre = 0.0 if values.min() > 0 else float(np.median(values))
        # A heavy tail leaves a median as it is; of counts it may be zero.
        unit = float(np.median(np.abs(values - centre))) or float(values.std())
        # Columns that do not vary are drawn as their centre.
        return cls(np.where(kept, centre, statistics[0]), np.where(kept, unit, 1.0), kept)
