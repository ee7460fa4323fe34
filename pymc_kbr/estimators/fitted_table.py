"""The reference table that an estimator was fitted to: scaled once, and never changed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pymc_kbr.arrays.checked_rows import CheckedRows
from pymc_kbr.arrays.names import Names
from pymc_kbr.arrays.neighbours import Neighbours, neighbours_of
from pymc_kbr.arrays.support import Support
from pymc_kbr.estimators.likelihood.success import Success
from pymc_kbr.estimators.summaries import Summary, coordinates, make_summary
from pymc_kbr.gram.solvers import Solver


class Sample(NamedTuple):
    """Rows of a table: scaled statistics (s, q), parameters (s, p), and their numbers, shape (s,)."""

    statistics: np.ndarray
    parameters: np.ndarray
    numbers: np.ndarray


@dataclass(frozen=True, eq=False)
class FittedTable:
    """A table in memory, in the scale of an estimator."""

    # Shapes: statistics (n, q); parameters (n, p); rows (n,); ratio (n,); draws (l, p) and (l,); first (d,);
    # raw (n, d).
    streamed: ClassVar[bool] = False
    deviation: ClassVar[Any] = None

    scaler: Summary
    statistics: Any
    parameters: Any
    support: Support
    size: int
    rows: np.ndarray | None = None
    ratio: np.ndarray | None = None
    draws: tuple[np.ndarray, np.ndarray] | None = None
    first: np.ndarray | None = None
    raw: np.ndarray | None = None
    success: Success | None = None
    names: Names | None = None

    def __len__(self) -> int:
        return len(self.statistics)

    @property
    def tuning(self) -> tuple[np.ndarray, np.ndarray]:
        """Statistics and parameters of the rows on which settings are chosen."""
        return self.statistics, self.parameters

    @property
    def sample(self) -> Sample:
        """The rows to which a regression is fitted: all of them."""
        return Sample(self.statistics, self.parameters, np.arange(len(self)))

    @cached_property
    def _neighbours(self) -> dict[tuple[float, ...], Neighbours]:
        return {}

    def of_columns(self, columns: np.ndarray, scaler: Any) -> FittedTable:
        """The same rows with some of their statistics, by their numbers, in the scale of these."""
        # From numbers among all statistics to those among the ones that vary, which alone are scaled.
        there = getattr(self.scaler, "fitted", self.scaler.kept)  # of more that vary some may be left out
        places = np.cumsum(there)[columns[there[columns]]] - 1
        return replace(
            self,
            scaler=scaler,
            statistics=self.statistics[:, places],
            first=None if self.first is None else self.first[columns],
            raw=None if self.raw is None else self.raw[:, columns],
            names=None if self.names is None else self.names.of_statistics(columns),
        )

    def nearest(self, count: int, units: tuple[float, ...] = ()) -> Neighbours:
        """The way to nearest rows, of which there is one for all estimators on this table."""
        if units not in self._neighbours:
            points = self.statistics / np.array(units) if units else self.statistics
            self._neighbours[units] = neighbours_of(points, count)
        return self._neighbours[units]

    def some_rows(
        self, count: int, rng: np.random.Generator, near: np.ndarray | None = None, among: int = 0
    ) -> np.ndarray:
        """Numbers of rows at random: of all that carry weight, or `among` those nearest to a point (d,)."""
        rows = np.arange(self.size) if self.rows is None else self.rows
        if near is not None:
            rows = rows[self.nearest(among).query(self.scaler.transform(near[None]), among)[1][0]]
        return rng.choice(rows, count, replace=False)

    def read_parameters(self, rows: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """Parameters among which some rows are, and the places (k, m) of these rows there."""
        return self.parameters, rows

    def read_statistics(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Statistics among which some rows are, and the places (k, m) of these rows there."""
        return self.statistics, rows

    def points_for(self, solver: Solver) -> Any:
        """The statistics in the form that a solver takes."""
        return self.statistics

    def check_weights(self, observations: int) -> None:
        """Refuse so many observations if the weights of all rows do not fit into memory."""


# --- from arrays to a fitted table ---


def build_table(
    parameters: Any,
    statistics: Any,
    support: Support | None = None,
    scale: bool | str | Summary = True,
    ratio: np.ndarray | None = None,
    draws: tuple[np.ndarray, np.ndarray] | None = None,
    check: Callable[[int], None] = lambda n: None,
    success: Success | None = None,
    others: np.ndarray | None = None,
) -> FittedTable:
    """Check the rows and scale them, once."""
    # Shapes: parameters (n, p); statistics (n, d); draws (l, p) and (l,); others (k, d).
    rows = CheckedRows.of(parameters, statistics, support, ratio, success)
    rows = rows if others is None else rows.reading(others)
    check(len(rows))
    return scaled(rows, scale, draws)


def scaled(
    rows: CheckedRows, scale: bool | str | Summary = True, draws: tuple[np.ndarray, np.ndarray] | None = None
) -> FittedTable:
    """Rows that were checked, in the scale that an estimator asks for: see `build_table`."""
    theta, x, kept = rows.parameters, rows.statistics, rows.carrying
    scaler = make_summary(scale, x, theta, rows.lowest)
    coordinate = coordinates(scaler, x)
    # What may be written to later is copied; tables' own arrays are not.
    raw = x.copy() if x.flags.writeable else x
    simulated = theta if rows.ratio is None else theta[kept]
    if draws is not None and draws[0].shape[1:] == simulated.shape[1:]:  # else it is refused later
        simulated = np.vstack([simulated, draws[0]])
    support = rows.support.of_rows(simulated)
    of_all: dict[str, Any] = {"support": support, "size": len(rows), "draws": draws, "first": raw[0]}
    of_all |= {"success": rows.success, "names": rows.names}
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
