"""Columns whose deviation, in which they are measured, is that of a few rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pymc_kbr.arrays.scaling import deviations


@dataclass(frozen=True, eq=False)
class Outliers:
    """Rows that make up the deviation of a column."""

    column: int
    deviation: float
    of_the_rest: float
    rows: np.ndarray

    def shown(self) -> str:
        """The first of the rows' numbers."""
        return ", ".join(map(str, self.rows[:3])) + (", ..." if len(self.rows) > 3 else "")


def outliers(
    table: np.ndarray,
    known: np.ndarray | None = None,
    *,
    # In fewer rows nothing is an outlier.
    least_rows: int = 20,
    # Deviations from the mean up to which no row of a long column can make up its deviation.
    near_deviations: float = 15.0,
    # Rows farthest from the median, without which a column's deviation
    few_share: float = 0.001,
    # is so many times smaller; that of a log-normal of deviation 2 is less than three times.
    times_wider: float = 10.0,
) -> list[Outliers]:
    """The columns of rows (n, d), finite, whose deviation is that of a few rows."""
    # Shapes: table (n, d); known (d,).
    few = max(1, int(few_share * len(table)))
    if len(table) < least_rows:
        return []
    wide = deviations(table) if known is None else known
    unit = np.where(wide > 0, wide, 1.0)
    centre = (table / unit).mean(axis=0)
    far = np.maximum(table.max(axis=0) / unit - centre, centre - table.min(axis=0) / unit)
    found = []
    # One row of n is at most sqrt(n - 1) deviations from the mean, and so far where it is the outlier.
    least = min(near_deviations, 0.9 * np.sqrt(len(table) - 1)) if known is None else 0.0
    for number in np.flatnonzero(far > least).tolist():
        column = table[:, number]
        away = np.abs(column - np.median(column))
        order = np.argpartition(away, len(away) - few)
        (narrow,) = deviations(column[order[:-few], None])
        # A column that is the same in all other rows tells of these few alone: it may be measured by them.
        if 0 < times_wider * narrow < wide[number]:
            last = order[-few:]
            rows = np.sort(last[away[last] > times_wider * narrow])
            found.append(Outliers(number, float(wide[number]), float(narrow), rows))
    return found


def outliers_too(found: list[Outliers], again: np.ndarray, columns: np.ndarray) -> list[Outliers]:
    """Those of a table's outliers that are outliers in another measure of it."""
    # Shapes: again (m, q); columns (q,).
    still = {int(columns[one.column]) for one in outliers(again)}
    return [one for one in found if one.column in still]


def beyond_power_law(table: np.ndarray) -> list[Outliers]:
    """The columns of rows (n, d), finite, with outliers that are no tail of the others, however heavy."""
    # Shapes: table (n, d).
    found = []
    for one in outliers(table):
        rows = _beyond_gap(table[:, one.column])
        if len(rows):
            found.append(replace(one, rows=rows))
    return found


def _beyond_gap(
    column: np.ndarray,
    *,
    # Share of the rows that are the tail of a column, beside those in question,
    tail_share: float = 0.05,
    # and their least number.
    least_tail: int = 10,
    # Probability that the farthest rows of a power law count as outliers.
    false_alarm: float = 0.001,
    # Rows that may be outliers: see `outliers`.
    few_share: float = 0.001,
) -> np.ndarray:
    """Numbers, ascending, of the few rows that are farther from the median than a power law would be."""
    n = len(column)
    few, tail = max(1, int(few_share * n)), max(least_tail, int(tail_share * n))
    away = np.abs(column - np.median(column))
    order = np.argsort(-away, kind="stable")[: few + tail + 1]
    order = order[away[order] > 0]
    steps = -np.diff(np.log(away[order]))
    below = (np.arange(1, len(order)) * steps)[few:]
    if len(below) == 0:
        return order[:0]
    # Each is taken for the farthest row's: those beyond it may be apart themselves.
    gap, usual = steps[:few], below.mean()
    if usual > 0:
        chance = (1 + gap / (len(below) * usual)) ** -float(len(below))
    else:  # rows that are all as far away, as those of whole numbers may be, have no tail
        chance = np.where(gap > 0, 0.0, 1.0)
    (gaps,) = np.nonzero(chance * few < false_alarm)
    return np.sort(order[: gaps[-1] + 1]) if len(gaps) else order[:0]
