"""What the rows near a posterior say in few statistics."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.covariance import ledoit_wolf

from pymc_kbr.arrays.region import NearRows
from pymc_kbr.arrays.scaling import unit_deviations
from pymc_kbr.estimators import KernelLikelihood
from pymc_kbr.tables.reference_table import ReferenceTable

ROWS_FOR_SUMMARIES = 2000
"""Rows near the posterior, at most, from which summaries are learnt."""


def summaries_of(table: ReferenceTable, near: NearRows) -> Callable[[np.ndarray], np.ndarray]:
    """From statistics (k, d) to the linear ones that tell the parameters apart, and the size of the rest.

    Notes
    -----
    Fisher's discriminants of the regression of the statistics on the parameters; the logarithm of the
    residual's length tells of parameters that change the statistics' spread and not their mean.
    """
    rows = near.more[:ROWS_FOR_SUMMARIES]
    with np.errstate(divide="ignore"):
        theta = table.support.forward(table.parameters[rows])
    x = table.statistics[rows]
    kept = np.ptp(x, axis=0) > 0
    centre, unit = x[:, kept].mean(axis=0), unit_deviations(x[:, kept])
    x = (x[:, kept] - centre) / unit
    u = (theta - theta.mean(axis=0)) / unit_deviations(theta)
    slopes = np.linalg.lstsq(u, x, rcond=None)[0]
    # Shrunk: there may be more statistics than rows, whose own covariance then has no inverse.
    covariance = ledoit_wolf(x - u @ slopes, assume_centered=True)[0]
    root = np.linalg.cholesky(covariance + 1e-10 * np.eye(len(covariance)))
    told, sizes, _ = np.linalg.svd(np.linalg.solve(root, slopes.T), full_matrices=False)
    told = told[:, sizes > 1e-10 * sizes.max(initial=0.0)]

    def summaries(statistics: np.ndarray) -> np.ndarray:
        white = np.linalg.solve(root, ((statistics[:, kept] - centre) / unit).T).T
        along = white @ told
        rest = np.sum((white - along @ told.T) ** 2, axis=1)
        spread = [np.log(rest + 1e-12)[:, None]] if white.shape[1] > told.shape[1] else []
        return np.hstack([along, *spread])

    return summaries


def changes_of(likelihood: KernelLikelihood, ends: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """From statistics (k, d) to what a learned likelihood makes of them along each axis of a posterior.

    Parameters
    ----------
    likelihood : KernelLikelihood
        Of the statistics themselves.
    ends : ndarray of shape (2 q, p)
        The ends of the axes, as `Region.ends` gives them.

    Notes
    -----
    Log-likelihood a deviation above the mean less that a deviation below, along each principal axis of the
    draws, in the space without edges: the score, but for the width of the step, after J. Alsing and
    B. Wandelt, Generalized massive optimal data compression, Monthly Notices of the Royal Astronomical
    Society 476 (2018), L60-L64. Where the likelihood holds they lose little; where it does not, their law
    in simulated rows is still their law, and they claim nothing that is not so.
    """
    count = len(ends) // 2

    def summaries(statistics: np.ndarray) -> np.ndarray:
        logs = likelihood.log_likelihoods(ends, statistics)
        return (logs[:count] - logs[count:]).T

    return summaries
