"""Forked workers: what they have of the caller, what their end costs, and when they end."""

import errno
import os
import random
import signal
import threading
import time
from concurrent.futures import BrokenExecutor
from contextlib import suppress

import numpy as np
import psutil
import pytest

from pymc_kbr.simulation.workers import fork_server
from pymc_kbr.simulation.workers import fork_server as forked_worker
from pymc_kbr.simulation.workers.executors import ForkedPool
from pymc_kbr.simulation.workers.fork_server import ForkRefused, ForkServer, WorkerDied
from pymc_kbr.simulation.workers.row_simulator import TimeUp, time_limit

pytestmark = pytest.mark.skipif(not fork_server.CAN_FORK, reason="processes are not forked on this system")


@pytest.fixture
def pool():
    made = ForkedPool(2)
    yield made
    made.shutdown(kill_workers=True)


def who_and_a_random_number():
    time.sleep(0.05)
    both = np.random.random(), random.random()  # noqa: NPY002  (the global state is what this is about)
    return os.getpid(), *map(float, both)


def test_workers_are_several_and_their_global_random_numbers_are_their_own(pool):
    said = [future.result() for future in [pool.submit(who_and_a_random_number) for _ in range(8)]]
    workers, *numbers = zip(*said, strict=True)
    assert len(set(workers)) == 2
    assert os.getpid() not in workers
    assert len({*numbers[0], *numbers[1]}) == 16


def test_a_worker_has_folder_path_and_environment_of_the_caller(pool, tmp_path, monkeypatch):
    (tmp_path / "here_only.py").write_text("value = 7\n")
    pool.submit(int).result()  # from now on the fork server is there
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("FOR_WORKERS", "yes")

    def look():
        import here_only

        return here_only.value, os.getcwd(), os.environ["FOR_WORKERS"], os.environ["OMP_NUM_THREADS"]

    later = ForkedPool(1)
    try:
        assert later.submit(look).result() == (7, str(tmp_path), "yes", "1")
    finally:
        later.shutdown()


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (lambda: os._exit(3), r"\{EXIT\(3\)\}"),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), r"\{SIGSEGV\(-11\)\}"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), r"\{SIGKILL\(-9\)\}"),
    ],
)
def test_the_end_of_a_worker_costs_its_task_and_no_other(pool, end, said):
    others = [pool.submit(time.sleep, 0.1) for _ in range(3)]
    dies = pool.submit(end)
    later = [pool.submit(os.getpid) for _ in range(4)]
    with pytest.raises(WorkerDied, match=said):
        dies.result(timeout=60)
    assert all(other.result(timeout=60) is None for other in others)
    assert len({future.result(timeout=60) for future in later}) <= 2


def test_what_a_task_raises_is_raised_with_its_traceback(pool):
    def fails():
        raise ArithmeticError("here")

    with pytest.raises(ArithmeticError, match="here") as raised:
        pool.submit(fails).result()
    assert "in fails" in "".join(raised.value.__notes__)
    with pytest.raises(TypeError, match="pickle"):
        pool.submit(threading.Lock).result()
    assert pool.submit(int).result() == 0


def test_ending_the_pool_ends_what_hangs(pool):
    hangs = [pool.submit(time.sleep, 600) for _ in range(3)]
    worker = forked()
    started = time.monotonic()
    pool.shutdown(kill_workers=True)
    assert time.monotonic() - started < 60
    assert not worker.is_running()
    assert isinstance(hangs[0].exception(timeout=0), WorkerDied)
    assert hangs[2].cancelled()
    with pytest.raises(RuntimeError):
        pool.submit(int)


def forked():
    """A process that this one has not started itself, when there is one."""
    while True:
        for child in psutil.Process().children(recursive=True):
            if child.ppid() != os.getpid():
                return child
        time.sleep(0.05)


def test_another_fork_server_follows_one_that_was_killed():
    first = ForkedPool(1)
    killed = first.submit(os.getppid).result()
    os.kill(killed, signal.SIGKILL)
    with pytest.raises(WorkerDied, match="no exit code known"):
        first.submit(time.sleep, 600).result(timeout=60)  # the worker notices
    first.shutdown(kill_workers=True)
    second = ForkedPool(1)
    try:
        assert second.submit(os.getppid).result() not in (killed, os.getpid())
    finally:
        second.shutdown()


def test_where_none_can_be_forked_the_pool_says_so(pool, monkeypatch):
    def none():
        raise OSError("no more processes")

    monkeypatch.setattr("pymc_kbr.simulation.workers.executors.fork_worker", none)
    with pytest.raises(BrokenExecutor, match="no worker can be forked: no more processes"):
        pool.submit(int).result()


def test_a_fork_that_the_system_refuses_is_asked_for_again_and_blames_no_simulation(
    pool, monkeypatch, set_default
):
    def refused():
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fork", refused)
        assert forked_worker._forked() == -errno.EAGAIN
    set_default(ForkServer.fork, patience=(0.0, 0.0))
    answers = [-errno.EAGAIN, -errno.EAGAIN]
    ask = ForkServer.ask

    def busy(self, what, number, *sockets):
        if what == forked_worker.FORK and answers:
            return answers.pop()
        return ask(self, what, number, *sockets)

    monkeypatch.setattr(ForkServer, "ask", busy)
    assert pool.submit(abs, -1).result() == 1  # the third time
    other = ForkedPool(1)
    answers.extend([-errno.ENOMEM] * 3)
    with pytest.raises(ForkRefused, match=r"refuses another worker process .*; give fewer cores"):
        other.submit(abs, -2).result()
    assert pool.submit(abs, -3).result() == 3  # those that are there go on
    other.shutdown()


@pytest.mark.parametrize("body", [lambda: None, lambda: time.sleep(5), lambda: [][0]])
def test_a_time_limit_leaves_no_alarm_behind(body):
    before = signal.getsignal(signal.SIGALRM)
    with suppress(TimeUp, IndexError), time_limit(0.05):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
        body()
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is before
    with time_limit(None):
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
