"""Weights of a table's rows that stand for another prior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import pinvh


@dataclass(frozen=True, eq=False)
class PriorWeights:
    """How the rows stand for the prior; each of shape (n,), or None where they are a sample of it.

    Attributes
    ----------
    gamma : of either sign, of sum about one; what the rule is given.
    base : of sum one; the posterior where the statistics say nothing.
    score : not negative; with which rows enter the leave-one-out error.
    """

    gamma: np.ndarray | None = None
    base: np.ndarray | None = None
    score: np.ndarray | None = None


def shrunk_mean(
    draws: np.ndarray, weights: np.ndarray, theta: np.ndarray, own: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The prior's mean (p,), moved towards the table's as far as both are unsure; and these shares (p,).

    Parameters
    ----------
    draws, weights : ndarray of shape (l, p), (l,)
        Of the prior; of sum one.
    theta, own : ndarray of shape (n, p), (n,)
        The table's parameters, and their weights, not negative and of sum one.

    Notes
    -----
    With squared standard errors a of the prior's mean and b of the table's, and with D their squared
    difference, each parameter's mean is moved by the share a / (a + b) / max(1, T), T the average of
    D / (a + b) over parameters: James and Stein's estimator in units of each parameter's own error, which
    moves little where means differ by more than chance. None is moved by more than its standard error [1]_,
    so that what is known well of one parameter is not given up for the others' sake. All vanishes as draws
    grow in number.

    References
    ----------
    .. [1] B. Efron, C. Morris, Limiting the risk of Bayes and empirical Bayes estimators, part II: the
       empirical Bayes case, Journal of the American Statistical Association 67 (1972), 130-139.
    """
    ours, mean = own @ theta, weights @ draws
    concentration = float(weights @ weights)
    if concentration >= 1:  # of one draw nothing is known, not even how unsure it is
        return ours, np.ones(len(ours))
    a = np.maximum(weights @ (draws - mean) ** 2, 0) * concentration / (1 - concentration)
    b = own @ (theta - ours) ** 2 * float(own @ own)
    apart, varies = np.abs(mean - ours), a + b > 0
    excess = max(1.0, float(np.mean(apart[varies] ** 2 / (a + b)[varies]))) if np.any(varies) else 1.0
    share = np.divide(a, a + b, out=np.zeros_like(a), where=varies) / excess
    limit = np.divide(np.sqrt(a), apart, out=np.ones_like(a), where=apart > 0)
    share = np.minimum(share, limit)
    return mean + share * (ours - mean), share


def with_mean(base: np.ndarray, theta: np.ndarray, near: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Weights (n,) changed so that parameters (n, p) have that mean (p,), by a linear tilt of weights `near`.

    Those are not negative and of sum one. A parameter that is constant where they are positive is left alone.
    """
    apart, same = theta - near @ theta, np.ptp(theta[near > 0], axis=0) == 0
    apart[:, same] = 0.0
    covariance = apart.T @ (near[:, None] * apart)
    unit = np.sqrt(np.diag(covariance))
    unit[same] = 1.0
    inverse = pinvh(covariance / np.outer(unit, unit), rtol=1e-8)
    moved: np.ndarray = base + near * ((apart / unit) @ inverse @ ((mean - base @ theta) / unit))
    return moved


def refuse_both(prior: Any) -> None:
    """Refuse a prior beside a density ratio, which says what the prior is as well."""
    if prior is not None:
        raise ValueError("the estimator has a prior and `fit` was given a density ratio; give one of the two")


def check_columns(draws: np.ndarray, parameters: np.ndarray) -> None:
    """Refuse a prior over another number of parameters than the table's."""
    if draws.shape[1] != parameters.shape[1]:
        raise ValueError(
            f"the prior has {draws.shape[1]} parameters; the table has {parameters.shape[1]}, and both must "
            "be the same"
        )


def weighted_draws(prior: Any) -> tuple[np.ndarray, np.ndarray]:
    """Draws (l, p) and weights (l,), from draws or from a pair of both.

    Raises
    ------
    ValueError
        If shapes do not fit, values are not finite or weights do not sum to more than zero.
    """
    draws, weights = prior if isinstance(prior, tuple) and len(prior) == 2 else (prior, None)
    draws = np.asarray(draws, dtype=float)
    if draws.ndim != 2 or 0 in draws.shape:
        raise ValueError(
            f"the prior's draws have shape {draws.shape}; they must be rows (l, p), or a pair of such rows "
            "and of weights (l,)"
        )
    weights = np.full(len(draws), 1 / len(draws)) if weights is None else np.asarray(weights, dtype=float)
    if weights.shape != (len(draws),):
        raise ValueError(f"the prior has {len(draws)} draws and weights of shape {weights.shape}")
    if not (np.all(np.isfinite(draws)) and np.all(np.isfinite(weights))):
        raise ValueError("the prior's draws or weights hold NaN or infinity")
    if not weights.sum() > 0:
        raise ValueError(f"the prior's weights sum to {weights.sum():.3g}; their sum must be above zero")
    return draws, weights
