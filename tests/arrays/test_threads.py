import threading
import warnings

import pytest
from threadpoolctl import threadpool_info

from pymc_kbr.arrays.threads import Silence, one_blas_thread, side_by_side


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
