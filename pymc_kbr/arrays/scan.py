"""One pass over a table that memory does not hold: scales, and a sample of its rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_kbr.arrays.chunks import Chunks
from pymc_kbr.arrays.rows import check_range
from pymc_kbr.arrays.scaling import Scaler, nonzero
from pymc_kbr.arrays.subsample import ROWS_FOR_CHOICES, spread_out

SAMPLED_ROWS = 20_000
"""Rows of the sample, spread evenly over the table."""


@dataclass(frozen=True, eq=False)
class Scan:
    """What is known of all rows.

    Attributes
    ----------
    scaler : Scaler
        Of the statistics.
    deviation : ndarray of shape (p,)
        Of the parameters.
    rows : ndarray of int, shape (s,)
        A sample of the rows' numbers, ascending.
    parameters, statistics : ndarray of shape (s, p) and (s, d)
        Of these rows.
    few : ndarray of int, shape (f,)
        Places in the sample of the rows on which bandwidths and ridges are chosen: those that a table in
        memory gives too.
    """

    scaler: Scaler
    deviation: np.ndarray
    rows: np.ndarray
    parameters: np.ndarray
    statistics: np.ndarray
    few: np.ndarray


class Moments:
    """Mean, deviation and range of columns, block by block (Chan, Golub and LeVeque's update)."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, rows: np.ndarray) -> None:
        """Take in more rows (b, d)."""
        if not self.count:
            self.unit = nonzero(np.abs(rows).max(axis=0))
            # In units of the first block's largest value, squares of huge numbers stay in range.
            self.mean = self.squares = np.zeros(rows.shape[1])
            self.lowest = self.highest = rows[0]
        self.lowest = np.minimum(self.lowest, rows.min(axis=0))
        self.highest = np.maximum(self.highest, rows.max(axis=0))
        scaled = rows / self.unit
        mean = scaled.mean(axis=0)
        apart, total = mean - self.mean, self.count + len(rows)
        squares = np.sum((scaled - mean) ** 2, axis=0)
        self.squares = self.squares + squares + apart**2 * (self.count * len(rows) / total)
        self.mean = self.mean + apart * (len(rows) / total)
        self.count = total

    @property
    def deviation(self) -> np.ndarray:
        """Standard deviations, shape (d,)."""
        return np.sqrt(self.squares / self.count) * self.unit

    def scaler(self, scaled: bool) -> Scaler:
        """The scaler of the columns."""
        return Scaler.of(self.mean * self.unit, self.deviation, self.lowest, self.highest, scaled)


def scan_table(parameters: Chunks, statistics: Chunks, scaled: bool) -> Scan:
    """Read all rows once.

    Raises
    ------
    ValueError
        If a value is not finite, or all statistics are constant.
    """
    n = len(statistics)
    few = spread_out(n, ROWS_FOR_CHOICES)
    wanted = np.union1d(spread_out(n, SAMPLED_ROWS), few)
    sides = []
    for name, side in (("parameters", parameters), ("statistics", statistics)):
        moments, sample = Moments(), []
        for part, rows in side.blocks():
            bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
            if len(bad):
                raise ValueError(
                    f"{len(bad)} row(s) of {name} hold NaN or infinity, the first of them row "
                    f"{part.start + bad[0]}; leave those rows out"
                )
            if name == "parameters":  # statistics are scaled, in any units
                check_range("the parameters", rows)
            moments.add(rows)
            sample.append(rows[wanted[(wanted >= part.start) & (wanted < part.stop)] - part.start])
        sides.append((moments, np.concatenate(sample)))
    (mine, theta), (theirs, x) = sides
    return Scan(theirs.scaler(scaled), mine.deviation, wanted, theta, x, np.searchsorted(wanted, few))
