"""Draws corrected by what a calibration has found, where the prior's support lets them be."""

from __future__ import annotations

import numpy as np

from pymc_kbr.checking.calibration import Calibration
from pymc_kbr.tables.reference_table import ReferenceTable


def recalibrated(draws: np.ndarray, calibration: Calibration, table: ReferenceTable) -> np.ndarray:
    """Draws (m, p), recalibrated as by `Calibration.recalibrated`.

    Raises
    ------
    ValueError
        If the calibration is of other parameters, or the support does not let each be moved by itself.
    """
    if calibration.names != table.parameter_names:
        raise ValueError(
            f"the calibration is of the parameters {calibration.names}; the table has {table.parameter_names}"
        )
    moved = calibration.recalibrated(draws)
    whole = [v.discrete for v in table.parameter_columns.variables for _ in range(v.size)]
    for column in np.flatnonzero(whole):  # between two whole numbers a quantile is none
        moved[:, column] = _nearest(np.unique(draws[:, column]), moved[:, column])
    outside = ~table.support.allows(moved)
    if np.any(outside):
        raise ValueError(
            f"{outside.mean():.1%} of the recalibrated draws lie outside the prior's support, which has "
            "gaps or ties parameters to each other; recalibration moves each by itself: leave it out"
        )
    return moved


def _nearest(values: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The nearest of rising values (v,) to each of points (m,)."""
    nearest: np.ndarray = values[np.searchsorted((values[1:] + values[:-1]) / 2, points)]
    return nearest
