import os
import threading
import time
import warnings

import pytest
from threadpoolctl import threadpool_info

from pymc_kbr.arrays import cores as machine
from pymc_kbr.arrays import threads
from pymc_kbr.arrays.cores import AT_WORK
from pymc_kbr.arrays.threads import Silence, at_once, beside, one_blas_thread, side_by_side


@pytest.fixture
def of_cores(monkeypatch):
    """As if the machine had so many."""

    def has(count):
        for module in (machine, threads):
            monkeypatch.setattr(module, "cores", lambda: count)

    return has


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_results_come_in_the_order_of_the_items():
    with side_by_side(50) as each:
        assert each(lambda i: i**2, range(50)) == [i**2 for i in range(50)]


def test_one_item_is_done_where_it_is_called():
    with side_by_side(1) as each:
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
        with side_by_side(6) as each:
            each(work, range(6))

    with side_by_side(4) as each:
        each(several, range(4))
    assert most[0] == 3
    assert not AT_WORK._count


def test_a_map_within_another_takes_the_cores_that_this_leaves_free(of_cores):
    of_cores(2)
    both = threading.Barrier(2)

    def late(i):
        if i == 0:
            return 0
        with side_by_side(2) as each:  # once the first item is done, two work here at a time
            while not AT_WORK.free():
                time.sleep(0.001)
            return sum(each(lambda _: both.wait(30) >= 0, range(2)))

    with side_by_side(2) as each:
        assert each(late, range(2)) == [0, 2]


def test_of_several_errors_the_first_items_is_raised(of_cores):
    of_cores(2)
    both = threading.Barrier(2)

    def fails(i):
        both.wait(30)
        raise ValueError(i)

    for _ in range(20):
        with side_by_side(2) as each, pytest.raises(ValueError, match="0"):
            each(fails, range(2))
    assert not AT_WORK._count


def test_an_interrupted_map_waits_for_what_goes_on_and_begins_nothing_more(of_cores):
    of_cores(2)
    both, done = threading.Barrier(2), []

    def work(i):
        if i < 2:
            both.wait(30)
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        time.sleep(0.05)
        done.append(i)

    with side_by_side(9) as each, pytest.raises(KeyboardInterrupt):
        each(work, range(9))
    assert len(done) == 1
    assert not AT_WORK._count


def test_what_is_begun_goes_on_beside_what_follows(of_cores):
    of_cores(2)
    followed = threading.Event()

    def work():
        assert followed.wait(30)  # here it would never be set
        with side_by_side(8) as each:
            return each(lambda i: i, range(8)), blas_threads()

    with beside() as begin:
        result = begin(work)
        followed.set()
        assert result() == ([*range(8)], {1})
    assert not AT_WORK._count


def test_what_is_begun_waits_for_a_core(of_cores):
    of_cores(2)
    go_on, done = threading.Event(), []
    with beside() as begin:
        first = begin(lambda: go_on.wait(30))
        second = begin(lambda: done.append("second"))
        time.sleep(0.05)
        assert done == []  # this thread and the first are at work
        go_on.set()
        assert first()
        second()
        assert done == ["second"]


@pytest.mark.parametrize(
    ("asked", "cores"), [("1", 1), ("0", 1), ("1,4", 1), ("some", None), ("", None), ("99", None)]
)
def test_no_more_cores_are_used_than_are_asked_for(monkeypatch, asked, cores):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    all_of_them = machine.cores()
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert machine.cores() == (cores or all_of_them)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_does_not_count_its_parents_threads(of_cores):
    of_cores(2)
    with AT_WORK.working(), AT_WORK.working():
        child = os.fork()
        if child == 0:
            os._exit(not AT_WORK.free())
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert not AT_WORK.free()


@pytest.mark.parametrize("within", [False, True])
def test_on_one_core_or_within_a_map_it_is_done_where_it_is_called(of_cores, within):
    of_cores(2 if within else 1)

    def begun(_):
        with beside() as begin:
            return begin(threading.current_thread)() == threading.current_thread()

    with side_by_side(2) as each:
        assert all(each(begun, range(2)) if within else [begun(0)])


@pytest.mark.parametrize("cores", [1, 2])
def test_an_error_is_raised_where_the_result_is_asked_for(of_cores, cores):
    of_cores(cores)
    with beside() as begin:
        result = begin(lambda: 1 // 0)
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                result()
    with pytest.raises(ZeroDivisionError):
        at_once(lambda: 1 // 0)()


def test_what_has_not_begun_is_left_where_what_follows_is_interrupted(monkeypatch, of_cores):
    of_cores(3)
    both, go_on, done = threading.Barrier(3), threading.Event(), []

    def work():
        both.wait(30)
        assert go_on.wait(30)

    def interrupted():
        with beside() as begin:
            running = [begin(work) for _ in range(2)]
            for _ in range(2):
                begin(lambda: done.append("begun"))
            both.wait(30)  # with this one three threads are busy: the others wait
            monkeypatch.setattr(threads.ThreadPoolExecutor, "shutdown", let_go)
            assert len(running) == 2
            raise KeyboardInterrupt

    shutdown = threads.ThreadPoolExecutor.shutdown

    def let_go(pool, *args, **named):
        shutdown(pool, wait=False, cancel_futures=named.get("cancel_futures", False))
        go_on.set()
        shutdown(pool, *args, **named)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == []


def test_blas_is_limited_within_and_only_there():
    before = blas_threads()
    with one_blas_thread():
        assert blas_threads() == {1}
    assert blas_threads() == before
    with side_by_side(4) as each:
        assert each(lambda _: blas_threads(), range(4)) == [{1}] * 4


def test_threads_that_silence_warnings_leave_the_filters_as_they_were():
    silence, entered, leaves = Silence(RuntimeWarning), threading.Event(), threading.Event()

    def work():
        with silence:
            entered.set()
            leaves.wait()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = list(warnings.filters)
        other = threading.Thread(target=work)
        with silence:
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
    silence = Silence(RuntimeWarning)

    def fails():
        with silence:
            warnings.warn("another", UserWarning, stacklevel=1)
            raise KeyError

    with pytest.warns(UserWarning, match="another"), pytest.raises(KeyError):
        fails()
    with pytest.warns(RuntimeWarning, match="given"):
        warnings.warn("given", RuntimeWarning, stacklevel=1)
