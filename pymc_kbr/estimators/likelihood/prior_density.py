"""The density of a prior that is known by draws only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, logsumexp

from pymc_kbr.arrays.bijections import Simplex
from pymc_kbr.arrays.support import Support, support_of
from pymc_kbr.estimators.fitted_table import FittedTable
from pymc_kbr.estimators.likelihood.local_mixture import LocalMixture, fit_mixtures, log_normal_mixture
from pymc_kbr.estimators.likelihood.prior_choice import ERRORS, Draws, choose_margin, fit_atoms, simplest
from pymc_kbr.estimators.likelihood.prior_margins import Margin, ValueShares
from pymc_kbr.estimators.likelihood.streams import Streams

LARGEST_FREE = 700.0
"""Unconstrained values beyond it are edges of the support."""

DRAWS_FOR_PRIOR_DENSITY = 5_000
"""Most draws that a density is fitted to."""

JOINT_SIZES = (1, 2, 4, 8)
"""Components of the mixtures of normal scores that are compared."""


@dataclass(frozen=True)
class PriorDensity:
    """A density fitted to draws of a prior.

    The columns' own densities, times one of how their normal scores depend on one another.

    Attributes
    ----------
    support : Support
    margins : tuple of (int, Margin or Atoms)
        Densities of unconstrained columns by their number.
    flat_simplexes : tuple of (int, ...)
        Unconstrained columns of simplexes on which the prior is uniform.
    dependence : LocalMixture or None
        Of the scores of the columns that are neither discrete nor of a flat simplex.
    form : str
        What was chosen, in words.
    """

    support: Support
    margins: tuple[tuple[int, Margin | ValueShares], ...]
    flat_simplexes: tuple[tuple[int, ...], ...]
    dependence: LocalMixture | None
    form: str

    def log_density(self, parameters: np.ndarray) -> np.ndarray:
        """Log density (n,) at parameters (n, p), minus infinity outside the support."""
        parameters = np.asarray(parameters, dtype=float)
        if parameters.ndim != 2 or parameters.shape[1] != self.support.size:
            raise ValueError(
                f"parameters have shape {parameters.shape}; they must be (n, {self.support.size})"
            )
        logs = np.full(len(parameters), -np.inf)
        inside = self.support.contains(parameters)
        if inside.any():
            free = np.clip(self.support.forward(parameters[inside]), -LARGEST_FREE, LARGEST_FREE)
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
    """Points (n, p) that stand for the prior, or for that share of it where simulations succeed at all.

    With log weights (n,) where they are no draws of it, and the logarithm of that share.
    """
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
) -> PriorDensity:
    """Choose a form and fit it to draws of a prior.

    Columns between two finite bounds are uniform unless a mixture of normals in the unconstrained space is
    better on held-out draws by three standard errors. Other columns are mixtures, of the size that is best
    on held-out draws, or uniform over the range of the draws where that is better. Dependence between
    columns is a mixture of their normal scores, kept where held-out draws gain by it. Discrete columns keep
    the shares of their values, independent of the other columns.

    Parameters
    ----------
    draws : ndarray of shape (n, p)
    support : Support, optional
        Unbounded where it is left out.
    rng : numpy.random.Generator
        Chooses the held-out draws.
    log_weights : ndarray of shape (n,), optional

    Returns
    -------
    PriorDensity

    Raises
    ------
    ValueError
        If there are fewer than 20 draws, one is outside the support, a column has a single value, or columns
        with many values may not be smoothed, so that no density of theirs is known.
    """
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
    if total > DRAWS_FOR_PRIOR_DENSITY:
        rows = rng.choice(total, DRAWS_FOR_PRIOR_DENSITY, replace=False)
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
    return gain <= ERRORS * error


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


def _dependence(draws: Draws, trial: dict[int, Margin], rng: np.random.Generator) -> int:
    """The best size of a mixture of scores, zero where independent columns do as well."""
    if len(trial) < 2:
        return 0
    logs = [_trial_gain(draws, trial, size, rng) for size in JOINT_SIZES]
    best = simplest(draws, logs)
    gain, error = draws.gain(logs[best])
    return JOINT_SIZES[best] if gain > ERRORS * error else 0


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
