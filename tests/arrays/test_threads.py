import gc
import io
import os
import subprocess
import sys
import textwrap
import threading
import time
import warnings
import weakref
from functools import partial

import pytest
from joblib.externals.loky.backend import context
from threadpoolctl import threadpool_info, threadpool_limits

from pymc_kbr.arrays import threads
from pymc_kbr.arrays import threads as machine
from pymc_kbr.arrays.threads import AT_WORK, one_blas_thread, parallel_map, silence


@pytest.fixture
def of_cores(monkeypatch):
    """As if the machine had so many."""

    def has(count):
        for module in (machine, threads):
            monkeypatch.setattr(module, "cores", lambda: count)

    return has


def until(holds):
    """Wait until something holds, five seconds at most."""
    ends = time.monotonic() + 5
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.001)


def held(context, inside, leave):
    """Stay in a context until it is to be left."""
    with context:
        inside.set()
        leave.wait(5)


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_results_come_in_the_order_of_the_items():
    with parallel_map(50) as each:
        assert each(lambda i: i**2, range(50)) == [i**2 for i in range(50)]


def test_one_item_is_done_where_it_is_called():
    with parallel_map(1) as each:
        assert each(lambda _: threading.current_thread(), [0]) == [threading.current_thread()]


def test_never_more_threads_work_than_there_are_cores(of_cores):
    of_cores(3)
    lock, now, most = threading.Lock(), [0], [0]

    def work(_):
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.002)
        with lock:
            now[0] -= 1

    def several(_):
        with parallel_map(6) as each:
            each(work, range(6))

    with parallel_map(4) as each:
        each(several, range(4))
    assert most[0] == 3
    assert len(AT_WORK) == 0


@pytest.mark.parametrize("time", range(3))
def test_a_map_within_another_takes_the_cores_that_this_leaves_free(of_cores, time):
    of_cores(2)
    both, open_simulation = threading.Barrier(2), threading.Event()

    def inner(i):
        if i == 0:
            open_simulation.set()
            until(AT_WORK.free)  # and from here on two items are done at a time
            return 0
        return both.wait(5)

    def outer(i):  # either of the two threads may have it
        if i == 0:
            return open_simulation.wait(5)
        with parallel_map(3) as each:
            return each(inner, range(3))

    with parallel_map(2) as each:
        found = each(outer, range(2))
    assert found[0]
    assert sorted(found[1]) == [0, 0, 1]


def test_after_an_error_nothing_more_is_begun(of_cores):
    of_cores(2)
    open_simulation = []

    def work(i):
        open_simulation.append(i)
        if i == 0:
            return 1 // 0
        time.sleep(0.02)

    with parallel_map(2) as each, pytest.raises(ZeroDivisionError):
        each(work, range(50))
    assert len(open_simulation) < 10


@pytest.mark.parametrize("kind", [ValueError, SystemExit])
def test_an_error_on_any_thread_is_the_callers_and_its_arrays_are_let_go(of_cores, kind):
    of_cores(2)
    both = threading.Barrier(2)

    class Large:
        pass

    large = Large()
    seen = weakref.ref(large)

    def work(i, held):
        both.wait(5)
        if i == 1:
            raise kind("second")

    gc.disable()
    try:
        with parallel_map(2) as each, pytest.raises(kind, match="second"):
            each(partial(work, held=large), range(2))
        del large
        assert seen() is None
    finally:
        gc.enable()


def test_of_several_errors_the_first_items_is_raised(of_cores):
    of_cores(2)
    both = threading.Barrier(2)

    def fails(i):
        both.wait(30)
        raise ValueError(i)

    for _ in range(5):
        with parallel_map(2) as each, pytest.raises(ValueError, match="0"):
            each(fails, range(2))
    assert len(AT_WORK) == 0


def test_an_interrupted_map_waits_for_what_goes_on_and_begins_nothing_more(of_cores):
    """Whenever an interrupt comes, nothing hangs, and nothing is left that counts or is limited."""
    of_cores(2)
    code = """
        import signal, time
        import numpy as np
        from threadpoolctl import threadpool_info
        from pymc_kbr.arrays import threads
        threads.cores = lambda: 2
        a, begun = np.ones((60, 60)), []

        def work(i):
            begun.append(i)
            time.sleep(0.0002)
            return a.T @ a

        def limits():
            return [one["num_threads"] for one in threadpool_info()]

        before, interrupted = limits(), 0
        for seed in range(40):
            begun.clear()
            try:
                with threads.parallel_map(4) as each:
                    signal.setitimer(signal.ITIMER_REAL, 0.001 + 0.004 * np.random.default_rng(seed).random())
                    each(work, range(20_000))
            except KeyboardInterrupt:
                interrupted += 1
                assert len(begun) < 20_000
        assert interrupted > 25  # one that falls on a destructor is lost
        with threads.parallel_map(2) as each:
            assert each(lambda i: i, [1, 2]) == [1, 2]
        assert not len(threads.AT_WORK)
        assert limits() == before
        print("went on")
    """
    handler = "import signal; signal.signal(signal.SIGALRM, signal.default_int_handler)\n"
    run = [sys.executable, "-c", handler + textwrap.dedent(code)]
    assert "went on" in subprocess.run(run, capture_output=True, text=True, timeout=120, check=True).stdout


def test_users_at_the_same_time_leave_blas_as_it_was():
    inside, leave = threading.Event(), threading.Event()

    with threadpool_limits(2, "blas"):
        other = threading.Thread(target=held, args=(one_blas_thread(), inside, leave))
        with one_blas_thread():
            other.start()
            inside.wait(5)
        assert blas_threads() == {1}  # the first has left
        leave.set()
        other.join()
        assert blas_threads() == {2}


@pytest.mark.parametrize(
    ("asked", "cores"), [("1", 1), ("0", 1), ("1,4", 1), ("\u00b2", None), ("", None), ("99", None)]
)
def test_no_more_cores_are_used_than_are_asked_for(monkeypatch, asked, cores):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    all_of_them = machine.cores()
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert machine.cores() == (cores or all_of_them)


V2, V1 = "/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu/cpu.cfs_{}_us"


@pytest.mark.parametrize(
    ("files", "count"),
    [
        ({V2: "150000 100000"}, 2),  # half a core more is rounded up
        ({V2: "max 100000"}, 64),
        ({V1.format("quota"): "300000", V1.format("period"): "100000"}, 3),
        ({}, 64),
    ],
)
def test_the_quota_of_a_container_bounds_the_cores(monkeypatch, files, count):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("LOKY_MAX_CPU_COUNT", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    monkeypatch.setattr(os.path, "exists", lambda path: path in files)
    monkeypatch.setattr(context, "open", lambda path: io.StringIO(files[path]), raising=False)
    machine._given.cache_clear()
    try:
        assert machine.cores() == count
        monkeypatch.setenv("OMP_NUM_THREADS", "48")
        assert machine.cores() == min(count, 48)
        monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
        assert machine.cores() == 1
    finally:
        machine._given.cache_clear()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_does_not_count_its_parents_threads(of_cores):
    of_cores(2)
    other = threading.Thread(
        target=held, args=(AT_WORK.working(), inside := threading.Event(), leave := threading.Event())
    )
    other.start()
    inside.wait(5)
    with AT_WORK.working():
        child = os.fork()
        if child == 0:
            os._exit(not AT_WORK.free())
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert not AT_WORK.free()
    leave.set()
    other.join()
    assert len(AT_WORK) == 0


@pytest.mark.parametrize("items", [1, 4])
def test_blas_is_limited_within_and_only_there(items):
    with threadpool_limits(2, "blas"):
        with one_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {2}
        with parallel_map(items) as each:
            assert each(lambda _: blas_threads(), range(items)) == [{1}] * items
        assert blas_threads() == {2}


def test_threads_that_silence_warnings_leave_the_filters_as_they_were():
    silent, entered, leaves = silence(RuntimeWarning), threading.Event(), threading.Event()

    def work():
        with silent:
            entered.set()
            leaves.wait()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = list(warnings.filters)
        other = threading.Thread(target=work)
        with silent:
            other.start()
            entered.wait()
        # The first to enter has left, and the other one is still inside.
        warnings.warn("not given", RuntimeWarning, stacklevel=1)
        leaves.set()
        other.join()
        assert warnings.filters == before
        with pytest.raises(RuntimeWarning, match="given"):
            warnings.warn("given", RuntimeWarning, stacklevel=1)


def test_what_is_silent_gives_other_warnings_and_passes_errors_on():
    silent = silence(RuntimeWarning)

    def fails():
        with silent:
            warnings.warn("another", UserWarning, stacklevel=1)
            raise KeyError

    with pytest.warns(UserWarning, match="another"), pytest.raises(KeyError):
        fails()
    with pytest.warns(RuntimeWarning, match="given"):
        warnings.warn("given", RuntimeWarning, stacklevel=1)
