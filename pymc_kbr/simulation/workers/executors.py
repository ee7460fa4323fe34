"""Running a simulator's chunks: here, in threads, in worker processes, or on any executor."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from typing import Any, Protocol

import cloudpickle
import numpy as np

from pymc_kbr.arrays.refusals import shown
from pymc_kbr.simulation.model.read import ModelGraph, is_simulator
from pymc_kbr.simulation.workers.isolated import processes, simulate_alone
from pymc_kbr.simulation.workers.row_simulator import Chunk, RowSimulator, simulate_pickled
from pymc_kbr.simulation.workers.time_limit import can_be_interrupted
from pymc_kbr.simulation.workers.undisturbed import undisturbed

SECONDS_A_CHUNK = 0.25
MOST_ROWS_A_CHUNK = 512
"""How finely work is cut up where rows run one by one: a matter of speed and of the progress bar."""

MOST_BLOCKS, MOST_STORED_BLOCKS = 4, 64
"""Batches that are run, and written, together."""

CHUNKS_A_WORKER = 4
"""Chunks that are handed out at most for each worker, under way or waiting: this bounds the memory here."""

Work = tuple[int, np.ndarray]
"""First row and parameters of a chunk that is under way."""


class PriorDraws(Protocol):
    """Rows of parameters that can be sliced, in order: an array, or draws made when needed."""

    def __getitem__(self, rows: slice, /) -> np.ndarray:
        """The rows of a slice."""
        ...


class WorkersDied(Exception):
    """An executor cannot go on.

    Parameters
    ----------
    work : list of (int, ndarray)
        What was under way.
    """

    def __init__(self, work: list[Work]) -> None:
        super().__init__("workers died")
        self.work = work


def rows_a_chunk(
    simulator: RowSimulator, rows: int, seconds: float, cores: int, most_blocks: int = MOST_BLOCKS
) -> int:
    """How many rows to run at once, of `rows`; `seconds` is what one took in the trial."""
    if simulator.batch is not None:
        return simulator.block_rows * max(1, min(most_blocks, rows // (simulator.block_rows * cores)))
    return max(1, min(MOST_ROWS_A_CHUNK, int(SECONDS_A_CHUNK / max(seconds, 1e-6))))


def rows_a_stored_chunk(
    simulator: RowSimulator, prior: PriorDraws, rows: int, seconds: float, cores: int
) -> int:
    """How many rows to write at once: as many as a crash may cost, and files may hold.

    A batch is run once for its seconds, which those of single rows do not tell.
    """
    if simulator.batch is None:
        return rows_a_chunk(simulator, rows, seconds, cores)
    block = prior[slice(0, simulator.block_rows)]
    started = time.perf_counter()
    simulator.simulate(0, block)
    blocks = int(SECONDS_A_CHUNK / (time.perf_counter() - started))
    return rows_a_chunk(simulator, rows, seconds, cores, max(1, min(MOST_STORED_BLOCKS, blocks)))


def simulate_chunks(
    simulator: RowSimulator,
    prior: PriorDraws,
    pieces: list[range],
    *,
    cores: int,
    executor: Executor | Any | None,
    started: Executor | None = None,
) -> Iterator[tuple[Chunk, np.ndarray]]:
    """Run some pieces of a table, and yield the chunk and the parameters of each as it is done, in any order.

    Parameters are taken slice by slice, when their piece is handed out. Batches run in threads, since
    NumPy lets go of the interpreter's lock; single rows run in worker processes, and where one of these
    dies, what was under way runs again in processes of its own. `started` are such processes that are there
    already.

    Raises
    ------
    RuntimeError
        If the given executor cannot go on.
    """
    if not pieces:
        return
    waiting = iter(pieces)
    in_processes = (
        executor is None and simulator.batch is None and (simulator.timeout is not None or cores > 1)
    )
    if executor is not None:
        pool, workers = _as_executor(executor)
        submit = _pickled(simulator, pool)
        try:
            yield from _in_flight(simulator, submit, prior, waiting, CHUNKS_A_WORKER * workers)
        except WorkersDied as died:
            first, parameters = died.work[0]
            raise RuntimeError(
                f"a worker process died, and the executor with it, while {len(died.work)} chunk(s) were "
                f"under way, rows {first} to {first + len(parameters) - 1} among them: the simulator crashed "
                "it, or memory ran out; with cores=2 in place of executor= such a row is found and named"
            ) from died.__cause__
    elif in_processes and (len(pieces) > 1 or simulator.timeout is not None or started):
        count = min(cores, len(pieces))
        while True:
            try:
                with processes(count, started) as workers_:
                    started = None
                    submit = _pickled(simulator, workers_)
                    yield from _in_flight(simulator, submit, prior, waiting, CHUNKS_A_WORKER * count)
                return
            except WorkersDied as died:
                under_way = died.work
            yield from simulate_alone(simulator, under_way, count)
    elif simulator.batch is not None and cores > 1 and len(pieces) > 1:
        with undisturbed(), ThreadPoolExecutor(cores) as threads:
            yield from _in_flight(
                simulator,
                lambda s, p: threads.submit(simulator.simulate, s, p),
                prior,
                waiting,
                CHUNKS_A_WORKER * cores,
            )
    else:
        for piece in waiting:
            parameters = prior[slice(piece.start, piece.stop)]
            yield simulator.simulate(piece.start, parameters), parameters


def check_picklable(graph: ModelGraph) -> None:
    """Whether every simulator can be sent to another process.

    Raises
    ------
    TypeError
        If one cannot, by its name.
    """
    for rv in graph.simulated:
        if not is_simulator(rv):
            continue
        simulator = type(rv.owner.op)
        for what, function in (("simulator", simulator.fn), ("sum_stat", simulator._sum_stat)):
            try:
                cloudpickle.dumps(function)
            except Exception as error:
                raise TypeError(
                    f"the {what} of {rv.name!r} cannot be sent to worker processes "
                    f"({type(error).__name__}: {error}); make what it refers to picklable, or use cores=1"
                ) from error


def check_executor(executor: Any, timeout: float | None) -> None:
    """Refuse what cannot run our work, before any is made.

    Raises
    ------
    TypeError
        If it is no executor.
    ValueError
        If there is a time limit and the executor's tasks cannot be interrupted.
    """
    if isinstance(executor, type) or not (hasattr(executor, "submit") or hasattr(executor, "get_executor")):
        raise TypeError(
            f"executor is {shown(executor)}; give a concurrent.futures.Executor or a dask.distributed.Client"
        )
    # Only a worker itself knows whether it runs tasks where a signal reaches them.
    if timeout is not None and not _as_executor(executor)[0].submit(can_be_interrupted).result():
        raise ValueError(
            f"timeout is {timeout:g} and the executor runs its tasks in threads, which cannot be interrupted"
            "; take cores= or an executor of processes, or end the simulation inside the simulator"
        )


def _as_executor(executor: Any) -> tuple[Executor, int]:
    """The executor, that of a Dask client among them, and the number of its workers."""
    if hasattr(executor, "get_executor"):
        return executor.get_executor(pure=False), max(1, sum(executor.nthreads().values()))
    return executor, getattr(executor, "_max_workers", None) or 8


def _pickled(simulator: RowSimulator, executor: Executor) -> Callable[[int, np.ndarray], Future[Chunk]]:
    # Pickled once: workers keep what they have compiled for as long as these bytes are the same.
    payload = cloudpickle.dumps(simulator)
    return lambda start, parameters: executor.submit(simulate_pickled, payload, start, parameters)


def _in_flight(
    simulator: RowSimulator,
    submit: Callable[[int, np.ndarray], Future[Chunk]],
    prior: PriorDraws,
    waiting: Iterable[range],
    limit: int,
) -> Iterator[tuple[Chunk, np.ndarray]]:
    running: dict[Future[Chunk], Work] = {}
    lost: list[Work] = []
    cause: BaseException | None = None
    try:
        while True:
            for piece in waiting if cause is None else ():
                parameters = prior[slice(piece.start, piece.stop)]
                try:
                    running[submit(piece.start, parameters)] = (piece.start, parameters)
                except BrokenExecutor as error:
                    cause = error
                    lost.append((piece.start, parameters))
                    break
                if len(running) >= limit:
                    break
            if not running:
                break
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                work = running.pop(future)
                try:
                    yield future.result(), work[1]
                except (BrokenExecutor, CancelledError) as error:
                    cause = error
                    lost.append(work)
                except Exception as error:
                    # Dask's word for a task that has ended several workers, known here by name alone.
                    if type(error).__name__ != "KilledWorker":
                        raise
                    yield from simulate_alone(simulator, [work], 1)
    finally:
        for future in running:
            future.cancel()
    if cause is not None:
        raise WorkersDied(lost) from cause
