"""Adjustment with a slope of its own for each atom."""

from __future__ import annotations

from typing import Self

import numpy as np
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist

from pymc_kbr.arrays.scaling import unit_deviations
from pymc_kbr.estimators.adjustments.adjustment import Adjustment

POOL = 4
"""Neighbours are sought among this many times as many rows as are moved, those nearest to the observation."""

NEIGHBOUR_SHARE = 0.4
"""Neighbours of an atom, as a share of the rows that are moved, where their number is not given."""

RIDGE = 1e-2
"""Of the slopes, as a share of the neighbours' mean variance of a statistic."""


class JointNeighbours(Adjustment):
    """Each atom moves by the slope among its neighbours in parameters and statistics together.

    Parameters
    ----------
    neighbours : int, optional
        Of each atom; two fifths of the rows that are moved where left out.

    Notes
    -----
    theta_i + B_i' (x - x_i), where B_i are the slopes of theta on x by least squares over the rows
    (theta_j, x_j) nearest to (theta_i, x_i). Where a posterior has several modes, or is bent, neighbours in
    the joint space lie on the atom's own branch, and branches that move in opposite directions as the
    observation changes are not averaged. Statistics are measured in halves of the distance of the
    farthest row that is moved, parameters in standard deviations over these rows.
    """

    def __init__(self, neighbours: int | None = None) -> None:
        self.neighbours = neighbours

    def fit(self, x: np.ndarray, z: np.ndarray, weights: np.ndarray | None, rng: np.random.Generator) -> Self:
        """Keep the rows, and a tree of their statistics."""
        self.statistics_, self.parameters_, self._weights = x, z, weights
        self._tree = KDTree(x)
        return self

    def move(self, x: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The parameters of `rows` plus their own slopes times what the observation differs."""
        n, d = self.statistics_.shape
        count = round(NEIGHBOUR_SHARE * len(rows)) if self.neighbours is None else self.neighbours
        # A list of numbers, not one: a single row then has its axis, too.
        pool = self._tree.query(x, k=[*range(1, min(n, POOL * len(rows)) + 1)])[1]
        # Twice as many as a slope has coefficients, however few rows are moved.
        count = min(len(pool), max(count, 2 * (d + 1)))
        moved, apart = self.parameters_[rows], x - self.statistics_[rows]
        radius = np.linalg.norm(apart, axis=1).max() / 2
        unit = np.hstack([np.full(d, radius if radius > 0 else 1.0), unit_deviations(moved)])
        joint = np.hstack([self.statistics_, self.parameters_])
        candidates = joint[pool] / unit
        result = np.empty_like(moved)
        for part in np.array_split(np.arange(len(rows)), max(1, len(rows) * count * d // 2**20)):
            distances = cdist(joint[rows[part]] / unit, candidates, "sqeuclidean")
            near = pool[np.argpartition(distances, count - 1, axis=1)[:, :count]]
            shares = np.full(near.shape, 1 / count) if self._weights is None else self._weights[near]
            shares = shares / shares.sum(axis=1, keepdims=True)
            xs, zs = self.statistics_[near], self.parameters_[near]
            xs = xs - np.einsum("rk,rkd->rd", shares, xs)[:, None]
            zs = zs - np.einsum("rk,rkq->rq", shares, zs)[:, None]
            weighted = np.swapaxes(shares[:, :, None] * xs, 1, 2)
            covariance = weighted @ xs
            ridge = RIDGE * np.trace(covariance, axis1=1, axis2=2) / d + np.finfo(float).tiny
            slopes = np.linalg.solve(covariance + ridge[:, None, None] * np.eye(d), weighted @ zs)
            result[part] = moved[part] + np.einsum("rd,rdq->rq", apart[part], slopes)
        return result
