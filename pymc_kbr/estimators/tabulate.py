"""From arrays in memory to the table that an estimator is fitted to."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_kbr.arrays.checked_rows import CheckedRows
from pymc_kbr.arrays.support import Support
from pymc_kbr.estimators.fitted_table import FittedTable
from pymc_kbr.estimators.likelihood.success import Success
from pymc_kbr.estimators.summaries import Summary, coordinates, make_summary


def tabulate(
    parameters: Any,
    statistics: Any,
    support: Support | None = None,
    scale: bool | str | Summary = True,
    ratio: np.ndarray | None = None,
    draws: tuple[np.ndarray, np.ndarray] | None = None,
    check: Callable[[int], None] = lambda n: None,
    success: Success | None = None,
) -> FittedTable:
    """Check the rows and scale them, once.

    Parameters
    ----------
    parameters : array_like of shape (n, p)
    statistics : array_like of shape (n, d)
    support, ratio, success
        See `Estimator.fit`.
    scale : bool, str or Summary
    draws : pair of ndarray of shape (l, p) and (l,), optional
        Of another prior.
    check : callable
        Is called with the number of rows as soon as it is known, before any work.

    Raises
    ------
    TypeError, ValueError
        See `Estimator.fit`.
    """
    rows = CheckedRows.of(parameters, statistics, support, ratio, success)
    check(len(rows))
    return scaled(rows, scale, draws)


def scaled(
    rows: CheckedRows,
    scale: bool | str | Summary = True,
    draws: tuple[np.ndarray, np.ndarray] | None = None,
) -> FittedTable:
    """Rows that were checked, in the scale that an estimator asks for: see `tabulate`."""
    theta, x, kept = rows.parameters, rows.statistics, rows.carrying
    scaler = make_summary(scale, x, theta)
    coordinate = coordinates(scaler, x)
    # What may be written to later is copied; tables' own arrays are not.
    raw = x.copy() if x.flags.writeable else x
    simulated = theta if rows.ratio is None else theta[kept]
    if draws is not None and draws[0].shape[1:] == simulated.shape[1:]:  # else it is refused later
        simulated = np.vstack([simulated, draws[0]])
    support = rows.support.of_rows(simulated)
    of_all: dict[str, Any] = {"support": support, "size": len(rows), "draws": draws, "first": raw[0]}
    of_all["success"] = rows.success
    if rows.ratio is None:
        own = theta.copy() if theta.flags.writeable else theta
        return FittedTable(scaler, coordinate, own, raw=raw, **of_all)
    over = rows.ratio[kept] / rows.ratio[kept].mean()
    return FittedTable(scaler, coordinate[kept], theta[kept], rows=kept, ratio=over, raw=raw[kept], **of_all)


def in_deviations(rows: CheckedRows, estimator: Any) -> FittedTable:
    """All rows over the deviations of their statistics; an estimator's own table where it was scaled so."""
    table = estimator.table_
    whole = not table.streamed and table.rows is None and table.size == len(rows)
    if whole and estimator.scale_of_statistics() is True:
        return table
    return scaled_quietly(rows)


def scaled_quietly(rows: CheckedRows) -> FittedTable:
    """Rows over the deviations of their statistics."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # constant statistics are reported when an estimator is fitted
        return scaled(rows)
