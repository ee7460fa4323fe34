"""What every worker process does before it works."""

from __future__ import annotations

import os
import signal
import threading
import time

from pymc_kbr.simulation.workers.time_limit import end_process_when_stuck

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def begin(parent: int) -> None:
    """Leave interrupts to the caller, let time limits end this process, and end it with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_process_when_stuck()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this process when its parent has been killed, also before it began: it would wait for ever."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
