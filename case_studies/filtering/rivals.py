"""Filters that are told the true dynamics and noises: extended, unscented, and particles."""

from __future__ import annotations

import numpy as np

from case_studies.filtering.dynamics import Dynamics

PRIOR = np.eye(2)
"""Covariance of the first state, of mean zero."""


def extended_kalman(dynamics: Dynamics, observations: np.ndarray) -> np.ndarray:
    """Filtered means (T, 2) by linearising the dynamics at the last mean."""
    mean, covariance = np.zeros(2), PRIOR
    q, r = dynamics.state_noise**2 * np.eye(2), dynamics.observation_noise**2 * np.eye(2)
    means = np.empty_like(observations)
    for t, x in enumerate(observations):
        if t:
            slope = dynamics.jacobian(mean)
            mean, covariance = dynamics.mean(mean), slope @ covariance @ slope.T + q
        gain = covariance @ np.linalg.inv(covariance + r)
        mean, covariance = mean + gain @ (x - mean), covariance - gain @ covariance
        means[t] = mean
    return means


def unscented_kalman(dynamics: Dynamics, observations: np.ndarray) -> np.ndarray:
    """Filtered means (T, 2) by pykalman's unscented filter for additive noise."""
    from pykalman import AdditiveUnscentedKalmanFilter

    made = AdditiveUnscentedKalmanFilter(
        dynamics.mean,
        lambda state: state,
        dynamics.state_noise**2 * np.eye(2),
        dynamics.observation_noise**2 * np.eye(2),
        np.zeros(2),
        PRIOR,
    )
    return np.asarray(made.filter(observations)[0])


def particles(
    dynamics: Dynamics, observations: np.ndarray, rng: np.random.Generator, count: int = 5_000
) -> np.ndarray:
    """Filtered means (T, 2) of a bootstrap particle filter: the exact ones, but for Monte Carlo error."""
    states = rng.normal(size=(count, 2))
    means = np.empty_like(observations)
    for t, x in enumerate(observations):
        if t:
            states = dynamics.step(states, rng)
        log_weights = -0.5 * np.sum((x - states) ** 2, axis=1) / dynamics.observation_noise**2
        weights = np.exp(log_weights - np.max(log_weights))
        weights /= weights.sum()
        means[t] = weights @ states
        positions = (rng.random() + np.arange(count)) / count
        states = states[np.minimum(np.searchsorted(np.cumsum(weights), positions), count - 1)]
    return means
