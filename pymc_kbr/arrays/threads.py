"""Small pieces of work side by side on the cores, with BLAS on one thread."""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from functools import cache, lru_cache
from itertools import pairwise
from queue import SimpleQueue
from threading import Lock, RLock, Thread, get_ident, local
from typing import Any, Generic, Protocol, TypeVar

import joblib
import numpy as np
from threadpoolctl import OpenBLASController, ThreadpoolController

# --- settings of the whole process ---


class ProcessWide:
    """A setting that the first thread to enter makes, and the last to leave puts back."""

    def __init__(self, make: Callable[[], AbstractContextManager[object]]) -> None:
        self._make, self._lock, self._inside = make, Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._kept = self._make()
                self._kept.__enter__()
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._kept.__exit__(None, None, None)


def silence(category: type[Warning]) -> ProcessWide:
    """Within it warnings of one kind are not given."""

    @contextmanager
    def ignored() -> Iterator[None]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", category)
            yield

    return ProcessWide(ignored)


# --- small tasks in parallel ---


T = TypeVar("T")
R = TypeVar("R")


class Map(Protocol):
    """Applies a function to items, and returns what comes out in their order."""

    def __call__(self, work: Callable[[T], R], items: Iterable[T], /) -> list[R]:
        """See the class."""
        ...


@contextmanager
def parallel_map(items: int) -> Iterator[Map]:
    """A map on at most so many threads, and as many as there are cores."""
    workers = min(cores(), items)
    with one_blas_thread():
        if workers < 2:
            yield lambda work, items: [work(item) for item in items]
        elif _inside():
            with ThreadPoolExecutor(workers - 1, initializer=_enter) as pool:
                yield lambda work, items: _Shared(work, list(items), workers - 1).led_here(pool)
        else:
            # Interrupts come to the main thread: it had better wait than work, with locks that are of others.
            inbox: SimpleQueue[_Shared[Any, Any] | None] = SimpleQueue()
            leader = Thread(target=_lead, args=(inbox, workers - 1), daemon=True)
            try:
                leader.start()
                yield lambda work, items: _Shared(work, list(items), workers - 1).led_by(leader, inbox)
            finally:
                inbox.put(None)
                if leader.is_alive():
                    leader.join()


def _lead(inbox: SimpleQueue[_Shared[Any, Any] | None], helpers: int) -> None:
    """On a thread of its own, what comes in, until it is None."""
    _enter()
    with ThreadPoolExecutor(helpers, initializer=_enter) as pool:
        while (shared := inbox.get()) is not None:
            with AT_WORK.working():
                shared.lead(pool)
    AT_WORK.leave()  # an interrupt may have come before what it was given a core for


class _Shared(Generic[T, R]):
    """Items that several threads work on."""

    def __init__(self, work: Callable[[T], R], items: list[T], helpers: int) -> None:
        self._work, self._items, self._most = work, items, helpers
        self._places = deque(range(len(items)))
        self._results, self._errors = dict[int, R](), dict[int, BaseException]()
        self._going_on = Lock()
        self._going_on.acquire()

    def led_here(self, pool: ThreadPoolExecutor) -> list[R]:
        """What comes out."""
        self.lead(pool)
        return self._outcome()

    def led_by(
        self,
        leader: Thread,
        inbox: SimpleQueue[_Shared[Any, Any] | None],
        *,
        # Seconds between two looks for an interrupt.
        longest_wait: float = 0.1,
    ) -> list[R]:
        """The same, by a thread that reads the inbox; interrupted, no further items are begun."""
        try:
            with AT_WORK.waiting(instead=leader.ident):
                inbox.put(self)
                # Not for ever: an interrupt may be given to another thread, and is seen here after a wait.
                while not self._going_on.acquire(timeout=longest_wait):
                    pass
        except BaseException:
            self._places.clear()
            raise
        return self._outcome()

    def lead(self, pool: ThreadPoolExecutor) -> None:
        """Do all items here, and on further threads where there are cores for them; wait for these."""
        helpers: list[Future[None]] = []
        try:
            while self._places:
                # Before each item: a core may have become free.
                while len(self._places) > 1 and len(helpers) < self._most and AT_WORK.free():
                    helpers.append(pool.submit(self._help))
                self._next()
                helpers = [helper for helper in helpers if not helper.done()]
        except BaseException as error:  # there is no further thread
            self._failed(-1, error)
        finally:
            with AT_WORK.waiting():
                wait(helpers)
            self._going_on.release()

    def _help(self) -> None:
        if AT_WORK.join_if_free():
            try:
                while self._places:
                    self._next()
            finally:
                AT_WORK.leave()

    def _next(self) -> None:
        try:
            place = self._places.popleft()
        except IndexError:  # another thread was sooner
            return
        try:
            self._results[place] = self._work(self._items[place])
        except BaseException as error:
            self._failed(place, error)

    def _failed(self, place: int, error: BaseException) -> None:
        self._errors[place] = error
        self._places.clear()

    def _outcome(self) -> list[R]:
        """In the order of the items, or the first one's error."""
        if not self._errors:
            return [self._results[place] for place in range(len(self._items))]
        first = self._errors[min(self._errors)]  # as if one had been done after the other
        self._errors.clear()  # an error knows the frames that know it: their arrays would stay
        try:
            raise first
        finally:
            del first


def one_at_a_time() -> bool:
    """Whether a map would do all where it is called: on one core, or as long as all are at work."""
    return cores() < 2 or not AT_WORK.free()


_here = local()


def _inside() -> bool:
    return getattr(_here, "inside", False)


def _enter() -> None:
    _here.inside = True


# --- sums and products over rows in parallel ---


MOST_ROWS_IN_PART = 2500
"""At most. Were it as many as there are for each core, rounding would differ between machines."""


def row_parts(rows: int, most: int = MOST_ROWS_IN_PART) -> list[slice]:
    """Parts of about one size, at most `most`, which together are so many rows."""
    ends = np.linspace(0, rows, max(1, -(-rows // most)) + 1).astype(int).tolist()
    return [slice(a, b) for a, b in pairwise(ends)]


def product(a: np.ndarray, b: np.ndarray, map_: Map) -> np.ndarray:
    """Product (n, m) of a (n, k) and b (k, m)."""
    out = np.empty((len(a), *b.shape[1:]))

    def fill(part: slice) -> None:
        np.matmul(a[part], b, out=out[part])

    map_(fill, row_parts(len(a)))
    return out


def product_over_rows(a: np.ndarray, b: np.ndarray, map_: Map) -> np.ndarray:
    """Product (k, m) of the transpose of a (n, k) and b (n, m)."""
    total, *others = map_(lambda part: a[part].T @ b[part], row_parts(len(a)))
    for other in others:
        total += other
    return total


# --- BLAS on one thread ---


def one_blas_thread() -> AbstractContextManager[object]:
    """Within it BLAS works on one thread."""
    return _ONE


@contextmanager
def _limited() -> Iterator[None]:
    limit = _blas().limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        # Later versions of threadpoolctl let the thread alone change OpenBLAS that did so before.
        release = getattr(OpenBLASController, "clear_controlling_thread", lambda **_: None)
        release(force=True)
        limit.restore_original_limits()
        release(force=True)


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()  # looks through all loaded libraries, which takes milliseconds


_ONE = ProcessWide(_limited)


# --- cores, and the threads at work on them ---


def cores() -> int:
    """Those that this process may use: at most `OMP_NUM_THREADS`, where that is set."""
    affinity = frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset()
    given = _given(affinity, os.environ.get("LOKY_MAX_CPU_COUNT"))
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return min(given, max(1, int(asked))) if asked.isdecimal() else given


@lru_cache
def _given(affinity: frozenset[int], most: str | None) -> int:
    """`joblib.cpu_count`, which reads files and takes .3 ms, once while what it depends on is the same."""
    return joblib.cpu_count()


class ThreadsAtWork:
    """The threads that work, so that there are no more of them than cores."""

    def __init__(self) -> None:
        self._lock, self._working = RLock(), set[int]()

    def __len__(self) -> int:
        return len(self._working)

    def free(self) -> bool:
        """Whether there is a core for another thread."""
        return len(self._working) < cores()

    def join_if_free(self) -> bool:
        """The thread that calls is at work if there is a core for it; whether there is."""
        with self._lock:
            if free := self.free():
                self._working.add(get_ident())
        return free

    def leave(self) -> None:
        """The thread that calls is no longer at work."""
        with self._lock:
            self._working.discard(get_ident())

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
        """Within it the thread that calls is not at work; after it, if it was before."""
        with self._lock:
            was = get_ident() in self._working
            self._working.discard(get_ident())
            if was and instead is not None:
                self._working.add(instead)
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
