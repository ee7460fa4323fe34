"""A reference table that stays on the disk, for more rows than memory holds."""

from __future__ import annotations

import dataclasses
import warnings
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.refusals import path_of
from pymc_kbr.arrays.support import Support
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.tables.checks import describe
from pymc_kbr.tables.columns import Columns
from pymc_kbr.tables.file import OBSERVED_DATA, PRIOR_RATIO
from pymc_kbr.tables.layout import DONE, FAILED, UNFINISHED
from pymc_kbr.tables.origin import Failures, Origin, provenance_with
from pymc_kbr.tables.reference_table import AnyTable, ReferenceTable, columns_by_name
from pymc_kbr.tables.store import BEYOND, TableStore


@default_arithmetic
@dataclass(frozen=True, eq=False, repr=False)
class StoredTable(AnyTable):
    """The simulations of a store, with what is needed to condition on an observation.

    Estimators fit to it as to a table in memory, a part at a time: ``Localised().fit(stored)``.

    Parameters
    ----------
    store : TableStore
    rows : int
        How many of the store's rows are looked at; those among them that are unfinished or failed are
        left out, and counted in `unfinished` and `failures`.
    observed : ndarray of shape (d,), optional
        The statistics of the data; NaN where they are missing.
    observed_data : dict of str to ndarray
        The data before `sum_stat`.
    chosen : tuple of int, optional
        Numbers of the store's statistics that are looked at; all where left out.
    on_failure : {"drop", "condition"}, optional
        What failures mean, where this is not what the store says: see `with_on_failure`.
    """

    store: TableStore
    rows: int
    observed: np.ndarray | None
    observed_data: dict[str, np.ndarray] = field(default_factory=dict)
    chosen: tuple[int, ...] | None = None
    on_failure: str | None = None

    @classmethod
    def open(cls, path: str | Path) -> StoredTable:
        """The table in a store that `simulate` has written, finished or not.

        Parameters
        ----------
        path : str or Path
            The store's folder.

        Returns
        -------
        StoredTable

        Raises
        ------
        FileNotFoundError, ValueError
            If there is no store, or it is damaged or of another format version.

        Warns
        -----
        UserWarning
            When its rows are first read, if finished rows, or the checksums that show damage, are gone.

        Examples
        --------
        >>> StoredTable.open("nowhere.zarr")
        Traceback (most recent call last):
        ...
        FileNotFoundError: there is no store nowhere.zarr
        """
        store = TableStore.open(path_of("path", path))
        table = cls(store, store.rows, store.array("observed"), store.other_arrays(OBSERVED_DATA))
        try:
            _ = table.parameter_columns, table.statistic_columns, table.support, int(store.documents["seed"])
            Origin.from_documents(store.documents)
        except Exception as error:  # whatever is lacking in documents whose checksum is right
            raise ValueError(f"{path} is no store of simulations ({describe(error)})") from error
        return table

    @cached_property
    def _status(self) -> np.ndarray:
        lost = self.store.lost
        if lost:
            warnings.warn(
                f"{lost} of {self.store.rows} rows of the store {self.store.path} were finished, and are "
                "damaged or gone; the call of `simulate` that made it makes them anew",
                UserWarning,
                stacklevel=users_line(),
            )
        unverified = len(self.store.unverified)
        if unverified:
            warnings.warn(
                f"the array 'digest' of the store {self.store.path} has no checksums of {unverified} of its "
                f"{self.store.chunks} chunks: whether these were exchanged, or taken from another store, "
                "cannot be seen",
                UserWarning,
                stacklevel=users_line(),
            )
        return self.store.status()[: self.rows]

    @cached_property
    def _kept(self) -> np.ndarray | None:
        # None, so that rows of a finished store are read by slices alone.
        return None if np.all(self._status == DONE) else np.flatnonzero(self._status == DONE)

    def __len__(self) -> int:
        return self.rows if self._kept is None else len(self._kept)

    def __repr__(self) -> str:
        missing = f", {self.unfinished} unfinished" if self.unfinished else ""
        return (
            f"StoredTable({len(self)} rows{missing} in {self.store.path.name}; parameters "
            f"{self.parameter_names}; {self.statistic_columns.size} statistics)"
        )

    @property
    def unfinished(self) -> int:
        """Rows that are still to be simulated."""
        return int(np.sum(self._status == UNFINISHED))

    @property
    def parameters(self) -> StoredRows:
        """Draws from the prior, shape (n, p), to be read slice by slice."""
        return StoredRows(self.store, "parameters", self._kept, len(self), self.parameter_columns.size)

    @property
    def statistics(self) -> StoredRows:
        """What was simulated with them, shape (n, d), to be read slice by slice."""
        d = self.statistic_columns.size
        return StoredRows(self.store, "statistics", self._kept, len(self), d, self.chosen)

    @cached_property
    def parameter_columns(self) -> Columns:
        """Names and shapes of the parameters."""
        return Columns.from_json(self.store.documents["parameter_columns"])

    @cached_property
    def statistic_columns(self) -> Columns:
        """Names and shapes of the statistics."""
        whole = Columns.from_json(self.store.documents["statistic_columns"])
        return whole if self.chosen is None else columns_by_name(np.array(self.chosen), whole)

    @cached_property
    def support(self) -> Support:
        """The prior's support."""
        return Support.from_json(self.store.documents["support"])

    @cached_property
    def failures(self) -> Failures:
        """The simulations that failed."""
        rows = np.flatnonzero(self._status == FAILED)
        if not len(rows):
            return Failures.none(self.parameter_columns.size)
        messages = self.store.at("message", rows)
        messages[np.isin(rows, self.store.beyond)] = BEYOND
        if np.any(messages == ""):
            raise ValueError(
                f"{self.store.path} is damaged: the messages of the failed rows "
                f"{rows[messages == ''][:5].tolist()} are gone; the call of `simulate` that made it makes "
                "them anew"
            )
        ratio = self.store.array(PRIOR_RATIO) if has_prior_ratio(self.store, self.rows) else None
        parameters = self.store.at("parameters", rows)
        return Failures(rows, parameters, tuple(map(str, messages)), None if ratio is None else ratio[rows])

    @cached_property
    def origin(self) -> Origin:
        """Where the rows come from."""
        found = Origin.from_documents(self.store.documents)
        return found if self.on_failure is None else dataclasses.replace(found, on_failure=self.on_failure)

    def _meaning(self, meaning: str) -> dict[str, Any]:
        return {"on_failure": meaning}

    def _with_columns(self, chosen: np.ndarray, columns: Columns) -> dict[str, Any]:
        of_store = chosen if self.chosen is None else np.array(self.chosen)[chosen]
        return {"chosen": tuple(int(i) for i in of_store)}

    @cached_property
    def prior_ratio(self) -> np.ndarray | None:
        """Density of the prior over that of the draws, shape (n,); None where they are draws of the prior.

        Raises
        ------
        ValueError
            If they are not, and the store is not finished: its density ratio is written last.
        """
        if not self.origin.weighted:
            return None
        if not has_prior_ratio(self.store, self.rows):
            raise ValueError(
                f"the rows of the store {self.store.path} are no draws of the prior, and their density ratio "
                "is missing, since the call that made it did not finish; make that call again, which "
                "continues it"
            )
        ratio = self.store.array(PRIOR_RATIO)
        assert ratio is not None
        return ratio[: self.rows] if self._kept is None else ratio[self._kept]

    def load(self, rows: int | None = None) -> ReferenceTable:
        """The table in memory, whole or in part.

        Parameters
        ----------
        rows : int, optional
            How many, spread evenly over it; all where left out, or where there are no more.

        Returns
        -------
        ReferenceTable

        Raises
        ------
        ValueError
            If fewer than two rows are finished or asked for, a chunk of the store is damaged, or the rows
            are no draws of the prior and the store is not finished.
        """
        n = len(self)
        if rows is None or rows >= n:
            parameters, statistics, ratio = self.parameters[0:n], self.statistics[0:n], self.prior_ratio
            failures = self.failures
        else:
            # Evenly, and not the first ones: chunks are read as a whole, wherever they are.
            chosen = np.linspace(0, n - 1, rows).astype(int)
            ratio = None if self.prior_ratio is None else self.prior_ratio[chosen]
            parameters, statistics = self.parameters.at(chosen), self.statistics.at(chosen)
            # As many of the failures as of the rows: their share says how often simulations fail.
            failed = len(self.failures)
            failures = self.failures.some(np.linspace(0, failed - 1, round(failed * rows / n)).astype(int))
        documents = self.store.documents
        try:
            return ReferenceTable(
                parameters=parameters,
                statistics=statistics,
                observed=self.observed,
                parameter_columns=self.parameter_columns,
                statistic_columns=self.statistic_columns,
                support=self.support,
                failures=failures,
                seed=int(documents["seed"]),
                observed_data=self.observed_data,
                provenance=provenance_with(documents["provenance"], self.origin),
                timings=documents["timings"],
                origin=self.origin,
                prior_ratio=ratio,
            )
        except Exception as error:  # what a table refuses is, here, the matter of the store
            raise ValueError(f"the store {self.store.path} cannot be loaded: {error}") from error


def has_prior_ratio(store: TableStore, rows: int) -> bool:
    """Whether a store holds how far its first rows are from draws of the prior, of all of them."""
    ratio = store.array(PRIOR_RATIO)
    return ratio is not None and len(ratio) >= rows and bool(np.all(np.isfinite(ratio[:rows])))


# --- one side of a stored table, read in parts ---


@dataclass(frozen=True, eq=False)
class StoredRows:
    """One side of a stored table, read a part at a time."""

    # Shapes: kept (n,).
    store: TableStore
    side: str
    kept: np.ndarray | None
    rows: int
    columns: int
    chosen: tuple[int, ...] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rows, self.columns

    @property
    def ndim(self) -> int:
        """Two."""
        return 2

    @property
    def chunk_rows(self) -> int:
        """Rows that are read together at the least."""
        return self.store.chunk_rows

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, rows: slice) -> np.ndarray:
        """The rows of a slice, shape (length, columns)."""
        if not isinstance(rows, slice) or rows.step not in (None, 1):
            raise TypeError(
                f"stored rows are read in slices of step one, and {rows!r} was asked for; load the table or "
                "some of its rows: `stored.load(20_000)`"
            )
        first, last, _ = rows.indices(self.rows)
        return self._checked(self._rows(first, last))

    def at(self, rows: np.ndarray) -> np.ndarray:
        """Some rows, ascending, shape (length, columns)."""
        return self._checked(self.store.at(self.side, rows if self.kept is None else self.kept[rows]))

    def _checked(self, found: np.ndarray) -> np.ndarray:
        """The chosen columns, refused where a row that was finished is not there."""
        # Zarr reads a file that is gone as NaN, and its digest, which shows that, may be gone, too.
        if not np.isfinite(found).all():
            raise ValueError(
                f"{self.store.path} is damaged: rows of its {self.side} that were finished are gone; the "
                "call of `simulate` that made it makes these rows anew"
            )
        return found if self.chosen is None else np.ascontiguousarray(found[:, list(self.chosen)])

    def _rows(self, first: int, last: int) -> np.ndarray:
        read = self.store.parameters if self.side == "parameters" else self.store.statistics
        if self.kept is None:
            return read(first, last)
        chosen = self.kept[first:last]
        # In one read over the gaps that failures leave: chunks are read whole all the same.
        return read(int(chosen[0]), int(chosen[-1]) + 1)[chosen - chosen[0]] if len(chosen) else read(0, 0)
