import threading
import warnings

import pytest
from threadpoolctl import threadpool_info

from pymc_kbr.arrays import threads
from pymc_kbr.arrays.threads import Silence, at_once, beside, one_blas_thread, side_by_side


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_results_come_in_the_order_of_the_items():
    with side_by_side(50) as each:
        assert each(lambda i: i**2, range(50)) == [i**2 for i in range(50)]


def test_one_item_is_done_where_it_is_called():
    with side_by_side(1) as each:
        assert each(lambda _: threading.current_thread(), [0]) == [threading.current_thread()]


def test_a_map_within_another_starts_no_threads():
    def work(_):
        with side_by_side(8) as each:
            return set(each(lambda _: threading.current_thread(), range(8))) == {threading.current_thread()}

    with side_by_side(4) as each:
        assert all(each(work, range(4)))


def test_what_is_begun_goes_on_beside_what_follows(monkeypatch):
    monkeypatch.setattr(threads, "cores", lambda: 2)
    followed = threading.Event()

    def work():
        assert followed.wait(30)  # here it would never be set
        with side_by_side(8) as each:  # and no further threads are started within
            own = set(each(lambda _: threading.current_thread(), range(8)))
        return own == {threading.current_thread()}, blas_threads()

    with beside() as begin:
        result = begin(work)
        followed.set()
        assert result() == (True, {1})


@pytest.mark.parametrize("within", [False, True])
def test_on_one_core_or_within_a_map_it_is_done_where_it_is_called(monkeypatch, within):
    monkeypatch.setattr(threads, "cores", lambda: 2 if within else 1)

    def begun(_):
        with beside() as begin:
            return begin(threading.current_thread)() == threading.current_thread()

    with side_by_side(2) as each:
        assert all(each(begun, range(2)) if within else [begun(0)])


@pytest.mark.parametrize("cores", [1, 2])
def test_an_error_is_raised_where_the_result_is_asked_for(monkeypatch, cores):
    monkeypatch.setattr(threads, "cores", lambda: cores)
    with beside() as begin:
        result = begin(lambda: 1 // 0)
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                result()
    with pytest.raises(ZeroDivisionError):
        at_once(lambda: 1 // 0)()


def test_what_has_not_begun_is_left_where_what_follows_is_interrupted(monkeypatch):
    monkeypatch.setattr(threads, "cores", lambda: 2)
    both, go_on, done = threading.Barrier(3), threading.Event(), []

    def work():
        both.wait(30)
        assert go_on.wait(30)

    def interrupted():
        with beside() as begin:
            running = [begin(work) for _ in range(2)]
            begin(lambda: done.append("begun"))
            both.wait(30)  # both threads are busy: the third waits
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
