"""Settings of the process that a simulator may change, and that are put back after it."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""By which a user, or a cluster, ends a simulation."""


@contextmanager
def undisturbed() -> Iterator[None]:
    """Within it filters of warnings, the working directory and handlers of signals may change.

    Only in the main thread: beside other threads it would take back what these have set for a while.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    filters, folder = list(warnings.filters), _working_directory()
    handlers = [(one, signal.getsignal(one)) for one in SIGNALS]
    try:
        yield
    finally:
        if warnings.filters != filters:
            warnings.filters[:] = filters  # type: ignore[index]
            with warnings.catch_warnings():  # at its end Python forgets what the other filters have decided
                pass
        if folder is not None and folder != _working_directory():
            with suppress(OSError):  # it has been removed
                os.chdir(folder)
        for one, handler in handlers:
            if handler is not None and signal.getsignal(one) is not handler:
                signal.signal(one, handler)


def _working_directory() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None
