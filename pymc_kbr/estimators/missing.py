"""Observations of which some statistics are missing: the estimator is fitted to those that are there."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone

from pymc_kbr.arrays.names import by_name
from pymc_kbr.arrays.rows import as_rows
from pymc_kbr.estimators.tabulate import tabulate
from pymc_kbr.posterior.posterior import Posterior

SEED = 20
"""Of solvers that draw at random, when an estimator is fitted again: the same gaps, the same posterior."""

Fitted = TypeVar("Fitted", bound=Any)


def with_gaps(observed: Any, estimator: Any) -> np.ndarray | None:
    """Observations (d,) or (k, d) some of whose statistics are NaN; None where none are.

    None, too, where they do not fit the estimator or are infinite, which is refused elsewhere.

    Raises
    ------
    ValueError
        If an observation has no statistic at all.
    """
    if not hasattr(estimator, "table_"):
        return None
    x = as_rows("the observation", by_name(observed, estimator.names_.statistics))
    fits = x.ndim in (1, 2) and x.shape[-1] == estimator.table_.scaler.size
    missing = np.isnan(x)
    if not fits or not np.any(missing) or np.any(np.isinf(x)):
        return None
    empty = np.flatnonzero(np.all(np.atleast_2d(missing), axis=1))
    if len(empty):
        raise ValueError(
            f"all statistics are missing in {len(empty)} observation(s), the first in row {empty[0]}: "
            "they have no posterior but the prior; leave them out"
        )
    return x


def condition_on_rest(estimator: Any, observed: np.ndarray) -> Any:
    """The posterior of an observation (d,) with gaps, or the list of those of k (k, d).

    Observations with the same gaps share a fit.
    """
    x = np.atleast_2d(observed)
    patterns, which = np.unique(np.isnan(x), axis=0, return_inverse=True)
    found: dict[int, Posterior] = {}
    for number, missing in enumerate(patterns):
        rows = np.flatnonzero(which.ravel() == number)
        fitted = estimator
        if np.any(missing):
            there = np.flatnonzero(~missing)
            alone = estimator.marginal(there) if hasattr(estimator, "marginal") else None
            fitted = alone or on_statistics(estimator, there)
        used = statistics_of(estimator, np.flatnonzero(~missing))
        for row, posterior in zip(rows, fitted.condition(x[rows][:, ~missing]), strict=True):
            found[int(row)] = dataclasses.replace(posterior, statistics=used)
    posteriors = [found[row] for row in range(len(x))]
    return posteriors[0] if observed.ndim == 1 else posteriors


def on_statistics(estimator: Fitted, columns: np.ndarray | Sequence[int]) -> Fitted:
    """The estimator fitted anew to some of its statistics, with the settings that it was given.

    Parameters
    ----------
    estimator : Estimator
        Fitted; it stays as it is.
    columns : sequence of int
        Numbers of the statistics that are kept.

    Raises
    ------
    ValueError
        If the table was read a part at a time, its scale is a fitted summary of all statistics, or those that
        are kept are constant.
    """
    table, raw = estimator.table_, getattr(estimator.table_, "raw", None)
    scale = estimator.scale_of_statistics()
    if raw is None:
        raise ValueError(
            f"statistics are missing, and this {type(estimator).__name__} was fitted to rows that were read "
            "a part at a time; load the table or some rows (`stored.load(20_000)`), or fit to a table of the "
            "statistics that are there (`with_statistics`)"
        )
    if not isinstance(scale, bool | str):
        raise ValueError(
            f"statistics are missing, and scale is a {type(scale).__name__} that was fitted to all of them; "
            "take scale=True or the name of a summary, which is then learnt from those that are there"
        )
    fitted = clone(estimator)
    kept = tabulate(
        table.parameters, raw[:, columns], table.support, scale, table.ratio, table.draws, fitted.check
    )
    fitted.names_ = estimator.names_.of_statistics(columns)
    fitted._given_log_prior = estimator._given_log_prior
    fitted = fitted.fit_table(kept, np.random.default_rng(SEED))
    known = None if getattr(estimator, "prior_estimated_", 1.0) else estimator.log_prior_
    return fitted.under(lambda: known)


def statistics_of(estimator: Any, columns: np.ndarray) -> tuple[str, ...]:
    """Names of statistics by their numbers; the numbers themselves where there are no names."""
    names = estimator.names_.statistics
    return tuple(str(column) if names is None else names[column] for column in columns)
