"""The rows of a table as a value that any process can simulate a part of."""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import cloudpickle
import numpy as np
from threadpoolctl import threadpool_limits

from pymc_kbr.arrays.rows import LARGEST
from pymc_kbr.simulation.model.graphs import Program, forward_rows
from pymc_kbr.simulation.model.read import ModelGraph
from pymc_kbr.simulation.streams import BATCH_STREAM, ROW_STREAM, ROWS_A_STREAM, streams
from pymc_kbr.tables.checks import describe
from pymc_kbr.tables.columns import Columns


class SimulatorShapeError(ValueError):
    """A simulator returned an array of another shape than the observed value's."""


@dataclass(frozen=True)
class Chunk:
    """The outcome of some consecutive rows."""

    # Shapes: statistics (c, d).
    start: int
    statistics: np.ndarray
    failures: tuple[tuple[int, str], ...] = ()

    def head(self, end: int) -> Chunk:
        """The rows before row `end`."""
        return self.part(self.start, end)

    def part(self, start: int, end: int) -> Chunk:
        """Those of the rows that lie between row `start` and row `end`."""
        failures = tuple((row, message) for row, message in self.failures if start <= row < end)
        return Chunk(start, self.statistics[start - self.start : max(start, end) - self.start], failures)


@dataclass(frozen=True, eq=False)
class RowSimulator:
    """The forward model, compiled where it is needed, never sent compiled."""

    key: str
    entropy: int
    rows: Program
    batch: Program | None
    block_rows: int
    parameters: Columns
    statistics: Columns
    dtypes: tuple[str, ...]
    simulated: tuple[tuple[str, tuple[int, ...]], ...]
    timeout: float | None = None

    @classmethod
    def of(
        cls,
        graph: ModelGraph,
        entropy: int,
        timeout: float | None = None,
        *,
        # Simulated numbers that a batch holds at most: 64 MiB. Part of what a seed means.
        block_values: int = 2**23,
    ) -> RowSimulator:
        """The row simulator of a model, without batches."""
        values = max(1, sum(graph.observed_data[rv.name].size for rv in graph.simulated))
        return cls(
            key=uuid.uuid4().hex,
            entropy=entropy,
            rows=forward_rows(graph),
            batch=None,
            block_rows=2 ** int(np.clip(np.log2(block_values / values), 0, np.log2(ROWS_A_STREAM))),
            parameters=graph.parameters,
            statistics=graph.statistics,
            dtypes=tuple(rv.dtype for rv in graph.free),
            simulated=tuple((rv.name, graph.observed_data[rv.name].shape) for rv in graph.simulated),
            timeout=timeout,
        )

    def values(self, parameters: np.ndarray) -> list[np.ndarray]:
        """Parameters (c, p) as one array (c, *shape) a free variable, in the model's own types."""
        parts = self.parameters.split(parameters).values()
        return [np.asarray(part, dtype=dtype) for part, dtype in zip(parts, self.dtypes, strict=True)]

    def simulate(self, start: int, parameters: np.ndarray) -> Chunk:
        """Simulate rows `start` and following, with the given parameters (c, p)."""
        with undisturbed():
            return (
                self._simulate_batches(start, parameters)
                if self.batch
                else self._simulate_rows(start, parameters)
            )

    def simulate_row(self, row: int, values: list[np.ndarray]) -> list[np.ndarray]:
        """What the observed variables simulate in one row, then their summaries."""
        generators = streams(self.entropy, ROW_STREAM, row, len(self.rows.generators))
        outputs = self._function("rows")(*generators, *values)
        self._check_shapes(outputs, row, ())
        return [np.asarray(output) for output in outputs]

    def _simulate_rows(self, start: int, parameters: np.ndarray) -> Chunk:
        rows = range(start, start + len(parameters))
        return self.chunk(start, [self._try_row(row, parameters[row - start]) for row in rows])

    def try_row(self, row: int, parameters: np.ndarray) -> list[np.ndarray] | str:
        """The outputs of one row, or what went wrong in it."""
        with undisturbed():
            return self._try_row(row, parameters)

    def _try_row(self, row: int, parameters: np.ndarray) -> list[np.ndarray] | str:
        self._function("rows")  # compiled where it was not yet: no part of a simulation's time
        try:
            with time_limit(self.timeout):
                return self.simulate_row(row, [v[0] for v in self.values(parameters[None])])
        except SimulatorShapeError:
            raise
        except TimeUp:
            return f"TimeoutError: it did not end within {self.timeout:g} s"
        except (Exception, SystemExit) as error:  # `sys.exit` in a simulator ends one simulation
            return describe(error)

    def chunk(self, start: int, outcomes: list[list[np.ndarray] | str]) -> Chunk:
        """The outcomes of consecutive rows as a chunk."""
        statistics = np.full((len(outcomes), self.statistics.size), np.nan)
        failures: list[tuple[int, str]] = []
        for i, outcome in enumerate(outcomes):
            if isinstance(outcome, str):
                failures.append((start + i, outcome))
                continue
            statistics[i] = self._flat(outcome, ())
            if not np.all(_usable(statistics[i])):
                failures.append((start + i, self._describe_unusable(statistics[i])))
                statistics[i] = np.nan
        return Chunk(start, statistics, tuple(failures))

    def _simulate_batches(self, start: int, parameters: np.ndarray) -> Chunk:
        statistics = np.empty((len(parameters), self.statistics.size))
        failures: list[tuple[int, str]] = []
        for first in range(0, len(parameters), self.block_rows):
            part = slice(first, first + self.block_rows)
            block = parameters[part]
            try:
                statistics[part] = self._simulate_block((start + first) // self.block_rows, block)
            except SimulatorShapeError:
                raise
            except (Exception, SystemExit):  # one bad row spoils a batch: find it row by row
                chunk = self._simulate_rows(start + first, block)
                statistics[part] = chunk.statistics
                failures.extend(chunk.failures)
                continue
            for i in first + np.flatnonzero(~_usable(statistics[part]).all(axis=1)):
                failures.append((start + int(i), self._describe_unusable(statistics[i])))
                statistics[i] = np.nan
        return Chunk(start, statistics, tuple(failures))

    def _simulate_block(self, block: int, parameters: np.ndarray) -> np.ndarray:
        assert self.batch is not None
        generators = streams(self.entropy, BATCH_STREAM, block, len(self.batch.generators))
        outputs = self._function("batch")(*generators, *self.values(parameters))
        self._check_shapes(outputs, block * self.block_rows, (len(parameters),))
        return self._flat(outputs, (len(parameters),))

    def _flat(self, outputs: list[np.ndarray], lead: tuple[int, ...]) -> np.ndarray:
        summaries = outputs[len(self.simulated) :]
        return np.concatenate([np.asarray(s, dtype=float).reshape(*lead, -1) for s in summaries], axis=-1)

    def _check_shapes(self, outputs: list[np.ndarray], row: int, lead: tuple[int, ...]) -> None:
        names = [*self.simulated, *((f"sum_stat of {v.name}", v.shape) for v in self.statistics.variables)]
        for (name, shape), output in zip(names, outputs, strict=True):
            if np.shape(output) == lead + shape:
                continue
            if lead:
                raise SimulatorShapeError(
                    f"the simulator {name!r} returned an array of shape {np.shape(output)} for the {lead[0]} "
                    f"rows from row {row} on, and must return {lead + shape}: it mixes the rows of a "
                    "batch; pass batched=False"
                )
            raise SimulatorShapeError(
                f"the simulator {name!r} returned an array of shape {np.shape(output)} in row {row}; its "
                f"observed value has shape {shape}, and every call must return that; where it returns one "
                "vector of statistics, whatever `size` is, make it by `pk.vector_simulator`"
            )

    def _describe_unusable(self, statistics: np.ndarray) -> str:
        bad = np.flatnonzero(~_usable(statistics))
        named = ", ".join(self.statistics.names[i] for i in bad[:5])
        if np.all(np.isfinite(statistics[bad])):
            return f"the simulator returned numbers beyond {LARGEST:g}, whose sums no float holds, in {named}"
        return f"the simulator returned NaN or infinity in {named}"

    def _function(self, which: str) -> Callable[..., list[np.ndarray]]:
        """The compiled program: one a thread, since a compiled function has storage of its own."""
        functions = _compiled.__dict__.setdefault("functions", {})
        if (self.key, which) not in functions:
            while len(functions) > 8:  # a worker that serves many jobs forgets the oldest
                functions.pop(next(iter(functions)))
            with _compiling:
                functions[self.key, which] = getattr(self, which).compile()
        return functions[self.key, which]


def _usable(statistics: np.ndarray) -> np.ndarray:
    """Which statistics are numbers that a table can hold: see `LARGEST`."""
    return np.abs(statistics) <= LARGEST  # NaN is not


_compiled = threading.local()
_compiling = threading.Lock()


def simulate_pickled(payload: bytes, start: int, parameters: np.ndarray) -> Chunk:
    """`RowSimulator.simulate` in a worker process, which unpickles it once."""
    return _unpickled(payload).simulate(start, parameters)


def try_row_pickled(payload: bytes, row: int, parameters: np.ndarray) -> list[np.ndarray] | str:
    """`RowSimulator.try_row` in a worker process."""
    return _unpickled(payload).try_row(row, parameters)


def _unpickled(payload: bytes) -> RowSimulator:
    global _current
    current = _current  # tasks of several jobs may run in the threads of one worker
    if current is None or current[0] != payload:
        threadpool_limits(1, user_api="blas")  # as where the table is made: see `simulate`
        current = _current = (payload, cloudpickle.loads(payload))
    return current[1]


_current: tuple[bytes, RowSimulator] | None = None


# --- time limits ---


class TimeUp(BaseException):
    """The time of a simulation is over; no error that a simulator would catch."""


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise `TimeUp` where a body takes more than `seconds`; no limit where this is None."""
    if seconds is None:
        yield
        return

    def expire(*_: Any) -> None:
        raise TimeUp

    before = signal.signal(signal.SIGALRM, expire)
    if _stuck is not None:
        faulthandler.dump_traceback_later(2 * seconds + 1, exit=True, file=_stuck)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if _stuck is not None:
            faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


_stuck: Any = None
"""Where the traceback of a process that is ended goes, in a worker."""


def end_process_when_stuck() -> None:
    """Let time limits end this process where nothing else helps."""
    global _stuck
    if _stuck is None:
        _stuck = open(os.devnull, "w")  # noqa: SIM115  (open as long as the process lives)


def can_be_interrupted() -> bool:
    """Whether a time limit works where this is called: in the main thread, where the system has alarms."""
    return hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()


# --- process settings that a simulator may change ---


SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""By which a user, or a cluster, ends a simulation."""


@contextmanager
def undisturbed() -> Iterator[None]:
    """Within it filters of warnings, the working directory and handlers of signals may change."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    filters, folder = list(warnings.filters), _working_directory()
    handlers = [(one, signal.getsignal(one)) for one in SIGNALS]
    try:
        yield
    finally:
        if warnings.filters != filters:
            warnings.filters[:] = filters  # type: ignore[index]
            with warnings.catch_warnings():  # at its end Python forgets what the other filters have decided
                pass
        if folder is not None and folder != _working_directory():
            with suppress(OSError):  # it has been removed
                os.chdir(folder)
        for one, handler in handlers:
            if handler is not None and signal.getsignal(one) is not handler:
                signal.signal(one, handler)


def _working_directory() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None
