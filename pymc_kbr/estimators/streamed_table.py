"""A reference table that stays on the disk, for the estimators.

The only file here that reads a part at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from pymc_kbr.arrays.chunks import Chunks
from pymc_kbr.arrays.labelled import check_kind
from pymc_kbr.arrays.memory import physical_memory
from pymc_kbr.arrays.rows import check_shapes
from pymc_kbr.arrays.scan import Scan, scan_table
from pymc_kbr.arrays.support import Support, support_of
from pymc_kbr.estimators.fitted_table import FittedTable, Sample
from pymc_kbr.estimators.likelihood.success import Success
from pymc_kbr.estimators.summaries import Summary, coordinates, make_summary
from pymc_kbr.gram import Solver
from pymc_kbr.gram.solvers import solver_for, streams


@dataclass(frozen=True, eq=False)
class StreamedTable(FittedTable):
    """Rows that are read in blocks; `statistics` and `parameters` are `Chunks`.

    Parameters
    ----------
    scan : Scan
        What one pass over all rows has found.
    """

    streamed: ClassVar[bool] = True

    scan: Scan = field(kw_only=True)

    @classmethod
    def of(
        cls,
        parameters: Any,
        statistics: Any,
        support: Support | None,
        scale: bool | str | Summary,
        success: Success | None = None,
    ) -> StreamedTable:
        """One pass over the rows, which scales them and takes a sample."""
        check_shapes(parameters, statistics)
        held = support_of(support, int(parameters.shape[1]))
        for name, side in (("parameters", parameters), ("statistics", statistics)):
            if hasattr(side, "dtype"):  # a table's own rows have none, and hold real numbers alone
                check_kind(f"the {name}", np.dtype(side.dtype))
        scan = scan_table(Chunks(parameters), Chunks(statistics), scale is not False)
        # Deviations are those of all rows; what else there is to learn is learnt from the sample.
        scaler: Summary = scan.scaler
        if not isinstance(scale, bool | np.bool_):
            scaler = make_summary(scale, scan.statistics, scan.parameters)
        n = int(parameters.shape[0])
        changed = Chunks(statistics, scaler.transform)
        support, first = held.of_rows(scan.parameters), scan.statistics[0]
        return cls(scaler, changed, Chunks(parameters), support, n, scan=scan, first=first, success=success)

    @property
    def deviation(self) -> np.ndarray:  # type: ignore[override]
        """Standard deviations of all parameters, shape (p,)."""
        return self.scan.deviation

    @cached_property
    def sample(self) -> Sample:  # type: ignore[override]
        """Rows spread evenly over the table, in memory."""
        return Sample(coordinates(self.scaler, self.scan.statistics), self.scan.parameters, self.scan.rows)

    @property
    def tuning(self) -> tuple[np.ndarray, np.ndarray]:
        """Statistics and parameters of the rows on which settings are chosen: a few of the sample."""
        return self.sample.statistics[self.scan.few], self.sample.parameters[self.scan.few]

    def nearest(self, count: int, units: tuple[float, ...] = ()) -> Any:
        """The way to nearest rows, in one pass."""
        if units:
            raise TypeError(
                "a kernel of several bandwidths needs its rows in memory, and these are read a part at a "
                "time; take one bandwidth, or load some rows (`stored.load(20_000)`)"
            )
        return super().nearest(count)

    def read_parameters(self, rows: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """Parameters of some rows, or of all of them, read in one pass; the rows' places among these."""
        if rows is None:
            return self.parameters[0 : self.size], None
        # Each row once, in the order of the disk.
        read, places = np.unique(rows, return_inverse=True)
        return self.parameters[read], places.reshape(rows.shape)

    def read_statistics(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Statistics of some rows, read in one pass; the rows' places among these."""
        read, places = np.unique(rows, return_inverse=True)
        return self.statistics[read], places.reshape(rows.shape)

    def points_for(self, solver: Solver) -> Any:
        """The statistics, read where a solver wants them at once: they are few enough for it."""
        return self.statistics if streams(solver_for(solver, self.size)) else self.statistics[0 : self.size]

    def check_weights(self, observations: int) -> None:
        """Refuse so many observations if the weights of all rows do not fit into memory."""
        needed, there = 16.0 * observations * self.size, physical_memory()
        if needed > 0.8 * there:
            raise MemoryError(
                f"the weights of {self.size} rows for {observations} observations need {needed / 1e9:.1f} "
                f"GB and this machine has {there / 1e9:.1f} GB; condition on fewer observations at once, or "
                "take Localised"
            )
