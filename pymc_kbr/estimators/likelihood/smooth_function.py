"""Regression functions in the space of a product kernel: means and log variances."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import blas, cho_solve, lapack
from scipy.optimize import minimize


@dataclass(frozen=True)
class SmoothFunction:
    """A function of parameters and earlier statistics: linear, and in the space of a product kernel."""

    # Shapes: coefficients (m,); theta_slopes, past_slopes (q,), (l,).
    kernel: ProductKernel
    landmarks: Inputs
    coefficients: np.ndarray
    constant: float
    theta_slopes: np.ndarray
    past_slopes: np.ndarray

    def __call__(self, theta: Any, past: Any, xp: Any = np, *, shared: bool = False) -> Any:
        """Values (k, r) at parameters (k, q) and a past (k, r, l), or (1, r, l) where `shared`."""
        by_theta = self.kernel.theta_factor(theta, self.landmarks.theta, xp)
        linear = self.constant + (theta @ self.theta_slopes)[:, None]
        if shared and xp is np and len(past) > 1:
            by_past = self.kernel.past_factor(past, self.landmarks.past) * self.coefficients
            smooth = by_theta.reshape(len(past), -1, by_theta.shape[1]) @ by_past.swapaxes(1, 2)
            return linear + for_rows(past @ self.past_slopes, len(theta)) + smooth.reshape(len(theta), -1)
        if shared:
            by_past = self.kernel.past_factor(past[0], self.landmarks.past, xp) * self.coefficients
            return linear + (past[0] @ self.past_slopes)[None, :] + by_theta @ by_past.T
        by_past = self.kernel.past_factor(past, self.landmarks.past, xp) * self.coefficients
        return linear + past @ self.past_slopes + xp.sum(by_past * by_theta[:, None, :], axis=-1)

    def at(self, inputs: Inputs, *, rows_at_once: int = 4096) -> np.ndarray:
        """Values at the rows of `inputs`, shape (n,)."""
        parts = [slice(i, i + rows_at_once) for i in range(0, len(inputs.theta), rows_at_once)]
        return np.concatenate([self(inputs.theta[p], inputs.past[p][:, None])[:, 0] for p in parts])


class WhitenedBasis:
    """Whitened features of a kernel: their coefficients have the unit prior."""

    # Shapes: features (n, m + 1 + q + l).
    def __init__(self, kernel: ProductKernel, inputs: Inputs, landmarks: Inputs) -> None:
        chosen, factor = independent(kernel(landmarks, landmarks))
        self.kernel, self.landmarks = kernel, (landmarks := landmarks.rows(chosen))
        self._unwhiten = inverse_lower(factor)
        m = len(landmarks.theta)
        gram = kernel(inputs, landmarks)
        self.features = np.empty((len(gram), m + 1 + inputs.theta.shape[1] + inputs.past.shape[1]))
        self.features[:, :m] = gram @ self._unwhiten.T
        self.features[:, m:] = inputs.linear() / np.sqrt(LINEAR_PRECISION)

    @cached_property
    def squares(self) -> np.ndarray:
        """Products F' F of the features."""
        return self.features.T @ self.features

    @cached_property
    def log_variance_factor(self) -> np.ndarray:
        """Cholesky factor of the precision of log variances: each row informs by one half."""
        return np.linalg.cholesky(with_unit_prior(0.5 * self.squares))

    @cached_property
    def log_variance_leverages(self) -> np.ndarray:
        """Share of each row in its own log variance, shape (n,)."""
        return leverages(self.features, self.log_variance_factor, 0.5)

    def _copy(self) -> WhitenedBasis:
        """A copy without what was computed of the features."""
        other = copy(self)
        for name in ("squares", "log_variance_factor", "log_variance_leverages"):
            other.__dict__.pop(name, None)
        return other

    def larger(self, unit: float) -> WhitenedBasis:
        """The basis of functions that are larger by a factor."""
        other, m, kernel = self._copy(), len(self.landmarks.theta), self.kernel
        other.kernel = replace(
            kernel, slopes=kernel.slopes * unit, level=kernel.level * unit**2, bump=kernel.bump * unit**2
        )
        other._unwhiten = self._unwhiten / unit
        other.features = self.features.copy()
        other.features[:, :m] *= unit
        units = np.where(np.arange(other.features.shape[1]) < m, unit, 1.0)
        other.__dict__["squares"] = self.squares * np.outer(units, units)
        return other

    def of_rows(self, rows: np.ndarray) -> WhitenedBasis:
        """The same functions at some rows."""
        other = self._copy()
        other.features = self.features[rows]
        return other

    def function(self, v: np.ndarray) -> SmoothFunction:
        """The function of whitened coefficients v."""
        m, q = len(self.landmarks.theta), self.landmarks.theta.shape[1]
        coefficients = self._unwhiten.T @ v[:m]
        linear = v[m:] / np.sqrt(LINEAR_PRECISION)
        return SmoothFunction(
            self.kernel, self.landmarks, coefficients, float(linear[0]), linear[1 : 1 + q], linear[1 + q :]
        )


class SmoothFit(NamedTuple):
    """A function and, for each row, its value as all the other rows predict it."""

    function: SmoothFunction
    left_out: np.ndarray


def leverages(
    features: np.ndarray,
    factor: np.ndarray,
    weight: float = 1.0,
    *,
    # Residuals are divided by one minus their leverage, which is at most this.
    largest_smooth_leverage: float = 0.95,
) -> np.ndarray:
    """Diagonal of w F A^-1 F' for a weight w and A = L L', shape (n,)."""
    half = blas.dtrmm(1.0, inverse_lower(factor), features.T, lower=1)  # half the work of `@`
    return np.minimum(weight * np.einsum("ij,ij->j", half, half), largest_smooth_leverage)


def fit_mean(basis: WhitenedBasis, targets: np.ndarray, noise: np.ndarray | float) -> SmoothFit:
    """Posterior mean of a Gaussian process, for noise variances (n,), or one of all rows."""
    if isinstance(noise, np.ndarray):
        root = 1 / np.sqrt(noise)
        features, weight = basis.features * root[:, None], 1.0
        factor = np.linalg.cholesky(with_unit_prior(features.T @ features))
        v = cho_solve((factor, True), features.T @ (targets * root))
    else:
        features, weight = basis.features, 1 / noise
        factor = mean_factor(basis, noise)
        v = cho_solve((factor, True), weight * (features.T @ targets))
    residuals = targets - basis.features @ v
    # Without row i its residual is r_i / (1 - h_i): n regressions from one.
    left_out = residuals / (1 - leverages(features, factor, weight))
    return SmoothFit(basis.function(v), targets - left_out)


def mean_factor(basis: WhitenedBasis, noise: float) -> np.ndarray:
    """Cholesky factor of the precision of a mean's coefficients, for one noise variance."""
    return np.linalg.cholesky(with_unit_prior(basis.squares / noise))


def by_damped_steps(
    features: np.ndarray,
    v: np.ndarray,
    objective: Callable[[np.ndarray, np.ndarray], float],
    step_from: Callable[[np.ndarray, np.ndarray], np.ndarray],
    *,
    # Steps of Fisher scoring, at most.
    scoring_steps: int = 25,
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients v (m,) that minimise an objective of them and of g = F v (n,), and g."""
    # Shapes: features (n, m); v (m,); objective (v, g) -> float; step_from (v, g) -> (m,).
    g = features @ v
    value = objective(v, g)
    for _ in range(scoring_steps):
        step = step_from(v, g)
        change, length = features @ step, 1.0
        # Far from the minimum a whole step overshoots: no objective here is a parabola.
        while (new := objective(v + length * step, g + length * change)) > value and length > 1e-3:
            length /= 2
        gain, value = value - new, min(new, value)
        if gain <= 0:
            break
        v, g = v + length * step, g + length * change
        if gain < 1e-4 * len(g) ** 0.5:
            break
    return v, g


def fit_log_variance(
    basis: WhitenedBasis,
    squares: np.ndarray,
    start: np.ndarray,
    *,
    # One row's score, at most, in the direction of a Fisher step; the true objective accepts the step.
    largest_score: float = 20.0,
) -> SmoothFit:
    """Log variances g that maximise sum(-g - squares exp(-g)) / 2 and their prior, by Fisher scoring."""
    # The information of a log variance is one half everywhere: all steps share one factorisation.
    # Shapes: squares (n,); start (n,).
    features, factor = basis.features, basis.log_variance_factor
    v = cho_solve((factor, True), 0.5 * (features.T @ start))

    def objective(v: np.ndarray, g: np.ndarray) -> float:
        return 0.5 * float(np.sum(g + squares * np.exp(-g)) + v @ v)

    def step_from(v: np.ndarray, g: np.ndarray) -> np.ndarray:
        scores = np.minimum(squares * np.exp(-g) - 1, largest_score)
        return cho_solve((factor, True), 0.5 * (features.T @ scores) - v)

    v, g = by_damped_steps(features, v, objective, step_from)
    # Without row i a Newton step from the maximum takes its score s / 2 and its information 1 / 2 away: with
    # h = f' A^-1 f / 2 the log variance moves by -s h / (1 - h).
    h = basis.log_variance_leverages
    scores = np.minimum(squares * np.exp(-g) - 1, largest_score)
    return SmoothFit(basis.function(v), g - h / (1 - h) * scores)


def choose_size(
    basis: WhitenedBasis,
    fit: Callable[[WhitenedBasis, np.ndarray], SmoothFit],
    start: np.ndarray,
    score: Callable[[np.ndarray], float],
    *,
    # Ratio of the prior sizes that are tried.
    ratio: float = 0.4,
    # Variances of the priors at which the search ends, below
    least_prior: float = 1e-05,
    # and above.
    largest_prior: float = 30.0,
) -> tuple[WhitenedBasis, SmoothFit]:
    """The size of the prior with the best score of what left-out rows have: its basis, and the fit."""
    # Shapes: fit (n,)) -> SmoothFit; start (n,); score (n,)) -> float.
    best = basis, fit(basis, start)
    reached = score(best[1].left_out)
    for factor in (ratio, 1 / ratio):
        improved = False
        while True:
            other = best[0].larger(factor)
            fitted = fit(other, best[1].left_out)
            new = score(fitted.left_out)
            if new <= reached or not least_prior < other.kernel.level < largest_prior:
                break
            best, reached, improved = (other, fitted), new, True
        if improved:
            break
    return best


# --- the kernel of a conditional ---


class Inputs(NamedTuple):
    """What a conditional depends on."""

    # Shapes: theta (n, q); past (n, l).
    theta: np.ndarray
    past: np.ndarray

    def rows(self, chosen: Any) -> Inputs:
        """Those of some rows."""
        return Inputs(self.theta[chosen], self.past[chosen])

    def linear(self) -> np.ndarray:
        """A constant and all inputs, shape (n, 1 + q + l)."""
        return np.column_stack([np.ones(len(self.theta)), self.theta, self.past])


def for_rows(values: np.ndarray, k: int) -> np.ndarray:
    """Values (k, ...), or (1, ...), of (g, ...) that are each of k / g rows one after another."""
    return values if len(values) in (1, k) else np.repeat(values, k // len(values), axis=0)


def gaussian(a: Any, b: np.ndarray, scales: np.ndarray, xp: Any = np) -> Any:
    """exp(-|D (a - b)|^2 / 2) of rows a (..., d) and b (m, d), shape (..., m), for scales D (d,)."""
    a, b = a * scales, b * scales
    lengths = -0.5 * xp.sum(a**2, axis=-1)[..., None]
    left = xp.concatenate([a, lengths, xp.ones_like(lengths)], axis=-1)
    right = np.column_stack([b, np.ones(len(b)), -0.5 * np.sum(b**2, axis=1)])
    # One product of matrices is the whole exponent, which saves three passes over a large array.
    exponent = left @ right.T
    return np.exp(exponent, out=exponent) if xp is np else xp.exp(exponent)


class Parts(NamedTuple):
    """A Gram matrix and two of its factors, each (n, m)."""

    theta: np.ndarray
    smooth: np.ndarray
    gram: np.ndarray


@dataclass(frozen=True)
class ProductKernel:
    """k = exp(-|D (t - t')|^2 / 2) (level + (a x)' (a x') + bump exp(-|E (x - x')|^2 / 2))."""

    # Shapes: theta_scales (q,); past_scales, slopes (l,).
    theta_scales: np.ndarray
    past_scales: np.ndarray
    slopes: np.ndarray
    level: float
    bump: float

    def theta_factor(self, theta: Any, landmarks: np.ndarray, xp: Any = np) -> Any:
        """The factor of parameters (k, q) and landmarks (m, q), shape (k, m)."""
        return gaussian(theta, landmarks, self.theta_scales, xp)

    def past_factor(self, past: Any, landmarks: np.ndarray, xp: Any = np) -> Any:
        """The factor of earlier statistics (..., l) and landmarks (m, l), shape (..., m)."""
        smooth = gaussian(past, landmarks, self.past_scales, xp)
        return self.level + (past * self.slopes**2) @ landmarks.T + self.bump * smooth

    def __call__(self, rows: Inputs, landmarks: Inputs) -> np.ndarray:
        """Gram matrix of shape (n, m)."""
        return self.parts(rows, landmarks).gram

    def logs(self) -> np.ndarray:
        """Logarithms of all numbers of the kernel, shape (q + 2 l + 2,)."""
        ends = [self.level, self.bump]
        return np.log(np.concatenate([self.theta_scales, self.past_scales, self.slopes, ends]))

    @classmethod
    def from_logs(cls, logs: np.ndarray, q: int) -> ProductKernel:
        """The inverse of `logs`, for q parameters."""
        values = np.exp(logs)
        theta, past, slopes = np.split(values[:-2], [q, (q + len(values) - 2) // 2])
        return cls(theta, past, slopes, float(values[-2]), float(values[-1]))

    def parts(self, rows: Inputs, landmarks: Inputs) -> Parts:
        """The Gram matrix and its factors, for `gradient`."""
        theta = self.theta_factor(rows.theta, landmarks.theta)
        smooth = gaussian(rows.past, landmarks.past, self.past_scales)
        smooth *= self.bump
        past = (rows.past * self.slopes**2) @ landmarks.past.T
        past += self.level
        past += smooth
        past *= theta
        return Parts(theta, smooth, past)

    def gradient(self, rows: Inputs, landmarks: Inputs, parts: Parts, outer: np.ndarray) -> np.ndarray:
        """Gradient of sum(outer * Gram matrix) by `logs`, for outer (n, m)."""
        theta = parts.theta * outer
        linear = np.sum(rows.past * (theta @ landmarks.past), axis=0) * self.slopes**2
        level = self.level * theta.sum()
        theta *= parts.smooth
        smooth = -_spread(rows.past, landmarks.past, theta) * self.past_scales**2
        bump = theta.sum()
        whole = np.multiply(parts.gram, outer, out=theta)
        by_theta = -_spread(rows.theta, landmarks.theta, whole) * self.theta_scales**2
        # The kernel has the squares of the slopes, whose logarithms are twice theirs.
        return np.concatenate([by_theta, smooth, 2 * linear, [level, bump]])


def _spread(a: np.ndarray, b: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted sums of the squared differences of a (n, d) and b (m, d) by columns, shape (d,)."""
    # Expanded, no array of all differences is made.
    squares = weights.sum(axis=1) @ a**2 + weights.sum(axis=0) @ b**2
    return squares - 2 * np.sum(a * (weights @ b), axis=0)


# --- kernel and relevances by the marginal likelihood ---


LINEAR_PRECISION = 1e-4
"""Prior precision of the linear part, for standardised targets: next to no penalty."""


def with_jitter(
    gram: np.ndarray,
    *,
    # Added to the landmarks' Gram matrix, as a share of its mean diagonal.
    jitter: float = 1e-6,
) -> np.ndarray:
    """A Gram matrix (m, m), well enough conditioned for a Cholesky factor."""
    return gram + jitter * np.mean(np.diag(gram)) * np.eye(len(gram))


def independent(
    gram: np.ndarray,
    *,
    # Beside the mean variance; tests/statistical/landmarks.csv.
    negligible: float = 1e-7,
) -> tuple[np.ndarray, np.ndarray]:
    """Landmarks (r,) that determine all others, from the Gram matrix (m, m), and their Cholesky factor."""
    # A pivoted factorisation takes the landmark of largest variance given those before it. Where that is
    # negligible, the rest would cost as much as these and add no function.
    factor, order, rank, _ = lapack.dpstrf(gram, tol=negligible * np.mean(np.diag(gram)), lower=1)
    if not rank:  # also where a number is NaN
        raise np.linalg.LinAlgError("no landmark has a positive variance")
    return order[:rank] - 1, np.tril(factor[:rank, :rank])


def with_unit_prior(squares: np.ndarray) -> np.ndarray:
    """Products of features (m, m) plus I, and as much as their rounding may take away from it."""
    rounding = np.finfo(float).eps * len(squares) * np.diag(squares).max()
    return squares + (1 + rounding) * np.eye(len(squares))


def start_kernel(inputs: Inputs) -> ProductKernel:
    """Where the search starts, and the centre of the settings' prior."""
    q, past = inputs.theta.shape[1], inputs.past.shape[1]
    theta = np.full(q, 1.5 / np.sqrt(q)) / np.maximum(inputs.theta.std(axis=0), 1e-12)
    return ProductKernel(theta, np.full(past, 0.5 / np.sqrt(past)), np.full(past, 0.5), 0.3, 0.1)


@dataclass(frozen=True)
class RegressionEvidence:
    """Log marginal likelihood of y = [K(rows, landmarks), linear] w + noise, and its gradient."""

    # Coefficients have the prior N(0, K(landmarks)^-1): Rasmussen and Williams (2006), sections 5.4 and
    # 8.3.4.

    # Shapes: targets (n,); deviations (n,).
    inputs: Inputs
    landmarks: Inputs
    targets: np.ndarray
    deviations: np.ndarray

    def __call__(self, logs: np.ndarray) -> tuple[float, np.ndarray]:
        """Minus the log evidence and its gradient by the kernel's logarithms and the log noise variance."""
        kernel, noise = ProductKernel.from_logs(logs[:-1], self.inputs.theta.shape[1]), np.exp(logs[-1])
        m, root = len(self.landmarks.theta), 1 / self.deviations
        parts, prior = (kernel.parts(rows, self.landmarks) for rows in (self.inputs, self.landmarks))
        unwhiten = inverse_lower(np.linalg.cholesky(with_jitter(prior.gram)))
        # Coefficients of whitened features have the unit prior, and A is never badly conditioned.
        features = np.hstack([parts.gram, self.inputs.linear() / np.sqrt(LINEAR_PRECISION)]) * root[:, None]
        features[:, :m] = features[:, :m] @ unwhiten.T
        y = self.targets * root
        squares = features.T @ features / noise
        inverse, logdet = inverse_and_logdet(with_unit_prior(squares))
        v = inverse @ (features.T @ y) / noise
        residuals = y - features @ v
        # Of the same value as y (y - F v) / noise, but never below the least one where v has lost its digits.
        value = residuals @ residuals / noise + v @ v + len(y) * logs[-1] + logdet
        w = unwhiten.T @ v[:m]
        by_rows = np.outer(residuals, w)
        by_rows -= features @ (inverse[:, :m] @ unwhiten)
        by_rows *= root[:, None] / noise
        by_prior = unwhiten.T @ (np.eye(m) - inverse[:m, :m]) @ unwhiten - np.outer(w, w)
        gradient = kernel.gradient(self.inputs, self.landmarks, parts, by_rows)
        gradient += kernel.gradient(self.landmarks, self.landmarks, prior, 0.5 * by_prior)
        freedom = np.sum(inverse * squares)  # trace of the hat matrix
        by_noise = -0.5 * (len(y) - freedom - residuals @ residuals / noise)
        return 0.5 * value, -np.append(gradient, by_noise)


def inverse_and_logdet(matrix: np.ndarray) -> tuple[np.ndarray, float]:
    """Of a positive definite matrix."""
    factor = np.linalg.cholesky(matrix)
    inverse, _ = lapack.dpotri(factor, lower=1)
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    return inverse, 2 * float(np.sum(np.log(np.diag(factor))))


class Effort(NamedTuple):
    """How much a fit may cost."""

    landmarks: int = 300
    rows_for_kernel: int = 1200
    rows_for_final_kernel: int = 3000
    landmarks_for_kernel: int = 80
    iterations: int = 25


def choose_kernel(
    inputs: Inputs,
    targets: np.ndarray,
    rng: np.random.Generator,
    *,
    deviations: np.ndarray | None = None,
    start: tuple[ProductKernel, float] | None = None,
    effort: Effort,
    # By how much the logarithms of a start from elsewhere lie below the centre of their prior at least.
    flat_share: float = 0.3,
    # Prior deviation of the logarithms above where they start. Rougher functions are mostly noise: the kernel
    # at a landmark that is itself a row can follow that row.
    width_above: float = 0.8,
    # Prior deviation of the logarithms of all settings below where they start.
    prior_width: float = 1.5,
) -> tuple[ProductKernel, float]:
    """The kernel and noise variance with the largest posterior density of both."""
    # Shapes: targets (n,); deviations (n,).
    count = effort.rows_for_kernel if start is None else effort.rows_for_final_kernel
    chosen = rng.permutation(len(targets))[:count]
    centre = start_kernel(inputs).logs()
    scale = np.ones(len(targets)) if deviations is None else deviations
    some = inputs.rows(chosen)
    evidence = RegressionEvidence(
        some, some.rows(slice(effort.landmarks_for_kernel)), targets[chosen], scale[chosen]
    )

    def objective(logs: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = evidence(logs)
        width = np.where(logs[:-1] > centre, width_above, prior_width)
        apart = (logs[:-1] - centre) / width
        gradient[:-1] += apart / width
        return value + 0.5 * float(apart @ apart), gradient

    first = np.append(centre, np.log(0.5))  # half of the variance is noise, to begin with
    if start is not None:
        # Inputs that were given up come back: more is known now.
        logs = np.maximum(start[0].logs(), centre - flat_share)
        first = np.append(logs, np.log(start[1]))
    # At exp(-7) of its start an input has no say any more; farther there is nothing to gain.
    bounds = [(c - 7, c + 3.5) for c in centre] + [(-14.0, 3.0)]
    found = minimize(
        objective, first, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": effort.iterations}
    )
    return ProductKernel.from_logs(found.x[:-1], inputs.theta.shape[1]), float(np.exp(found.x[-1]))


def inverse_lower(factor: np.ndarray) -> np.ndarray:
    """The inverse (m, m) of a lower triangular factor with positive diagonal, lower triangular itself."""
    inverse, _ = lapack.dtrtri(factor, lower=1)
    return np.tril(inverse)
