import threading

from threadpoolctl import threadpool_info

from pymc_kbr.arrays.threads import one_blas_thread, side_by_side


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
