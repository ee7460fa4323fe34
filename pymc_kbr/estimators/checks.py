"""What estimators refuse before any work."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from pymc_kbr.arrays.bijections import Interval, Step
from pymc_kbr.arrays.names import Names
from pymc_kbr.arrays.outliers import Outliers, beyond_power_law, outliers
from pymc_kbr.arrays.refusals import times
from pymc_kbr.arrays.scaling import Scaler
from pymc_kbr.arrays.support import Support
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.estimators.fitted_table import FittedTable, Sample
from pymc_kbr.estimators.summaries import Summary
from pymc_kbr.estimators.summaries.transformed import CommonScale, Transformed
from pymc_kbr.posterior.posterior import PosteriorWarning


def warn_of_rows(table: FittedTable) -> None:
    """Say what of a table's rows an estimator takes for more, or for less, than it is."""
    warn_of_outliers(table)
    warn_of_strange(table)
    warn_of_copies(table)


def warn_of_outliers(table: FittedTable) -> None:
    """Say which statistics are measured by the deviation of a few rows."""
    if not isinstance(table.scaler, Scaler | Transformed) or isinstance(table.scaler, CommonScale):
        return
    columns, sample = np.flatnonzero(table.scaler.kept), table.sample
    scaler = table.scaler if isinstance(table.scaler, Scaler) else table.scaler.scaler
    # Of rows that are read in parts, those that make up a deviation need not be in the sample.
    known = np.ones(len(columns)) if table.streamed and np.any(scaler.scale != 1) else None
    for found in outliers(sample.statistics, known):
        few = f"few rows that are not among the {len(sample.numbers)} looked at"
        if len(found.rows):
            few = _few(found, table, sample)
        warnings.warn(
            f"the deviation of the statistic in column {columns[found.column]} is that of {few}, and "
            f"{times(found.deviation / found.of_the_rest)} that of the rest: divided by it, the other "
            "rows hardly differ, so the statistic has hardly any effect; leave these rows out, or take its "
            "logarithm",
            UserWarning,
            stacklevel=users_line(),
        )


def warn_of_strange(table: FittedTable) -> None:
    """Say of which parameters a few rows are farther off than the tail of the others explains."""
    sample = table.sample
    for found in beyond_power_law(sample.parameters):
        larger = times(found.deviation / found.of_the_rest)
        warnings.warn(
            f"the parameter in column {found.column} is far from all others in {_few(found, table, sample)}, "
            f"and no tail of theirs reaches there: its deviation is {larger} that of the rest. "
            "Regressions and the choice of an estimator depend on these rows, and draws may include them; "
            "leave them out if they went wrong",
            UserWarning,
            stacklevel=users_line(),
        )


def _few(found: Outliers, table: FittedTable, sample: Sample) -> str:
    """How many of the rows that were looked at these are, and their numbers among all."""
    numbers = sample.numbers[found.rows]
    shown = dataclasses.replace(found, rows=numbers if table.rows is None else table.rows[numbers])
    return f"{len(found.rows)} of {len(sample.numbers)} rows ({shown.shown()})"


def warn_of_copies(table: FittedTable) -> None:
    """Say how many rows are copies of others. Continuous parameters never agree in all digits by chance."""
    sample = table.sample
    smooth = [column for block in table.support.blocks if block.continuous for column in block.columns]
    # Of most tables one column says that there are none, in a fraction of the time that all columns take.
    if not smooth or len(np.unique(sample.parameters[:, smooth[0]])) == len(sample.parameters):
        return
    rows = np.hstack([sample.parameters, sample.statistics])
    copies = len(rows) - len(np.unique(rows, axis=0))
    if copies:
        warnings.warn(
            f"{copies} of {len(rows)} rows are copies of others, in all digits of all parameters and "
            "statistics. Each counts as a simulation of its own: choices made on held-out rows, "
            "and above all a learned likelihood, then overfit noise, and the posterior may be far too "
            "narrow; leave the copies out, as with `drop_duplicates()` of a data frame",
            PosteriorWarning,
            stacklevel=users_line(),
        )


def warn_of_wide(
    points: np.ndarray,
    support: Support,
    names: Sequence[str] | None,
    *,
    # The highest hundredth of a positive parameter over its median, as of a log-normal whose logarithm has a
    # deviation of 1.7.
    times_wide: float = 50.0,
) -> None:
    """Say which parameters (m, p) are positive over orders of magnitude, and have no bound that says so."""
    unbounded = [
        column
        for block in support.blocks
        if block.smooth
        for i, column in enumerate(block.columns)
        if not block.steps or _without_ends(block.steps[0], i)
    ]
    for column in unbounded:
        values = points[:, column]
        middle, high = np.quantile(values, [0.5, 0.99])
        if values.min() > 0 and high > times_wide * middle:
            name = f"in column {column}" if names is None else repr(names[column])
            warnings.warn(
                f"the parameter {name} is positive in all rows, with a median of {middle:.3g} and a "
                f"hundredth of them above {high:.3g}, and has no bound: rows are moved by a regression that "
                "hangs on the largest of them; give its lower bound to the table, as "
                "`Support.from_bounds({name: (0, None)}, names)`, or take its logarithm for the parameter",
                UserWarning,
                stacklevel=users_line(),
            )


def _without_ends(step: Step, place: int) -> bool:
    """Whether a step is of intervals, of which one is the whole line."""
    return isinstance(step, Interval) and np.isinf(step.lower[place]) and np.isinf(step.upper[place])


def refuse_both(ratio: Any, prior: Any, own: Any) -> None:
    """Refuse more than one form of another prior."""
    if own is not None and (ratio is not None or prior is not None):
        raise ValueError("the estimator has a prior and `fit` was given another one; give one of the two")
    if ratio is not None and prior is not None:
        raise ValueError("both a density ratio and draws of the other prior are given; give one of the two")


def impossible(
    x: np.ndarray,
    table: FittedTable,
    *,
    # Relative difference from which an observation is not what a statistic is in every simulation.
    least_different: float = 1e-9,
) -> np.ndarray:
    """Which statistics of observations x (k, d) the model cannot make, bool of shape (k, d)."""
    if table.first is None:
        return np.zeros(x.shape, dtype=bool)
    # Data are often summed in another order than simulations are.
    return ~table.scaler.kept & (np.abs(x - table.first) > least_different * np.abs(table.first))


def warn_of_impossible(x: np.ndarray, table: FittedTable, names: Names) -> None:
    """Say which statistics of observations x (k, d) the model cannot make."""
    off = impossible(x, table)
    for column in np.flatnonzero(off.any(axis=0)).tolist():
        assert table.first is not None
        warnings.warn(
            f"the statistic {names.statistic(column)} is {table.first[column]:.6g} in every simulation and "
            f"{x[off[:, column], column][0]:.6g} in the data: the model cannot make the data, and the "
            "posterior does not know of it; look at the simulator and the statistic, or leave it out",
            PosteriorWarning,
            stacklevel=users_line(),
        )


def warn_of_nearest_level(found: list[tuple[int, float, float]], names: Names) -> None:
    """Warn of values that no simulation has, which are read as rare neighbouring ones."""
    for column, value, other in dict.fromkeys(found):
        warnings.warn(
            f"no simulation has the value {value:.15g} of the statistic {names.statistic(column)}, which has "
            f"few values; the likelihood is that of the neighbouring value {other:.15g}, which is rare; "
            "simulate more, or nearer",
            PosteriorWarning,
            stacklevel=users_line(),
        )


def warn_of_counts_above(found: list[tuple[int, float, float]], names: Names) -> None:
    """Warn of counts above the highest one of a likelihood, which are read as that one or more."""
    for column, value, last in dict.fromkeys(found):
        warnings.warn(
            f"the statistic {names.statistic(column)} is {value:.15g}, and the highest count of the learned "
            f"likelihood is {last:.15g}: its likelihood is the probability of {last:.15g} or more; simulate "
            "more, or, if the model cannot make this count, check the simulator",
            PosteriorWarning,
            stacklevel=users_line(),
        )


def check_scaled(
    scaled: np.ndarray,
    x: np.ndarray,
    *,
    # Farther observations, in scaled units, are refused: their distances to all rows are one number.
    farthest_observation: float = 1e100,
) -> None:
    """Refuse observations x (k, d) so far off that distances to them overflow."""
    near = np.abs(scaled) < farthest_observation  # NaN is not: what has overflowed on the way
    far = np.flatnonzero(~near.all(axis=1))
    if far.size:
        row = int(far[0])
        column = int(np.argmax(np.abs(x[row])))
        raise ValueError(
            f"the observation has the value {x[row, column]:.3g} in statistic {column}, more than "
            f"{farthest_observation:g} "
            "deviations from the table; no distance to a row can be measured: look at its units"
        )


def beyond(scaler: Summary, x: np.ndarray) -> np.ndarray:
    """Which of the observations x (k, d) have no place in a table's scale, or one too far off."""
    refused = []
    for number, row in enumerate(x[:, None]):
        try:
            check_scaled(scaler.transform(row), row)
        except ValueError:
            refused.append(number)
    return np.array(refused, dtype=int)
