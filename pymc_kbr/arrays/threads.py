"""Small pieces of work side by side on the cores, with BLAS on one thread."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from threading import Lock, local
from typing import Protocol, TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")


class Map(Protocol):
    """Applies a function to items, and returns what comes out in their order."""

    def __call__(self, work: Callable[[T], R], items: Iterable[T], /) -> list[R]:
        """See the class."""
        ...


def cores() -> int:
    """Those that this process may use."""
    # A container or a scheduler may give a process fewer than the machine has.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def one_blas_thread() -> AbstractContextManager[object]:
    """Within it BLAS works on one thread."""
    return _blas().limit(limits=1, user_api="blas")


@contextmanager
def side_by_side(items: int) -> Iterator[Map]:
    """A map for so many items at a time, on as many cores as there are.

    Notes
    -----
    What is small is done sooner by several threads, each with its own matrices, than by one whose matrices
    are divided among the cores. With one core, one item, or within another such map all is done where it is
    called.
    """
    if getattr(_here, "inside", False):  # BLAS is limited already, until the outer map ends
        yield lambda work, items: [work(item) for item in items]
        return
    workers = min(cores(), items)
    with one_blas_thread():
        if workers < 2:
            yield lambda work, items: [work(item) for item in items]
        else:
            with ThreadPoolExecutor(workers, initializer=_enter) as pool:
                yield lambda work, items: list(pool.map(work, items))


class Begin(Protocol):
    """Begins some work, and returns what waits for its end and gives what came out."""

    def __call__(self, work: Callable[[], R], /) -> Callable[[], R]:
        """See the class."""
        ...


def one_at_a_time() -> bool:
    """Whether maps would do all where they are called: on one core, or within another map."""
    return cores() < 2 or getattr(_here, "inside", False)


@contextmanager
def beside() -> Iterator[Begin]:
    """Begins work that goes on beside what follows, on as many cores as there are.

    Notes
    -----
    With one core, or within a map, it is done where it is called. Without a call for what came out, an error
    in it is not raised. Where what follows ends in an error, or is interrupted, work that has not begun yet
    is left.
    """
    if one_at_a_time():
        yield at_once
        return
    with one_blas_thread(), ThreadPoolExecutor(cores(), initializer=_enter) as pool:
        try:
            yield lambda work: pool.submit(work).result
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # what goes on already is waited for
            raise


def at_once(work: Callable[[], R], /) -> Callable[[], R]:
    """A `Begin` that does the work where it is called."""
    future: Future[R] = Future()
    try:
        future.set_result(work())
    except Exception as error:
        future.set_exception(error)
    return future.result


class Silence:
    """Within it, on every thread, warnings of one kind are not given.

    Parameters
    ----------
    category : type of Warning

    Notes
    -----
    Filters belong to the process: if each of two threads put back the filters that it found, the later one
    could put back those of the other, for good. Here the first to enter keeps them and the last to leave
    puts them back.
    """

    def __init__(self, category: type[Warning]) -> None:
        self._category = category
        self._lock, self._inside = Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._kept = warnings.catch_warnings()
                self._kept.__enter__()
                warnings.simplefilter("ignore", self._category)
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._kept.__exit__(None, None, None)


_here = local()


def _enter() -> None:
    _here.inside = True


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()  # looks through all loaded libraries, which takes milliseconds
