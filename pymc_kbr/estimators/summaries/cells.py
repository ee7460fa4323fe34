"""Values that a statistic takes again and again, and the stretch of the line that stands for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pymc_kbr.arrays.bijections import ROWS_MISSED_BY_CHANCE

TIED_SHARE = 0.05
"""Share of rows that share a value with others, from which a statistic is taken for a discrete one."""

EVEN = 1e-6
"""Relative error up to which distances between values are multiples of one spacing."""

ROWS_AT_AN_EDGE = 0.01
"""Share of rows at the lowest or highest value, from which it is taken for an atom."""


class Levels(NamedTuple):
    """The values of a statistic of few values, and where their cells lie in the coordinates of a fit.

    Attributes
    ----------
    values : ndarray of shape (v,)
        In the statistic's own units, rising.
    lower, upper : ndarray of shape (v,)
        Ends of their cells, in coordinates; between two cells there may be a gap.
    rare : ndarray of bool, shape (v,), optional
        Values of a lattice that stand for those one step away, which no row has: see the function `rare`.
    """

    values: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    rare: np.ndarray | None = None

    @property
    def cuts(self) -> np.ndarray:
        """Coordinates (v - 1,) that lie between cells."""
        return (self.upper[:-1] + self.lower[1:]) / 2

    def choose(self, of_each: np.ndarray, y: Any) -> Any:
        """Of numbers (v,) that of the cell in or next to which each point y lies, of NumPy or of PyTensor."""
        chosen = of_each[0] + 0 * y
        for cut, step in zip(self.cuts, np.diff(of_each), strict=True):
            chosen = chosen + step * (y >= cut)
        return chosen

    def middle(self, y: Any) -> Any:
        """The middle of that cell."""
        return self.choose((self.lower + self.upper) / 2, y)

    def numbers(self, y: np.ndarray) -> np.ndarray:
        """The cells' numbers, from zero, of points y of any shape."""
        return np.searchsorted(self.cuts, y, side="right")

    def spread(self, numbers: np.ndarray, share: np.ndarray) -> np.ndarray:
        """Points at shares (n,) of the way through the cells of these numbers (n,)."""
        return self.lower[numbers] + share * (self.upper - self.lower)[numbers]

    def of_values(self, column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Numbers (n,) of the values nearest to those of a column (n,), and whether they are these."""
        numbers = np.searchsorted((self.values[1:] + self.values[:-1]) / 2, column)
        # What was computed in another order than in the table is off by rounding.
        return numbers, np.abs(column - self.values[numbers]) <= EVEN * self.spacing

    def standing_for(self, column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Numbers (n,) of rare values for those of a column (n,), and which are one step from these.

        Of what is never below zero nothing is.
        """
        if self.rare is None:
            return np.zeros(len(column), dtype=int), np.zeros(len(column), dtype=bool)
        apart = np.abs(column[:, None] - self.values)
        beside = self.rare & (np.abs(apart - self.spacing) <= EVEN * self.spacing)
        missed = beside.any(axis=1) & ~self.of_values(column)[1] & ((column >= 0) | (self.values[0] < 0))
        return beside.argmax(axis=1), missed

    @property
    def spacing(self) -> float:
        """The smallest distance of two values: of a lattice its step."""
        return float(np.diff(self.values).min())


def rare(counts: np.ndarray) -> np.ndarray:
    """Which values of a lattice, in so many rows (v,), are so few that others beside them may be missed.

    Poisson's law with a small mean has the next value in half the square of a share.
    """
    found: np.ndarray = counts**2 < 2 * ROWS_MISSED_BY_CHANCE * counts.sum()
    return found


@dataclass(frozen=True, eq=False)
class Cells:
    """Where one statistic's values stand for stretches of the line.

    Parameters
    ----------
    spacing : float
        Of a lattice; zero where the statistic is none.
    offset : float
        Where a stretch of the lattice begins.
    values, lower, upper : ndarray of shape (v,)
        Ends of the stretch of each value that has one, sorted; of a lattice none are kept.
    """

    spacing: float
    offset: float
    values: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    @classmethod
    def of(cls, column: np.ndarray) -> Cells | None:
        """Of a table's column (n,), or None where it is continuous."""
        values, counts = np.unique(column, return_counts=True)
        if len(values) < 2 or counts[counts > 1].sum() < TIED_SHARE * len(column):
            return None
        gaps = np.diff(values)
        steps = gaps / gaps.min()
        if np.all(np.abs(steps - np.round(steps)) < EVEN * np.maximum(steps, 1)):
            spacing = float(gaps.min())
            return cls(spacing, float(values[0]) - spacing / 2, *[np.empty(0)] * 3)
        # So many different values are those of a continuous statistic, but for atoms at its ends.
        if len(values) > len(column) / 4:
            return cls._edges(column, values, counts)
        middle = (values[1:] + values[:-1]) / 2
        lower = np.concatenate([[values[0] - gaps[0] / 2], middle])
        upper = np.concatenate([middle, [values[-1] + gaps[-1] / 2]])
        return cls(0.0, 0.0, values, lower, upper)

    @classmethod
    def _edges(cls, column: np.ndarray, values: np.ndarray, counts: np.ndarray) -> Cells | None:
        """Atoms at the lowest and the highest value, of a statistic that is continuous between."""
        ends = [i for i in (0, -1) if counts[i] >= max(2, ROWS_AT_AN_EDGE * len(column))]
        if not ends:
            return None
        rest = column[~np.isin(column, values[ends])]
        # Outwards, so that no value of the rest lies within.
        width = float(np.subtract(*np.quantile(rest, [0.75, 0.25])))
        width = width if width > 0 else float(np.ptp(column))
        atoms = values[ends]
        lower = [values[i] - (width if i == 0 else 0.0) for i in ends]
        upper = [values[i] + (width if i == -1 else 0.0) for i in ends]
        return cls(0.0, 0.0, atoms, np.array(lower), np.array(upper))

    def ends(self, column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Ends, each (n,), of the stretches of values (n,); the value itself where it has none."""
        if self.spacing:
            return column - self.spacing / 2, column + self.spacing / 2
        place = np.minimum(np.searchsorted(self.values, column), len(self.values) - 1)
        known = self.values[place] == column
        return np.where(known, self.lower[place], column), np.where(known, self.upper[place], column)

    def first_edge(self, lowest: float) -> float:
        """Where the stretch that holds the lowest point of a column begins."""
        return self.offset + np.floor((lowest - self.offset) / self.spacing) * self.spacing

    def nearest(self, column: np.ndarray) -> np.ndarray:
        """The value (n,) in whose stretch each point (n,) lies; the point itself where it lies in none."""
        if self.spacing:
            steps = np.floor((column - self.offset) / self.spacing)
            return self.offset + (steps + 0.5) * self.spacing
        place = np.clip(np.searchsorted(self.lower, column, side="right") - 1, 0, len(self.values) - 1)
        inside = (column >= self.lower[place]) & (column <= self.upper[place])
        return np.where(inside, self.values[place], column)
