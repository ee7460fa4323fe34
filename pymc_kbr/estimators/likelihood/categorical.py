"""The probabilities of a statistic of few values, given parameters and earlier statistics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_solve
from scipy.special import expit

from pymc_kbr.estimators.likelihood.smooth_function import (
    Effort,
    Inputs,
    SmoothFit,
    SmoothFunction,
    WhitenedBasis,
    by_damped_steps,
    choose_kernel,
    choose_size,
    for_rows,
    leverages,
    start_kernel,
    with_unit_prior,
)
from pymc_kbr.estimators.summaries.transformed import FAR, Levels


class Logit(NamedTuple):
    """A function of the inputs, and the lowest and highest value that it is taken for."""

    function: SmoothFunction
    range: tuple[float, float]

    def __call__(self, theta: Any, past: Any, xp: Any = np, *, shared: bool = False) -> Any:
        """Values (k, r): see `SmoothFunction`."""
        if hasattr(xp, "operation"):
            from pymc_kbr.estimators.likelihood.slopes import SmoothSlopes  # Numba is slow to import

            return xp.clip(xp.operation(SmoothSlopes(self.function), theta, past), *self.range)
        return xp.clip(self.function(theta, past, xp, shared=shared), *self.range)

    def at(self, inputs: Inputs) -> np.ndarray:
        """Values at the rows of `inputs`, shape (n,)."""
        return np.clip(self.function.at(inputs), *self.range)


def _reached(
    logits: tuple[Logit, ...], ends: Any, inputs: tuple[Any, Any], y: Any, xp: Any, shared: bool, total: Any
) -> Any:
    """A total with log probabilities (k, r) of each value's number, of those beyond the last end together."""
    reached = 1.0
    for end, logit in zip(ends, logits, strict=True):
        beyond = 1.0 * (y >= end)
        away = (1 - 2 * beyond) * logit(*inputs, xp, shared=shared)
        total = total - reached * (np.logaddexp(0.0, away) if xp is np else xp.softplus(away))
        reached = beyond
    return total


def _at_least(logits: tuple[Logit, ...], theta: np.ndarray, past: np.ndarray) -> np.ndarray:
    """Probabilities (k, v + 1) of each value or a higher one, for parameters (k, q) and a past (k, l)."""
    ratios = expit(np.column_stack([logit.at(Inputs(theta, past)) for logit in logits]))
    return np.pad(np.cumprod(ratios, axis=1), ((0, 0), (1, 1)), constant_values=(1.0, 0.0))


@dataclass(frozen=True)
class Categorical:
    """P(y = v_k) by continuation ratios (Agresti 2013): logits of y > v_k given y >= v_k, but of the last."""

    levels: Levels
    logits: tuple[Logit, ...]

    def log_density(self, theta: Any, y: Any, past: Any, xp: Any = np, *, shared: bool = False) -> Any:
        """Log densities (k, r) of points (k, r), or of `shared` ones."""
        if shared and xp is np:
            y = for_rows(y, len(theta))
        levels = self.levels
        total = -levels.choose(np.log(levels.upper - levels.lower), y)
        total = _reached(self.logits, levels.cuts, (theta, past), y, xp, shared, total)
        inside = (y >= levels.choose(levels.lower, y)) & (y <= levels.choose(levels.upper, y))
        return xp.where(inside, total, -np.inf)

    def distribution(self, theta: np.ndarray, y: np.ndarray, past: np.ndarray) -> np.ndarray:
        """Distribution functions (k,) of points (k,) given parameters (k, q) and the past (k, l)."""
        levels, at_least = self.levels, _at_least(self.logits, theta, past)
        numbers = levels.numbers(y)
        share = np.clip((y - levels.lower[numbers]) / (levels.upper - levels.lower)[numbers], 0, 1)
        higher, other = (at_least[np.arange(len(y)), numbers + step] for step in (0, 1))
        return 1 - higher + (higher - other) * share

    def draw(self, theta: np.ndarray, past: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One point for each row of the inputs, shape (k,)."""
        at_least = _at_least(self.logits, theta, past)[:, 1:-1]
        numbers = np.sum(rng.random((len(theta), 1)) < at_least, axis=1)
        return self.levels.spread(numbers, rng.random(len(theta)))


# --- counts: the lowest values by their probabilities, those above by a density ---


@dataclass(frozen=True)
class Hurdles:
    """P(y = v_k) by continuation ratios for the lowest values of a lattice, and a density for the others."""

    # Shapes: lower, upper (v,), of the lowest v - 1 values and of the first of the others.
    lower: np.ndarray
    upper: np.ndarray
    logits: tuple[Logit, ...]
    tail: Any
    """The `Conditional` of values from the last of these on."""

    @property
    def _ends(self) -> np.ndarray:
        """Where one value ends and the next begins (v - 1,)."""
        return self.lower[1:]

    def log_density(self, theta: Any, y: Any, past: Any, xp: Any = np, *, shared: bool = False) -> Any:
        """Log densities (k, r) of points (k, r), or of `shared` ones: even over the cells of low values."""
        if shared and xp is np:
            y = for_rows(y, len(theta))
        last, even = self._ends[-1], 0.0
        for place in range(len(self.logits)):
            within = (y >= self.lower[place]) & (y < self.upper[place])
            even = even - xp.where(within, float(np.log(self.upper[place] - self.lower[place])), 0.0)
        far = self.tail.log_density(theta, xp.maximum(y, last), past, xp, shared=shared)
        return _reached(self.logits, self._ends, (theta, past), y, xp, shared, 0.0) + xp.where(
            y >= last, far, even
        )

    def log_mass(
        self,
        theta: Any,
        y: Any,
        ends: tuple[Any, Any],
        past: Any,
        xp: Any = np,
        *,
        shared: bool = False,
        between: bool = False,
    ) -> Any:
        """Log probabilities (k, r) of cells: see `Conditional`."""
        if shared and xp is np:
            y = for_rows(y, len(theta))
        last, first = self._ends[-1], self.upper[-1]
        # What the density has below the first of its values belongs to that one.
        lower = xp.where(ends[0] < (last + first) / 2, -FAR, ends[0])
        upper = xp.maximum(ends[1], first)
        far = self.tail.log_mass(theta, y, (lower, upper), past, xp, shared=shared)
        low = _reached(self.logits, self._ends, (theta, past), y, xp, shared, 0.0)
        return low + xp.where(y >= last, far, 0.0)

    def distribution(self, theta: np.ndarray, y: np.ndarray, past: np.ndarray) -> np.ndarray:
        """Distribution functions (k,) of points (k,) given parameters (k, q) and the past (k, l)."""
        at_least, numbers = _at_least(self.logits, theta, past), np.searchsorted(self._ends, y, side="right")
        share = np.clip((y - self.lower[numbers]) / (self.upper - self.lower)[numbers], 0, 1)
        far = self.tail.distribution(theta, np.maximum(y, self._ends[-1]), past)
        share = np.where(numbers == len(self._ends), far, share)
        higher, other = (at_least[np.arange(len(y)), numbers + step] for step in (0, 1))
        return 1 - higher + (higher - other) * share

    def draw(self, theta: np.ndarray, past: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One point for each row of the inputs, shape (k,)."""
        at_least = _at_least(self.logits, theta, past)[:, 1:-1]
        numbers = np.sum(rng.random((len(theta), 1)) < at_least, axis=1)
        middle = (self.lower + self.upper) / 2
        far = np.maximum(self.tail.draw(theta, past, rng), middle[-1])
        return np.where(numbers == len(self._ends), far, middle[numbers])


def fit_hurdles(
    inputs: Inputs,
    y: np.ndarray,
    ends: tuple[np.ndarray, np.ndarray],
    fit_tail: Callable[[Inputs, np.ndarray], Any],
    rng: np.random.Generator,
    effort: Effort,
) -> Hurdles:
    """Fit continuation ratios of the low values, and a density to the rows beyond them."""
    # Shapes: y (n,); ends two of (v,), of the lowest v - 1 values and of the first of the others.
    numbers = np.searchsorted(ends[0][1:], y, side="right")
    logits = _continuation_logits(inputs, numbers, len(ends[0]) - 1, rng, effort)
    beyond = numbers == len(ends[0]) - 1
    return Hurdles(*ends, logits, fit_tail(inputs.rows(beyond), y[beyond]))


# --- the fit ---


def fit_categorical(
    inputs: Inputs, y: np.ndarray, levels: Levels, rng: np.random.Generator, effort: Effort
) -> Categorical:
    """Fit continuation ratios of all values."""
    # Shapes: y (n,).
    return Categorical(levels, _continuation_logits(inputs, levels.numbers(y), len(levels.cuts), rng, effort))


def _continuation_logits(
    inputs: Inputs, numbers: np.ndarray, ratios: int, rng: np.random.Generator, effort: Effort
) -> tuple[Logit, ...]:
    """For each value's number the logit of a higher one (n,), of the rows that reach it."""
    logits = []
    for number in range(ratios):
        reached = numbers >= number
        logit, _ = fit_part(inputs.rows(reached), numbers[reached] > number, inputs, rng, effort)
        logits.append(logit)
    return tuple(logits)


def fit_share(theta: np.ndarray, above: np.ndarray, rng: np.random.Generator, effort: Effort) -> Logit:
    """The logit of the probability of `above` (n,) given parameters (n, q) alone: smooth, or constant."""
    inputs = Inputs(theta, np.zeros((len(theta), 1)))
    return fit_part(inputs, above, inputs, rng, effort)[0]


def fit_part(
    inputs: Inputs,
    count: np.ndarray,
    whole: Inputs,
    rng: np.random.Generator,
    effort: Effort,
    of: np.ndarray | None = None,
    around: np.ndarray | None = None,
    *,
    # Units that are counted and that are not, and one more of each for each input, that a function takes.
    fewest_of_a_kind: int = 5,
    # On which the prior's size is chosen: each step of its fit has a factorisation of its own.
    rows_for_size: int = 2000,
    # How far logits go beyond those of the fitted rows.
    beyond: float = 1.0,
    # Of a first guess: beyond, a share is one to all digits, and its slope zero.
    largest_logit: float = 30.0,
) -> tuple[Logit, np.ndarray]:
    """The logit of the share of counts (n,) of `of` (n,), or a constant, and its values at rows left out."""
    n, units = len(count), len(count) if of is None else of.sum()
    counted = count.sum()
    # Laplace's rule: what was not met in n rows may still be.
    constant = float(np.log((counted + 1) / (units - counted + 1)))
    alone = _constant(constant, whole), np.full(n, constant)
    least = fewest_of_a_kind + inputs.theta.shape[1] + inputs.past.shape[1]
    if n < 2 * least or min(counted, units - counted) < least:
        return alone
    share = counted / units
    unit = 1 / np.sqrt(share * (1 - share))
    landmarks = inputs.rows(rng.permutation(n)[: effort.landmarks])
    shares = count if of is None else count / of
    targets, deviations = unit * (shares - share), None
    if around is not None:
        # As a step of Newton's has them: logits, whose error is that of a share over its slope.
        around = np.clip(around, -largest_logit, largest_logit)
        middle = expit(around)
        slope = middle * (1 - middle)
        targets, unit = around + (shares - middle) / slope, 1.0
        deviations = 1 / np.sqrt(slope * (1 if of is None else of))
    kernel, _ = choose_kernel(inputs, targets, rng, effort=effort, deviations=deviations)
    some = np.sort(rng.permutation(n)[:rows_for_size])
    # An indicator's deviation is a share's p (1 - p) times a logit's.
    basis = WhitenedBasis(kernel, inputs.rows(some), landmarks).larger(unit)
    of_some = None if of is None else of[some]
    start = np.full(len(some), constant)
    fit = partial(fit_logit, count[some], of=of_some)
    score = partial(_log_score, count[some], of=of_some)
    basis, fitted = choose_size(basis, fit, start, score)
    if n > len(some):
        basis = WhitenedBasis(basis.kernel, inputs, landmarks)
        fitted = fit_logit(count, basis, fitted.function.at(inputs), of)
    if _log_score(count, fitted.left_out, of) <= _log_score(count, alone[1], of):
        return alone
    lowest, highest = float(fitted.left_out.min()), float(fitted.left_out.max())
    return Logit(fitted.function, (lowest - beyond, highest + beyond)), fitted.left_out


def _constant(logit: float, inputs: Inputs) -> Logit:
    """A function that does not depend on its inputs."""
    q, past = inputs.theta.shape[1], inputs.past.shape[1]
    function = SmoothFunction(
        start_kernel(inputs), inputs.rows(slice(1)), np.zeros(1), logit, np.zeros(q), np.zeros(past)
    )
    return Logit(function, (logit, logit))


def fit_logit(
    above: np.ndarray, basis: WhitenedBasis, start: np.ndarray, of: np.ndarray | None = None
) -> SmoothFit:
    """Logits that maximise log probabilities of `above`, or counts among `of`, by Newton's method."""
    # Shapes: above (n,); start (n,).
    features, signs = basis.features, np.where(above, -1.0, 1.0)
    each = 1.0 if of is None else of

    def objective(v: np.ndarray, g: np.ndarray) -> float:
        if of is not None:
            return float(np.sum(of * np.logaddexp(0.0, g) - above * g) + 0.5 * (v @ v))
        return float(np.sum(np.logaddexp(0.0, signs * g)) + 0.5 * (v @ v))

    def factorised(information: np.ndarray) -> np.ndarray:
        return np.linalg.cholesky(with_unit_prior(features.T @ (features * information[:, None])))

    # The information of a logit is a quarter at most.
    v = cho_solve((factorised(each * np.full(len(start), 0.25)), True), 0.25 * (features.T @ (each * start)))

    def step_from(v: np.ndarray, g: np.ndarray) -> np.ndarray:
        share = expit(g)
        factor = factorised(each * share * (1 - share))
        return cho_solve((factor, True), features.T @ (above - each * share) - v)

    v, g = by_damped_steps(features, v, objective, step_from)
    # Without row i a Newton step from the maximum takes its score and its information w away: with
    # h = w f' A^-1 f the logit moves by -(score / w) h / (1 - h).
    share = expit(g)
    information = np.maximum(each * share * (1 - share), 1e-12)
    h = leverages(np.sqrt(information)[:, None] * features, factorised(information))
    return SmoothFit(basis.function(v), g - (above - each * share) / information * h / (1 - h))


def _log_score(above: np.ndarray, logits: np.ndarray, of: np.ndarray | None = None) -> float:
    """Mean log probability of `above` (n,), or of counts among numbers `of` (n,) but for a constant."""
    if of is not None:
        return float(np.mean(above * logits - of * np.logaddexp(0.0, logits)))
    return -float(np.mean(np.logaddexp(0.0, np.where(above, -logits, logits))))
