"""Running a simulator's chunks: here, in threads, in worker processes, or on any executor."""

from __future__ import annotations

import os
import re
import threading
import time
import warnings
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
from concurrent.futures.thread import BrokenThreadPool
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol

import cloudpickle
import numpy as np
from loky import ProcessPoolExecutor  # type: ignore[import-untyped]

from pymc_kbr.arrays.refusals import shown
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.simulation.model.read import ModelGraph, is_simulator
from pymc_kbr.simulation.workers.fork_server import (
    CAN_FORK,
    ONE_THREAD,
    Worker,
    WorkerDied,
    begin,
    fork_worker,
)
from pymc_kbr.simulation.workers.row_simulator import (
    Chunk,
    RowSimulator,
    can_be_interrupted,
    simulate_pickled,
    try_row_pickled,
    undisturbed,
)

Work = tuple[int, np.ndarray]
"""First row and parameters of a chunk that is under way."""


class PriorDraws(Protocol):
    """Rows of parameters that can be sliced, in order: an array, or draws made when needed."""

    def __getitem__(self, rows: slice, /) -> np.ndarray:
        """The rows of a slice."""
        ...


class WorkersDied(Exception):
    """An executor cannot go on."""

    def __init__(self, work: list[Work], finished: bool) -> None:
        super().__init__("workers died")
        self.work, self.finished = work, finished


class GivenExecutor:
    """An executor of the caller's: what is handed to it, how many workers it has, and why it cannot go on."""

    def __init__(self, executor: Any) -> None:
        # A Dask client, or the executor that one has made.
        self._client = executor if hasattr(executor, "get_executor") else getattr(executor, "_client", None)
        self._executor: Executor = (
            executor.get_executor(pure=False) if hasattr(executor, "get_executor") else executor
        )
        self._looked, self._workers = -np.inf, 1
        self._waits = False

    def submit(self, task: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Run a function of a module in a worker; see `concurrent.futures.Executor.submit`."""
        if self._client is None:
            return self._executor.submit(task, *arguments)
        # Dask's scheduler unpickles what it passes on: it would import PyMC with a function of ours, and
        # NumPy, which `distributed` does not need, with an array.
        return self._executor.submit(_by_name(), task.__module__, task.__name__, cloudpickle.dumps(arguments))

    def check_connection(self) -> None:
        """Raise ConnectionError if a Dask client has no connection to a scheduler."""
        if self._client is not None and self._client.status != "running":
            raise ConnectionError(f"the Dask client is {self._client.status}")

    def look(self) -> None:
        """See how many workers a Dask cluster has."""
        self.check_connection()
        if self._client is None:
            return
        self._looked = time.monotonic()
        workers = sum(self._client.nthreads().values())
        if not workers and not self._waits:
            warnings.warn(
                f"the Dask cluster at {self._address} has no worker; simulations wait until one comes",
                UserWarning,
                stacklevel=users_line(),
            )
        self._waits, self._workers = not workers, max(1, workers)

    def limit(
        self,
        *,
        # Workers of an executor that does not give their number.
        unknown_workers: int = 8,
        # Under way or waiting: this bounds the memory here.
        chunks_a_worker: int = 4,
        # To ask a Dask cluster for its workers takes milliseconds.
        seconds_a_look: float = 1.0,
    ) -> int:
        """How many chunks may be under way now."""
        if self._client is None:
            return chunks_a_worker * (getattr(self._executor, "_max_workers", None) or unknown_workers)
        if time.monotonic() - self._looked > seconds_a_look:
            self.look()
        return chunks_a_worker * self._workers

    def lost(self, error: BaseException) -> bool:
        """Whether an error of a task is not of the task, but of the executor."""
        no_client = self._client is not None and self._client.status != "running"
        # Loky's word for an executor that was shut down with `kill_workers=True`; joblib has a copy of it.
        shut_down = type(error).__name__ == "ShutdownExecutorError"
        return no_client or shut_down or isinstance(error, BrokenExecutor | CancelledError)

    def why(self, died: WorkersDied) -> str:
        """What has happened to it, and what may be done."""
        cause = died.__cause__
        first, parameters = died.work[0]
        under_way = (
            f"while {len(died.work)} chunk(s) were under way, rows {first} to {first + len(parameters) - 1} "
            "among them"
        )
        if self._client is not None:
            if self._client.status in ("closing", "closed"):
                return f"the Dask client was closed {under_way}"
            if self._client.status != "running" or isinstance(cause, OSError):
                return (
                    f"the connection to the Dask scheduler at {self._address} was lost {under_way}: the "
                    "scheduler has ended, or the network has failed"
                )
            if isinstance(cause, CancelledError):
                return (
                    f"the Dask cluster at {self._address} cancelled its work {under_way}: it was restarted, "
                    "or somebody cancelled the futures"
                )
        elif isinstance(cause, BrokenThreadPool):
            return f"the executor's threads did not start ({cause}), {under_way}"
        elif isinstance(cause, BrokenExecutor):
            code = exit_code(cause)
            memory = ", as the system does when memory runs out" if code and "SIGKILL" in code else ""
            ended = f" ({code}{memory})" if code else ""
            begin = (
                ""
                if died.finished
                else "it had finished nothing: its processes may not start at all, as in a script that "
                'starts them without `if __name__ == "__main__":`; otherwise '
            )
            return (
                f"a worker process died{ended}, and the executor with it, {under_way}: {begin}the simulator "
                "crashed it, or memory ran out; with cores=2 in place of executor= such a row is found and "
                "named"
            )
        elif isinstance(cause, CancelledError):
            return f"the executor cancelled its work {under_way}: it was shut down"
        return f"the executor takes no more work ({type(cause).__name__}: {cause}) {under_way}"

    @property
    def _address(self) -> str:
        scheduler = getattr(self._client, "scheduler", None)
        return str(getattr(scheduler, "address", "an unknown address"))


def _by_name() -> Callable[..., Any]:
    """A function that calls one of a module; pickled by value, as it is no name of this module."""

    def simulate_rows(module: str, name: str, arguments: bytes) -> Any:
        import pickle
        from importlib import import_module

        return getattr(import_module(module), name)(*pickle.loads(arguments))

    return simulate_rows


def rows_a_chunk(
    simulator: RowSimulator,
    rows: int,
    seconds: float,
    cores: int,
    most_blocks: int = 4,
    *,
    # So that the progress bar moves, and little is lost.
    most_rows: int = 512,
    # As the overhead of a chunk is milliseconds.
    seconds_a_chunk: float = 0.25,
) -> int:
    """How many rows to run at once, of `rows`; `seconds` is what one took in the trial."""
    if simulator.batch is not None:
        return simulator.block_rows * max(1, min(most_blocks, rows // (simulator.block_rows * cores)))
    return max(1, min(most_rows, int(seconds_a_chunk / max(seconds, 1e-6))))


def rows_a_stored_chunk(
    simulator: RowSimulator,
    prior: PriorDraws,
    rows: int,
    seconds: float,
    cores: int,
    *,
    # and written together.
    most_stored_blocks: int = 64,
    seconds_a_chunk: float = 0.25,
) -> int:
    """How many rows to write at once: as many as a crash may cost, and files may hold."""
    if simulator.batch is None:
        return rows_a_chunk(simulator, rows, seconds, cores)
    block = prior[slice(0, simulator.block_rows)]
    started = time.perf_counter()
    simulator.simulate(0, block)
    blocks = int(seconds_a_chunk / (time.perf_counter() - started))
    return rows_a_chunk(simulator, rows, seconds, cores, max(1, min(most_stored_blocks, blocks)))


def simulate_chunks(
    simulator: RowSimulator,
    prior: PriorDraws,
    pieces: list[range],
    *,
    cores: int,
    executor: Executor | Any | None,
    started: Executor | None = None,
    store: str | Path | None = None,
    # Under way or waiting: this bounds the memory here.
    chunks_a_worker: int = 4,
) -> Iterator[tuple[Chunk, np.ndarray]]:
    """Run some pieces of a table; yield each chunk and its parameters when it is done, in any order."""
    if not pieces:
        return
    waiting = iter(pieces)
    in_processes = (
        executor is None and simulator.batch is None and (simulator.timeout is not None or cores > 1)
    )
    if executor is not None:
        given = GivenExecutor(executor)
        try:
            yield from _in_flight(
                simulator, _pickled(simulator, given), prior, waiting, given.limit, given=given
            )
        except WorkersDied as died:
            kept = (
                "the rows that were finished are lost; with store= they are kept, and the same call continues"
                if store is None
                else f"the rows that were finished are in the store {store}: the same call with an executor "
                "that works, or with cores=, simulates the others"
            )
            raise RuntimeError(f"{given.why(died)}. {kept[0].upper()}{kept[1:]}") from died.__cause__
    elif in_processes and (len(pieces) > 1 or simulator.timeout is not None or started):
        count = min(cores, len(pieces))
        while True:
            try:
                with processes(count, started) as workers_:
                    started = None
                    submit = _pickled(simulator, workers_)
                    yield from _in_flight(simulator, submit, prior, waiting, lambda: chunks_a_worker * count)
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
                lambda: chunks_a_worker * cores,
            )
    else:
        for piece in waiting:
            parameters = prior[slice(piece.start, piece.stop)]
            yield simulator.simulate(piece.start, parameters), parameters


def check_picklable(graph: ModelGraph) -> None:
    """Whether every simulator can be sent to another process."""
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
    """Refuse what cannot run our work, before any is made."""
    advice = "give a concurrent.futures.Executor or a dask.distributed.Client"
    if isinstance(executor, type) or not (hasattr(executor, "submit") or hasattr(executor, "get_executor")):
        client = ": Client(cluster) where this is a cluster" if hasattr(executor, "get_client") else ""
        raise TypeError(f"executor is {shown(executor)}; {advice}{client}")
    if getattr(executor, "asynchronous", False):
        raise TypeError("executor is an asynchronous Dask client; make one with asynchronous=False")
    given = GivenExecutor(executor)
    try:
        given.check_connection()
        future = given.submit(can_be_interrupted)
    except Exception as error:
        raise ValueError(
            f"executor takes no work ({type(error).__name__}: {error}); it was shut down, or what it works "
            "with has ended: make another one"
        ) from error
    if not isinstance(future, Future):
        raise TypeError(f"executor's submit returned {type(future).__name__}, no future; {advice}")
    # Only a worker itself knows whether it runs tasks where a signal reaches them.
    if timeout is not None and not future.result():
        raise ValueError(
            f"timeout is {timeout:g} and the executor runs its tasks in threads, which cannot be interrupted"
            "; take cores= or an executor of processes, or end the simulation inside the simulator"
        )


def _pickled(
    simulator: RowSimulator, executor: Executor | GivenExecutor
) -> Callable[[int, np.ndarray], Future[Chunk]]:
    # Pickled once: workers keep what they have compiled for as long as these bytes are the same.
    payload = cloudpickle.dumps(simulator)
    return lambda start, parameters: executor.submit(simulate_pickled, payload, start, parameters)


def _in_flight(
    simulator: RowSimulator,
    submit: Callable[[int, np.ndarray], Future[Chunk]],
    prior: PriorDraws,
    waiting: Iterable[range],
    limit: Callable[[], int],
    given: GivenExecutor | None = None,
    *,
    # How often it is seen whether a given executor still works.
    seconds_a_look: float = 1.0,
) -> Iterator[tuple[Chunk, np.ndarray]]:
    running: dict[Future[Chunk], Work] = {}
    lost: list[Work] = []
    cause: BaseException | None = None
    finished = warned = False
    try:
        while True:
            for piece in waiting if cause is None else ():
                parameters = prior[slice(piece.start, piece.stop)]
                try:
                    full = len(running) + 1 >= limit()
                    running[submit(piece.start, parameters)] = (piece.start, parameters)
                except Exception as error:
                    if given is None and not isinstance(error, BrokenExecutor):
                        raise
                    cause = error
                    lost.append((piece.start, parameters))
                    break
                if full:
                    break
            if not running:
                break
            wait(running, seconds_a_look if given else None, return_when=FIRST_COMPLETED)
            # `wait` does not see futures that the shutdown of a pool has cancelled.
            done = [future for future in running if future.done()]
            if given is not None and not done:
                try:
                    given.look()
                except Exception as error:
                    # Its futures may never be done: a client that is closed forgets them.
                    cause = error
                    lost.extend(running.values())
                    break
            for future in done:
                work = running.pop(future)
                try:
                    chunk = future.result()
                except Exception as error:
                    if isinstance(error, BrokenExecutor | CancelledError) or (given and given.lost(error)):
                        cause = error
                        lost.append(work)
                    # Dask's word for a task that has ended several workers, known here by name alone.
                    elif type(error).__name__ == "KilledWorker":
                        if not warned:
                            _warn_of_killed(work)
                        warned = True
                        yield from simulate_alone(simulator, [work], 1)
                    elif isinstance(error, ImportError) and given is not None:
                        raise RuntimeError(
                            f"a worker of the executor cannot import what the simulations need ({error}); "
                            "install it where the workers run, or send it there (Dask: `client.upload_file`)"
                        ) from error
                    else:
                        raise
                else:
                    finished = True
                    yield chunk, work[1]
    finally:
        for future in running:
            future.cancel()
    if cause is not None:
        raise WorkersDied(lost, finished) from cause


def _warn_of_killed(work: Work) -> None:
    start, parameters = work
    warnings.warn(
        f"several workers of the cluster died while they ran rows {start} to {start + len(parameters) - 1}: "
        "the simulator ends its process there, or needs more memory than a worker has. These rows, and "
        "others that the cluster gives up, run here in a process of their own, one chunk at a time",
        UserWarning,
        stacklevel=users_line(),
    )


# --- our own worker processes ---


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
    """Work that is sent to a process one at a time; a new one is started when that has died."""

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
        """`RowSimulator.try_row`; a row that ends its process is one that failed."""
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

    def _call(
        self,
        task: Callable[..., Any],
        row: int,
        values: np.ndarray,
        # Processes that a simulation must end, alone, until it counts as failed: one may die of another
        # cause.
        attempts: int = 2,
    ) -> Any:
        """What a task returns, or what ended its process in all attempts."""
        message = ""
        for _ in range(attempts):
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
    """Chunks that were under way when a worker died, each in a process of its own."""
    # Shapes: work (c, p)).
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


# --- the pool of forked workers ---


class ForkedPool(Executor):
    """Worker processes that begin within milliseconds, each replaced when it has died."""

    def __init__(self, count: int) -> None:
        self._threads = ThreadPoolExecutor(count)  # each hands tasks to one worker, and waits for it
        self._of_thread = threading.local()
        self._lock = threading.Lock()
        self._living: set[Worker] = set()
        self._ended = False

    def submit(self, task: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Future[Any]:
        """Run a task in a worker; see `concurrent.futures.Executor.submit`."""
        return self._threads.submit(self._call, task, arguments, keywords)

    def shutdown(
        self, wait: bool = True, *, cancel_futures: bool = False, kill_workers: bool = False
    ) -> None:
        """End the workers, when they have done what was submitted or, with `kill_workers`, at once."""
        if kill_workers:
            self._threads.shutdown(wait=False, cancel_futures=True)
            with self._lock:
                self._ended = True
            for worker in list(self._living):
                worker.kill()
        self._threads.shutdown(wait, cancel_futures=cancel_futures)
        while wait and self._living:
            self._living.pop().end()

    def _call(self, task: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        worker = self._worker()
        try:
            return worker.call(task, *arguments, **keywords)
        except WorkerDied:
            self._of_thread.worker = None
            self._living.discard(worker)
            worker.end()
            raise

    def _worker(self) -> Worker:
        """The worker of this thread."""
        worker: Worker | None = getattr(self._of_thread, "worker", None)
        if worker is None:
            with self._lock:
                if self._ended:
                    raise BrokenExecutor("the pool has ended")
                try:
                    worker = self._of_thread.worker = fork_worker()
                except OSError as error:
                    raise BrokenExecutor(f"no worker can be forked: {error}") from error
                self._living.add(worker)
        return worker
