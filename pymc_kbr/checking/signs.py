"""What a table and its observation say, before anybody has seen a posterior, for and against one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_kbr.arrays.bijections import Interval
from pymc_kbr.arrays.outliers import Outliers, beyond_power_law, outliers, outliers_too
from pymc_kbr.arrays.weighted import column_quantiles
from pymc_kbr.checking.coarseness import remedy_of, rounds_ended
from pymc_kbr.checking.misspecification import among_rows
from pymc_kbr.checking.observation_support import ObservationSupport, support_of_observation
from pymc_kbr.estimators.fitted_table import FittedTable
from pymc_kbr.estimators.likelihood.success import weighting_of
from pymc_kbr.estimators.summaries.transformed import CommonScale, Dependent, Transformed
from pymc_kbr.tables.origin import EDGE_TAIL
from pymc_kbr.tables.reference_table import ReferenceTable


@dataclass(frozen=True, eq=False)
class Signs:
    """What warnings about a posterior are computed from."""

    # Shapes: edges (2, p); cut (2, p).
    support: ObservationSupport
    pvalue: float
    outliers: list[Outliers]
    strange: list[Outliers]
    impossible: list[tuple[int, float, float]]
    edges: np.ndarray
    tail: float
    between_bounds: bool
    cut: np.ndarray
    rows: int
    parameter_names: list[str]
    statistic_names: list[str]
    discrete: list[bool]
    remedy: str
    rounds_ended: str = ""


def signs_of(
    table: ReferenceTable,
    scaled: FittedTable,
    measured: FittedTable | None = None,
    *,
    # Tail of a prior drawn between bounds beyond which its edges lie.
    bounded_tail: float = 0.05,
) -> Signs:
    """Look at a table with an observation."""
    observed, x, between = table.observed, table.statistics, table.origin.between_bounds
    assert observed is not None
    support, pvalue = support_of_observation(table, observed, scaled), 1.0
    # A rank among rows is a p-value where they are draws of the prior; by a seed of its own, since a table's
    # signs are the same in every call.
    if weighting_of(table).ratio is None and not between:
        pvalue = among_rows(table, observed[None], np.random.default_rng(0)).pvalue
    found = outliers(x)
    if found and measured is not None and isinstance(measured.scaler, Transformed | Dependent):
        # A logarithm may have brought them back among the others.
        fitted = measured.scaler.fitted if isinstance(measured.scaler, Dependent) else measured.scaler.kept
        found = outliers_too(found, measured.sample.statistics, np.flatnonzero(fitted))
    elif found and measured is not None and isinstance(measured.scaler, CommonScale):
        # One unit for all is no column's deviation; what is left are rows that no tail explains.
        found = beyond_power_law(x)
    constant = np.flatnonzero((np.ptp(x, axis=0) == 0) & (observed != x[0]))
    tail = bounded_tail if between else EDGE_TAIL
    return Signs(
        support,
        pvalue,
        found,
        beyond_power_law(table.parameters),
        [(int(j), float(x[0, j]), float(observed[j])) for j in constant],
        _edges(table, tail),
        tail,
        between,
        _cut(table),
        len(table),
        table.parameter_names,
        table.statistic_names,
        [variable.discrete for variable in table.parameter_columns.variables for _ in range(variable.size)],
        remedy_of(table),
        rounds_ended(table),
    )


def _edges(table: ReferenceTable, tail: float) -> np.ndarray:
    """Where the prior's edges are near: infinite where a model's prior is known to have none."""
    found = _quantiles_of_prior(table, tail)
    if table.provenance.get("simulated_by") != "a PyMC model" or table.origin.between_bounds:
        return found  # of a data frame without bounds nothing is known
    for block in table.support.blocks:
        columns, first = list(block.columns), block.steps[0] if block.steps else None
        if first is None or isinstance(first, Interval):
            lower, upper = (-np.inf, np.inf) if first is None else (first.lower, first.upper)
            found[0, columns] = np.where(np.isneginf(lower), -np.inf, found[0, columns])
            found[1, columns] = np.where(np.isposinf(upper), np.inf, found[1, columns])
    return found


def _quantiles_of_prior(table: ReferenceTable, tail: float) -> np.ndarray:
    """Quantiles of the prior alone, whatever known likelihood the rows are weighted by."""
    origin = table.origin
    if origin.prior_edges and tail == EDGE_TAIL:
        return np.array(origin.prior_edges)
    if origin.from_proposal and origin.known:  # files of before hold no weights without the likelihood
        return np.full((2, table.parameters.shape[1]), np.nan)
    weights = None if origin.known else weighting_of(table).ratio
    return column_quantiles(table.parameters, [tail, 1 - tail], weights)


def _cut(table: ReferenceTable) -> np.ndarray:
    cut = np.repeat([[-np.inf], [np.inf]], table.parameters.shape[1], axis=1)
    if table.origin.cut_edges:
        given = np.array(table.origin.cut_edges, dtype=float)
        cut = np.where(np.isnan(given), cut, given)
    return cut
