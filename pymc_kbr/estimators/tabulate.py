"""From arrays in memory to the table that an estimator is fitted to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_kbr.arrays.rows import as_pairs, as_rows, check_finite, check_range, check_shapes
from pymc_kbr.arrays.support import Support, support_of
from pymc_kbr.estimators.checks import rows_with_density
from pymc_kbr.estimators.fitted_table import FittedTable
from pymc_kbr.estimators.summaries import Summary, coordinates, make_summary


def tabulate(
    parameters: Any,
    statistics: Any,
    support: Support | None = None,
    scale: bool | str | Summary = True,
    ratio: np.ndarray | None = None,
    draws: tuple[np.ndarray, np.ndarray] | None = None,
    check: Callable[[int], None] = lambda n: None,
) -> FittedTable:
    """Check the rows and scale them, once.

    Parameters
    ----------
    parameters : array_like of shape (n, p)
    statistics : array_like of shape (n, d)
    support, ratio
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
    parameters, statistics = as_pairs(parameters, statistics)
    check_shapes(parameters, statistics)
    check_finite("parameters", parameters)
    check_finite("statistics", statistics)
    check_range("the parameters", parameters)
    n = len(parameters)
    check(n)
    kept = rows_with_density(ratio, n)
    held = support_of(support, parameters.shape[1])
    scaler = make_summary(scale, statistics, parameters)
    x = coordinates(scaler, statistics)
    # What may be written to later is copied; tables' own arrays are not.
    raw = statistics.copy() if statistics.flags.writeable else statistics
    if ratio is None:
        return FittedTable(scaler, x, parameters.copy(), held, n, draws=draws, first=raw[0], raw=raw)
    carried = as_rows("the density ratio", ratio)[kept]
    over = carried / carried.mean()
    return FittedTable(scaler, x[kept], parameters[kept], held, n, kept, over, draws, raw[0], raw[kept])
