"""Derivatives of conditionals and smooth functions beside their values, by loops that Numba compiles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np

from pymc_kbr.estimators.likelihood.conditional_mixture import HIGHEST, LOWEST, ConditionalMixture
from pymc_kbr.estimators.likelihood.normal_mixture import LOG_ROOT_2PI, ResidualShape
from pymc_kbr.estimators.likelihood.smooth_function import SmoothFunction, gaussian

if TYPE_CHECKING:
    from pymc_kbr.estimators.likelihood.autoregressive import Conditional

DENSITY, MASS, EITHER = 0, 1, 2
"""What is evaluated: a density at y, the probability of a cell, or what the ends of the cell say."""

KINDS = {"density": DENSITY, "mass": MASS, "either": EITHER}

ROOT_2 = float(np.sqrt(2.0))
LEAST_RELATIVE = 1e-300
"""As `least_relative` of `normal_mixture.log_between`."""


@dataclass(frozen=True, eq=False)
class SmoothSlopes:
    """A smooth function of parameters (k, q) and a past (k, r, l) or (1, r, l)."""

    function: SmoothFunction

    @property
    def key(self) -> tuple[Any, ...]:
        """Which function it is."""
        return (SmoothSlopes, id(self.function))

    def of_past(self, past: np.ndarray) -> tuple[Any, ...]:
        """What the past alone says, which stays while parameters change."""
        return ThetaPart.of(self.function), PastPart.of(self.function, past)

    def evaluate(
        self, theta: np.ndarray, past: np.ndarray, known: tuple[Any, ...], moving: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Values (k, r) and derivatives (k, r, q + l), those by the past only where it is `moving`."""
        return smooth_rows(theta, past, *known, moving)

    def expression(self, theta: Any, past: Any, xp: Any) -> Any:
        """The values by another namespace of arrays."""
        return self.function(theta, past, xp)


@dataclass(frozen=True, eq=False)
class ConditionalSlopes:
    """The log density or probability of a `Conditional`, given y and two ends of a cell."""

    conditional: Conditional
    kind: int

    @property
    def key(self) -> tuple[Any, ...]:
        """Which function it is."""
        return (ConditionalSlopes, id(self.conditional), self.kind)

    def of_past(self, past: np.ndarray) -> tuple[Any, ...]:
        """What the past alone says, which stays while parameters change."""
        mean, log_variance = self.conditional.mean, self.conditional.log_variance
        shape = MovingMixture.of(self.conditional)
        parts = PastPart.of(mean, past), PastPart.of(log_variance, past), past @ shape.by_past
        unit = np.array([self.conditional.centre, self.conditional.scale, *self.conditional.range])
        return (*parts, ThetaPart.of(mean), ThetaPart.of(log_variance), shape, unit)

    def evaluate(
        self,
        theta: np.ndarray,
        y: np.ndarray,
        lower: np.ndarray,
        upper: np.ndarray,
        past: np.ndarray,
        known: tuple[Any, ...],
        moving: bool,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Values (k, r) and derivatives (k, r, q + 3 + l), those by the past only where it is `moving`."""
        return conditional_rows(theta, y, lower, upper, past, *known, self.kind, moving)

    def expression(self, theta: Any, y: Any, lower: Any, upper: Any, past: Any, xp: Any) -> Any:
        """The values by another namespace of arrays."""
        if self.kind == DENSITY:
            return self.conditional.log_density(theta, y, past, xp)
        between = self.kind == EITHER
        return self.conditional.log_mass(theta, y, (lower, upper), past, xp, between=between)


# --- what loops read ---


class ThetaPart(NamedTuple):
    """Of a `SmoothFunction`, what meets the parameters."""

    # Shapes: scales, slopes (q,); landmarks (m, q).
    scales: np.ndarray
    landmarks: np.ndarray
    slopes: np.ndarray

    @classmethod
    def of(cls, function: SmoothFunction) -> ThetaPart:
        """Of a function."""
        arrays = function.kernel.theta_scales, function.landmarks.theta, function.theta_slopes
        return cls(*(np.ascontiguousarray(each, dtype=float) for each in arrays))


class PastPart(NamedTuple):
    """Of a `SmoothFunction`, what the past makes of each landmark and of the linear part."""

    # Shapes: factor, smooth (k, r, m); linear (k, r); coefficients (m,); scales, slopes, squares (l,).
    factor: np.ndarray
    smooth: np.ndarray
    linear: np.ndarray
    coefficients: np.ndarray
    landmarks: np.ndarray
    scales: np.ndarray
    slopes: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(cls, function: SmoothFunction, past: np.ndarray) -> PastPart:
        """At a past (k, r, l)."""
        kernel, landmarks = function.kernel, function.landmarks.past
        factor = function.coefficients * kernel.past_factor(past, landmarks)
        smooth = function.coefficients * kernel.bump * gaussian(past, landmarks, kernel.past_scales)
        linear = function.constant + past @ function.past_slopes
        own = function.coefficients, landmarks, kernel.past_scales, function.past_slopes, kernel.slopes**2
        return cls(factor, smooth, linear, *(np.ascontiguousarray(each, dtype=float) for each in own))


class MovingMixture(NamedTuple):
    """The parts of a mixture, and what moves them."""

    # Shapes: base (3 c,); centre (s,); landmarks (m, s); by_theta (q, s); by_past (l, s); linear (s, 3 c);
    # smooth (m, 3 c); limits (2,).
    base: np.ndarray
    by_theta: np.ndarray
    by_past: np.ndarray
    centre: np.ndarray
    landmarks: np.ndarray
    linear: np.ndarray
    smooth: np.ndarray
    limits: np.ndarray

    @classmethod
    def of(cls, conditional: Conditional) -> MovingMixture:
        """Of a conditional's residuals; without features where nothing moves them."""
        shape, sizes = conditional.shape, (conditional.mean.theta_slopes, conditional.mean.past_slopes)
        base, limits = shape, (-np.inf, np.inf)
        by_theta, by_past = (np.zeros((len(each), 0)) for each in sizes)
        centre, landmarks, slopes, rotation = (
            np.zeros(0),
            np.zeros((0, 0)),
            np.zeros((0, 0)),
            np.zeros((0, 0)),
        )
        if isinstance(shape, ConditionalMixture):
            base, slopes, of = shape.base, shape.slopes, shape.features
            by_theta, by_past, centre, landmarks = of.by_theta, of.by_past, of.centre, of.landmarks
            rotation, limits = of.rotation, (LOWEST, HIGHEST)
        assert isinstance(base, ResidualShape)
        numbers = np.concatenate([base.log_shares, base.means, np.log(base.deviations)])
        slopes = slopes if len(slopes) else np.zeros((0, len(numbers)))
        smooth = rotation @ slopes[len(centre) :]
        arrays = numbers, by_theta, by_past, centre, landmarks, slopes[: len(centre)], smooth, limits
        return cls(*(np.ascontiguousarray(each, dtype=float) for each in arrays))


# --- the loops ---


def loops(function: Any) -> Any:
    """Compiled by Numba, once for a machine where it can write what it has compiled."""
    try:
        return numba.njit(function, cache=True, error_model="numpy")
    except RuntimeError:  # no folder to write to
        return numba.njit(function, error_model="numpy")


@loops
def meet(theta, part, factor, slopes):  # type: ignore[no-untyped-def]
    """The factor (m,) of one row's parameters and each landmark, and its derivatives (m, q)."""
    for m in range(len(factor)):
        total = 0.0
        for d in range(len(theta)):
            away = part.scales[d] * (theta[d] - part.landmarks[m, d])
            total += away * away
            slopes[m, d] = -part.scales[d] * away
        factor[m] = np.exp(-0.5 * total)
        for d in range(len(theta)):
            slopes[m, d] *= factor[m]


@loops
def smooth_value(theta, past, of_theta, of_past, p, j, moving, factor, slopes, by_theta, by_past):  # type: ignore[no-untyped-def]
    """One value of a smooth function; its derivatives are written to the last two."""
    value = of_past.linear[p, j]
    for d in range(len(theta)):
        value += theta[d] * of_theta.slopes[d]
        by_theta[d] = of_theta.slopes[d]
    for m in range(len(factor)):
        weight = of_past.factor[p, j, m]
        value += factor[m] * weight
        for d in range(len(theta)):
            by_theta[d] += weight * slopes[m, d]
    if moving:
        for i in range(len(by_past)):
            by_past[i] = of_past.slopes[i]
        for m in range(len(factor)):
            even, bent = factor[m] * of_past.coefficients[m], factor[m] * of_past.smooth[p, j, m]
            for i in range(len(by_past)):
                away = past[p, j, i] - of_past.landmarks[m, i]
                by_past[i] += even * of_past.squares[i] * of_past.landmarks[m, i]
                by_past[i] -= bent * of_past.scales[i] ** 2 * away
    return value


@loops
def smooth_rows(theta, past, of_theta, of_past, moving):  # type: ignore[no-untyped-def]
    """Values (k, r) of a smooth function, and their derivatives (k, r, q + e)."""
    (k, q), (pasts, r, e) = theta.shape, past.shape
    values, slopes = np.empty((k, r)), np.empty((k, r, q + e if moving else q))
    m = len(of_theta.landmarks)
    factor, moves = np.empty(m), np.empty((m, q))
    by_theta, by_past = np.empty(q), np.empty(e)
    for i in range(k):
        p = i if pasts > 1 else 0
        meet(theta[i], of_theta, factor, moves)
        for j in range(r):
            values[i, j] = smooth_value(
                theta[i], past, of_theta, of_past, p, j, moving, factor, moves, by_theta, by_past
            )
            slopes[i, j, :q] = by_theta
            if moving:
                slopes[i, j, q:] = by_past
    return values, slopes


@loops
def log_ndtr(z):  # type: ignore[no-untyped-def]
    """Log of the normal distribution function, and its derivative."""
    if z < -8.0:
        # Mills' ratio by its continued fraction: the complementary error function has no digits far out.
        t = -z
        for n in range(40, 0, -1):
            t = n / t - z
        return -0.5 * z * z - LOG_ROOT_2PI - np.log(t), t
    log = np.log(0.5 * math.erfc(-z / ROOT_2)) if z < -1.0 else np.log1p(-0.5 * math.erfc(z / ROOT_2))
    return log, np.exp(-0.5 * z * z - LOG_ROOT_2PI - log)


@loops
def log_between(a, b):  # type: ignore[no-untyped-def]
    """Log probability of a standard normal between two ends, and its derivatives by both."""
    flipped = a + b > 0
    low, high = (-b, -a) if flipped else (a, b)
    (log_low, low_slope), (log_high, high_slope) = log_ndtr(low), log_ndtr(high)
    apart = log_low - log_high < -LEAST_RELATIVE
    found = log_high + np.log(-np.expm1(min(log_low - log_high, -LEAST_RELATIVE)))
    by_high = high_slope * (np.exp(log_high - found) if apart else 1.0)
    by_low = -low_slope * np.exp(log_low - found) if apart and log_low > -np.inf else 0.0
    return (found, -by_high, -by_low) if flipped else (found, by_low, by_high)


@loops
def log_mixture(moves, limits, t, lower, upper, mass, by_moves, terms):  # type: ignore[no-untyped-def]
    """Log density at t, or log probability between two ends, of a mixture's logits, means, logs (3 c,)."""
    # Derivatives by the mixture's numbers are written to `by_moves`; those by t, or the two ends, come back.
    c = len(terms)
    highest, total = -np.inf, 0.0
    for i in range(c):
        highest = max(highest, moves[i])
    for i in range(c):
        total += np.exp(moves[i] - highest)
    total = highest + np.log(total)
    by_t = by_lower = by_upper = 0.0
    largest = -np.inf
    for i in range(c):
        log = min(max(moves[2 * c + i], limits[0]), limits[1])
        unit = np.exp(-log)
        if mass:
            terms[i] = log_between((lower - moves[c + i]) * unit, (upper - moves[c + i]) * unit)[0]
        else:
            z = (t - moves[c + i]) * unit
            terms[i] = -log - LOG_ROOT_2PI - 0.5 * z * z
        terms[i] += moves[i] - total
        largest = max(largest, terms[i])
    whole = 0.0
    for i in range(c):
        whole += np.exp(terms[i] - largest)
    value = largest + np.log(whole)
    for i in range(c):
        share = np.exp(terms[i] - value)
        inside = limits[0] < moves[2 * c + i] < limits[1]
        unit = np.exp(-min(max(moves[2 * c + i], limits[0]), limits[1]))
        if mass:
            a, b = (lower - moves[c + i]) * unit, (upper - moves[c + i]) * unit
            _, by_a, by_b = log_between(a, b)
            by_lower += share * by_a * unit
            by_upper += share * by_b * unit
            by_moves[c + i] = -share * (by_a + by_b) * unit
            by_moves[2 * c + i] = -share * (by_a * a + by_b * b) if inside else 0.0
        else:
            z = (t - moves[c + i]) * unit
            by_t -= share * z * unit
            by_moves[c + i] = share * z * unit
            by_moves[2 * c + i] = share * (z * z - 1.0) if inside else 0.0
        by_moves[i] = share - np.exp(moves[i] - total)
    return value, by_t, by_lower, by_upper


@loops
def move(u, shape, moves, slopes):  # type: ignore[no-untyped-def]
    """Numbers of the mixture (3 c,) at features u (s,), and their derivatives (3 c, s)."""
    s = len(u)
    for i in range(len(moves)):
        moves[i] = shape.base[i]
        for d in range(s):
            moves[i] += u[d] * shape.linear[d, i]
            slopes[i, d] = shape.linear[d, i]
    for m in range(len(shape.landmarks)):
        total = 0.0
        for d in range(s):
            total += (u[d] - shape.landmarks[m, d]) ** 2
        bump = np.exp(-0.5 * total / s)
        for i in range(len(moves)):
            term = bump * shape.smooth[m, i]
            moves[i] += term
            for d in range(s):
                slopes[i, d] -= term * (u[d] - shape.landmarks[m, d]) / s


@loops
def conditional_rows(  # type: ignore[no-untyped-def]
    theta,
    y,
    lower,
    upper,
    past,
    mean_past,
    log_past,
    shape_past,
    mean_theta,
    log_theta,
    shape,
    unit,
    kind,
    moving,
):
    """Log densities or probabilities (k, r) of a conditional, and their derivatives (k, r, q + 3 + e)."""
    (k, q), (pasts, r, e) = theta.shape, past.shape
    values, slopes = np.empty((k, r)), np.empty((k, r, q + 3 + e if moving else q + 3))
    s, size = len(shape.centre), len(shape.base)
    factors = np.empty(len(mean_theta.landmarks)), np.empty(len(log_theta.landmarks))
    moves_of = np.empty((len(factors[0]), q)), np.empty((len(factors[1]), q))
    mean_by_theta, log_by_theta, mean_by_past, log_by_past = (
        np.empty(q),
        np.empty(q),
        np.empty(e),
        np.empty(e),
    )
    u, moves, by_moves, by_u = np.empty(s), np.empty(size), np.empty(size), np.empty((size, s))
    terms = np.empty(size // 3)
    centre, scale = unit[0], unit[1]
    fixed = s == 0
    if fixed:
        move(u, shape, moves, by_u)
    for i in range(k):
        p = i if pasts > 1 else 0
        meet(theta[i], mean_theta, factors[0], moves_of[0])
        meet(theta[i], log_theta, factors[1], moves_of[1])
        for j in range(r):
            mean = smooth_value(
                theta[i],
                past,
                mean_theta,
                mean_past,
                p,
                j,
                moving,
                factors[0],
                moves_of[0],
                mean_by_theta,
                mean_by_past,
            )
            log = smooth_value(
                theta[i],
                past,
                log_theta,
                log_past,
                p,
                j,
                moving,
                factors[1],
                moves_of[1],
                log_by_theta,
                log_by_past,
            )
            half = 0.5 * min(max(log, unit[2]), unit[3])
            inside = unit[2] < log < unit[3]
            if not fixed:
                for d in range(s):
                    u[d] = shape_past[p, j, d] - shape.centre[d]
                    for f in range(q):
                        u[d] += theta[i, f] * shape.by_theta[f, d]
                move(u, shape, moves, by_u)
            small = np.exp(-half)
            at = y[i if len(y) > 1 else 0, j]
            low, high = lower[i if len(lower) > 1 else 0, j], upper[i if len(upper) > 1 else 0, j]
            t = ((at - centre) / scale - mean) * small
            mass = kind == MASS or (kind == EITHER and high > low)
            low_t, high_t = t + (low - at) * small / scale, t + (high - at) * small / scale
            value, by_t, by_low, by_high = log_mixture(
                moves, shape.limits, t, low_t, high_t, mass, by_moves, terms
            )
            by_mean = -(by_t + by_low + by_high) * small
            by_half = -by_t * t - by_low * low_t - by_high * high_t
            if not mass:
                value -= half + np.log(scale)
                by_half -= 1.0
            values[i, j] = value
            by_log = 0.5 * by_half if inside else 0.0
            out = slopes[i, j]
            for f in range(q):
                out[f] = by_mean * mean_by_theta[f] + by_log * log_by_theta[f]
            out[q], out[q + 1], out[q + 2] = (
                by_t * small / scale,
                by_low * small / scale,
                by_high * small / scale,
            )
            if moving:
                for f in range(e):
                    out[q + 3 + f] = by_mean * mean_by_past[f] + by_log * log_by_past[f]
            for d in range(s):
                total = 0.0
                for m in range(size):
                    total += by_moves[m] * by_u[m, d]
                for f in range(q):
                    out[f] += total * shape.by_theta[f, d]
                if moving:
                    for f in range(e):
                        out[q + 3 + f] += total * shape.by_past[f, d]
    return values, slopes
