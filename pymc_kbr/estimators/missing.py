"""Observations of which some statistics are missing: the estimator is fitted to those that are there."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone

from pymc_kbr.arrays.checked_rows import CheckedRows
from pymc_kbr.arrays.observations import Observations
from pymc_kbr.estimators.fitted_table import scaled
from pymc_kbr.posterior.posterior import Posterior

Fitted = TypeVar("Fitted", bound=Any)


def posteriors_by_rest(estimator: Any, given: Observations) -> list[Posterior]:
    """The posterior of each observation given the statistics that it has."""
    found: dict[int, Posterior] = {}
    for columns, rows in given.patterns():
        fitted = estimator if len(columns) == given.rows.shape[1] else _on_rest(estimator, columns)
        used = statistics_of(estimator, columns)
        for row, posterior in zip(rows, fitted.posteriors(given.part(rows, columns)), strict=True):
            found[int(row)] = dataclasses.replace(posterior, statistics=used)
    return [found[row] for row in range(len(given.rows))]


def _on_rest(estimator: Any, columns: np.ndarray) -> Any:
    """The estimator for some statistics: the others integrated out where it can, otherwise fitted anew."""
    alone = estimator.marginal(columns) if hasattr(estimator, "marginal") else None
    return alone or on_statistics(estimator, columns)


def on_statistics(
    estimator: Fitted,
    columns: np.ndarray | Sequence[int],
    *,
    # Seed of solvers that draw at random when an estimator is fitted again: the same gaps, the same
    # posterior.
    refit_seed: int = 20,
) -> Fitted:
    """The estimator fitted anew to some of its statistics, with the settings that it was given."""
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
    fitted._given_log_prior = estimator._given_log_prior
    if hasattr(estimator, "reads_missed"):  # no argument, so a clone has the usual one
        fitted.reads_missed = estimator.reads_missed
    # In one order in memory, which a file does not keep and sums are rounded by.
    parameters, statistics = map(np.ascontiguousarray, (table.parameters, raw[:, columns]))
    rows = CheckedRows.trusted(parameters, statistics, table.support, table.ratio, table.success)
    fitted.names_ = estimator.names_.of_statistics(columns)
    fitted.fit_table(scaled(rows, scale, table.draws), np.random.default_rng(refit_seed))
    # A density that is known stays; one that was estimated is estimated anew.
    known = None if getattr(estimator, "prior_estimated_", 1.0) else estimator.log_prior_
    return fitted.under(known)


def statistics_of(estimator: Any, columns: np.ndarray) -> tuple[str, ...]:
    """Names of statistics by their numbers; the numbers themselves where there are no names."""
    names = estimator.names_.statistics
    return tuple(str(column) if names is None else names[column] for column in columns)
