"""What estimators refuse at the door."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from pymc_kbr.arrays.outliers import outliers
from pymc_kbr.arrays.scaling import Scaler
from pymc_kbr.estimators.fitted_table import FittedTable
from pymc_kbr.posterior.doubt import PosteriorWarning


def warn_of_outliers(table: FittedTable) -> None:
    """Say which statistics are measured by the deviation of a few rows."""
    if not isinstance(table.scaler, Scaler):
        return
    columns, sample = np.flatnonzero(table.scaler.kept), table.sample
    # Of rows that are read in parts, those that make up a deviation need not be in the sample.
    known = np.ones(len(columns)) if table.streamed and np.any(table.scaler.scale != 1) else None
    for found in outliers(sample.statistics, known):
        few = f"few rows that are not among the {len(sample.numbers)} looked at"
        if len(found.rows):
            numbers = sample.numbers[found.rows]
            shown = dataclasses.replace(found, rows=numbers if table.rows is None else table.rows[numbers])
            few = f"{len(found.rows)} of {len(sample.numbers)} rows ({shown.shown()})"
        warnings.warn(
            f"the deviation of the statistic in column {columns[found.column]} is that of {few}, and "
            f"{found.deviation / found.of_the_rest:.2g} times that of the rest: measured by it all others "
            "are alike, and it hardly counts; leave these rows out, or take the statistic's logarithm",
            UserWarning,
            stacklevel=3,
        )


DIFFERENT = 1e-9
"""Relative difference from which an observation is not what a statistic is in every simulation."""

FARTHEST = 1e100
"""Of an observation, in the table's scale: farther off, distances to all rows are the same number."""


def refuse_both(ratio: Any, prior: Any, own: Any) -> None:
    """Refuse more than one form of another prior.

    A density ratio, draws, and draws that the estimator has.
    """
    if own is not None and (ratio is not None or prior is not None):
        raise ValueError("the estimator has a prior and `fit` was given another one; give one of the two")
    if ratio is not None and prior is not None:
        raise ValueError("both a density ratio and draws of the other prior are given; give one of the two")


def impossible(x: np.ndarray, table: FittedTable) -> np.ndarray:
    """Which statistics of observations x (k, d) the model cannot make, bool of shape (k, d).

    Those that are the same in every simulation and another in the observation.
    """
    if table.first is None:
        return np.zeros(x.shape, dtype=bool)
    return ~table.scaler.kept & (np.abs(x - table.first) > DIFFERENT * np.abs(table.first))


def warn_of_impossible(x: np.ndarray, table: FittedTable, names: Sequence[str] | None) -> None:
    """Say which statistics of observations x (k, d) the model cannot make."""
    off = impossible(x, table)
    for column in np.flatnonzero(off.any(axis=0)).tolist():
        name = f"in column {column}" if names is None else repr(names[column])
        assert table.first is not None
        warnings.warn(
            f"the statistic {name} is {table.first[column]:.6g} in every simulation and "
            f"{x[off[:, column], column][0]:.6g} in the data: the model cannot make the data, and the "
            "posterior does not know of it; look at the simulator and the statistic, or leave it out",
            PosteriorWarning,
            stacklevel=4,
        )


def check_scaled(scaled: np.ndarray, x: np.ndarray) -> None:
    """Refuse observations x (k, d) so far off that distances to them overflow."""
    far = ~(np.abs(scaled) < FARTHEST)
    if np.any(far):
        row = int(np.flatnonzero(far.any(axis=1))[0])
        column = int(np.argmax(np.abs(x[row])))
        raise ValueError(
            f"the observation has the value {x[row, column]:.3g} in statistic {column}, more than "
            f"{FARTHEST:g} "
            "deviations from the table; no distance to a row can be measured: look at its units"
        )
