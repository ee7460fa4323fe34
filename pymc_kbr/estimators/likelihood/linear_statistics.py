"""Statistics that are linear functions of others in every row, such as shares of one whole."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from pymc_kbr.arrays.weighted import spread_out
from pymc_kbr.estimators.likelihood.checks import LEAST_LEFT

WRONG = 0.01
"""Of a statistic's deviation, by which an observation may differ from the function: data are rounded."""


@dataclass(frozen=True, eq=False)
class LinearStatistics:
    """Statistics that others determine: together they have no density, and the others have one."""

    # Shapes: columns, constants, deviations (m,); coefficients (d, m), zero but for members.
    columns: np.ndarray
    constants: np.ndarray
    coefficients: np.ndarray
    deviations: np.ndarray

    @classmethod
    def of(cls, statistics: np.ndarray, apart: Collection[int] = ()) -> Self | None:
        """Of a table's rows (n, d), each a function of those before it; none of those that stay `apart`."""
        n, d = statistics.shape
        deviations = statistics.std(axis=0)
        seen = [j for j in range(d) if deviations[j] > 0 and j not in apart]
        if n < 2 * (d + 1) or len(seen) < 2:
            return None
        # A few rows show whether there is any; all must agree.
        some = spread_out(n, max(1000, 2 * (d + 1)))
        found, before = list[tuple[int, float, np.ndarray]](), list[int]()
        means = statistics.mean(axis=0)
        standard = (statistics - means) / np.where(deviations > 0, deviations, 1.0)
        left = np.diag(np.linalg.qr(standard[some][:, seen], mode="r")) ** 2 / len(some)
        if not np.any(left < LEAST_LEFT):
            return None
        for j in seen:
            y, slopes = standard[:, j], _slopes(standard[:, before], standard[:, j])
            error = np.abs(y - standard[:, before] @ slopes)
            # Of most rows as well: a tail may be all of a variance.
            bulk = float(np.subtract(*np.quantile(y, [0.75, 0.25]))) or 1.0
            if np.mean(error**2) < LEAST_LEFT and np.median(error) < np.sqrt(LEAST_LEFT) * bulk:
                coefficients = np.zeros(d)
                coefficients[before] = slopes * deviations[j] / deviations[before]
                found.append((j, float(means[j] - means @ coefficients), coefficients))
            else:
                before.append(j)
        if not found:
            return None
        columns = np.array([j for j, _, _ in found])
        constants, coefficients = np.array([c for _, c, _ in found]), np.array([b for _, _, b in found]).T
        return cls(columns, constants, coefficients, deviations[columns])

    def of_columns(self, columns: np.ndarray) -> Self | None:
        """Of some of the statistics, by their numbers: those of which all members are there."""
        places = {int(column): place for place, column in enumerate(columns)}
        kept = [i for i, column in enumerate(self.columns.tolist()) if column in places]
        if not kept:
            return None
        return replace(
            self,
            columns=np.array([places[int(self.columns[i])] for i in kept]),
            constants=self.constants[kept],
            coefficients=self.coefficients[columns][:, kept],
            deviations=self.deviations[kept],
        )

    def lost_by(self, columns: np.ndarray) -> bool:
        """Whether of one of these a member is not among some statistics, by their numbers."""
        there = np.isin(np.arange(len(self.coefficients)), columns)
        lost = np.any((self.coefficients != 0) & ~there[:, None], axis=0)
        return bool(np.any(lost & there[self.columns]))

    @property
    def members(self) -> set[int]:
        """Numbers of all statistics that have a part in one."""
        return {*self.columns.tolist(), *np.flatnonzero(self.coefficients.any(axis=1)).tolist()}

    def filled(self, statistics: np.ndarray) -> np.ndarray:
        """Rows (n, d) with these statistics in their places."""
        found = np.array(statistics, dtype=float)
        found[:, self.columns] = 0.0  # they may be missing
        found[:, self.columns] = self.constants + found @ self.coefficients
        return found

    def wrong(self, statistics: np.ndarray) -> np.ndarray:
        """Which rows (n,) are not near any of a table; of a statistic that is missing nothing is wrong."""
        away = np.abs(self.filled(statistics) - statistics)[:, self.columns]
        return np.any(np.isfinite(away) & (away > WRONG * self.deviations), axis=1)

    def between(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Observations between two ends (n, d), a missing member replaced by what the others leave."""
        hidden = lower < upper
        lower, upper = np.array(lower), np.array(upper)
        for i, column in enumerate(self.columns.tolist()):
            members = np.flatnonzero(self.coefficients[:, i])
            missing = hidden[:, members] & ~hidden[:, [column]]
            if np.any(several := missing.sum(axis=1) > 1):
                raise ValueError(
                    f"several statistics are missing in row {np.flatnonzero(several)[0]} of the observations "
                    f"of which that in column {column} is a linear function: leave it out, too"
                )
            for row, place in np.argwhere(missing).tolist():
                member = int(members[place])
                others = self.coefficients[:, i].copy()
                others[member] = 0.0
                known = np.where(hidden[row], 0.0, lower[row])
                rest = lower[row, column] - self.constants[i] - known @ others
                lower[row, member] = upper[row, member] = rest / self.coefficients[member, i]
        return lower, upper


def _slopes(standard: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Slopes of y (n,) in columns (n, c) of deviation one, zero where they are rounding errors."""
    found: np.ndarray = np.linalg.lstsq(standard, y, rcond=None)[0]
    members = np.abs(found) > np.sqrt(LEAST_LEFT)
    if not members.all():
        found = np.zeros(len(found))
        found[members] = np.linalg.lstsq(standard[:, members], y, rcond=None)[0]
    return found
