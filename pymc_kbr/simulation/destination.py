"""Where the rows of a simulation go: into arrays, or chunk by chunk into a store."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from pymc_kbr.simulation.model.read import ModelGraph
from pymc_kbr.tables.reference_table import ReferenceTable


class Destination(Protocol):
    """What `simulate` needs of the place for its rows."""

    def pieces(self) -> list[range]:
        """The rows that are still to be simulated, in order, as they are to be written."""

    def write(
        self, start: int, parameters: np.ndarray, statistics: np.ndarray, failures: dict[int, str]
    ) -> None:
        """Keep rows `start` and following: parameters (c, p), statistics (c, d), and why rows failed."""


class InMemory:
    """Arrays of the whole table.

    Parameters
    ----------
    draws, chunk_rows : int
    graph : ModelGraph

    Attributes
    ----------
    parameters : ndarray of shape (draws, p)
    statistics : ndarray of shape (draws, d)
    failures : dict of int to str
    """

    def __init__(self, draws: int, chunk_rows: int, graph: ModelGraph) -> None:
        self.parameters = np.empty((draws, graph.parameters.size))
        self.statistics = np.empty((draws, graph.statistics.size))
        self.failures: dict[int, str] = {}
        self._chunk_rows, self._first = chunk_rows, 0

    def begin_with(self, head: ReferenceTable, block_rows: int) -> None:
        """Take the first rows from a table of them; the block of rows within which it ends comes again."""
        drawn = len(head) + len(head.failures)
        kept = np.setdiff1d(np.arange(drawn), head.failures.rows)
        self.parameters[kept], self.statistics[kept] = head.parameters, head.statistics
        self.parameters[head.failures.rows] = head.failures.parameters
        self.failures = dict(zip(head.failures.rows.tolist(), head.failures.messages, strict=True))
        self._first = drawn // block_rows * block_rows

    def pieces(self) -> list[range]:
        """The rows that there are not yet."""
        return pieces_of(len(self.parameters), self._chunk_rows, self._first)

    def write(
        self, start: int, parameters: np.ndarray, statistics: np.ndarray, failures: dict[int, str]
    ) -> None:
        """Copy rows into the arrays."""
        part = slice(start, start + len(parameters))
        self.parameters[part], self.statistics[part] = parameters, statistics
        self.failures |= failures


def pieces_of(rows: int, chunk_rows: int, start: int = 0) -> list[range]:
    """Ranges of `chunk_rows` that make up `rows` from `start` on; the last may be shorter."""
    return [range(first, min(first + chunk_rows, rows)) for first in range(start, rows, chunk_rows)]
