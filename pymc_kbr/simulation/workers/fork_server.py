"""A process that has imported what workers need, and forks for each: one begins within milliseconds."""

from __future__ import annotations

import atexit
import errno
import gc
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle
import numpy as np

from pymc_kbr.simulation.workers.row_simulator import end_process_when_stuck

CAN_FORK = sys.platform == "linux"
"""Elsewhere libraries of the system itself do not work on in a fork."""


class WorkerDied(BrokenExecutor):
    """A worker ended in the midst of its work."""


class ForkRefused(RuntimeError):
    """The system allows no other process; no simulation is to blame."""


class Worker:
    """A forked process that runs one task at a time, with what it has compiled kept between them."""

    def __init__(self, server: ForkServer, number: int, connection: Connection) -> None:
        self._server, self._number, self._connection = server, number, connection
        self._lock = threading.Lock()
        self._killed = False
        self._code: int | None = None
        # Its server may have been started in another folder, and before the environment was changed.
        self._connection.send((os.getcwd(), sys.path, {**os.environ, **ONE_THREAD}))

    def call(self, task: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        """What a task returns there."""
        message = cloudpickle.dumps((task, arguments, keywords))
        try:
            self._connection.send_bytes(message)
            answer = self._connection.recv_bytes()
        except (EOFError, OSError):
            code = self.kill()
            name = "no exit code known" if code is None else _name(code)
            raise WorkerDied(f"a worker process ended: {{{name}}}") from None
        result, error = pickle.loads(answer)
        if error is not None:
            raise error
        return result

    def kill(self) -> int | None:
        """End the process, whatever it does; its exit code, that of a signal negative, if it is known."""
        with self._lock:
            if not self._killed:
                self._killed = True
                with suppress(OSError):  # without its server, the worker ends by itself
                    self._code = self._server.ask(END, self._number)
        return self._code

    def end(self) -> None:
        """End the process, with no call under way."""
        self.kill()
        self._connection.close()


def _name(code: int) -> str:
    return f"{signal.Signals(-code).name}({code})" if code < 0 else f"EXIT({code})"


class ForkServer:
    """The process that forks, as its caller sees it; it ends with the caller."""

    def __init__(
        self,
        # Seconds that a fork server lives without a worker.
        idle: float = 300.0,
    ) -> None:
        self.caller = os.getpid()
        self._lock = threading.Lock()
        # By packets, each of which is one request or one answer.
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            number = theirs.fileno()
            path = [str(folder) for folder in sys.path]
            code = (
                f"import sys; sys.path[:] = {path!r}; from {serve.__module__} import serve; "
                f"serve({number}, {self.caller}, {idle})"
            )
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                pass_fds=(number,),
                stdin=subprocess.DEVNULL,
                env={**os.environ, **ONE_THREAD},
                start_new_session=True,  # interrupts at the terminal are the caller's
            )
        atexit.register(self.end)

    def fork(
        self,
        *,
        # Seconds after which a fork that the system has refused is asked for again.
        patience: tuple[float, ...] = (0.1, 0.5, 2.0, 5.0),
    ) -> Worker:
        """A new worker."""
        ours, theirs = socket.socketpair()
        with theirs:
            number = self.ask(FORK, 0, theirs.fileno())
            for seconds in patience:
                if number > 0:
                    break
                time.sleep(seconds)
                number = self.ask(FORK, 0, theirs.fileno())
        if number < 0:
            ours.close()
            raise ForkRefused(
                f"the system refuses another worker process ({os.strerror(-number)}); give fewer cores, end "
                "other processes, or raise the limits of processes and memory"
            )
        return Worker(self, number, Connection(ours.detach()))

    def ask(self, what: bytes, number: int, *sockets: int) -> int:
        """Send a request and wait for its answer."""
        with self._lock:
            try:
                socket.send_fds(self._socket, [REQUEST.pack(what, number)], list(sockets))
                answer = self._socket.recv(ANSWER.size)
            except BaseException:  # an interrupt, too, would leave an answer to be taken for the next one
                self._socket.close()
                raise
        if not answer:
            raise ConnectionError("the process that forks workers has ended")
        return int(ANSWER.unpack(answer)[0])

    def end(self) -> None:
        """End the process; in a fork of the caller, only release what this object has."""
        self._socket.close()
        if os.getpid() == self.caller:
            self._process.kill()
            self._process.wait()
        atexit.unregister(self.end)


_current: ForkServer | None = None
_starting = threading.Lock()


def fork_worker() -> Worker:
    """A worker of the one fork server, which is started where there is none."""
    global _current
    with _starting:
        if _current is not None and _current.caller == os.getpid():
            try:
                return _current.fork()
            except OSError:  # idle for long, or killed
                pass
        if _current is not None:
            _current.end()
        _current = ForkServer()
        return _current.fork()


def end_fork_server() -> None:
    """End the one fork server, where there is one; workers that it has forked end within a second."""
    global _current
    with _starting:
        if _current is not None:
            _current.end()
        _current = None


# --- the fork server's own side ---


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


# --- the start of every worker ---


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
