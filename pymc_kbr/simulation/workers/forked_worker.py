"""The fork server's own side: it imports what workers need, forks for each, and what a worker does then."""

from __future__ import annotations

import errno
import gc
import os
import signal
import socket
import struct
import sys
import traceback
import warnings
from multiprocessing.connection import Connection

import cloudpickle
import numpy as np

from pymc_kbr.simulation.workers.worker_process import begin

FORK, END = b"fork", b"end_"
REQUEST, ANSWER = struct.Struct("4sq"), struct.Struct("q")
"""What is asked of a fork server, with the number of a process, and the answer: a number, or an exit code.

Where the system refuses a fork the answer is the error's number, negative.
"""


def serve(number: int, caller: int, most_idle: float) -> None:
    """What a fork server does: import, then fork as asked on the socket of a number."""
    import pymc_kbr.simulation.workers.row_simulator  # noqa: F401

    # Python sees the thread of an allocator that frees memory, and which is made to be forked.
    warnings.filterwarnings("ignore", "(?s).*fork", DeprecationWarning)
    gc.freeze()  # what is here already is never collected, hence never copied, in a fork
    workers: set[int] = set()
    asked = socket.socket(fileno=number)
    asked.settimeout(1)
    idle = 0
    while idle < most_idle and os.getppid() == caller:
        try:
            message, sockets, _, _ = socket.recv_fds(asked, REQUEST.size, 1)
        except TimeoutError:
            idle = 0 if workers else idle + 1
            continue
        if not message:
            break
        what, worker = REQUEST.unpack(message)
        if what == FORK:
            server = os.getpid()
            worker = _forked()
            if not worker:
                asked.close()
                _work(Connection(sockets[0]), server)
            os.close(sockets[0])
            if worker > 0:
                workers.add(worker)
            asked.send(ANSWER.pack(worker))
        else:
            asked.send(ANSWER.pack(_end(worker, workers)))
    os._exit(0)  # workers notice


def _forked() -> int:
    """As `os.fork`, or the number of the error, negative."""
    try:
        return os.fork()
    except OSError as error:
        return -(error.errno or errno.EAGAIN)


def _end(worker: int, workers: set[int]) -> int:
    """Kill a worker, which has no effect where it is ending already, and its exit code."""
    workers.remove(worker)
    os.kill(worker, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])


def _work(caller: Connection, server: int) -> None:
    """What a worker does, to its end."""
    try:
        begin(server)
        folder, sys.path[:], environment = caller.recv()
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        # Forks would have one global state, in simulators that use it; Python's `random` sees to that itself.
        np.random.seed()  # noqa: NPY002
        while True:
            outcome = _outcome(caller.recv_bytes())
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            caller.send_bytes(outcome)
    except (EOFError, OSError):  # the caller wants no more
        pass
    finally:
        # At once, as exit handlers that the fork has copied are the server's.
        os._exit(0)


def _outcome(message: bytes) -> bytes:
    """Result and error of a task, pickled."""
    try:
        task, arguments, keywords = cloudpickle.loads(message)
        return cloudpickle.dumps((task(*arguments, **keywords), None))
    except Exception as error:
        # Tracebacks cannot be pickled: the caller sees its text.
        error.add_note("".join(traceback.format_exception(error)))
        try:
            return cloudpickle.dumps((None, error))
        except Exception:
            return cloudpickle.dumps((None, RuntimeError("".join(traceback.format_exception(error)))))
