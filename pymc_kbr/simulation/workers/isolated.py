"""Worker processes of our own, and what is done when one dies."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from queue import SimpleQueue
from typing import Any

import cloudpickle
import numpy as np
from loky import ProcessPoolExecutor  # type: ignore[import-untyped]

from pymc_kbr.simulation.workers.fork_server import CAN_FORK
from pymc_kbr.simulation.workers.forked_pool import ForkedPool
from pymc_kbr.simulation.workers.row_simulator import Chunk, RowSimulator, simulate_pickled, try_row_pickled
from pymc_kbr.simulation.workers.worker_process import ONE_THREAD, begin

ATTEMPTS = 2
"""Processes that a simulation must end, alone, until it counts as failed: one may die of something else."""


@contextmanager
def processes(count: int, started: Executor | None = None) -> Iterator[Executor]:
    """Workers that end with the block, at once: also where it ends with an error or an interrupt."""
    workers: Any = started or _pool(count)
    try:
        yield workers
    finally:  # workers that are asked to end, and not killed, take seconds to forget what they imported
        workers.shutdown(wait=True, kill_workers=True)


def _pool(count: int) -> Any:
    if CAN_FORK:
        return ForkedPool(count)
    return ProcessPoolExecutor(count, initializer=begin, initargs=(os.getpid(),), env=ONE_THREAD)


class Isolated:
    """Work that is sent to a process one at a time; started anew when that has died.

    Parameters
    ----------
    simulator : RowSimulator
    count : int
        Processes that are started, of which one is used until all are taken over.
    """

    def __init__(self, simulator: RowSimulator, count: int = 1) -> None:
        self._simulator, self._count = simulator, count
        self._payload = b""
        self._worker: Any = None

    def __enter__(self) -> Isolated:
        return self

    def __exit__(self, *_: object) -> None:
        if self._worker is not None:
            self._worker.shutdown(wait=True, kill_workers=True)
            self._worker = None

    def take_over(self) -> Executor | None:
        """The processes, if any have been started and live, to be ended by who takes them."""
        workers, self._worker = self._worker, None
        return workers

    def try_row(self, row: int, parameters: np.ndarray) -> list[np.ndarray] | str:
        """`RowSimulator.try_row`; a row that ends its process is one that failed.

        Raises
        ------
        SimulatorShapeError
            As `RowSimulator.try_row`.
        RuntimeError
            If no worker process can be started.
        """
        return self._call(try_row_pickled, row, parameters)

    def simulate(self, start: int, parameters: np.ndarray) -> Chunk | None:
        """`RowSimulator.simulate`, or None where the process dies."""
        outcome = self._call(simulate_pickled, start, parameters, attempts=1)
        return outcome if isinstance(outcome, Chunk) else None

    def simulate_until_a_death(self, start: int, parameters: np.ndarray) -> Chunk:
        """Row by row, to the first row that ends its process or to the last one."""
        outcomes: list[list[np.ndarray] | str] = []
        for row, values in enumerate(parameters, start):
            outcomes.append(self.try_row(row, values))
            if self._worker is None:  # it died, and the next rows may be handed to another one
                break
        return self._simulator.chunk(start, outcomes)

    def _call(self, task: Callable[..., Any], row: int, values: np.ndarray, attempts: int = 0) -> Any:
        """What a task returns, or what ended its process in all attempts; `ATTEMPTS` where none are given."""
        message = ""
        for _ in range(attempts or ATTEMPTS):
            self._start()
            began = time.perf_counter()
            try:
                return self._worker.submit(task, self._payload, row, values).result()
            except BrokenExecutor as error:
                message = self._why(error, time.perf_counter() - began)
                self.__exit__()
        return message

    def _start(self) -> None:
        if self._worker is not None:
            return
        self._payload = self._payload or cloudpickle.dumps(self._simulator)
        self._worker = _pool(self._count)
        try:
            # A first task shows whether a process begins at all: no simulation is to be blamed if it does
            # not.
            self._worker.submit(int).result()
        except BrokenExecutor as error:
            raise RuntimeError(f"no worker process can be started here ({error}); take cores=1") from error

    def _why(self, error: BrokenExecutor, seconds: float) -> str:
        limit = self._simulator.timeout
        code = exit_code(error) or "no exit code known"
        if limit is not None and seconds > 2 * limit and "EXIT(1)" in code:  # as `time_limit` ends it
            return f"TimeoutError: it did not end within {limit:g} s, and its process had to be ended"
        memory = ", as the system does when memory runs out" if "SIGKILL" in code else ""
        return f"the simulator ended its process ({code}{memory})"


def exit_code(error: BaseException) -> str | None:
    """How a process has ended, such as ``SIGKILL(-9)``, from an error of loky or of our pool that says it."""
    found = re.search(r"\{(.*?)\}", str(error))
    return found.group(1) if found else None


def simulate_alone(
    simulator: RowSimulator, work: list[tuple[int, np.ndarray]], cores: int
) -> Iterator[tuple[Chunk, np.ndarray]]:
    """Chunks that were under way when a worker died, each in a process of its own.

    Where that dies too, rows run one by one, and what there is up to a row that ended its process is yielded
    as a chunk before the rest is run.

    Parameters
    ----------
    simulator : RowSimulator
    work : list of (int, ndarray of shape (c, p))
        First row and parameters of each.
    cores : int
        Processes side by side.
    """
    free: SimpleQueue[Isolated] = SimpleQueue()

    def on_free_worker(start: int, parameters: np.ndarray, whole: bool) -> Chunk:
        worker = free.get()
        try:
            chunk = worker.simulate(start, parameters) if whole else None
            return chunk or worker.simulate_until_a_death(start, parameters)
        finally:
            free.put(worker)

    with ExitStack() as workers, ThreadPoolExecutor(cores) as threads:
        for _ in range(cores):
            free.put(workers.enter_context(Isolated(simulator)))
        running: dict[Future[Chunk], np.ndarray] = {}
        try:
            running = {threads.submit(on_free_worker, *one, True): one[1] for one in work}
            while running:
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    parameters = running.pop(future)
                    chunk = future.result()
                    count = len(chunk.statistics)
                    if count < len(parameters):
                        rest = parameters[count:]
                        running[threads.submit(on_free_worker, chunk.start + count, rest, False)] = rest
                    yield chunk, parameters[:count]
        finally:
            for future in running:
                future.cancel()
