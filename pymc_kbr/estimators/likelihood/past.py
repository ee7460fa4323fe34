"""Which earlier statistics a conditional sees, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from pymc_kbr.estimators.summaries.cells import Levels


@dataclass(frozen=True)
class Past:
    """Which earlier statistics a conditional sees, and their units.

    Attributes
    ----------
    columns : tuple of int
        Where there are none, the past is a column of zeros.
    centre, scale : ndarray of shape (l,)
    size : int
        Statistics in all.
    levels : tuple of Levels or None
        Of the statistics of few values among these columns: what is seen is the middle of their cells, and
        not where in it a point lies.
    """

    columns: tuple[int, ...]
    centre: np.ndarray
    scale: np.ndarray
    size: int
    levels: tuple[Levels | None, ...] = ()

    @classmethod
    def of(cls, points: np.ndarray, columns: np.ndarray, levels: tuple[Levels | None, ...]) -> Self:
        """Some columns of a table's points (n, e), in units of their deviations; `levels` of all e."""
        if not len(columns):
            return cls((), np.zeros(1), np.ones(1), points.shape[1])
        numbers = tuple(map(int, columns))
        few = tuple(levels[i] for i in numbers)
        seen = points[:, columns]
        for place, each in enumerate(few):
            if each is not None:
                seen[:, place] = each.middle(seen[:, place])
        # Some of the rows may have one value only of a statistic that has two in the table.
        scale = seen.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        return cls(numbers, seen.mean(axis=0), scale, points.shape[1], few if any(few) else ())

    def __call__(self, points: Any) -> Any:
        """Standardised earlier statistics (..., l) of points (..., e), of NumPy or of PyTensor."""
        # Without columns the matrix is zero, and so is the past.
        selection = np.zeros((self.size, len(self.centre)))
        selection[list(self.columns), np.arange(len(self.columns))] = 1 / self.scale[: len(self.columns)]
        few = [(place, each) for place, each in enumerate(self.levels) if each is not None]
        for place, _ in few:
            selection[:, place] = 0.0
        seen = points @ selection - self.centre / self.scale
        for place, each in few:
            unit = np.eye(len(self.centre))[place] / self.scale[place]
            seen = seen + each.middle(points[..., self.columns[place]])[..., None] * unit
        return seen
