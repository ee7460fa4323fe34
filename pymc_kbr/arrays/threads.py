"""Small pieces of work side by side on the cores, with BLAS on one thread."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from threading import Event, Lock, local
from typing import Protocol, TypeVar

from threadpoolctl import ThreadpoolController

from pymc_kbr.arrays.cores import AT_WORK, cores

T = TypeVar("T")
R = TypeVar("R")


class Map(Protocol):
    """Applies a function to items, and returns what comes out in their order."""

    def __call__(self, work: Callable[[T], R], items: Iterable[T], /) -> list[R]:
        """See the class."""
        ...


def one_blas_thread() -> AbstractContextManager[object]:
    """Within it BLAS works on one thread."""
    return _blas().limit(limits=1, user_api="blas")


@contextmanager
def side_by_side(items: int) -> Iterator[Map]:
    """A map for so many items at a time, on as many cores as there are.

    Notes
    -----
    What is small is done sooner by several threads, each with its own matrices, than by one whose matrices
    are divided among the cores. A map within another takes the cores that the outer one has left free. With
    one core, or one item, all is done where it is called.
    """
    workers = min(cores(), items)
    with _entered():
        if workers < 2:
            yield lambda work, items: [work(item) for item in items]
        else:
            with ThreadPoolExecutor(workers - 1, initializer=_enter) as pool:
                yield lambda work, items: _shared(pool, work, list(items))


def _shared(pool: ThreadPoolExecutor, work: Callable[[T], R], items: list[T]) -> list[R]:
    """What comes out of all items, done here and by further threads where there are cores for them."""
    places, results, errors = deque(range(len(items))), dict[int, R](), dict[int, Exception]()

    def next_one() -> bool:
        try:
            place = places.popleft()
        except IndexError:
            return False
        try:
            results[place] = work(items[place])
        except Exception as error:
            errors[place] = error
            places.clear()
        return True

    def help_out() -> None:
        try:
            while next_one():
                pass
        finally:
            AT_WORK.leave()

    helpers = []
    try:
        while True:
            # Before each item: a core may have become free.
            while len(places) > 1 and AT_WORK.join_if_free():
                helpers.append(pool.submit(help_out))
            if not next_one():
                break
    finally:
        places.clear()
        with AT_WORK.waiting():
            wait(helpers)
    if errors:
        raise errors[min(errors)]  # as if one had been done after the other
    return [results[place] for place in range(len(items))]


class Begin(Protocol):
    """Begins some work, and returns what waits for its end and gives what came out."""

    def __call__(self, work: Callable[[], R], /) -> Callable[[], R]:
        """See the class."""
        ...


def one_at_a_time() -> bool:
    """Whether a map would do all where it is called: on one core, or as long as all are at work."""
    return cores() < 2 or not AT_WORK.free()


@contextmanager
def beside() -> Iterator[Begin]:
    """Begins work that goes on beside what follows, on as many cores as there are.

    Notes
    -----
    What finds all cores at work waits for one. With one core, or within a map, it is done where it is called.
    Without a call for what came out, an error in it is not raised. Where what follows ends in an error, or is
    interrupted, work that has not begun yet is left.
    """
    if cores() < 2 or _inside():
        yield at_once
        return
    abandoned = Event()

    def in_turn(work: Callable[[], R]) -> R:
        AT_WORK.join()
        try:
            if abandoned.is_set():
                raise CancelledError
            return work()
        finally:
            AT_WORK.leave()

    def waited_for(future: Future[R]) -> R:
        with AT_WORK.waiting():
            return future.result()

    with _entered(), ThreadPoolExecutor(cores(), initializer=_enter) as pool:
        try:
            yield lambda work: partial(waited_for, pool.submit(in_turn, work))
            with AT_WORK.waiting():
                pool.shutdown()
        except BaseException:
            abandoned.set()
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


def _inside() -> bool:
    return getattr(_here, "inside", False)


def _enter() -> None:
    _here.inside = True


@contextmanager
def _entered() -> Iterator[None]:
    """Within it this thread is in a map, BLAS works on one thread, and other maps know of it."""
    if _inside():  # of one that limits BLAS until it ends
        yield
        return
    with one_blas_thread(), AT_WORK.working():
        _here.inside = True
        try:
            yield
        finally:
            _here.inside = False


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()  # looks through all loaded libraries, which takes milliseconds
