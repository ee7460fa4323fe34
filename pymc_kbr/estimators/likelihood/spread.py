"""The triangular factor of a conditional covariance, as a function of the parameters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize

LARGEST_LOG = 12.0
"""Of the factor's diagonal, over that of all rows: beyond it a spread is not learnt but extrapolated."""


def fit_spread(
    features: np.ndarray,
    residuals: np.ndarray,
    penalties: np.ndarray,
    pairs: tuple[np.ndarray, np.ndarray],
    start: np.ndarray | None = None,
    iterations: int = 60,
) -> np.ndarray:
    """Coefficients by penalised normal likelihood.

    Parameters
    ----------
    features : ndarray of shape (n, f)
        Orthonormal over the rows.
    residuals : ndarray of shape (n, e)
        Of unit covariance over the rows.
    penalties : ndarray of shape (f,)
        Ridge times squared norm.
    pairs : pair of ndarray of int, shape (b,)
        Rows and columns of the entries below the diagonal.
    start : ndarray of shape (f, e + b), optional

    Returns
    -------
    ndarray of shape (f, e + b)
        Of the diagonal's logarithms, and of the entries below.

    Notes
    -----
    Minimises mean_i (|z_i|^2 / 2 - sum_j a_ij) + sum_f penalty_f |W_f|^2 / 2 with
    z_ij = exp(a_ij) r_ij + sum_l c_ijl r_il. At T = I the mean's second derivatives are 2 for the
    diagonal's logarithms and 1 below, since features are orthonormal: in these units L-BFGS needs few steps.
    """
    n, e = residuals.shape
    upper, lower = pairs
    outputs = e + len(upper)
    curvature = np.concatenate([np.full(e, 2.0), np.ones(len(upper))])
    unit = 1 / np.sqrt(curvature[None, :] + penalties[:, None])
    products = residuals[:, lower]

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        w = flat.reshape(-1, outputs) * unit
        values = features @ w
        logs = np.clip(values[:, :e], -LARGEST_LOG, LARGEST_LOG)
        scaled = np.exp(logs) * residuals
        z = scaled.copy()
        for j in range(e):
            mine = upper == j
            if mine.any():
                z[:, j] += np.sum(values[:, e:][:, mine] * products[:, mine], axis=1)
        loss = 0.5 * np.sum(z**2) / n - logs.sum() / n + 0.5 * np.sum(penalties[:, None] * w**2)
        slopes = np.empty((n, outputs))
        slopes[:, :e] = (z * scaled - 1) * (np.abs(values[:, :e]) < LARGEST_LOG)
        slopes[:, e:] = z[:, upper] * products
        gradient = features.T @ slopes / n + penalties[:, None] * w
        return float(loss), (gradient * unit).ravel()

    first = np.zeros((features.shape[1], outputs)) if start is None else start
    found = minimize(
        objective,
        (first / unit).ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": iterations, "maxcor": 8, "ftol": 1e-7, "gtol": 1e-5},
    )
    return found.x.reshape(-1, outputs) * unit


def standardised(
    features: np.ndarray,
    residuals: np.ndarray,
    coefficients: np.ndarray,
    pairs: tuple[np.ndarray, np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """T r (n, e) and log det T (n,)."""
    e = residuals.shape[1]
    upper, lower = pairs
    values = features @ coefficients
    logs = np.clip(values[:, :e], -LARGEST_LOG, LARGEST_LOG)
    z = np.exp(logs) * residuals
    for place, (j, i) in enumerate(zip(upper.tolist(), lower.tolist(), strict=True)):
        z[:, j] += values[:, e + place] * residuals[:, i]
    return z, logs.sum(axis=1)


def choose_spread(
    features: np.ndarray,
    residuals: np.ndarray,
    penalties: np.ndarray,
    ridges: Sequence[float],
    pairs: tuple[np.ndarray, np.ndarray],
    held_out: np.ndarray,
) -> tuple[np.ndarray, float]:
    """Coefficients fitted to the rows that are not held out, at the smallest ridge that still helps.

    From the largest ridge down, each fit starting at the one before.

    Returns
    -------
    coefficients : ndarray of shape (f, e + b)
    ridge : float
    """
    fitted = ~held_out
    best, best_ridge = None, float("nan")
    tried: list[float] = []
    start = None
    for ridge in ridges:
        start = fit_spread(features[fitted], residuals[fitted], ridge * penalties, pairs, start)
        z, logdet = standardised(features[held_out], residuals[held_out], start, pairs)
        tried.append(float(np.mean(logdet - 0.5 * np.sum(z**2, axis=1))))
        if best is None or tried[-1] > max(tried[:-1]):
            best, best_ridge = start, ridge
        elif tried[-1] < max(tried) - 0.02 and len(tried) > 2:
            break
    assert best is not None
    return best, best_ridge
