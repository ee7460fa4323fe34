import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymc_kbr.arrays.weighted import spread_out, spread_out_by_weight, spread_out_varied


@given(n=st.integers(1, 400), most=st.integers(1, 50))
def test_rows_are_spread_evenly_from_first_to_last(n, most):
    rows = spread_out(n, most)
    assert len(rows) == min(n, most)
    assert rows[0] == 0
    if len(rows) > 1:
        assert rows[-1] == n - 1
        assert np.ptp(np.diff(rows)) <= 1


@given(n=st.integers(1, 300), most=st.integers(2, 50), rare=st.sets(st.integers(0, 299), max_size=60))
def test_rows_that_differ_are_among_those_taken(n, most, rare):
    points = np.zeros((n, 2))
    points[sorted(i for i in rare if i < n), 1] = 1 + np.arange(sum(i < n for i in rare))
    rows = spread_out_varied(points, most)
    assert len(rows) == len(set(rows.tolist())) <= min(n, most)
    assert (np.ptp(points[rows]) > 0) == (np.ptp(points) > 0)
    even = spread_out(n, most)
    if np.ptp(points[even]) > 0 or np.ptp(points) == 0:
        np.testing.assert_array_equal(rows, even)


def test_all_that_differ_are_taken_where_half_of_the_rows_holds_them():
    points = np.zeros((1000, 1))
    rare = np.arange(17, 1000, 90)
    points[rare, 0] = 1 + np.arange(len(rare))
    assert not np.isin(rare, spread_out(1000, 40)).any()
    assert np.isin(rare, spread_out_varied(points, 40)).all()
    # Of more than half, as many as half, and not the first ones alone.
    some = points[spread_out_varied(points, 10), 0]
    assert len(np.unique(some)) == 5
    assert some.max() == len(rare)


def test_few_rows_are_all_taken_with_their_weights(rng):
    weights = rng.exponential(size=10)
    rows, taken = spread_out_by_weight(weights, 10)
    assert rows.tolist() == list(range(10))
    np.testing.assert_array_equal(taken, weights)


def test_equal_weights_are_spread_evenly():
    rows, taken = spread_out_by_weight(np.full(101, 3.0), 11)
    assert rows.tolist() == list(range(0, 101, 10))
    np.testing.assert_array_equal(taken, 1.0)


@pytest.mark.parametrize("total", [1.0, 40.0])
def test_rows_are_taken_about_as_often_as_their_weight_says(rng, total):
    weights = rng.exponential(size=300)
    weights[:20] = 0
    weights *= total / weights.sum()
    rows, taken = spread_out_by_weight(weights, 50)
    assert taken.sum() == 50
    assert rows.min() >= 20
    counts = np.zeros(300)
    counts[rows] = taken
    # Systematic: up to every row, what was taken is within one half of what is expected.
    off = np.cumsum(counts) - 50 * np.cumsum(weights) / total
    assert np.abs(off).max() <= 0.5 + 1e-9
