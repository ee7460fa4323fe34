"""Data sets of any number of rows: side by side as rows of numbers, and as the columns of a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_kbr.arrays.labelled import in_order, is_labelled
from pymc_kbr.arrays.names import labels_of
from pymc_kbr.arrays.refusals import shown
from pymc_kbr.arrays.rows import check_range

OF_FIRST = "those of the other data sets"
"""What labels of a data set's columns must be."""


@dataclass(frozen=True, eq=False)
class DataSets:
    """Several data sets, one below the other."""

    # Shapes: rows (N, q); sizes (n,).
    rows: np.ndarray
    sizes: np.ndarray
    names: tuple[str, ...] | None = None

    @classmethod
    def of(cls, sets: Any, columns: int | None = None, names: Sequence[str] | None = None) -> DataSets:
        """From a sequence of arrays."""
        # Shapes: sets (n_i, q) or (n_i,), or DataSets.
        if isinstance(sets, DataSets):
            sizes, own = sets.sizes, sets.names
            labelled = sets.rows if own is None else dict(zip(own, sets.rows.T, strict=True))
            found = [in_order("the data sets", labelled, names, OF_FIRST)]
            names = own if names is None else names
        else:
            if isinstance(sets, str | bytes) or not isinstance(sets, Iterable):
                raise TypeError(
                    f"data sets are {shown(sets)}; give a sequence of arrays, one for each data set"
                )
            sets = list(sets)
            first = next((one for one in sets if is_labelled(one) and not _is_column(one)), None)
            names = labels_of(first) if names is None else names
            found = [_one(i, one, names) for i, one in enumerate(sets)]
            sizes = np.array([len(one) for one in found], dtype=int)
        if not len(sizes):
            raise ValueError("there are no data sets; give at least one array of rows")
        columns = found[0].shape[1] if columns is None else columns
        for i, one in enumerate(found):
            if one.shape[1] != columns:
                raise ValueError(
                    f"data set {i} has {one.shape[1]} column(s) and not {columns}; all need the same"
                )
        if isinstance(sets, DataSets) and sets.names == names:
            return sets
        return cls(np.vstack(found), sizes, None if names is None else tuple(names))

    @classmethod
    def of_padded(cls, padded: np.ndarray, columns: int) -> DataSets:
        """The inverse of `padded`, for its result (n, 1 + largest q) and the number q of columns."""
        # Sizes have travelled as floats in a table's columns.
        sizes = np.rint(padded[:, 0]).astype(int)
        largest = (padded.shape[1] - 1) // columns
        rows = padded[:, 1:].reshape(len(padded), largest, columns)
        return cls(rows[np.arange(largest) < sizes[:, None]], sizes)

    def padded(self, largest: int) -> np.ndarray:
        """One data set a row: its size, its rows, and zeros up to `largest` rows, (n, 1 + largest q)."""
        made = np.zeros((len(self), largest, self.columns))
        made[np.arange(largest) < self.sizes[:, None]] = self.rows
        return np.hstack([self.sizes[:, None], made.reshape(len(self), -1)])

    @property
    def columns(self) -> int:
        """Numbers in a row of a data set, q."""
        return int(self.rows.shape[1])

    @property
    def starts(self) -> np.ndarray:
        """Where each data set begins in `rows`, shape (n,)."""
        return np.concatenate([[0], np.cumsum(self.sizes)[:-1]])

    @property
    def numbers(self) -> np.ndarray:
        """The data set of each row, shape (N,)."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, which: Any) -> Any:
        """Data set `which` as an array (n_i, q), or those of a slice as `DataSets`."""
        if isinstance(which, slice):
            chosen = range(len(self))[which]
            return DataSets(np.vstack([self[i] for i in chosen]), self.sizes[which], self.names)
        start = self.starts[which]
        return self.rows[start : start + self.sizes[which]]


def _is_column(value: Any) -> bool:
    """Whether it is a single labelled column, whose labels are those of rows."""
    return getattr(value, "ndim", 2) == 1


def _one(number: int, value: Any, names: Sequence[str] | None) -> np.ndarray:
    """A data set as an array (n_i, q) with columns in the order of names, refused where it is none."""
    name = f"data set {number}"
    rows = in_order(name, value, None if _is_column(value) else names, OF_FIRST)
    if rows.ndim == 1:
        # One number for each name is a row of columns, and not a column.
        rows = rows[None] if is_labelled(value) and not _is_column(value) else rows[:, None]
    if rows.ndim != 2:
        raise ValueError(f"{name} has {rows.ndim} dimensions; give rows of numbers, (n, q), or numbers (n,)")
    if not rows.size:
        raise ValueError(f"{name} is empty; it needs at least one row: leave it out")
    if not np.all(np.isfinite(rows)):
        raise ValueError(f"{name} has missing or infinite values; leave these rows out of the data set")
    check_range(name, rows)
    return rows
