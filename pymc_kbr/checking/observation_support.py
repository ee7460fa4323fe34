"""How far an observation lies from a table's rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.names import one_by_name, refuse_sets
from pymc_kbr.arrays.weighted import spread_out
from pymc_kbr.estimators.checks import check_scaled
from pymc_kbr.estimators.fitted_table import FittedTable, build_table
from pymc_kbr.tables.reference_table import ReferenceTable, check_table


@dataclass(frozen=True, eq=False)
class ObservationSupport:
    """Where an observation lies among the simulations."""

    # Shapes: references (r,); contributions (d,); position (d,).
    distance: float
    references: np.ndarray
    contributions: np.ndarray
    position: np.ndarray
    names: list[str]
    # Share of the rows that are nearer to their neighbours than an observation that is called far.
    far_percentile: float = 0.995

    @property
    def percentile(self) -> float:
        """Share of rows that are nearer to their neighbours than the observation is."""
        return float(np.mean(self.references < self.distance))

    @property
    def far(self) -> bool:
        """Whether the observation is unlike what was simulated."""
        return self.percentile > self.far_percentile

    def worst(self, most: int = 3) -> list[str]:
        """The statistics that make up most of the distance."""
        order = np.argsort(self.contributions)[::-1][:most]
        return [self.names[i] for i in order if self.contributions[i] >= 0.1]


@default_arithmetic
def observation_support(
    table: ReferenceTable, observed: np.ndarray | None = None, *, scaled: FittedTable | None = None
) -> ObservationSupport:
    """Compare an observation's distance to the simulations with that of simulations to each other.

    Parameters
    ----------
    table : ReferenceTable
    observed : ndarray of shape (d,), optional
        The table's own observation where left out. Statistics that are missing in it (NaN) are left out.
    scaled : FittedTable, optional
        The table in units of deviations, where an estimator has it already.

    Returns
    -------
    ObservationSupport

    Raises
    ------
    ValueError
        If there is no observation, it has another number of statistics, or is beyond all measure.

    Notes
    -----
    Where the observation has noise that the table is known to be without (`ReferenceTable.noise`), the rows
    that it is compared with get such noise, too. Rows need not be draws of the prior: what is
    compared is how near simulations lie to each other, wherever their parameters were drawn.
    """
    check_table("table", table)
    refuse_sets(table)
    observed = table.observed if observed is None else one_by_name(observed, table.statistic_names)
    if observed is None:
        raise ValueError("the reference table has no observation; give one, or set it with `with_observed`")
    if observed.shape != (table.statistics.shape[1],):
        raise ValueError(
            f"the observation has shape {observed.shape}; the table has {table.statistics.shape[1]} "
            "statistics"
        )
    if np.any(np.isnan(observed)):
        table = table.with_observed(observed).without_missing()
        scaled, observed = None, observed[~np.isnan(observed)]
    if scaled is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # constant statistics are reported when an estimator is fitted
            scaled = build_table(table.parameters, table.statistics)
    check_scaled(scaled.scaler.transform(observed[None]), observed[None])
    return support_of_observation(table, observed, scaled)


def support_of_observation(
    table: ReferenceTable,
    observed: np.ndarray,
    scaled: FittedTable,
    *,
    # Rows to which distances are averaged,
    nearest_rows: int = 10,
    # and rows whose distances the observation's is compared with.
    reference_rows: int = 1000,
) -> ObservationSupport:
    """The same of an observation (d,) that was checked, and a table that is scaled."""
    scaler, x = scaled.scaler, scaled.statistics
    y = scaler.transform(observed[None])[0]
    k = min(nearest_rows, len(x) - 1)
    # One more, since a row of the table finds itself.
    nearest = scaled.nearest(k + 1)
    distances, rows = (found[0] for found in nearest.query(y[None], k))
    references = spread_out(len(x), reference_rows)
    noise = table.noise * np.random.default_rng(0).normal(size=(len(references), len(observed)))
    noisy = scaler.transform(table.statistics[references] + noise)
    others, near = nearest.query(noisy, k + 1)
    own = near == references[:, None]
    own[:, -1] |= ~own.any(axis=1)  # without the row itself, or the farthest where noise has moved it away
    apart = np.zeros(len(observed))
    apart[scaler.kept] = (y - x[rows].mean(axis=0)) ** 2
    # What is one number in all rows has no deviation to measure by, and counts as one where the data have
    # another; not where they have noise that the rows are without.
    unlike = observed[~scaler.kept] != table.statistics[0, ~scaler.kept]
    apart[~scaler.kept] = unlike & (table.noise[~scaler.kept] == 0)
    total = apart.sum()
    return ObservationSupport(
        float(distances.mean()),
        others[~own].reshape(len(references), k).mean(axis=1),
        apart / total if total > 0 else apart,
        np.mean(table.statistics < observed, axis=0),
        table.statistic_names,
    )
