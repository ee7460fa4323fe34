"""Forms of a prior's columns, chosen by held-out draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_kbr.arrays.bijections import Circular, Interval
from pymc_kbr.arrays.support import Block
from pymc_kbr.estimators.likelihood.prior_margins import (
    MARGIN_SIZES,
    Flat,
    Margin,
    Range,
    ValueShares,
    fit_mixture,
    range_of,
)

ERRORS = 3.0
"""Standard errors by which a form must beat a uniform or an independent one on held-out draws."""

SIMPLER = 0.3
"""Standard errors by which a larger mixture must beat a smaller one."""


@dataclass(frozen=True)
class Draws:
    """Unconstrained draws (n, q), their weights (n,), which of them are held out (n,), and how far they go.

    The ranges (2, q) are those of all draws, and so is their number `total`, where (n, q) are some of them.
    """

    free: np.ndarray
    weights: np.ndarray
    held: np.ndarray
    ranges: np.ndarray
    total: int

    def column(self, column: int) -> tuple[np.ndarray, np.ndarray]:
        """Values and weights of a column's draws that are not held out."""
        return self.free[~self.held, column], self.weights[~self.held] / self.weights[~self.held].sum()

    def gain(self, logs: np.ndarray) -> tuple[float, float]:
        """Mean of held-out gains in log density, and its standard error."""
        w = self.weights[self.held] / self.weights[self.held].sum()
        mean = float(w @ logs)
        return mean, float(np.sqrt((w**2) @ (logs - mean) ** 2))


def choose_margin(draws: Draws, block: Block, position: int, column: int) -> tuple[Margin, Margin]:
    """The density of a column by the draws that are not held out, and the same form by all."""
    some, weights = draws.column(column)
    everything = draws.free[:, column]
    held = everything[draws.held]
    turn = any(isinstance(step, Circular) for step in block.steps)
    mixtures = [fit_mixture(some, weights, size, turn) for size in MARGIN_SIZES]
    logs = [m.log_density(held) for m in mixtures]
    best = simplest(draws, logs)
    simple: list[Margin] = []
    interval = block.steps[0] if len(block.steps) == 1 and isinstance(block.steps[0], Interval) else None
    below = interval is not None and np.isfinite(interval.lower[position])
    above = interval is not None and np.isfinite(interval.upper[position])
    if turn:
        simple = [Range(-np.pi, np.pi)]
    elif below and above:
        simple = [Flat()]
    for margin in simple:
        gain, error = draws.gain(logs[best] - margin.log_density(held))
        if gain <= ERRORS * error:
            return margin, margin
    # Where no bound is known the draws' own range may be the prior's, as of a uniform one without bounds.
    if not simple and (interval is not None or not block.steps):
        ranges = [
            range_of(draws.ranges[:, column], draws.total, side) for side in {0, int(below) - int(above)}
        ]
        gains = [draws.gain(r.log_density(held))[0] for r in ranges]
        if max(gains) > draws.gain(logs[best])[0]:
            # It holds the ends of all draws already, and needs no second fit.
            return (ranges[int(np.argmax(gains))],) * 2
    return mixtures[best], fit_mixture(everything, draws.weights, mixtures[best], turn)


def simplest(draws: Draws, logs: list[np.ndarray]) -> int:
    """The first of held-out log densities that no later one beats by a share of a standard error."""
    best = 0
    for i in range(1, len(logs)):
        gain, error = draws.gain(logs[i] - logs[best])
        best = i if gain > SIMPLER * error else best
    return best


def fit_atoms(draws: Draws, column: int) -> ValueShares:
    """Shares of a discrete column's values; refused where it has too many of them to count."""
    values, group = np.unique(draws.free[:, column], return_inverse=True)
    if len(values) > max(20, len(draws.free) // 5):
        raise ValueError(
            f"unconstrained column {column} may not be smoothed and has {len(values)} values in "
            f"{len(draws.free)} draws: its density cannot be told from draws. Give the log "
            "density of the parameters instead"
        )
    shares = np.bincount(group.reshape(-1), draws.weights)
    return ValueShares(tuple(values), tuple(shares))
