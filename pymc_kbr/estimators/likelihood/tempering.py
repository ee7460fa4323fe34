"""Temperatures, weights and resampling of tempered populations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp

SMALLEST_STEP = 1e-20
"""Smallest step of a temperature."""


def effective_size(log_weights: np.ndarray) -> np.ndarray:
    """(sum w)^2 / sum w^2 along the last axis; zero where no weight is positive."""
    top = log_weights.max(axis=-1, keepdims=True)
    # Likelihoods of many trials lie far below the smallest float: over the largest they do not.
    weights = np.exp(log_weights - np.where(np.isfinite(top), top, 0))
    square = (weights**2).sum(axis=-1)
    return np.where(square > 0, weights.sum(axis=-1) ** 2 / np.where(square > 0, square, 1), 0.0)


def next_step(
    log_likelihood: np.ndarray, largest: np.ndarray, size: np.ndarray, log_weights: np.ndarray | float = 0.0
) -> np.ndarray:
    """The largest step of temperature after which the effective size is still `size`.

    Parameters
    ----------
    log_likelihood : ndarray of shape (b, m)
    largest : ndarray of shape (b,)
        What is left to a temperature of one.
    size : ndarray of shape (b,)
    log_weights : ndarray of shape (m,) or (b, m), optional
        Log weights before the step.

    Returns
    -------
    ndarray of shape (b,)
    """

    def size_after(step: np.ndarray) -> np.ndarray:
        return effective_size(log_weights + scaled(log_likelihood, step))

    step = largest.copy()
    short = size_after(step) < size
    low, high = np.full(len(step), np.log(SMALLEST_STEP)), np.log(largest)
    # Thirty halvings of the logarithm's range leave a relative error below 1e-7.
    for _ in range(30 if short.any() else 0):
        middle = (low + high) / 2
        enough = size_after(np.exp(middle)) >= size
        low, high = np.where(enough, middle, low), np.where(enough, high, middle)
    return np.where(short, np.minimum(np.exp(low), largest), step)


def scaled(log_likelihood: np.ndarray, step: np.ndarray) -> np.ndarray:
    """The step times the log-likelihood, minus infinity staying what it is."""
    possible = np.isfinite(log_likelihood)
    return np.where(possible, step[:, None] * np.where(possible, log_likelihood, 0.0), -np.inf)


def log_mean(log_weights: np.ndarray) -> np.ndarray:
    """Log of the mean weight along the last axis."""
    return logsumexp(log_weights, axis=-1) - np.log(log_weights.shape[-1])


def resample(log_weights: np.ndarray, size: int, uniform: np.ndarray) -> np.ndarray:
    """Systematic resampling of each row of weights.

    Parameters
    ----------
    log_weights : ndarray of shape (b, m)
    size : int
    uniform : ndarray of shape (b,)

    Returns
    -------
    ndarray of int, shape (b, size)
        Indices in increasing order: copies stay side by side.
    """
    top = log_weights.max(axis=1, keepdims=True)
    ends = np.cumsum(np.exp(log_weights - top), axis=1)
    ends /= ends[:, -1:]
    picks = (uniform[:, None] + np.arange(size)) / size
    # Sums round: a pick just below one must not fall on a particle that is impossible.
    last = [int(np.flatnonzero(np.isfinite(row))[-1]) for row in log_weights]
    found = np.stack([np.searchsorted(e, p, side="right") for e, p in zip(ends, picks, strict=True)])
    return np.minimum(found, np.array(last)[:, None])


class Counted:
    """A log-likelihood whose impossible answers are minus infinity, and counted.

    Parameters
    ----------
    log_likelihood : callable (free (b, m, q), observations (b,)) -> (b, m)
    numbers : ndarray of int, shape (k,)
        What the k observations that are asked about are called by the function.
    """

    def __init__(
        self, log_likelihood: Callable[[np.ndarray, np.ndarray], np.ndarray], numbers: np.ndarray
    ) -> None:
        self.log_likelihood, self.numbers = log_likelihood, numbers
        self.undefined, self.evaluations = np.zeros((2, len(numbers)), dtype=int)

    def __call__(self, free: np.ndarray, observations: np.ndarray) -> np.ndarray:
        """Log-likelihoods (b, m) of points (b, m, q) for some of the observations."""
        values = np.asarray(self.log_likelihood(free, self.numbers[observations]), dtype=float)
        if values.shape != free.shape[:2]:
            raise ValueError(
                f"the log-likelihood of points of shape {free.shape} has shape {values.shape}; it must be "
                f"{free.shape[:2]}: one value a particle of each observation"
            )
        self.evaluations[observations] += free.shape[1]
        return self.cleaned(values, observations)

    def cleaned(self, values: np.ndarray, observations: np.ndarray | slice = slice(None)) -> np.ndarray:
        """NaN and plus infinity are no likelihoods: such points are refused, and counted."""
        wrong = np.isnan(values) | (values == np.inf)
        self.undefined[observations] += wrong.sum(axis=1)
        return np.where(wrong, -np.inf, values)
