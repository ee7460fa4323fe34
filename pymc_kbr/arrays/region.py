"""Where draws of parameters lie, and which of a table's rows are near them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pymc_kbr.arrays.scaling import unit_deviations
from pymc_kbr.arrays.support import Support

ROWS_INSIDE, FEWEST_INSIDE = 300, 200
"""Rows that the likelihood is learnt from: within reach, at most; and where fewer are, the nearest ones."""

REACH = 3.0
"""Deviations, a root of a parameter, within which rows are near a posterior."""

ROWS_WANTED = 100
"""Rows that a posterior's own mass should hold for any estimator to resolve it."""


class Region(NamedTuple):
    """Where draws lie in the unconstrained space: their mean, and a root of their covariance."""

    centre: np.ndarray
    root: np.ndarray
    support: Support

    def distances(self, parameters: np.ndarray) -> np.ndarray:
        """Of parameters (n, p) from the mean, in deviations, shape (n,)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            free = self.support.forward(parameters) - self.centre
        inside = np.isfinite(free).all(axis=1)
        found = np.full(len(free), np.inf)
        found[inside] = np.linalg.norm(np.linalg.solve(self.root, free[inside].T), axis=0)
        return found

    def ends(self) -> np.ndarray:
        """Parameters (2 p, p) a deviation from the mean along each principal axis, those above it first."""
        values, vectors = np.linalg.eigh(self.root @ self.root.T)
        axes = (vectors * np.sqrt(np.maximum(values, 0))).T
        return self.support.backward(self.centre + np.concatenate([axes, -axes]))

    def rows(
        self,
        parameters: np.ndarray,
        ratio: np.ndarray | None,
        rng: np.random.Generator,
        fewest: int = FEWEST_INSIDE,
    ) -> NearRows:
        """Rows within reach, some of them at random where they are many, the nearest where they are few."""
        away = self.distances(parameters)
        if ratio is not None:
            away = np.where(ratio > 0, away, np.inf)
        order = np.argsort(away, kind="stable")
        order = order[np.isfinite(away[order])]
        # The distance of p normal numbers from their mean is about sqrt(p).
        inside = order[away[order] < REACH * np.sqrt(len(self.centre))]
        if len(inside) < fewest:
            inside = order[:fewest]
        return NearRows(rng.permutation(inside)[:ROWS_INSIDE], order[: max(len(inside), fewest)])

    def simulations(self, parameters: np.ndarray) -> float:
        """How many simulations, drawn as these rows were, put `ROWS_WANTED` into the posterior's mass."""
        p = len(self.centre)
        # A normal law has 93 to 95% of its mass within 1 + sqrt(p) deviations, and volumes go with the p-th
        # power: so many times as many rows have the hundredth nearest there.
        farthest = np.sort(self.distances(parameters))[min(ROWS_WANTED, len(parameters)) - 1]
        times = (farthest / (1 + np.sqrt(p))) ** p if np.isfinite(farthest) else np.inf
        return float(len(parameters) * max(times, 2.0))


class NearRows(NamedTuple):
    """Numbers of the rows from which a likelihood is learnt, and of those from which its summaries are."""

    rows: np.ndarray
    more: np.ndarray


def region_of(draws: np.ndarray, support: Support) -> Region | None:
    """Where draws (m, p) lie; None where not two are inside the support."""
    with np.errstate(divide="ignore"):
        free = support.forward(draws)
    free = free[np.isfinite(free).all(axis=1)]
    if len(free) < 2:
        return None
    unit, q = unit_deviations(free), free.shape[1]
    # A combination of parameters that does not vary among the draws must have a root, too.
    covariance = np.cov((free / unit).T).reshape(q, q) + 1e-6 * np.eye(q)
    return Region(free.mean(axis=0), unit[:, None] * np.linalg.cholesky(covariance), support)
