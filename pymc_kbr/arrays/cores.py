"""How many cores there are, and which threads are at work on them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from threading import Condition, RLock, get_ident

import joblib


def cores() -> int:
    """Those that this process may use: at most `OMP_NUM_THREADS`, where that is set.

    A scheduler may give a process fewer than the machine has, by its affinity, a container by a quota of
    processor time (control groups, versions 1 and 2), and a user by `LOKY_MAX_CPU_COUNT`.
    """
    affinity = frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset()
    given = _given(affinity, os.environ.get("LOKY_MAX_CPU_COUNT"))
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return min(given, max(1, int(asked))) if asked.isdecimal() else given


@lru_cache
def _given(affinity: frozenset[int], most: str | None) -> int:
    """`joblib.cpu_count`, which reads files and takes .3 ms, once while what it depends on is the same."""
    return joblib.cpu_count()


class ThreadsAtWork:
    """The threads that work, so that there are no more of them than cores.

    By their numbers: one that an interrupt keeps from leaving is not counted twice when it comes again.
    """

    def __init__(self) -> None:
        # The lock itself is entered: an interrupt between a condition's lines would leave it locked.
        self._lock, self._working = RLock(), set[int]()
        self._changed = Condition(self._lock)

    def __len__(self) -> int:
        return len(self._working)

    def free(self) -> bool:
        """Whether there is a core for another thread."""
        return len(self._working) < cores()

    def join(self) -> None:
        """The thread that calls is at work, once there is a core for it."""
        with self._lock:
            self._changed.wait_for(self.free)
            self._working.add(get_ident())

    def join_if_free(self) -> bool:
        """The same, if there is one; whether there is."""
        with self._lock:
            if free := self.free():
                self._working.add(get_ident())
        return free

    def leave(self) -> None:
        """The thread that calls is no longer at work."""
        with self._lock:
            self._working.discard(get_ident())
            self._changed.notify()  # one core is free, for one of those that wait

    @contextmanager
    def working(self) -> Iterator[None]:
        """Within it the thread that calls is at work, whether or not there is a core for it."""
        with self._lock:
            self._working.add(get_ident())
        try:
            yield
        finally:
            self.leave()

    @contextmanager
    def waiting(self, instead: int | None = None) -> Iterator[None]:
        """Within it the thread that calls is not at work; after it, if it was before.

        Its core is for the thread `instead`, by its number, or where none is named for any that waits.
        """
        with self._lock:
            was = get_ident() in self._working
            self._working.discard(get_ident())
            if was and instead is not None:
                self._working.add(instead)
            else:
                self._changed.notify()
        try:
            yield
        finally:
            if was:
                with self._lock:
                    self._working.add(get_ident())


AT_WORK = ThreadsAtWork()
"""Of this process."""

if hasattr(os, "register_at_fork"):
    # Of the parent's threads a child has one, which has its own way to go.
    os.register_at_fork(after_in_child=AT_WORK.__init__)  # type: ignore[misc]
