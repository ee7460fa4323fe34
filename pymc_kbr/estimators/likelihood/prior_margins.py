"""One-dimensional densities of a prior's columns in the space without edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import log_expit, log_ndtr, ndtri, ndtri_exp

MARGIN_SIZES = (1, 2, 3, 5, 8)
"""Components of the mixtures that are compared."""


class Margin(Protocol):
    """A density of one unconstrained column."""

    def log_density(self, free: np.ndarray) -> np.ndarray:
        """Log density (n,) of values (n,)."""

    def scores(self, free: np.ndarray) -> np.ndarray:
        """Standard normal quantiles (n,) of the values' distribution function."""

    def describe(self) -> str:
        """The form in a few words."""


@dataclass(frozen=True)
class Flat:
    """Uniform between two finite bounds, which the unconstrained space sees as a logistic distribution."""

    def log_density(self, free: np.ndarray) -> np.ndarray:
        """Log density (n,) of values (n,)."""
        return log_expit(free) + log_expit(-free)

    def scores(self, free: np.ndarray) -> np.ndarray:
        """Standard normal quantiles (n,) of the values' distribution function."""
        # By the nearer tail: one minus 1e-17 is one, whose quantile is infinite.
        return -np.sign(free) * ndtri_exp(log_expit(-np.abs(free)))

    def describe(self) -> str:
        """The form in a few words."""
        return "uniform"


@dataclass(frozen=True)
class Range:
    """Uniform between ends that the draws themselves show.

    Parameters
    ----------
    lower, upper : float
    side : {-1, 0, 1}
        What it is uniform in: the unconstrained value f itself, or exp(f) above a lower bound (1), or
        -exp(-f) below an upper bound (-1).
    """

    lower: float
    upper: float
    side: int = 0

    def log_density(self, free: np.ndarray) -> np.ndarray:
        """Log density (n,) of values (n,)."""
        values = _one_sided(free, self.side)
        inside = (values >= self.lower) & (values <= self.upper)
        # d value / d f = exp(side f), whichever side.
        return np.where(inside, self.side * free - np.log(self.upper - self.lower), -np.inf)

    def scores(self, free: np.ndarray) -> np.ndarray:
        """Standard normal quantiles (n,) of the values' distribution function."""
        share = (_one_sided(free, self.side) - self.lower) / (self.upper - self.lower)
        return ndtri(np.clip(share, 1e-15, 1 - 1e-15))

    def describe(self) -> str:
        """The form in a few words."""
        return "uniform over the draws' range" + ("" if self.side else " in the unconstrained space")


@dataclass(frozen=True)
class MarginMixture:
    """A mixture of normals.

    Parameters
    ----------
    weights, means, deviations : tuple of float, length C
    half_turn : bool
        Whether it is cut off beyond half a turn of the circle.
    """

    weights: tuple[float, ...]
    means: tuple[float, ...]
    deviations: tuple[float, ...]
    half_turn: bool = False

    def log_density(self, free: np.ndarray) -> np.ndarray:
        """Log density (n,) of values (n,)."""
        shares = np.log(self.weights) - np.log(self.deviations) - np.log(2 * np.pi) / 2
        parts = shares[:, None] - self._z(free) ** 2 / 2
        # Of so few parts this takes half of the time of `logsumexp`.
        logs: np.ndarray = np.logaddexp.reduce(parts, axis=0)
        if not self.half_turn:
            return logs
        ends = np.exp(self._log_shares(np.array([np.pi, -np.pi]), 1))
        return np.where(np.abs(free) <= np.pi, logs - np.log(ends[0] - ends[1]), -np.inf)

    def scores(self, free: np.ndarray) -> np.ndarray:
        """Standard normal quantiles (n,) of the values' distribution function."""
        below, above = self._log_shares(free, 1), self._log_shares(free, -1)
        # The smaller of the two shares has all its digits.
        return np.where(below < above, ndtri_exp(below), -ndtri_exp(above))

    def describe(self) -> str:
        """The form in a few words."""
        return f"mixture of {len(self.weights)} normals" if len(self.weights) > 1 else "normal"

    def _z(self, free: np.ndarray) -> np.ndarray:
        """Values (n,) in the units of each part, (C, n)."""
        return (free - np.array(self.means)[:, None]) / np.array(self.deviations)[:, None]

    def _log_shares(self, free: np.ndarray, sign: int) -> np.ndarray:
        logs = np.log(self.weights)[:, None] + log_ndtr(sign * self._z(free))
        return np.minimum(np.logaddexp.reduce(logs, axis=0), -1e-300)


@dataclass(frozen=True)
class ValueShares:
    """Shares of the values of a discrete column, nothing between them or beyond."""

    values: tuple[float, ...]
    shares: tuple[float, ...]

    def log_density(self, free: np.ndarray) -> np.ndarray:
        """Log density (n,) of values (n,)."""
        values = np.array(self.values)
        found = np.minimum(np.searchsorted(values, free), len(values) - 1)
        return np.where(values[found] == free, np.log(self.shares)[found], -np.inf)

    def describe(self) -> str:
        """The form in a few words."""
        return f"shares of {len(self.values)} values"


def _one_sided(free: np.ndarray, side: int) -> np.ndarray:
    with np.errstate(over="ignore"):
        return free if side == 0 else side * np.exp(side * free)


def range_of(ends: np.ndarray, draws: int, side: int) -> Range:
    """The uniform density between the lowest and the highest of n draws, a share of 1 / n wider at both."""
    lower, upper = _one_sided(ends, side)
    more = (upper - lower) / draws
    return Range(float(lower - more), float(upper + more), side)


def fit_mixture(
    free: np.ndarray, weights: np.ndarray, start: int | MarginMixture, half_turn: bool = False
) -> MarginMixture:
    """Expectation-maximisation on values (n,) with weights (n,) of sum one.

    Parameters
    ----------
    free, weights : ndarray of shape (n,)
    start : int or NormalMixture
        Number of components, or a mixture to begin with.
    half_turn : bool, optional
    """
    x, w, unit = _grouped(free, weights)
    total, variance = len(free), w @ (x - w @ x) ** 2
    if isinstance(start, MarginMixture):
        shares, means = np.array(start.weights), np.array(start.means)
        variances = np.array(start.deviations) ** 2
    else:
        ranks = np.minimum(np.searchsorted(np.cumsum(w), (np.arange(start) + 0.5) / start), len(x) - 1)
        shares, means, variances = np.full(start, 1 / start), x[ranks], np.full(start, variance / start**2)
    size, before = len(shares), -np.inf
    for _ in range(150):
        parts = (np.log(shares) - np.log(variances) / 2)[:, None] - (x - means[:, None]) ** 2 / (
            2 * variances[:, None]
        )
        top = parts.max(axis=0)
        members = np.exp(parts - top)
        sums = members.sum(axis=0)
        members *= w / sums
        counts = members.sum(axis=1)
        # A pseudo-row of each component keeps it from shrinking to a point or to nothing.
        shares = (counts + 1 / total) / (1 + size / total)
        means = members @ x / np.maximum(counts, 1e-300)
        scatter = (members * (x - means[:, None]) ** 2).sum(axis=1)
        # The last term is the variance within a cell of the grid that values were rounded to.
        variances = (scatter + variance / size**2 / total) / (counts + 1 / total) + unit**2 / 12
        now = w @ (np.log(sums) + top)
        if now < before + 0.01 / total:
            break
        before = now
    return MarginMixture(tuple(shares), tuple(means), tuple(np.sqrt(variances)), half_turn)


def _grouped(free: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Rising values, rounded to a small share of their spread, their weights, and the unit of rounding."""
    low, high = np.quantile(free, [0.1, 0.9])
    unit = max((high - low) / 200, np.ptp(free) / 20_000, 1e-300)
    first, group = np.unique(np.round(free / unit), return_inverse=True)
    w = np.bincount(group.reshape(-1), weights)
    x = np.bincount(group.reshape(-1), weights * free)
    return np.where(w > 0, x / np.where(w > 0, w, 1), first * unit), w, float(unit)
