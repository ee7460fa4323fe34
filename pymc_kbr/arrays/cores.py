"""How many cores there are, and how many threads are at work on them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition


def cores() -> int:
    """Those that this process may use: at most `OMP_NUM_THREADS`, where that is set."""
    # A container or a scheduler may give a process fewer than the machine has.
    given = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return min(given, max(1, int(asked))) if asked.isdigit() else given


class ThreadsAtWork:
    """Counts threads that work, so that there are no more of them than cores."""

    def __init__(self) -> None:
        self._changed, self._count, self._process = Condition(), 0, os.getpid()

    def free(self) -> bool:
        """Whether there is a core for another thread."""
        with self._counted():
            return self._count < cores()

    def join(self) -> None:
        """One more, once there is a core for it."""
        with self._counted():
            self._changed.wait_for(lambda: self._count < cores())
            self._count += 1

    def join_if_free(self) -> bool:
        """One more, if there is a core for it; whether there is."""
        with self._counted():
            free = self._count < cores()
            self._count += free
        return free

    def leave(self) -> None:
        """One fewer."""
        with self._counted():
            self._count -= 1
            self._changed.notify()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Within it the thread that called counts, whether or not there is a core for it."""
        with self._counted():
            self._count += 1
        try:
            yield
        finally:
            self.leave()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Within it a thread that counts does not."""
        self.leave()
        try:
            yield
        finally:
            with self._counted():
                self._count += 1

    @contextmanager
    def _counted(self) -> Iterator[None]:
        if self._process != os.getpid():  # a fork has one thread, and its parent's count
            self.__init__()  # type: ignore[misc]
        with self._changed:
            yield


AT_WORK = ThreadsAtWork()
"""Of this process."""
