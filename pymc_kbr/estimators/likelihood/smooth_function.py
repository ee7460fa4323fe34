"""Regression functions in the space of a product kernel: means and log variances."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_solve

from pymc_kbr.arrays.triangular import inverse_lower
from pymc_kbr.estimators.likelihood.evidence import LINEAR_PRECISION, with_jitter, with_unit_prior
from pymc_kbr.estimators.likelihood.product_kernel import Inputs, ProductKernel, for_rows
from pymc_kbr.regression.ridge import FEATURE_ROWS_AT_ONCE

LARGEST_SMOOTH_LEVERAGE = 0.95
"""A row's residual is not divided by less than one minus it."""

SMALLER = 0.4
"""Ratio of the sizes of priors that are tried."""

LEAST_PRIOR, LARGEST_PRIOR = 1e-5, 30.0
"""Variances of these priors at which the search ends."""

SCORING_STEPS = 25
"""Of Fisher scoring, at most."""

LARGEST_SCORE = 20.0
"""Of one row, in the direction of a step of Fisher scoring; the step is accepted by the true objective."""


@dataclass(frozen=True)
class SmoothFunction:
    """A function of parameters and earlier statistics: linear, and in the space of a product kernel.

    Attributes
    ----------
    kernel : ProductKernel
    landmarks : Inputs
        m rows.
    coefficients : ndarray of shape (m,)
    constant : float
    theta_slopes, past_slopes : ndarray of shape (q,), (l,)
    """

    kernel: ProductKernel
    landmarks: Inputs
    coefficients: np.ndarray
    constant: float
    theta_slopes: np.ndarray
    past_slopes: np.ndarray

    def __call__(self, theta: Any, past: Any, xp: Any = np, *, shared: bool = False) -> Any:
        """Values (k, r) at parameters (k, q) and a past (k, r, l), or (1, r, l) where `shared`.

        With NumPy `shared` may also be (g, r, l), each of k / g parameters one after another.
        """
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

    def at(self, inputs: Inputs) -> np.ndarray:
        """Values at the rows of `inputs`, shape (n,)."""
        parts = [
            slice(i, i + FEATURE_ROWS_AT_ONCE) for i in range(0, len(inputs.theta), FEATURE_ROWS_AT_ONCE)
        ]
        return np.concatenate([self(inputs.theta[p], inputs.past[p][:, None])[:, 0] for p in parts])


class WhitenedBasis:
    """Whitened features of a kernel: their coefficients have the unit prior.

    Parameters
    ----------
    kernel : ProductKernel
    inputs : Inputs
        n rows.
    landmarks : Inputs
        m rows.

    Attributes
    ----------
    features : ndarray of shape (n, m + 1 + q + l)
    """

    def __init__(self, kernel: ProductKernel, inputs: Inputs, landmarks: Inputs) -> None:
        self.kernel, self.landmarks = kernel, landmarks
        self._unwhiten = inverse_lower(np.linalg.cholesky(with_jitter(kernel(landmarks, landmarks))))
        m = len(landmarks.theta)
        gram = kernel(inputs, landmarks)
        self.features = np.empty((len(gram), m + 1 + inputs.theta.shape[1] + inputs.past.shape[1]))
        self.features[:, :m] = gram @ self._unwhiten.T
        self.features[:, m:] = inputs.linear() / np.sqrt(LINEAR_PRECISION)

    def larger(self, unit: float) -> WhitenedBasis:
        """The basis of functions that are larger by a factor."""
        other, m, kernel = copy(self), len(self.landmarks.theta), self.kernel
        other.kernel = replace(
            kernel, slopes=kernel.slopes * unit, level=kernel.level * unit**2, bump=kernel.bump * unit**2
        )
        other._unwhiten = self._unwhiten / unit
        other.features = self.features.copy()
        other.features[:, :m] *= unit
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


def leverages(features: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Diagonal of F A^-1 F' for A = L L', shape (n,)."""
    half = features @ inverse_lower(factor).T
    return np.minimum(np.einsum("ij,ij->i", half, half), LARGEST_SMOOTH_LEVERAGE)


def fit_mean(basis: WhitenedBasis, targets: np.ndarray, noise: np.ndarray) -> SmoothFit:
    """Posterior mean of a Gaussian process, for noise variances (n,)."""
    root = 1 / np.sqrt(noise)
    features = basis.features * root[:, None]
    factor = np.linalg.cholesky(with_unit_prior(features.T @ features))
    v = cho_solve((factor, True), features.T @ (targets * root))
    residuals = targets - basis.features @ v
    # Without row i its residual is r_i / (1 - h_i): n regressions from one.
    left_out = residuals / (1 - leverages(features, factor))
    return SmoothFit(basis.function(v), targets - left_out)


def by_damped_steps(
    features: np.ndarray,
    v: np.ndarray,
    objective: Callable[[np.ndarray, np.ndarray], float],
    step_from: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients v (m,) that minimise an objective of them and of g = F v (n,), and g.

    Parameters
    ----------
    features : ndarray of shape (n, m)
    v : ndarray of shape (m,)
        Where it begins.
    objective : callable (v, g) -> float
    step_from : callable (v, g) -> (m,)
        Newton's step, or that of Fisher scoring.
    """
    g = features @ v
    value = objective(v, g)
    for _ in range(SCORING_STEPS):
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


def fit_log_variance(basis: WhitenedBasis, squares: np.ndarray, start: np.ndarray) -> SmoothFit:
    """Log variances g that maximise sum(-g - squares exp(-g)) / 2 and their prior, by Fisher scoring.

    Parameters
    ----------
    basis : Basis
    squares : ndarray of shape (n,)
        Squared residuals.
    start : ndarray of shape (n,)
        Log variances from which the first step is taken.

    Notes
    -----
    The information of a log variance is one half everywhere, so that all steps share one factorisation. A
    step's direction takes scores of at most `LARGEST_SCORE`; what it ends at is the maximum all the same.
    """
    features = basis.features
    factor = np.linalg.cholesky(with_unit_prior(0.5 * (features.T @ features)))
    v = cho_solve((factor, True), 0.5 * (features.T @ start))

    def objective(v: np.ndarray, g: np.ndarray) -> float:
        return 0.5 * float(np.sum(g + squares * np.exp(-g)) + v @ v)

    def step_from(v: np.ndarray, g: np.ndarray) -> np.ndarray:
        scores = np.minimum(squares * np.exp(-g) - 1, LARGEST_SCORE)
        step: np.ndarray = cho_solve((factor, True), 0.5 * (features.T @ scores) - v)
        return step

    v, g = by_damped_steps(features, v, objective, step_from)
    # Without row i a Newton step from the maximum takes its score s / 2 and its information 1 / 2 away: with
    # h = f' A^-1 f / 2 the log variance moves by -s h / (1 - h).
    h = leverages(np.sqrt(0.5) * features, factor)
    scores = np.minimum(squares * np.exp(-g) - 1, LARGEST_SCORE)
    return SmoothFit(basis.function(v), g - h / (1 - h) * scores)


def choose_size(
    basis: WhitenedBasis,
    fit: Callable[[WhitenedBasis, np.ndarray], SmoothFit],
    start: np.ndarray,
    score: Callable[[np.ndarray], float],
) -> tuple[WhitenedBasis, SmoothFit]:
    """The size of the prior with the best score of what left-out rows have: its basis, and the fit.

    Parameters
    ----------
    basis : WhitenedBasis
        With which the search begins.
    fit : callable (basis, start (n,)) -> SmoothFit
    start : ndarray of shape (n,)
        Values from which the first fit starts.
    score : callable (left out (n,)) -> float
    """
    best = basis, fit(basis, start)
    reached = score(best[1].left_out)
    for factor in (SMALLER, 1 / SMALLER):
        improved = False
        while True:
            other = best[0].larger(factor)
            fitted = fit(other, best[1].left_out)
            new = score(fitted.left_out)
            if new <= reached or not LEAST_PRIOR < other.kernel.level < LARGEST_PRIOR:
                break
            best, reached, improved = (other, fitted), new, True
        if improved:
            break
    return best
