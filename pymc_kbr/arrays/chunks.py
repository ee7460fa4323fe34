"""Rows that are read a part at a time: a store's, Zarr's, Dask's or HDF5's arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np

from pymc_kbr.arrays.labelled import floats, is_labelled


class RowSource(Protocol):
    """Rows that are no array in memory: of a store, of Zarr, Dask or HDF5."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of rows and columns."""

    @property
    def ndim(self) -> int:
        """Two."""

    def __getitem__(self, rows: Any, /) -> Any:
        """A part of the rows, which can be made an array."""


def is_chunked(rows: Any) -> bool:
    """Whether rows are no array in memory, but something with a shape that can be sliced."""
    # A data frame has a shape, too; so have tensors, which can be made an array, and sparse matrices.
    if isinstance(rows, np.ndarray) or is_labelled(rows) or hasattr(rows, "nnz"):
        return False
    in_parts = hasattr(rows, "chunks") or not hasattr(rows, "__array__")
    return in_parts and hasattr(rows, "shape") and hasattr(rows, "ndim")


class Chunks:
    """Rows (n, d) of a source, read block by block, and changed by a function on the way."""

    # Shapes: source (n, d).
    def __init__(
        self,
        source: Any,
        change: Callable[[np.ndarray], np.ndarray] | None = None,
        *,
        # Held at once, about: chunks of the source are not cut.
        block_rows: int = 65_536,
    ) -> None:
        self._source, self._change = source, change
        own = getattr(source, "chunks", None) or getattr(source, "chunk_rows", None)
        rows = own[0] if isinstance(own, tuple) else own
        rows = rows[0] if isinstance(rows, tuple) else rows
        rows = int(rows or block_rows)
        # Whole chunks, since a part of one is read and decoded as a whole; only what is far too large is cut.
        self._step = rows * max(1, block_rows // rows) if rows <= 4 * block_rows else block_rows

    def __len__(self) -> int:
        return int(self._source.shape[0])

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """The rows in order; the next block is read while the caller works on one."""
        parts = [slice(i, min(i + self._step, len(self))) for i in range(0, len(self), self._step)]
        with ThreadPoolExecutor(1) as reader:  # one: sources need not stand two readers at a time
            coming = [reader.submit(self._read, part) for part in parts[:1]]
            for number, part in enumerate(parts):
                block = coming.pop().result()
                if number + 1 < len(parts):
                    coming.append(reader.submit(self._read, parts[number + 1]))
                yield part, block

    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        """Rows by a slice, or by an array of their numbers in any order; every block is read at most once."""
        if isinstance(rows, slice):
            if rows.step not in (None, 1):
                raise ValueError(f"rows are read in slices of step one, and {rows!r} was asked for")
            return self._read(slice(*rows.indices(len(self))[:2]))
        rows = np.asarray(rows)
        taken: np.ndarray | None = None
        for block in np.unique(rows // self._step).tolist():
            inside = np.flatnonzero(rows // self._step == block)
            numbers = rows[inside]
            # One slice from the first to the last: a source promises to be sliced, and nothing else.
            first = int(numbers.min())
            read = self._read(slice(first, int(numbers.max()) + 1))[numbers - first]
            if taken is None:
                taken = np.empty((len(rows), read.shape[1]))
            taken[inside] = read
        return self._read(slice(0, 0)) if taken is None else taken

    def _read(self, part: slice) -> np.ndarray:
        rows = floats("the rows", self._source[part])
        return rows if self._change is None else self._change(rows)


# --- memory of this machine ---


MOST_DEFLATED = 1032
"""How many bytes a byte of DEFLATE can stand for at most, by zlib's documentation."""


def physical_memory() -> float:
    """Bytes of memory of this machine, or of the container; infinity where the system does not say."""
    try:
        there = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return float("inf")
    try:
        with open("/sys/fs/cgroup/memory.max") as limit:
            return min(there, float(limit.read()))
    except (OSError, ValueError):  # no container, or "max"
        return there
