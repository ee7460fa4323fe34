"""Where the rows of a simulation go: into arrays, or chunk by chunk into a store."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from pymc_kbr.simulation.model.read import ModelGraph


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
        self._chunk_rows = chunk_rows

    def pieces(self) -> list[range]:
        """All rows."""
        return pieces_of(len(self.parameters), self._chunk_rows)

    def write(
        self, start: int, parameters: np.ndarray, statistics: np.ndarray, failures: dict[int, str]
    ) -> None:
        """Copy rows into the arrays."""
        part = slice(start, start + len(parameters))
        self.parameters[part], self.statistics[part] = parameters, statistics
        self.failures |= failures


def pieces_of(rows: int, chunk_rows: int) -> list[range]:
    """Ranges of `chunk_rows` that make up `rows`; the last may be shorter."""
    return [range(first, min(first + chunk_rows, rows)) for first in range(0, rows, chunk_rows)]
