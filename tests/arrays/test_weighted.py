"""Summaries of weighted values against the same values repeated."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymc_kbr.arrays.weighted import effective_sample_size, weighted_quantile

LEVELS = np.array([0.05, 0.3, 0.5, 0.9])


@given(count=st.integers(1, 40), total=st.floats(1e-3, 1e3))
def test_equal_weights_count_for_what_they_are(count, total):
    assert effective_sample_size(np.full(count, total)) == pytest.approx(count)


def test_the_effective_size_is_the_sum_squared_over_the_sum_of_squares():
    assert effective_sample_size(np.array([3.0, 1.0])) == pytest.approx(16 / 10)
    assert effective_sample_size(np.array([0.0, 5.0])) == 1
    assert effective_sample_size(np.array([1.5, -0.5])) == pytest.approx(1 / 2.5)


def test_quantiles_are_where_half_of_each_weight_has_been_passed():
    """Hazen's rule, for weights: value i stands at its own half of the weight up to it."""
    values, weights = np.array([4.0, 1.0, 2.0]), np.array([0.5, 0.2, 0.3])
    places = [0.1, 0.35, 0.75]
    np.testing.assert_allclose(weighted_quantile(values, weights, np.array(places)), [1.0, 2.0, 4.0])
    between = weighted_quantile(values, weights, np.array([0.225, 0.55]))
    np.testing.assert_allclose(between, [1.5, 3.0])
    np.testing.assert_allclose(weighted_quantile(values, weights, np.array([0.0, 1.0])), [1.0, 4.0])


def test_weights_without_a_sum_of_one_and_any_units_give_the_same_quantiles(rng):
    values, weights = rng.normal(size=30), rng.exponential(size=30)
    expected = weighted_quantile(values, weights, LEVELS)
    np.testing.assert_allclose(weighted_quantile(values, 7 * weights, LEVELS), expected)
    np.testing.assert_allclose(weighted_quantile(values * 1e307, weights, LEVELS), expected * 1e307)
    order = rng.permutation(30)
    np.testing.assert_allclose(weighted_quantile(values[order], weights[order], LEVELS), expected)


def test_values_without_weight_are_as_if_they_were_not_there(rng):
    values, weights = rng.normal(size=20), rng.exponential(size=20)
    weights[::3] = 0
    kept = weights > 0
    np.testing.assert_array_equal(
        weighted_quantile(values, weights, LEVELS), weighted_quantile(values[kept], weights[kept], LEVELS)
    )
