"""Where parameters were simulated: their range, and how far from the rows one may be within it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import cKDTree

KNOTS = 33
"""Quantiles of each parameter between which ranks are interpolated."""

ANCHORS = 500
"""Rows from which distances are taken."""

ROWS_AT_ONCE = 10_000
"""Of parameters whose distances from the anchors are held."""

NARROWEST = 1e-3
"""Least deviation of ranks along an axis, in the widest one's: narrower axes are rounding."""


class SimulatedRegion(NamedTuple):
    """Parameters no farther from the nearest of some rows than the farthest row of the table.

    Within the range of each parameter by itself there are combinations that no simulation is near where the
    prior's parameters depend on each other. Distances are those of ranks, which no tail stretches, along
    uncorrelated axes of unit variance.

    Attributes
    ----------
    knots : ndarray of shape (k, p)
        Quantiles, the first and the last of which are the range.
    slopes : ndarray of shape (k - 1, p)
        Rank for each unit of the parameter, between knots.
    axes : ndarray of shape (p, p)
        Ranks times these have unit variance and no correlation.
    anchors : ndarray of shape (m, p)
        Rows along these axes.
    reach : float
        Largest squared distance at which parameters are inside.
    """

    knots: np.ndarray
    slopes: np.ndarray
    axes: np.ndarray
    anchors: np.ndarray
    reach: float

    @classmethod
    def of(cls, parameters: np.ndarray) -> SimulatedRegion:
        """The region of a table's parameters (n, p)."""
        levels = np.linspace(0, 1, KNOTS)
        knots = np.quantile(parameters, levels, axis=0)
        steps = np.diff(knots, axis=0)
        # Between tied quantiles there is no step.
        slopes = np.divide(1 / (KNOTS - 1), steps, out=np.zeros_like(steps), where=steps > 0)
        heights = np.concatenate([np.zeros((1, knots.shape[1])), np.cumsum(steps * slopes, axis=0)])
        columns = zip(parameters.T, knots.T, heights.T, strict=True)
        ranks = np.column_stack([np.interp(*column) for column in columns])
        variances, vectors = np.linalg.eigh(np.atleast_2d(np.cov(ranks, rowvar=False)))
        deviations = np.sqrt(np.maximum(variances, 0))
        axes = vectors / np.maximum(deviations, max(NARROWEST * deviations[-1], np.finfo(float).tiny))
        rows = ranks @ axes
        # Of a table in any order, every so many rows.
        chosen = np.linspace(0, len(rows) - 1, min(ANCHORS, len(rows) // 2 + 1)).astype(int)
        anchors = rows[chosen]
        away, _ = cKDTree(anchors).query(rows)
        return cls(knots, slopes, axes, anchors, float((away.max() * (1 + 1e-6) + 1e-6) ** 2))

    @property
    def ends(self) -> np.ndarray:
        """Lowest and highest value of each parameter, shape (2, p)."""
        return self.knots[[0, -1]]

    def holds(self, parameters: Any, xp: Any = np) -> Any:
        """Which of the parameters were simulated, or are near to what was.

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
            parts = np.array_split(parameters, len(parameters) // ROWS_AT_ONCE + 1)
            return np.concatenate([self.holds(part) for part in parts])
        lowest, highest = self.ends
        in_range = xp.all((parameters >= lowest) & (parameters <= highest), axis=1)
        beyond = xp.clip(parameters[:, None, :] - self.knots[:-1], 0.0, np.diff(self.knots, axis=0))
        rows = (beyond * self.slopes).sum(axis=1) @ self.axes
        apart = (rows**2).sum(axis=1)[:, None] - 2 * rows @ self.anchors.T + (self.anchors**2).sum(axis=1)
        return in_range & (xp.min(apart, axis=1) <= self.reach)
