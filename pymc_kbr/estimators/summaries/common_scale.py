"""One unit for all statistics, as for the elements of a data set."""

from __future__ import annotations

import numpy as np

from pymc_kbr.arrays.scaling import Scaler


class CommonScale:
    """All statistics in units of one deviation, from one centre: zero where all are positive."""

    @classmethod
    def fit(cls, statistics: np.ndarray, parameters: np.ndarray | None = None) -> Scaler:
        """The scaler of a table's rows (n, d).

        Notes
        -----
        Distances between sorted draws are then those of their quantile functions, Wasserstein's of order two.
        The unit is a median distance, which a heavy tail leaves as it is.
        """
        own = Scaler.fit(statistics, scaled=False)
        values = statistics[:, own.kept]
        centre = 0.0 if values.min() > 0 else float(np.median(values))
        unit = float(np.median(np.abs(values - centre))) or float(values.std())
        size = own.size
        return Scaler(np.full(size, centre), np.where(own.kept, unit, 1.0), own.kept)
