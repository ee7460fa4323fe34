"""Settings that belong to the process, for as long as any thread wants them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Lock


class ProcessWide:
    """A setting that the first thread to enter makes, and the last to leave puts back.

    Parameters
    ----------
    make : callable
        Makes a context manager: within it the setting holds, on every thread.

    Notes
    -----
    If each of two threads put back what it found, the later one could put back what the other had set, for
    good.
    """

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
