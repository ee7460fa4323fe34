"""The mean of the statistics given the parameters, by kernel ridge regression."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

RIDGES = tuple(10.0**k for k in np.arange(1, -12.1, -0.5))
"""From which each statistic's own is chosen."""

LARGEST_LEVERAGE = 0.99
"""A row that determines its own prediction to this share is not divided by less than one minus it."""

MOST_FREEDOM = 0.5
"""Degrees of freedom, as a share of the rows, beyond which residuals that leave a row out say nothing."""

FUNCTIONS_REWEIGHTED = 400
"""Of the basis, smoothest first: those that a regression weighted by precisions works with."""


class Fitted(NamedTuple):
    """A regression on a basis.

    Coefficients (f, e), each row's residual (n, e) by all the others, and each column's ridge (e,).
    """

    coefficients: np.ndarray
    residuals: np.ndarray
    ridges: np.ndarray


def regress(features: np.ndarray, penalties: np.ndarray, points: np.ndarray) -> Fitted:
    """Ridge regression on orthonormal features, each column's ridge by its leave-one-out error.

    Parameters
    ----------
    features : ndarray of shape (n, f)
    penalties : ndarray of shape (f,)
    points : ndarray of shape (n, e)
    """
    n = len(features)
    right, squares = features.T @ points / n, features**2 / n
    coefficients, residuals = np.empty((features.shape[1], points.shape[1])), np.empty_like(points)
    lowest, ridges = np.full(points.shape[1], np.inf), np.empty(points.shape[1])
    for ridge in RIDGES:
        shrink = 1 / (1 + ridge * penalties)
        slopes = shrink[:, None] * right
        leverage = np.minimum(squares @ shrink, LARGEST_LEVERAGE)
        if ridge < RIDGES[0] and leverage.mean() > MOST_FREEDOM:
            break
        left_out = (points - features @ slopes) / (1 - leverage)[:, None]
        errors = np.mean(left_out**2, axis=0)
        better = errors < lowest
        lowest[better], ridges[better] = errors[better], ridge
        coefficients[:, better], residuals[:, better] = slopes[:, better], left_out[:, better]
    return Fitted(coefficients, residuals, ridges)


def regress_weighted(
    features: np.ndarray, penalties: np.ndarray, points: np.ndarray, precisions: np.ndarray, before: Fitted
) -> Fitted:
    """As `regress`, with squared residuals weighted; a column keeps the fit before it where that is better.

    Parameters
    ----------
    precisions : ndarray of shape (n, e)
        One over the variance of each statistic at each row.
    before : Fitted
        Unweighted.

    Notes
    -----
    Rows of large variance else decide the mean where it is known best.
    """
    count = min(FUNCTIONS_REWEIGHTED, features.shape[1])
    smooth = np.argsort(penalties, kind="stable")[:count]
    f, p = features[:, smooth], penalties[smooth]
    coefficients, residuals = before.coefficients.copy(), before.residuals.copy()
    for j in range(points.shape[1]):
        weights = precisions[:, j] / precisions[:, j].sum()
        weighted = f * weights[:, None]
        core = weighted.T @ f
        core[np.diag_indices(count)] += 1e-10 * np.trace(core) / count
        # Both forms are diagonal in the eigenvectors of the penalty against the weighted products.
        values, vectors = eigh(np.diag(p), core)
        rotated, right = f @ vectors, vectors.T @ (weighted.T @ points[:, j])
        squares = rotated**2 * weights[:, None]
        lowest = float(weights @ before.residuals[:, j] ** 2)
        for ridge in RIDGES:
            shrink = 1 / (1 + ridge * np.maximum(values, 0))
            leverage = np.minimum(squares @ shrink, LARGEST_LEVERAGE)
            if leverage.mean() > MOST_FREEDOM:
                break
            left_out = (points[:, j] - rotated @ (shrink * right)) / (1 - leverage)
            error = float(weights @ left_out**2)
            if error < lowest:
                lowest, residuals[:, j] = error, left_out
                coefficients[:, j] = 0
                coefficients[smooth, j] = vectors @ (shrink * right)
    return Fitted(coefficients, residuals, before.ridges)
