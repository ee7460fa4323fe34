"""Where parameters were simulated: their range, and combinations that no row is near within it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.ndimage import maximum_filter
from scipy.spatial import KDTree

KNOTS = 33
"""Quantiles of each parameter between which ranks are interpolated."""

ANCHORS = 1_000
"""Rows from which distances are taken, at most."""

REACH_OF, MARGIN = 0.999, 1.25
"""The share of rows that are within reach, as the rest may be outliers; and a factor for others than rows."""

NARROWEST = 1e-3
"""Least deviation of ranks along an axis, in the widest one's: narrower axes are rounding."""

ROWS_A_CELL, MOST_CELLS = 4, 64
"""Rows in a cell of two parameters, were they independent; and into how many one parameter is cut at most."""

ROWS_AT_ONCE = 10_000
"""Of parameters whose distances from the anchors are held."""


class Ranks(NamedTuple):
    """Ranks from 0 to 1 of each parameter, interpolated between quantiles: no tail stretches them.

    Attributes
    ----------
    knots : ndarray of shape (k, p)
        Quantiles, the first and the last of which are the range.
    slopes : ndarray of shape (k - 1, p)
        Rank for each unit of the parameter, between knots.
    """

    knots: np.ndarray
    slopes: np.ndarray

    @classmethod
    def of(cls, parameters: np.ndarray) -> Ranks:
        """Of a table's parameters (n, p)."""
        knots = np.quantile(parameters, np.linspace(0, 1, KNOTS), axis=0)
        steps = np.diff(knots, axis=0)
        apart = steps > np.finfo(float).tiny
        slopes = np.divide(1 / np.maximum(apart.sum(axis=0), 1), steps, out=np.zeros_like(steps), where=apart)
        return cls(knots, slopes)

    def __call__(self, parameters: Any, xp: Any = np) -> Any:
        """Of parameters (g, p), an array or a tensor."""
        beyond = xp.clip(parameters[:, None, :] - self.knots[:-1], 0.0, np.diff(self.knots, axis=0))
        return (beyond * self.slopes).sum(axis=1)


class Near(NamedTuple):
    """Whether all parameters together are near one of some rows, along uncorrelated axes of unit variance.

    Attributes
    ----------
    centre : ndarray of shape (p,)
    axes : ndarray of shape (p, p)
        Ranks less their mean, times these, have unit variance and no correlation.
    anchors : ndarray of shape (m, p)
        Rows along these axes.
    reach : float
        Largest squared distance from the nearest anchor.
    """

    centre: np.ndarray
    axes: np.ndarray
    anchors: np.ndarray
    reach: float

    @classmethod
    def of(cls, ranks: np.ndarray) -> Near:
        """Of the ranks (n, p) of a table's rows, all different."""
        centre = ranks.mean(axis=0)
        centred = ranks - centre
        variances, vectors = np.linalg.eigh(centred.T @ centred / len(ranks))
        deviations = np.sqrt(np.maximum(variances, 0))
        axes = vectors / np.maximum(deviations, NARROWEST * (deviations[-1] or 1.0))
        rows = np.random.default_rng(0).permutation(centred) @ axes
        anchors = rows[:ANCHORS]
        away, _ = KDTree(anchors).query(rows, k=[1, 2])
        others = np.where(away[:, 0] > 0, away[:, 0], away[:, 1])
        others[np.isinf(others)] = 0.0  # there is one row alone
        # Between values of a parameter that has few of them one may be half of their distance away.
        gaps = np.diff(np.sort(ranks, axis=0), axis=0).max(axis=0, initial=0.0)
        between = np.linalg.norm(gaps / 2 * np.linalg.norm(axes, axis=1))
        reach = MARGIN * float(np.quantile(others, REACH_OF)) + between + 1e-6
        return cls(centre, axes, anchors, float(reach**2))

    def __call__(self, ranks: Any, xp: Any = np) -> Any:
        """Of ranks (g, p), shape (g,)."""
        rows = (ranks - self.centre) @ self.axes
        apart = (rows**2).sum(axis=1)[:, None] - 2 * rows @ self.anchors.T + (self.anchors**2).sum(axis=1)
        return xp.min(apart, axis=1) <= self.reach


class Pairs(NamedTuple):
    """Whether each two parameters lie in, or beside, a cell of their ranks that has rows.

    Attributes
    ----------
    cells : ndarray of int, shape (p,)
        Into how many each parameter is cut.
    first, second : ndarray of int, shape (q,)
        The numbers of the pairs' parameters.
    near : ndarray of bool, shape (q, c, c)
        Which cells have rows in or beside them.
    """

    cells: np.ndarray
    first: np.ndarray
    second: np.ndarray
    near: np.ndarray

    @classmethod
    def of(cls, ranks: np.ndarray) -> Pairs:
        """Of the ranks (n, p) of a table's rows, all different."""
        most = int(np.clip(np.sqrt(len(ranks) / ROWS_A_CELL), 1, MOST_CELLS))
        cells = np.array([min(most, len(np.unique(column))) for column in ranks.T])
        first, second = np.triu_indices(len(cells), 1)
        near = np.zeros((len(first), most, most), dtype=bool)
        pairs = cls(cells, first, second, near)
        for part in _parts(ranks):
            near.reshape(-1)[pairs._places(part)] = True
        return pairs._replace(near=maximum_filter(near, size=(1, 3, 3), mode="constant"))

    def _places(self, ranks: Any, xp: Any = np) -> Any:
        cells = xp.clip(xp.floor(ranks * self.cells), 0, self.cells - 1).astype("int64")
        width = self.near.shape[1]
        which = np.arange(len(self.first)) * width
        return (which + cells[:, self.first]) * width + cells[:, self.second]

    def __call__(self, ranks: Any, xp: Any = np) -> Any:
        """Of ranks (g, p), shape (g,)."""
        return xp.all(xp.take(self.near.reshape(-1), self._places(ranks, xp)), axis=1)


class SimulatedRegion(NamedTuple):
    """The range of each parameter, less combinations of several that no row of the table is near.

    It is a coarse net. What two parameters exclude together is seen to within a few of the cells into which
    their ranks are cut, a line along which many lie to within its width; where three or more exclude each
    other along a curve, much that was never simulated may be held.

    Attributes
    ----------
    ranks : Ranks
    near : Near
    pairs : Pairs
    """

    ranks: Ranks
    near: Near
    pairs: Pairs

    @classmethod
    def of(cls, parameters: np.ndarray) -> SimulatedRegion:
        """The region of a table's parameters (n, p)."""
        ranks = Ranks.of(parameters)
        # Several simulations of the same parameters are one row here.
        rows = np.unique(np.concatenate([ranks(part) for part in _parts(parameters)]), axis=0)
        return cls(ranks, Near.of(rows), Pairs.of(rows))

    @property
    def ends(self) -> np.ndarray:
        """Lowest and highest value of each parameter, shape (2, p)."""
        return self.ranks.knots[[0, -1]]

    def holds(self, parameters: Any, xp: Any = np) -> Any:
        """Which parameters are in the region.

        Parameters
        ----------
        parameters : ndarray or tensor of shape (g, p)
        xp : module
            `numpy`, or `pytensor.tensor` for tensors.

        Returns
        -------
        ndarray or tensor of bool, shape (g,)
        """
        if xp is np and len(parameters) > ROWS_AT_ONCE:
            return np.concatenate([self.holds(part) for part in _parts(parameters)])
        lowest, highest = self.ends
        in_range = xp.all((parameters >= lowest) & (parameters <= highest), axis=1)
        if len(lowest) == 1:  # whose range says all
            return in_range
        # What is no number is in no range, and has some cell all the same.
        ranks = self.ranks(xp.where(in_range[:, None], parameters, lowest), xp)
        return in_range & self.near(ranks, xp) & self.pairs(ranks, xp)


def _parts(rows: np.ndarray) -> list[np.ndarray]:
    return np.array_split(rows, len(rows) // ROWS_AT_ONCE + 1)
