"""Rows in the space in which they are moved."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pymc_kbr.arrays.support import Support


@dataclass(frozen=True, eq=False)
class MovableRows:
    """Rows that may be moved, in the unconstrained space.

    Attributes
    ----------
    points : ndarray of shape (m, p)
        Their parameters.
    free : ndarray of shape (m, r)
        The same in the unconstrained space.
    inside : ndarray of bool, shape (m,)
        Which are finite there: not on an edge of the support, nor at an atom.
    number : ndarray of int, shape (m,)
        Of each among those.
    """

    points: np.ndarray
    free: np.ndarray
    inside: np.ndarray
    number: np.ndarray

    @classmethod
    def of(cls, points: np.ndarray, support: Support) -> MovableRows:
        """From parameters (m, p)."""
        free = support.forward(points)
        inside = np.all(np.isfinite(free[:, support.smooth()]), axis=1)
        for rows, columns in support.strata(points):
            inside[rows] &= bool(np.all(columns))
        return cls(points, free, inside, np.cumsum(inside) - 1)

    def of_stratum(self, rows: np.ndarray, columns: np.ndarray) -> MovableRows:
        """The same, where some rows (m,) are moved along some unconstrained columns (r,)."""
        inside = rows & np.all(np.isfinite(self.free[:, columns]), axis=1)
        return replace(self, inside=inside, number=np.cumsum(inside) - 1)
