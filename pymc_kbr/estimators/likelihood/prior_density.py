"""The density of a prior that is known by draws only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from scipy.special import gammaln, log_expit, log_ndtr, logsumexp, ndtri, ndtri_exp

from pymc_kbr.arrays.bijections import Circular, Interval, Simplex
from pymc_kbr.arrays.support import Block, Support, support_of
from pymc_kbr.estimators.fitted_table import FittedTable
from pymc_kbr.estimators.likelihood.tempered import LocalMixture, Streams, fit_mixtures, log_normal_mixture


@dataclass(frozen=True)
class PriorDensity:
    """A density fitted to draws of a prior."""

    support: Support
    margins: tuple[tuple[int, Margin | ValueShares], ...]
    flat_simplexes: tuple[tuple[int, ...], ...]
    dependence: LocalMixture | None
    form: str

    def log_density(
        self,
        parameters: np.ndarray,
        *,
        # Unconstrained values beyond it are edges of the support.
        largest_free: float = 700.0,
    ) -> np.ndarray:
        """Log density (n,) at parameters (n, p), minus infinity outside the support."""
        parameters = np.asarray(parameters, dtype=float)
        if parameters.ndim != 2 or parameters.shape[1] != self.support.size:
            raise ValueError(
                f"parameters have shape {parameters.shape}; they must be (n, {self.support.size})"
            )
        logs = np.full(len(parameters), -np.inf)
        inside = self.support.contains(parameters)
        if inside.any():
            free = np.clip(self.support.forward(parameters[inside]), -largest_free, largest_free)
            # The density of theta(free) is that of free over |d theta / d free|.
            logs[inside] = self.free_log_density(free) - self.support.log_jacobian(free)
        return logs

    def free_log_density(self, free: np.ndarray) -> np.ndarray:
        """Log density (n,) in the unconstrained space, at values (n, q)."""
        logs = np.zeros(len(free))
        scores = []
        for column, margin in self.margins:
            logs += margin.log_density(free[:, column])
            if self.dependence is not None and not isinstance(margin, ValueShares):
                scores.append(margin.scores(free[:, column]))
        for columns in self.flat_simplexes:
            logs += _flat_simplex(free[:, list(columns)])
        if self.dependence is not None:
            logs += _dependence_gain(self.dependence, np.column_stack(scores))
        if self.support.lattices().any():  # beyond their ends, which mixtures do not know
            logs[np.isneginf(self.support.log_jacobian(free))] = -np.inf
        return np.where(np.isnan(logs), -np.inf, logs)


def start_rows(table: FittedTable) -> tuple[np.ndarray, np.ndarray | None, float]:
    """Points (n, p) of the prior, or of that share of it where simulations succeed at all."""
    success = table.success
    if table.draws is not None:
        points, weights = table.draws
        if success is not None and success.condition:
            points, weights = success.seen(table.draws)
        kept = (weights > 0) & table.support.contains(points)
        return points[kept], np.log(weights[kept]), 0.0
    logs = None if table.ratio is None else np.log(table.ratio)
    if success is None or success.condition or success.constant:
        return table.parameters, logs, 0.0
    # Among those that succeed rows have these weights; one over its probability makes up for the others.
    logs = np.zeros(len(table)) if logs is None else logs
    every = logs - success.log_probability(table.parameters)
    if success.draws is None:
        return table.parameters, every, 0.0
    # Weighted as they are, rows are all that succeed, whose share is known.
    return table.parameters, every, float(np.log(success.share) + logsumexp(every) - logsumexp(logs))


def fit_prior_density(
    draws: np.ndarray,
    support: Support | None,
    rng: np.random.Generator,
    *,
    log_weights: np.ndarray | None = None,
    # Draws that a density is fitted to, at most.
    draws_for_prior_density: int = 5_000,
) -> PriorDensity:
    """Choose a form and fit it to draws of a prior."""
    # Shapes: draws (n, p); log_weights (n,).
    draws = np.asarray(draws, dtype=float)
    support = support_of(support, draws.shape[1] if draws.ndim == 2 else 0)
    _check(draws, support, log_weights)
    weights = np.exp(log_weights - logsumexp(log_weights)) if log_weights is not None else None
    free = support.forward(draws, rng)
    # A draw on an edge is infinite here: it counts as the farthest that is not.
    for column in range(free.shape[1]):
        ends = free[np.isfinite(free[:, column]), column]
        free[:, column] = np.clip(free[:, column], ends.min(), ends.max())
    ranges, total = np.stack([free.min(axis=0), free.max(axis=0)]), len(free)
    if total > draws_for_prior_density:
        rows = rng.choice(total, draws_for_prior_density, replace=False)
        free, weights = free[rows], None if weights is None else weights[rows]
    weights = np.full(len(free), 1 / len(free)) if weights is None else weights / weights.sum()
    held = np.zeros(len(free), dtype=bool)
    held[rng.permutation(len(free))[: len(free) // 3]] = True
    return _fit(Draws(free, weights, held, ranges, total), support, rng)


def _fit(draws: Draws, support: Support, rng: np.random.Generator) -> PriorDensity:
    fitted: dict[int, Margin | ValueShares] = {}
    trial: dict[int, Margin] = {}
    simplexes: list[tuple[int, ...]] = []
    for block, columns in zip(support.blocks, support.parts(), strict=True):
        if not block.smooth:
            fitted |= {c: fit_atoms(draws, c) for c in columns}
            continue
        chosen = {c: choose_margin(draws, block, j, c) for j, c in enumerate(columns)}
        if isinstance((*block.steps, None)[0], Simplex) and _is_flat(draws, columns, chosen, rng):
            simplexes.append(columns)
            continue
        trial |= {c: few for c, (few, _) in chosen.items()}
        fitted |= {c: margin for c, (_, margin) in chosen.items()}
    smooth = sorted(trial)
    size = _dependence(draws, trial, rng)
    dependence = None
    if size:
        scores = np.column_stack([fitted[c].scores(draws.free[:, c]) for c in smooth])  # type: ignore[union-attr]
        dependence = _joint(scores, draws.weights, size, rng)
    words = [fitted[c].describe() if c in fitted else "uniform simplex" for c in range(draws.free.shape[1])]
    form = ", ".join(dict.fromkeys(words)) + (
        "; columns independent" if dependence is None else f"; dependence by {size} normals of the scores"
    )
    return PriorDensity(support, tuple(sorted(fitted.items())), tuple(simplexes), dependence, form)


def _is_flat(
    draws: Draws,
    columns: tuple[int, ...],
    chosen: dict[int, tuple[Margin, Margin]],
    rng: np.random.Generator,
    *,
    # Standard errors by which a density must beat a uniform one on held-out draws.
    errors: float = 3.0,
) -> bool:
    """Whether a simplex is as well described by a uniform density as by mixtures and their dependence."""
    trial = {c: few for c, (few, _) in chosen.items()}
    held = draws.free[draws.held]
    logs = sum(m.log_density(held[:, c]) for c, m in trial.items())
    size = _dependence(draws, trial, rng)
    if size:
        logs = logs + _trial_gain(draws, trial, size, rng)
    # A uniform density has no number to be fitted: it is left on evidence alone.
    gain, error = draws.gain(logs - _flat_simplex(held[:, list(columns)]))
    return gain <= errors * error


def _flat_simplex(free: np.ndarray) -> np.ndarray:
    # A simplex of q + 1 shares has the uniform density q!.
    return gammaln(free.shape[1] + 1) + Simplex().log_jacobian(free, np.empty((len(free), 0)))


def _joint(scores: np.ndarray, weights: np.ndarray, size: int, rng: np.random.Generator) -> LocalMixture:
    if np.ptp(weights) > 0:
        # The mixture takes no weights: rows are drawn by theirs.
        scores = scores[rng.choice(len(scores), len(scores), p=weights / weights.sum())]
    return fit_mixtures(scores[None], np.ones(scores.shape[1]), (size,), Streams([rng]), rounds=30)


def _dependence_gain(mixture: LocalMixture, scores: np.ndarray) -> np.ndarray:
    """Log density of scores, less that of independent ones."""
    with np.errstate(invalid="ignore"):
        independent = -(scores**2).sum(axis=1) / 2 - scores.shape[1] * np.log(2 * np.pi) / 2
        return log_normal_mixture(mixture, scores[None])[0] - independent


def _trial_gain(draws: Draws, trial: dict[int, Margin], size: int, rng: np.random.Generator) -> np.ndarray:
    scores = np.column_stack([trial[c].scores(draws.free[:, c]) for c in sorted(trial)])
    mixture = _joint(scores[~draws.held], draws.weights[~draws.held], size, rng)
    return _dependence_gain(mixture, scores[draws.held])


def _dependence(
    draws: Draws,
    trial: dict[int, Margin],
    rng: np.random.Generator,
    *,
    # Components of the mixtures of normal scores that are compared.
    joint_sizes: tuple[int, ...] = (1, 2, 4, 8),
    # Standard errors by which a density must beat an independent one on held-out draws.
    errors: float = 3.0,
) -> int:
    """The best size of a mixture of scores, zero where independent columns do as well."""
    if len(trial) < 2:
        return 0
    logs = [_trial_gain(draws, trial, size, rng) for size in joint_sizes]
    best = simplest(draws, logs)
    gain, error = draws.gain(logs[best])
    return joint_sizes[best] if gain > errors * error else 0


def _check(draws: np.ndarray, support: Support, log_weights: np.ndarray | None) -> None:
    if len(draws) < 20:
        raise ValueError(f"there are {len(draws)} draws; the density of a prior needs 20 or more")
    outside = np.flatnonzero(~support.contains(draws))
    if outside.size:
        raise ValueError(
            f"{outside.size} draws of the prior are outside its support, the first is {outside[0]}"
        )
    if log_weights is not None and np.shape(log_weights) != (len(draws),):
        raise ValueError(
            f"log_weights has shape {np.shape(log_weights)}; it must be ({len(draws)},), one a draw"
        )
    for block in support.blocks:
        single = [c for c in block.columns if block.smooth and np.ptp(draws[:, c]) == 0]
        if single:
            raise ValueError(
                f"parameter {single[0]} has the same value in every draw; it has no density: leave it out"
            )


# --- a density for each column ---


@dataclass(frozen=True)
class Draws:
    """Unconstrained draws (n, q), their weights (n,), which are held out (n,), and how far they go."""

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


def choose_margin(
    draws: Draws,
    block: Block,
    position: int,
    column: int,
    *,
    # Components of the mixtures that are compared.
    margin_sizes: tuple[int, ...] = (1, 2, 3, 5, 8),
    # Standard errors by which a density must beat a simpler one on held-out draws.
    errors: float = 3.0,
) -> tuple[Margin, Margin]:
    """The density of a column by the draws that are not held out, and the same form by all."""
    some, weights = draws.column(column)
    everything = draws.free[:, column]
    held = everything[draws.held]
    turn = any(isinstance(step, Circular) for step in block.steps)
    mixtures = [fit_mixture(some, weights, size, turn) for size in margin_sizes]
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
        if gain <= errors * error:
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


def simplest(
    draws: Draws,
    logs: list[np.ndarray],
    *,
    # Standard errors by which a larger mixture must beat a smaller one.
    share_of_error: float = 0.3,
) -> int:
    """The first of held-out log densities that no later one beats by a share of a standard error."""
    best = 0
    for i in range(1, len(logs)):
        gain, error = draws.gain(logs[i] - logs[best])
        best = i if gain > share_of_error * error else best
    return best


def fit_atoms(draws: Draws, column: int) -> ValueShares:
    """Shares of a discrete column's values; refused where it has too many of them to count."""
    values, group = np.unique(draws.free[:, column], return_inverse=True)
    if len(values) > max(20, len(draws.free) // 5):
        raise ValueError(
            f"unconstrained column {column} may not be smoothed and has {len(values)} values in "
            f"{len(draws.free)} draws: its density cannot be estimated from draws. Give the log "
            "density of the parameters instead"
        )
    shares = np.bincount(group.reshape(-1), draws.weights)
    return ValueShares(tuple(values), tuple(shares))


# --- one-dimensional densities ---


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
    """Uniform between ends that the draws themselves show."""

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
    """A mixture of normals."""

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
    """Expectation-maximisation on values (n,) with weights (n,) of sum one."""
    # Shapes: free, weights (n,).
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


def free_log_density(
    support: Support, log_prior: Callable[[np.ndarray], np.ndarray]
) -> Callable[[np.ndarray], np.ndarray]:
    """The log density in the unconstrained space, log_prior(backward(free)) + log |d backward / d free|."""
    # Shapes: log_prior (n, p) -> (n,).
    fitted = getattr(log_prior, "__self__", None)
    if not (isinstance(fitted, PriorDensity) and fitted.support == support):
        density: Callable[[np.ndarray], np.ndarray] = partial(_carried, support, log_prior)
        return partial(_allowed, support, density) if support.constraints else density
    # What was fitted to draws has mass beside them, too.
    density = fitted.free_log_density
    return partial(_allowed, support, density) if support.restricted else density


def _allowed(
    support: Support, log_density: Callable[[np.ndarray], np.ndarray], free: np.ndarray
) -> np.ndarray:
    logs = log_density(free)
    fine = np.isfinite(logs)
    fine[fine] = support.allows(support.backward(free[fine]))
    return np.where(fine, logs, -np.inf)


def _carried(support: Support, log_prior: Callable[[np.ndarray], np.ndarray], free: np.ndarray) -> np.ndarray:
    jacobian = support.log_jacobian(free)
    parameters = support.backward(free)
    with np.errstate(invalid="ignore"):
        logs = log_prior(parameters) + jacobian
    # Infinite at an end of the support that values far out are rounded to, as rows there are left out.
    return np.where(np.isfinite(logs), logs, -np.inf)
