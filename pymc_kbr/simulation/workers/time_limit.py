"""Ending a simulation that takes too long."""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class TimeUp(BaseException):
    """The time of a simulation is over; no error that a simulator would catch."""


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise `TimeUp` where a body takes more than `seconds`; no limit where this is None.

    A body that does not return to Python, as a loop in C, cannot be interrupted: in a worker process
    (see `end_process_when_stuck`) it is ended together with its process after twice the time and a second.
    """
    if seconds is None:
        yield
        return

    def expire(*_: Any) -> None:
        raise TimeUp

    before = signal.signal(signal.SIGALRM, expire)
    if _stuck is not None:
        faulthandler.dump_traceback_later(2 * seconds + 1, exit=True, file=_stuck)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if _stuck is not None:
            faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


_stuck: Any = None
"""Where the traceback of a process that is ended goes, in a worker."""


def end_process_when_stuck() -> None:
    """Let time limits end this process where nothing else helps."""
    global _stuck
    if _stuck is None:
        _stuck = open(os.devnull, "w")  # noqa: SIM115  (open as long as the process lives)


def can_be_interrupted() -> bool:
    """Whether a time limit works where this is called: in the main thread, where the system has alarms."""
    return hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
