"""Bringing statistics to one scale, from the reference table alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_kbr.arrays.rows import varying, warn_of_constant, words_of_constant


@dataclass(frozen=True, eq=False)
class Scaler:
    """Subtracts a centre, divides by a scale, and leaves constant columns out."""

    # Shapes: centre, scale (d,); kept (d,).
    # kept: Columns that vary.
    centre: np.ndarray
    scale: np.ndarray
    kept: np.ndarray

    @classmethod
    def fit(cls, statistics: np.ndarray, scaled: bool = True, *, warns: bool = True) -> Scaler:
        """Take the standard deviations of a table's columns, or leave the units as they are."""
        # Dividing by the largest value first keeps squares of huge or tiny units within range.
        unit = nonzero(np.abs(statistics).max(axis=0))
        centre = np.mean(statistics / unit, axis=0) * unit
        deviation = np.std(statistics / unit, axis=0) * unit
        ranges = statistics.min(axis=0), statistics.max(axis=0)
        return cls.of(centre, deviation, *ranges, scaled, warns=warns)

    @classmethod
    def of(
        cls,
        centre: np.ndarray,
        deviation: np.ndarray,
        lowest: np.ndarray,
        highest: np.ndarray,
        scaled: bool = True,
        *,
        warns: bool = True,
    ) -> Scaler:
        """The scaler of columns whose means, deviations and ranges, each (d,), are known: see `fit`."""
        kept = varying(lowest, highest)
        if not np.any(kept):
            raise ValueError(words_of_constant(lowest, highest))
        if warns and not np.all(kept):
            warn_of_constant(None, lowest, highest)
        return cls(centre, np.where(kept & scaled, deviation, 1.0), kept)

    @property
    def size(self) -> int:
        """Number of statistics, d."""
        return len(self.kept)

    def of_columns(self, columns: np.ndarray) -> Scaler:
        """The same for some of the statistics, by their numbers."""
        return Scaler(self.centre[columns], self.scale[columns], self.kept[columns])

    def transform(self, statistics: np.ndarray) -> np.ndarray:
        """Rows of statistics (k, d) in the table's scale, shape (k, number of columns kept)."""
        return (statistics[:, self.kept] - self.centre[self.kept]) / self.scale[self.kept]


def units_of(rows: np.ndarray) -> np.ndarray:
    """Powers of two near the largest value of each column of rows (n, q), shape (q,)."""
    largest = np.abs(rows).max(axis=0, initial=0.0)
    return 2.0 ** np.floor(np.log2(nonzero(largest)))


def deviations(rows: np.ndarray) -> np.ndarray:
    """Standard deviation of each column of rows (n, q), in any units, shape (q,)."""
    units = units_of(rows)
    return (rows / units).std(axis=0) * units


def nonzero(deviation: np.ndarray) -> np.ndarray:
    """Deviations (q,) to divide by: one where a column does not vary."""
    return np.where(deviation > 0, deviation, 1.0)


def unit_deviations(rows: np.ndarray) -> np.ndarray:
    """Standard deviation of each column of rows (n, q), one where it does not vary, shape (q,)."""
    return nonzero(deviations(rows))
