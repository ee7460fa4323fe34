"""BLAS on one thread, for as long as anyone wants it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from threading import Lock

from threadpoolctl import OpenBLASController, ThreadpoolController


class OneBlasThread:
    """Within it, on every thread, BLAS works on one thread.

    Notes
    -----
    The setting belongs to the process: the first to enter keeps it and the last to leave puts it back.
    """

    def __init__(self) -> None:
        self._lock, self._inside = Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._kept = _blas().limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                # Later versions of threadpoolctl let the thread alone change OpenBLAS that did so before.
                release = getattr(OpenBLASController, "clear_controlling_thread", lambda **_: None)
                release(force=True)
                self._kept.restore_original_limits()
                release(force=True)


_ONE = OneBlasThread()


def one_blas_thread() -> AbstractContextManager[object]:
    """Within it BLAS works on one thread."""
    return _ONE


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()  # looks through all loaded libraries, which takes milliseconds
