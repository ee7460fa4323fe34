"""The arguments of `simulate` but the model, as one value that is checked first."""

from __future__ import annotations

import platform
import signal
import time
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from threading import TIMEOUT_MAX
from typing import Any, Protocol

import numpy as np

from pymc_kbr.arrays.refusals import check_seed, flag, one_of, path_of, shown, whole
from pymc_kbr.arrays.threads import cores
from pymc_kbr.simulation.model.read import ModelGraph
from pymc_kbr.simulation.prior.proposal import Proposal
from pymc_kbr.simulation.prior.truncated import Within
from pymc_kbr.simulation.workers.executors import check_executor
from pymc_kbr.tables.origin import ON_FAILURE
from pymc_kbr.tables.reference_table import ReferenceTable


@dataclass(frozen=True)
class SimulationOptions:
    """The parameters of these names of `simulate`, which says what they mean."""

    # to_be_extended: Whether a longer table of the seed begins with this one: its last batch is then drawn as
    # a whole, also where the table ends within it. Otherwise no batch has more rows than the table.
    # proposal: What parameters are drawn from instead of the prior; there are no bounds (`within`) then.
    # warns_of_failures: Whether there is a warning where many simulations fail. Rounds count those of all
    # their tables.

    draws: int
    random_seed: int | np.random.Generator | None = None
    within: Within | None = None
    cores: int | None = 1
    executor: Executor | Any | None = None
    store: str | Path | None = None
    on_failure: str = "raise"
    batched: bool | None = None
    timeout: float | None = None
    progressbar: bool = True
    to_be_extended: bool = True
    proposal: Proposal | None = None
    warns_of_failures: bool = True

    def __post_init__(self) -> None:
        whole("draws", self.draws)
        if self.cores is not None:
            whole("cores", self.cores)
        check_seed(self.random_seed)
        if self.store is not None:
            path_of("store", self.store)
        one_of("on_failure", self.on_failure, ON_FAILURE)
        flag("progressbar", self.progressbar)
        if self.batched is not None:
            flag("batched", self.batched)
        if self.timeout is not None:
            self._check_timeout(self.timeout)
        if self.executor is not None:
            check_executor(self.executor, self.timeout)

    def _check_timeout(self, timeout: float) -> None:
        if isinstance(timeout, bool) or not isinstance(timeout, int | float | np.number):
            raise TypeError(f"timeout is {shown(timeout)}; it must be a number of seconds, or None")
        if not 0 < timeout <= TIMEOUT_MAX:
            raise ValueError(f"timeout is {shown(timeout)}; it must be a number of seconds above zero")
        if self.batched:
            raise ValueError("batched=True, and timeout is that of one simulation; leave one of them out")
        if not hasattr(signal, "setitimer"):
            raise ValueError(
                f"timeout is {timeout}, and this system has no alarms that could end a simulation; leave it "
                "out, or end the simulation inside the simulator"
            )

    @property
    def workers(self) -> int:
        """The number of cores: all of them where it is None."""
        return cores() if self.cores is None else self.cores

    @property
    def isolates_first_rows(self) -> bool:
        """Whether the first rows are tried in a process of their own: they may hang, or end it."""
        return self.executor is None and (
            self.timeout is not None or (self.workers > 1 and self.batched is False)
        )


# --- destinations of the rows ---


class Destination(Protocol):
    """What `simulate` needs of the place for its rows."""

    def pieces(self) -> list[range]:
        """The rows that are still to be simulated, in order, as they are to be written."""

    def write(
        self, start: int, parameters: np.ndarray, statistics: np.ndarray, failures: dict[int, str]
    ) -> None:
        """Keep rows `start` and following: parameters (c, p), statistics (c, d), and why rows failed."""


class InMemory:
    """Arrays of the whole table."""

    # Shapes: parameters (draws, p); statistics (draws, d).
    def __init__(self, draws: int, chunk_rows: int, graph: ModelGraph) -> None:
        self.parameters = np.empty((draws, graph.parameters.size))
        self.statistics = np.empty((draws, graph.statistics.size))
        self.failures: dict[int, str] = {}
        self._chunk_rows, self._first = chunk_rows, 0
        self._done = np.zeros(draws, dtype=bool)

    def begin_with(self, head: ReferenceTable, block_rows: int) -> None:
        """Take the first rows from a table of them; the block of rows within which it ends comes again."""
        drawn = len(head) + len(head.failures)
        kept = np.setdiff1d(np.arange(drawn), head.failures.rows)
        self.parameters[kept], self.statistics[kept] = head.parameters, head.statistics
        self.parameters[head.failures.rows] = head.failures.parameters
        self.failures = dict(zip(head.failures.rows.tolist(), head.failures.messages, strict=True))
        self._first = drawn // block_rows * block_rows
        self._done[:drawn] = True

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
        self._done[part] = True

    def finished(self) -> int:
        """How many rows there are before the first that is missing: those that take long are no fewer."""
        return int(np.argmin(np.append(self._done, False)))


def pieces_of(rows: int, chunk_rows: int, start: int = 0) -> list[range]:
    """Ranges of `chunk_rows` that make up `rows` from `start` on; the last may be shorter."""
    return [range(first, min(first + chunk_rows, rows)) for first in range(start, rows, chunk_rows)]


# --- versions and timings ---


def versions() -> dict[str, str]:
    """Of what decides about the bits of a table."""
    packages = ("pymc_kbr", "pymc", "pytensor", "numpy")
    return {"python": platform.python_version(), **{name: _version(name) for name in packages}}


@cache
def _version(name: str) -> str:
    return version(name)


class Clock:
    """Seconds of each stage, one after the other."""

    def __init__(self, laps: dict[str, float] | None = None) -> None:
        self.laps = dict(laps or {})
        self._last = time.perf_counter()

    def lap(self, stage: str, *, without: float = 0.0) -> None:
        """Note the seconds since the last lap, without those noted elsewhere, as those of a stage."""
        now = time.perf_counter()
        self.laps[stage] = self.laps.get(stage, 0.0) + max(0.0, now - self._last - without)
        self._last = now
