"""Running a job's chunks: here, in threads, in worker processes, or on any executor."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Protocol

import cloudpickle
import numpy as np
from loky import ProcessPoolExecutor  # type: ignore[import-untyped]
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from pymc_kbr.simulation.job import Chunk, Job, run_pickled
from pymc_kbr.simulation.model import ModelGraph, is_simulator

SECONDS_A_CHUNK = 0.25
MOST_ROWS_A_CHUNK = 512
"""How finely work is cut up where rows run one by one: a matter of speed and of the progress bar."""

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Rows(Protocol):
    """Rows of parameters that can be sliced: an array, or draws that are made when they are needed."""

    def __getitem__(self, rows: slice, /) -> np.ndarray:
        """The rows of a slice."""
        ...


def run_chunks(
    job: Job,
    parameters: Rows,
    rows: range,
    seconds: float,
    *,
    cores: int,
    executor: Executor | None,
) -> Iterator[Chunk]:
    """Run some rows in chunks, and yield each as it is done, in any order.

    Parameters are taken slice by slice, when their chunk is handed out. `seconds` is what one row took in
    the trial.

    Batches run in threads, since NumPy lets go of the interpreter's lock; single rows run in worker
    processes. Not more than four chunks a worker are under way at once.
    """
    if job.batch is not None:
        chunk_rows = job.block_rows * max(1, min(4, len(rows) // (job.block_rows * cores)))
    else:
        chunk_rows = max(1, min(MOST_ROWS_A_CHUNK, int(SECONDS_A_CHUNK / max(seconds, 1e-6))))
    starts = range(rows.start, rows.stop, chunk_rows)
    if executor is None and (cores == 1 or len(starts) == 1):
        for first in starts:
            yield job.run(first, parameters[first : min(first + chunk_rows, rows.stop)])
        return
    if executor is not None:
        submit = _pickled(job, executor)
        yield from _in_flight(submit, parameters, starts, chunk_rows, limit=4 * max(cores, 8))
    elif job.batch is not None:
        with ThreadPoolExecutor(cores) as threads:
            yield from _in_flight(
                lambda s, p: threads.submit(job.run, s, p), parameters, starts, chunk_rows, limit=4 * cores
            )
    else:
        with _processes(min(cores, len(starts))) as workers:
            submit = _pickled(job, workers)
            yield from _in_flight(submit, parameters, starts, chunk_rows, limit=4 * cores)


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


class RateColumn(ProgressColumn):
    """Rows a second."""

    def render(self, task: Task) -> Text:
        """The rate, once there is one."""
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} rows/s")


def progress_bar(shown: bool) -> Progress:
    """A bar with the count of rows, their rate and the time left; one that prints nothing if not shown."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        RateColumn(),
        TimeRemainingColumn(),
        TimeElapsedColumn(),
        disable=not shown,
    )


def _pickled(job: Job, executor: Executor) -> Callable[[int, np.ndarray], Future[Chunk]]:
    payload = cloudpickle.dumps(job)
    return lambda start, parameters: executor.submit(run_pickled, payload, start, parameters)


def _in_flight(
    submit: Callable[[int, np.ndarray], Future[Chunk]],
    parameters: Rows,
    starts: range,
    chunk_rows: int,
    limit: int,
) -> Iterator[Chunk]:
    waiting = iter(starts)
    running: set[Future[Chunk]] = set()
    try:
        while True:
            for first in waiting:
                running.add(submit(first, parameters[first : min(first + chunk_rows, starts.stop)]))
                if len(running) >= limit:
                    break
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
    finally:
        for future in running:
            future.cancel()


@contextmanager
def _processes(count: int) -> Iterator[Executor]:
    workers = ProcessPoolExecutor(count, initializer=_ignore_interrupts, env=ONE_THREAD)
    try:
        yield workers
    except BaseException:  # also Ctrl-C: whatever is half done is not wanted any more
        workers.shutdown(wait=True, kill_workers=True)
        raise
    workers.shutdown(wait=True)


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
