"""BLAS on one thread, for as long as anyone wants it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache

from threadpoolctl import OpenBLASController, ThreadpoolController

from pymc_kbr.arrays.process_wide import ProcessWide


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
