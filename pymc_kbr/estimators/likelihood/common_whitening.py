"""The scales of many statistics as functions of the parameters, in one constant frame."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from sklearn.covariance import ledoit_wolf

from pymc_kbr.arrays.threads import side_by_side
from pymc_kbr.estimators.likelihood.conditional_mean import regress
from pymc_kbr.estimators.likelihood.spread import LOG_CHI_SQUARE

LEAST_SQUARE = 1e-12
"""Of a residual, in units of its variance, as its logarithm has no lowest value."""

LARGEST_STEP = 20.0
"""Of a log variance in a step towards the likelihood's maximum: a single outlier is not to decide it."""

EVERY_FOURTH_RIDGE = slice(None, None, 4)
"""Every fourth of a regression's: it has one column more than there are statistics."""

FRAME_GAIN = 0.01
"""Nats a statistic, on average, for which a frame is taken that mixes statistics."""


class Whitened(NamedTuple):
    """Residuals r of unit scale: z = exp(a(theta)) W r.

    Attributes
    ----------
    whiten : ndarray of shape (e, e)
        W, lower triangular.
    coefficients : ndarray of shape (f, e)
        Of a.
    logs : ndarray of shape (n, e)
        The values of a at the rows.
    z : ndarray of shape (n, e)
    held_out : float
        Mean log density of held-out rows, as if z were normal.
    """

    whiten: np.ndarray
    coefficients: np.ndarray
    logs: np.ndarray
    z: np.ndarray
    held_out: float


def fit_whitened(
    residuals: np.ndarray,
    features: np.ndarray,
    penalties: np.ndarray,
    held_out: np.ndarray,
    mixed: bool | None = None,
) -> Whitened:
    """Choose the frame, and fit the scales in it.

    Parameters
    ----------
    residuals : ndarray of shape (n, e)
        Each by all other rows.
    features : ndarray of shape (n, f)
        Orthonormal functions of the parameters, the first of them constant.
    penalties : ndarray of shape (f,)
    held_out : ndarray of bool, shape (n,)
    mixed : bool, optional
        Whether the frame is that of all together, where that is known.

    Notes
    -----
    Log squared residuals are regressed: their mean over statistics, which has little noise, and what each
    statistic adds to it, each with its own ridge. As these logarithms know only two fifths of what residuals
    tell of their scale, a step of Fisher's scoring follows, the same regression of log variance + z^2 - 1.
    """
    apart, together = _frames(residuals, held_out)
    if mixed is None:
        with side_by_side(2) as map_:
            alike = map_(
                lambda w: _alike(residuals @ w.T, w, features, penalties, held_out), (apart, together)
            )
        mixed = alike[1].held_out > alike[0].held_out + FRAME_GAIN * residuals.shape[1]
    whiten = together if mixed else apart
    u = residuals @ whiten.T
    squares = u**2
    first = features @ _each(_logs(u), features, penalties)
    # The constant by squares: that of the logarithms is right for normal residuals alone.
    first += np.log(np.mean(squares * np.exp(-first), axis=0))
    # The score (z^2 - 1) / 2 over the information 1 / 2 of a log variance.
    scored = first + np.minimum(squares * np.exp(-first), LARGEST_STEP) - 1
    coefficients = -0.5 * _each(scored, features, penalties)
    return _finished(u, whiten, coefficients, features @ coefficients, held_out)


def _frames(residuals: np.ndarray, held_out: np.ndarray) -> list[np.ndarray]:
    """Each statistic by itself, and all together by their covariance, shrunk towards a multiple of one."""
    fitted = residuals[~held_out]
    unit = np.sqrt(np.mean(fitted**2, axis=0))
    # Of statistics that are hardly fewer than rows a plain covariance has an inverse of noise.
    covariance, _ = ledoit_wolf(fitted / unit, assume_centered=True)
    factor = cholesky(covariance, lower=True)
    return [np.diag(1 / unit), solve_triangular(factor, np.eye(len(unit)), lower=True) / unit]


def _logs(u: np.ndarray) -> np.ndarray:
    """Log squares, whose mean is that of the log variance."""
    return np.log(u**2 + LEAST_SQUARE) + LOG_CHI_SQUARE


def _alike(
    u: np.ndarray, whiten: np.ndarray, features: np.ndarray, penalties: np.ndarray, held_out: np.ndarray
) -> Whitened:
    """With one function of the parameters for the scales of all statistics."""
    common = -0.5 * regress(features, penalties, _logs(u).mean(axis=1)[:, None]).coefficients
    whole, logs = (np.repeat(one, u.shape[1], axis=1) for one in (common, features @ common))
    return _finished(u, whiten, whole, logs, held_out)


def _each(logs: np.ndarray, features: np.ndarray, penalties: np.ndarray) -> np.ndarray:
    """Coefficients (f, e) of log variances: of their mean, and of what each adds."""
    common = logs.mean(axis=1)[:, None]
    found = regress(features, penalties, np.hstack([common, logs - common]), EVERY_FOURTH_RIDGE).coefficients
    return found[:, :1] + found[:, 1:]


def _finished(
    u: np.ndarray, whiten: np.ndarray, coefficients: np.ndarray, logs: np.ndarray, held_out: np.ndarray
) -> Whitened:
    """With constants such that elements of z have variance one in the rows that are not held out."""
    z = u * np.exp(logs)
    deviations = np.sqrt(np.mean(z[~held_out] ** 2, axis=0))
    coefficients, logs, z = coefficients.copy(), logs - np.log(deviations), z / deviations
    coefficients[0] -= np.log(deviations)
    density = np.mean(np.sum(logs[held_out] - 0.5 * z[held_out] ** 2, axis=1))
    return Whitened(whiten, coefficients, logs, z, float(density + np.log(np.diag(whiten)).sum()))
