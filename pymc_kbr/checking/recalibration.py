"""Draws corrected by what a calibration has found, where the prior's support lets them be."""

from __future__ import annotations

import numpy as np

from pymc_kbr.checking.calibration import Calibration
from pymc_kbr.tables.reference_table import ReferenceTable

MOST_HALVINGS = 30
"""Of a draw's way to where recalibration moves it; then it stays, but for a thousand millionth of the way."""


def recalibrated(
    draws: np.ndarray, calibration: Calibration, table: ReferenceTable
) -> tuple[np.ndarray, float]:
    """Draws (m, p), recalibrated as by `Calibration.recalibrated`, and the share that is moved less far.

    Each parameter is moved by itself. Where the support ties parameters to each other, as in a correlation
    matrix, or has gaps, a draw that would leave it goes half as far, or a quarter, and so on. Parameters that
    lie on a surface, such as shares that sum to one, cannot be moved by themselves, and stay.

    Raises
    ------
    ValueError
        If the calibration is of other parameters, or all of them lie on a surface.
    """
    if calibration.names != table.parameter_names:
        raise ValueError(
            f"the calibration is of the parameters {calibration.names}; the table has {table.parameter_names}"
        )
    moved, support = calibration.recalibrated(draws), table.support
    parts = zip(support.blocks, support.parts(), strict=True)
    tied = [column for block, free in parts if len(free) < len(block.columns) for column in block.columns]
    if len(tied) == support.size:
        raise ValueError(
            f"the parameters {calibration.names} lie on a surface, as shares that sum to one do, and "
            "recalibration moves each by itself; leave it out"
        )
    moved[:, tied] = draws[:, tied]
    whole = np.flatnonzero([v.discrete for v in table.parameter_columns.variables for _ in range(v.size)])
    for column in whole:  # between two whole numbers a quantile is none
        moved[:, column] = _nearest(np.unique(draws[:, column]), moved[:, column])
    outside = np.flatnonzero(~support.allows(moved))
    share = len(outside) / len(draws)
    moved[np.ix_(outside, whole)] = draws[np.ix_(outside, whole)]
    for halving in range(MOST_HALVINGS):
        if not len(outside):
            return moved, share
        if halving:
            moved[outside] = (moved[outside] + draws[outside]) / 2
        outside = outside[~support.allows(moved[outside])]
    moved[outside] = draws[outside]
    return moved, share


def _nearest(values: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The nearest of rising values (v,) to each of points (m,)."""
    nearest: np.ndarray = values[np.searchsorted((values[1:] + values[:-1]) / 2, points)]
    return nearest
