"""One side of a table that stays on the disk, read a part at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_kbr.tables.store import TableStore


@dataclass(frozen=True, eq=False)
class StoredRows:
    """One side of a stored table, read a part at a time.

    Parameters
    ----------
    store : TableStore
    side : {"parameters", "statistics"}
    kept : ndarray of shape (n,), optional
        The store's rows that are rows of the table, ascending; all of them where left out.
    rows, columns : int
    chosen : tuple of int, optional
        The store's columns, in the order wanted; all where left out.
    """

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
