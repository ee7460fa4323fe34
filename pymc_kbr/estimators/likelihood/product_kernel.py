"""The kernel of a conditional: a Gaussian one of parameters times a sum of kernels of earlier statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np


class Inputs(NamedTuple):
    """What a conditional depends on.

    Attributes
    ----------
    theta : ndarray of shape (n, q)
    past : ndarray of shape (n, l)
        Standardised earlier statistics, at least one column (zeros where there are none).
    """

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
    """k = exp(-|D (t - t')|^2 / 2) (level + (a x)' (a x') + bump exp(-|E (x - x')|^2 / 2)).

    Functions in its space are smooth in the parameters t; given these a constant, a linear function of the
    earlier statistics x and a smooth one. The linear part alone holds all jointly normal statistics, whose
    regressions on each other have slopes that are functions of the parameters.

    Attributes
    ----------
    theta_scales : ndarray of shape (q,)
        D: inverse bandwidths, near zero where a parameter does not matter.
    past_scales, slopes : ndarray of shape (l,)
        E and a.
    level, bump : float
    """

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
