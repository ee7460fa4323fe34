"""By how much posteriors are too narrow, told by rows that an estimator has not seen."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.stats import chi2

from pymc_kbr.arrays.refusals import times
from pymc_kbr.arrays.scaling import unit_deviations
from pymc_kbr.estimators import Estimator, KernelLikelihood
from pymc_kbr.tables.reference_table import ReferenceTable

NEAR_SHARE, FEWEST_IN_SHARE = 0.25, 20
"""Share of the rows, nearest to the observation, of which half at most are held out; and their number."""

MOST_CONDITIONED = 12
"""Rows that are conditioned on."""

DRAWS_OF_EACH = 300
"""Draws of each posterior."""

MOST = 1e12
"""A million times too narrow: posteriors are points, and no proposal is made of them."""

COVERED = 0.8
"""Share of the held-out rows that widened posteriors cover as normal ones of so many parameters would."""


def widening(
    fit: Callable[[ReferenceTable, np.ndarray, np.random.Generator], Estimator],
    table: ReferenceTable,
    rng: np.random.Generator,
) -> float:
    """By what covariances of posteriors near the observation must be multiplied to cover: at least one.

    Parameters
    ----------
    fit : callable
        From a table, the numbers of some of its rows and a generator to an estimator that is fitted to them.
    table : ReferenceTable
        With an observation.
    rng : numpy.random.Generator

    Raises
    ------
    ValueError
        If posteriors are points.

    Notes
    -----
    The estimator is fitted without some rows near the observation and conditioned on these. Squared distances
    of their parameters from the posteriors' means, in the metric of the posteriors' covariances, are those
    of a chi-squared distribution where posteriors are normal and neither too narrow nor elsewhere.
    """
    unit = unit_deviations(table.statistics)
    away = np.linalg.norm((table.statistics - table.observed) / unit, axis=1)
    near = np.argsort(away, kind="stable")[: max(FEWEST_IN_SHARE, int(NEAR_SHARE * len(table)))]
    # Half of the near rows stay: without them the fit would be worse there than the one that is judged.
    held_out = rng.permutation(near)[: min(len(near) // 2, MOST_CONDITIONED)]
    rest = np.setdiff1d(np.arange(len(table)), held_out)
    fitted = fit(table, rest, rng)
    if isinstance(fitted, KernelLikelihood):
        fitted = fitted.for_scores()
    posteriors = fitted.condition(table.statistics[held_out])
    with np.errstate(divide="ignore"):
        truths = table.support.forward(table.parameters[held_out])
    squared = [
        _squared_distance(table.support.forward(posterior.draw(DRAWS_OF_EACH, rng)), truth)
        for posterior, truth in zip(posteriors, truths, strict=True)
    ]
    found = float(np.quantile(squared, COVERED) / chi2.ppf(COVERED, truths.shape[1]))
    if found > MOST:
        raise ValueError(
            f"posteriors of {type(fitted).__name__} are {times(float(np.sqrt(found)))} too narrow for rows "
            f"that were held out of {len(table)}: they rest on one row or two; give the rounds more draws, "
            "or an estimator that accepts more rows"
        )
    return max(1.0, found)


def _squared_distance(draws: np.ndarray, truth: np.ndarray) -> float:
    apart = truth - draws.mean(axis=0)
    unit = unit_deviations(draws)
    # Draws of a few rows lie in a plane, and what is off it must not count as infinitely far.
    covariance = np.cov((draws / unit).T).reshape(len(truth), -1) + 1e-6 * np.eye(len(truth))
    found: float = (apart / unit) @ np.linalg.solve(covariance, apart / unit)
    return found
