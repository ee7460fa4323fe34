"""A normal mixture of residuals whose shares, means and deviations move with the inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtr
from scipy.stats import truncnorm

from pymc_kbr.estimators.likelihood.normal_mixture import (
    LOG_ROOT_2PI,
    ResidualShape,
    fit_parts,
    log_between,
    log_sum_exp,
    mixture_log_mass,
)
from pymc_kbr.estimators.likelihood.screening import orthonormal
from pymc_kbr.estimators.likelihood.smooth_function import Inputs, gaussian

LOWEST, HIGHEST = float(np.log(0.03)), float(np.log(6.0))
"""Logs of the deviations of parts stay between them."""


@dataclass(frozen=True)
class ShapeFeatures:
    """Linear and smooth functions of the inputs that matter: u and exp(-|S (u - u')|^2 / 2) R."""

    # Shapes: by_theta (q, s); by_past (l, s); centre (s,); landmarks (m, s); rotation (m, f).
    by_theta: np.ndarray
    by_past: np.ndarray
    centre: np.ndarray
    landmarks: np.ndarray
    rotation: np.ndarray

    def __call__(self, theta: Any, past: Any, xp: Any = np) -> Any:
        """Features (k, r, s + f), or (k, 1, s + f) where the past does not matter."""
        u = (theta @ self.by_theta - self.centre)[:, None, :]
        if self.by_past.any():
            u = u + past @ self.by_past
        # The deviation of an input that matters; of more it grows with the root of their number.
        scales = np.full(len(self.centre), 1 / np.sqrt(len(self.centre)))
        smooth = gaussian(u, self.landmarks, scales, xp) @ self.rotation
        return xp.concatenate([u, smooth], axis=-1)


@dataclass(frozen=True)
class ConditionalMixture:
    """A mixture with logits, means and log deviations linear in features of the inputs."""

    # Shapes: slopes (f, 3 c).
    features: ShapeFeatures
    base: ResidualShape
    slopes: np.ndarray

    def parts(self, theta: Any, past: Any, xp: Any = np) -> list[tuple[Any, Any, Any]]:
        """Log share, mean and log deviation of each part, each (k, r) or (k, 1)."""
        moves = self.features(theta, past, xp) @ self.slopes
        c, base = len(self.base.means), self.base
        logits = [float(base.log_shares[i]) + moves[:, :, i] for i in range(c)]
        total = log_sum_exp(logits, xp)
        means = [float(base.means[i]) + moves[:, :, c + i] for i in range(c)]
        logs = [float(np.log(base.deviations[i])) + moves[:, :, 2 * c + i] for i in range(c)]
        return [
            (a - total, m, xp.clip(s, LOWEST, HIGHEST)) for a, m, s in zip(logits, means, logs, strict=True)
        ]

    def log_density(self, z: Any, theta: Any, past: Any, xp: Any = np) -> Any:
        """Log densities (k, r) of residuals (k, r)."""
        return log_densities(self.parts(theta, past, xp), z, xp)

    def distribution(self, z: np.ndarray, theta: np.ndarray, past: np.ndarray) -> np.ndarray:
        """Distribution functions (k, r) of residuals (k, r)."""
        return distribution(self.parts(theta, past), z)

    def draw(self, theta: np.ndarray, past: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One residual for each row of parameters (k, q) and the past (k, l), shape (k,)."""
        parts = self.parts(theta, past[:, None])
        shares, means, logs = (np.stack([part[i][:, 0] for part in parts], axis=1) for i in range(3))
        # The largest of logits with Gumbel noise is a draw of a part.
        chosen = np.argmax(shares + rng.gumbel(size=shares.shape), axis=1)
        rows = np.arange(len(chosen))
        return means[rows, chosen] + np.exp(logs[rows, chosen]) * rng.standard_normal(len(rows))


def fit_conditional_mixture(
    base: ResidualShape,
    inputs: Inputs,
    z: np.ndarray,
    rng: np.random.Generator,
    *,
    searched: int = 6000,
    learnt: int = 6000,
    # Multiplies the numbers of parts and of smooth functions.
    capacity: int = 1,
    # A shape that is normal on average may be none at any one input.
    fewest_parts: int = 3,
    # Standard deviations of its score test from which an input matters.
    surprising: float = 5.0,
    # Precisions of the coefficients' prior, tried from the largest until held-out rows are worse off.
    penalties: tuple[float, ...] = (100.0, 30.0, 10.0, 3.0, 1.0),
    # Of the rows, which choose the precision.
    held_out_share: float = 0.25,
) -> ResidualShape | ConditionalMixture:
    """The mixture with moving parts, where held-out rows are better off with it."""
    # Shapes: z (n,).
    order = rng.permutation(len(z))
    more = order[: max(searched, learnt)]
    every, of_every = inputs.rows(more), z[more]
    inputs, z = inputs.rows(order[:searched]), z[order[:searched]]
    parts = capacity * fewest_parts
    start = base if len(base.means) >= parts else fit_parts(z, parts, rng)
    matter = np.flatnonzero(surprises(start, inputs, z) > surprising)
    if not len(matter):
        return base
    features = _features(inputs, matter, capacity)
    phi = features(inputs.theta, inputs.past[:, None])[:, 0]
    first = int((1 - held_out_share) * len(z))
    x = np.concatenate([start.log_shares, start.means, np.log(start.deviations)])
    x = np.concatenate([x, np.zeros(phi.shape[1] * len(x))])
    best, score = None, float(np.mean(base.log_density(z[first:])))
    for penalty in penalties:
        x = _maximised(x, phi[:first], z[:first], penalty)
        new = -_objective(x, phi[first:], z[first:], 0.0)[0] / (len(z) - first)
        if new > score:
            best, score = (penalty, x), new
        # The two largest may both be too stiff to gain anything.
        elif penalty < penalties[1]:
            break
    if best is None:
        return base
    penalty, x = best
    phi = features(every.theta, every.past[:, None])[:, 0]
    return _shape(_maximised(x, phi, of_every, penalty), features, len(start.means))


def _maximised(
    x: np.ndarray, phi: np.ndarray, z: np.ndarray, penalty: float, *, iterations: int = 60
) -> np.ndarray:
    """Coefficients of the highest penalised likelihood, by steps from x."""
    # In units of their information, as if parts did not overlap, the loss is about as steep everywhere.
    logits, _, logs = np.split(x[: len(x) // (1 + phi.shape[1])], 3)
    shares = np.exp(logits - log_sum_exp(list(logits)))
    widths = np.exp(np.clip(logs, LOWEST, HIGHEST))
    steep = 1 + len(z) * np.concatenate([shares, shares / widths**2, 2 * shares])
    slopes = np.outer(np.mean(phi**2, axis=0), steep) + penalty
    units = 1 / np.sqrt(np.concatenate([steep, slopes.ravel()]))

    def loss(steps: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = _objective(steps * units, phi, z, penalty)
        return value, gradient * units

    options = {"maxiter": iterations, "maxcor": 20}
    return minimize(loss, x / units, jac=True, method="L-BFGS-B", options=options).x * units


def _shape(x: np.ndarray, features: ShapeFeatures, c: int) -> ConditionalMixture:
    logits, means, logs = x[: 3 * c].reshape(3, c)
    return ConditionalMixture(
        features, ResidualShape(logits, means, np.exp(logs)), x[3 * c :].reshape(-1, 3 * c)
    )


def _objective(x: np.ndarray, phi: np.ndarray, z: np.ndarray, penalty: float) -> tuple[float, np.ndarray]:
    """Minus the penalised log-likelihood and its gradient."""
    c = (len(x) // (1 + phi.shape[1])) // 3
    slopes = x[3 * c :].reshape(-1, 3 * c)
    value, scores = _scores(x[: 3 * c, None] + slopes.T @ phi.T, z)
    gradient = np.concatenate([scores.sum(axis=1), ((scores @ phi).T - penalty * slopes).ravel()])
    return 0.5 * penalty * float(np.sum(slopes**2)) - value, -gradient


def _scores(moves: np.ndarray, z: np.ndarray) -> tuple[float, np.ndarray]:
    """Log-likelihood of residuals (n,) and its gradient (3 c, n) by logits, means and log deviations."""
    # One part after another: sums over few numbers that are neighbours in memory take several times as long.
    logits, means, logs = np.split(moves, 3)
    shares = np.exp(logits - logits.max(axis=0))
    shares /= shares.sum(axis=0)
    inside = (logs > LOWEST) & (logs < HIGHEST)  # beyond, the likelihood does not feel them
    inverse = np.exp(-np.clip(logs, LOWEST, HIGHEST))
    t = (z - means) * inverse
    exponents = np.log(np.maximum(shares, 1e-300) * inverse) - 0.5 * t**2
    highest = exponents.max(axis=0)
    densities = np.exp(exponents - highest)
    total = densities.sum(axis=0)
    part = densities / total
    value = float(np.sum(np.log(total) + highest)) - len(z) * LOG_ROOT_2PI
    return value, np.vstack([part - shares, part * t * inverse, part * (t**2 - 1) * inside])


def surprises(
    base: ResidualShape,
    inputs: Inputs,
    z: np.ndarray,
    *,
    # Of the largest direction of scores, or of functions of an input: less counts for none.
    negligible: float = 1e-3,
) -> np.ndarray:
    """Score test of each input for moving the mixture, in standard deviations, (q + l,)."""
    # Whitened scores are uncorrelated with polynomials of an input that does not matter: a chi-squared
    # variable.
    moves = np.concatenate([base.log_shares, base.means, np.log(base.deviations)])
    scores = _scores(np.repeat(moves[:, None], len(z), axis=1), z)[1].T
    # A residual far out has a score that looks like dependence on whatever its row's inputs are.
    scores = np.clip(scores, *np.quantile(scores, [0.001, 0.999], axis=0))
    whitened = orthonormal(scores - scores.mean(axis=0), negligible)

    def surprise(functions: np.ndarray) -> float:
        basis = orthonormal(functions - functions.mean(axis=0), negligible)
        freedom = whitened.shape[1] * basis.shape[1]
        if not freedom:  # an input that never varies
            return 0.0
        return float((np.sum((basis.T @ whitened) ** 2) * len(z) - freedom) / np.sqrt(2 * freedom))

    columns = np.hstack([inputs.theta, inputs.past])
    deviations = columns.std(axis=0)
    u = np.clip((columns - columns.mean(axis=0)) / np.where(deviations > 0, deviations, 1), -3, 3)
    functions = np.stack([u, u**2, u**3, np.abs(u)], axis=-1)  # (n, q + l, 4)
    varying = np.flatnonzero(deviations > 0).tolist()
    found = np.full(len(deviations), -np.inf)
    for j in varying:
        found[j] = surprise(functions[:, j])
    # What moves one of two groups upwards may move the other downwards: neither shows by itself.
    two = [j for j in varying if np.isin(columns[:, j], [columns[:, j].min(), columns[:, j].max()]).all()]
    for i in two:
        for j in varying:
            if j != i:
                found[[i, j]] = np.maximum(found[[i, j]], surprise(functions[:, j] * u[:, i : i + 1]))
    return found


def _features(
    inputs: Inputs,
    matter: np.ndarray,
    capacity: int = 1,
    *,
    # Of the smooth functions, for a capacity of one; linear ones are beside them.
    most_landmarks: int = 60,
    most_smooth: int = 30,
) -> ShapeFeatures:
    """Features of the inputs in columns `matter` of parameters and past."""
    q = inputs.theta.shape[1]
    columns = np.hstack([inputs.theta, inputs.past])
    selection = np.eye(columns.shape[1])[:, matter] / columns.std(axis=0)[matter]
    u = columns @ selection
    centre = u.mean(axis=0)
    landmarks = (u - centre)[: capacity * most_landmarks]
    scales = np.full(len(matter), 1 / np.sqrt(len(matter)))
    values, vectors = np.linalg.eigh(gaussian(landmarks, landmarks, scales))
    # Smooth functions have large eigenvalues; over their roots all coefficients have one prior.
    kept = np.flatnonzero(values > 1e-4 * values[-1])[-capacity * most_smooth :]
    return ShapeFeatures(
        selection[:q], selection[q:], centre, landmarks, vectors[:, kept] / np.sqrt(values[kept])
    )


# --- mixtures that depend on the parameters ---


LEAST_LOG_DEVIATION, LARGEST_LOG_DEVIATION = -8.0, 6.0
"""Logs of the deviations of parts stay between them."""


class Observed(NamedTuple):
    """Which numbers of rows there are, and between which ends they lie, where not all have the density."""

    # Shapes: there (n, e), bool; ends (n, 2).
    there: np.ndarray
    ends: np.ndarray

    def rows(self, some: np.ndarray) -> Observed:
        """Of some of the rows."""
        return Observed(self.there[some], self.ends[some])

    def of_columns(self, places: np.ndarray) -> Observed:
        """Of some of each row's numbers, by their places (n, m)."""
        return Observed(np.take_along_axis(self.there, places, axis=1), self.ends)


class FittedFunctions(NamedTuple):
    """What `fit_functions` finds; log densities of rows that are held out (h,), and their mean."""

    # Shapes: coefficients (f, 3 c).
    coefficients: np.ndarray
    held_out: float
    logs: np.ndarray


def parts_of_numbers(numbers: Any, c: int, xp: Any = np) -> list[tuple[Any, Any, Any]]:
    """Log share, mean and log deviation (k, 1) of each of c parts, from logits, means and logs (k, 3 c)."""
    logits, means, logs = ([numbers[:, i, None] for i in range(j * c, (j + 1) * c)] for j in range(3))
    total = log_sum_exp(logits, xp)
    low, high = LEAST_LOG_DEVIATION, LARGEST_LOG_DEVIATION
    held = [xp.maximum(xp.minimum(log, high), low) for log in logs]
    return [(a - total, m, s) for a, m, s in zip(logits, means, held, strict=True)]


def log_densities(parts: Sequence[tuple[Any, Any, Any]], z: Any, xp: Any = np) -> Any:
    """Log densities (k, m) of numbers (k, m)."""
    terms = [a - s - LOG_ROOT_2PI - 0.5 * ((z - m) * xp.exp(-s)) ** 2 for a, m, s in parts]
    return log_sum_exp(terms, xp)


def distribution(parts: Sequence[tuple[np.ndarray, ...]], z: np.ndarray) -> np.ndarray:
    """Distribution functions (k, m) of numbers (k, m)."""
    return sum(np.exp(a) * ndtr((z - m) * np.exp(-s)) for a, m, s in parts)


def draw_numbers(
    parts: Sequence[tuple[np.ndarray, ...]],
    size: int,
    rng: np.random.Generator,
    ends: tuple[np.ndarray, np.ndarray] | None = None,
) -> np.ndarray:
    """Independent numbers (k, size) for each of k parameters, which may lie between two ends (k, 1)."""
    shares, means, logs = (np.stack([part[i] for part in parts], axis=2) for i in range(3))
    if ends is not None:
        away = [(end[:, :, None] - means) * np.exp(-logs) for end in ends]
        shares = shares + log_between(*away)
    # The largest of logits with Gumbel noise is a draw of a part.
    noise = rng.gumbel(size=(len(shares), size, shares.shape[2]))
    chosen = np.argmax(shares + noise, axis=2)
    means, logs = (np.take_along_axis(one[:, 0], chosen, axis=1) for one in (means, logs))
    if ends is None:
        return means + np.exp(logs) * rng.standard_normal(means.shape)
    lower, upper = ((end - means) * np.exp(-logs) for end in ends)
    drawn = means + np.exp(logs) * truncnorm.ppf(rng.random(means.shape), lower, upper)
    return np.clip(drawn, *ends)


def start_of_groups(z: np.ndarray, parts: int) -> np.ndarray:
    """Means and log deviations (n, 2 c) of the lowest numbers of each row, the next lowest, and so on."""
    ordered = np.sort(z, axis=1)
    ends = np.linspace(0, z.shape[1], parts + 1).round().astype(int)
    groups = [ordered[:, a:b] for a, b in pairwise(ends)]
    means = [group.mean(axis=1) for group in groups]
    logs = [np.log(group.std(axis=1) + 1e-3) for group in groups]
    return np.column_stack([*means, *logs])


def fit_functions(
    z: np.ndarray,
    features: np.ndarray,
    penalties: np.ndarray,
    start: np.ndarray,
    held_out: np.ndarray,
    rng: np.random.Generator,
    tried: tuple[float, ...] = (1000.0, 100.0, 10.0, 1.0),
    numbers: int = 800_000,
    *,
    some: Observed | None = None,
    # Of the linear functions of the parameters, added to that of the others.
    linear_penalty: float = 0.01,
    # Of each row, at random, on which precisions are tried.
    few_numbers: int = 16,
    # Of the first precision, and of each that follows.
    first_iterations: int = 150,
    further_iterations: int = 60,
) -> FittedFunctions:
    """Penalised likelihood, its penalty by held-out rows, after Bishop, Mixture density networks (1994)."""
    # Shapes: z (n, e); features (n, f); penalties (f,); start (f, 2 c); held_out (n,).
    n, e = z.shape
    order = rng.permuted(np.tile(np.arange(e), (n, 1)), axis=1)
    if some is not None:  # those that are there first
        missing = np.argsort(~np.take_along_axis(some.there, order, axis=1), axis=1, kind="stable")
        order = np.take_along_axis(order, missing, axis=1)
    few = np.take_along_axis(z, order[:, :few_numbers], axis=1)
    some_few = some and some.of_columns(order[:, :few_numbers])
    penalty = linear_penalty + penalties[:, None] * np.ones(3 * start.shape[1] // 2)
    now = np.hstack([np.zeros((len(start), start.shape[1] // 2)), start])
    best, density, chosen, rest = now, -np.inf, tried[0], ~held_out
    best_logs = np.empty(0)
    for weight in tried:
        most = first_iterations if weight == tried[0] else further_iterations
        of_rest = some_few and some_few.rows(rest)
        now = _with_most_likely(now, few[rest], features[rest], weight * penalty, most, of_rest)
        parts = parts_of_numbers(features[held_out] @ now, start.shape[1] // 2)
        logs = log_densities(parts, z[held_out])
        if some is not None:
            of_held_out = some.rows(held_out)
            inside = mixture_log_mass(parts, *np.split(of_held_out.ends, 2, axis=1))
            logs = np.where(of_held_out.there, logs - inside, 0.0)
        found = float(logs.sum(axis=1).mean())
        if found > density:
            best, density, chosen, best_logs = now, found, weight, logs.sum(axis=1)
    if numbers:
        wide = int(np.clip(numbers // n, min(e, few_numbers), e))
        more = np.take_along_axis(z, order[:, :wide], axis=1)
        of_more = some and some.of_columns(order[:, :wide])
        best = _with_most_likely(best, more, features, chosen * penalty, further_iterations, of_more)
    return FittedFunctions(best, density, best_logs)


def _with_most_likely(
    start: np.ndarray,
    z: np.ndarray,
    features: np.ndarray,
    penalty: np.ndarray,
    iterations: int,
    some: Observed | None = None,
) -> np.ndarray:
    """Coefficients (f, 3 c) of the highest penalised likelihood, from some on."""
    c, count = start.shape[1] // 3, z.size if some is None else int(some.there.sum())
    logs = np.clip(features @ start[:, 2 * c :], LEAST_LOG_DEVIATION, LARGEST_LOG_DEVIATION)
    # In these units the loss is about as steep in all directions.
    steep = np.concatenate([np.ones(c), np.exp(-2 * np.median(logs, axis=0)), np.ones(c)])
    units = 1 / np.sqrt(count / c * steep + penalty)

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        w = flat.reshape(start.shape) * units
        value, slopes = _likelihood(features @ w, z, some)
        down = penalty * w
        return -value + 0.5 * float(np.sum(down * w)), ((down - features.T @ slopes) * units).ravel()

    options = {"maxiter": iterations, "maxcor": 20, "ftol": 1e-9}
    found = minimize(loss, (start / units).ravel(), jac=True, method="L-BFGS-B", options=options)
    return found.x.reshape(start.shape) * units


def _likelihood(numbers: np.ndarray, z: np.ndarray, some: Observed | None = None) -> tuple[float, np.ndarray]:
    """Summed log density of rows (n, e), and its slopes (n, 3 c) in the numbers of their parts."""
    c = numbers.shape[1] // 3
    parts, logs = parts_of_numbers(numbers, c), numbers[:, 2 * c :]
    free = ((logs > LEAST_LOG_DEVIATION) & (logs < LARGEST_LOG_DEVIATION)).T
    terms, away = _terms(parts, z)
    highest = terms.max(axis=0)
    terms -= highest
    np.exp(terms, out=terms)
    total = terms.sum(axis=0)
    terms /= total
    each = highest + np.log(total)
    counts: Any = z.shape[1]
    if some is not None:
        terms *= some.there
        each, counts = each * some.there, some.there.sum(axis=1)
    shares = [np.exp(a[:, 0]) for a, _, _ in parts]
    held = terms.sum(axis=2)
    terms *= away
    first = terms.sum(axis=2)
    terms *= away
    second = terms.sum(axis=2)
    slopes = np.column_stack(
        [
            *(one - counts * share for one, share in zip(held, shares, strict=True)),
            *(one * np.exp(-s[:, 0]) for one, (_, _, s) in zip(first, parts, strict=True)),
            # Where a logarithm is cut off the density does not feel it.
            *((two - one) * inside for one, two, inside in zip(held, second, free, strict=True)),
        ]
    )
    value = float(np.sum(each))
    if some is not None:
        mass, of_mass = _log_mass(parts, some.ends)
        value -= float(counts @ mass)
        of_mass[:, 2 * c :] *= free.T
        slopes -= counts[:, None] * of_mass
    return value, slopes


def _log_mass(parts: Sequence[tuple[np.ndarray, ...]], ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log probabilities (n,) between ends (n, 2), and their slopes (n, 3 c) in the numbers of the parts."""
    shares, means, logs = (np.hstack([part[i] for part in parts]) for i in range(3))
    lower, upper = ((ends[:, i : i + 1] - means) * np.exp(-logs) for i in (0, 1))
    each = shares + log_between(lower, upper)
    total = np.logaddexp.reduce(each, axis=1)
    at = [np.exp(shares - LOG_ROOT_2PI - 0.5 * end**2 - total[:, None]) for end in (lower, upper)]
    by_share = np.exp(each - total[:, None]) - np.exp(shares)
    by_log = lower * at[0] - upper * at[1]
    return total, np.hstack([by_share, (at[0] - at[1]) * np.exp(-logs), by_log])


def _terms(parts: Sequence[tuple[np.ndarray, ...]], z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log densities of each part, but for a constant, and standardised distances, both (c, n, e)."""
    away = np.empty((len(parts), *z.shape))
    terms = np.empty_like(away)
    for i, (a, m, s) in enumerate(parts):
        away[i] = (z - m) * np.exp(-s)
        terms[i] = a - s - 0.5 * away[i] ** 2
    return terms, away
