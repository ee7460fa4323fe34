"""An executor of forked workers, which loses one task where one of them dies, and no other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from typing import Any

from pymc_kbr.simulation.workers.fork_server import Worker, WorkerDied, fork_worker


class ForkedPool(Executor):
    """Worker processes that begin within milliseconds, each replaced when it has died.

    Parameters
    ----------
    count : int
        Processes at most, each forked when it is first needed.
    """

    def __init__(self, count: int) -> None:
        self._threads = ThreadPoolExecutor(count)  # each hands tasks to one worker, and waits for it
        self._of_thread = threading.local()
        self._lock = threading.Lock()
        self._living: set[Worker] = set()
        self._ended = False

    def submit(self, task: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Future[Any]:
        """Run a task in a worker; see `concurrent.futures.Executor.submit`.

        The future raises `WorkerDied` where the worker ends in the midst of it, `ForkRefused` where the
        system has no room for one, and `BrokenExecutor` where none can be started.
        """
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
