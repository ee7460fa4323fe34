"""Rows of another density, of which the first few stand for the prior."""

import numpy as np
import pytest
from scipy.optimize import brentq

from pymc_kbr.arrays.weighted import effective_sample_size, weighted_order
from pymc_kbr.selection.selection import InclusionWeights

RATIO = np.r_[np.full(80, 2.4), np.full(320, 0.02)]
"""Of a table of which most rows were simulated near an observation."""


def ordered(seed, ratio=RATIO):
    return weighted_order(ratio, np.random.default_rng(seed))


def test_each_row_comes_first_as_often_as_its_ratio_says():
    ratio = np.array([4.0, 2.0, 1.0, 1.0])
    first = np.array([ordered(seed, ratio)[0] for seed in range(2000)])
    shares = np.bincount(first, minlength=4) / 2000
    np.testing.assert_allclose(shares, ratio / 8, atol=4 * np.sqrt(0.25 / 2000))
    assert sorted(ordered(1)) == list(range(400))
    assert list(ordered(1)) == list(ordered(1)) != list(ordered(2))


def test_few_rows_have_nearly_equal_weights_and_all_rows_their_ratios():
    in_order = RATIO[ordered(3)]
    weights = InclusionWeights(in_order)
    assert len(weights) == 400
    assert effective_sample_size(weights[:20]) > 18
    assert effective_sample_size(np.random.default_rng(3).permutation(RATIO)[:20]) < 8
    np.testing.assert_allclose(weights[:400], in_order / in_order.mean())
    assert weights[:20].mean() == pytest.approx(1.0)
    one = InclusionWeights(np.ones(50))
    np.testing.assert_allclose(one[:7], 1.0)


def test_of_no_rows_there_are_no_weights_in_silence(recwarn):
    assert InclusionWeights(RATIO)[:0].shape == (0,)
    assert not recwarn


@pytest.mark.parametrize("count", [20, 100])
def test_weighted_means_of_the_first_rows_are_those_of_all(count):
    rng = np.random.default_rng(5)
    values, ratio = rng.normal(size=400) + (RATIO > 1), RATIO * np.exp(0.5 * rng.normal(size=400))
    exact, found = np.average(values, weights=ratio), []
    for seed in range(300):
        order = ordered(seed, ratio)
        found.append(np.average(values[order[:count]], weights=InclusionWeights(ratio[order])[:count]))
    # Beside chance a ratio of sums is off by about one part in the number of rows.
    assert abs(np.mean(found) - exact) < 4 * np.std(found) / np.sqrt(300) + 1 / count
    assert np.std(found) < 1.5 / np.sqrt(count)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("count", [20, 399, 400])
def test_ratios_near_the_smallest_float_keep_their_order_and_have_weights(count):
    """Of rows far from known data; some of their times are beyond all floats."""
    ratio = np.exp(np.linspace(0, -740, 400))
    order = ordered(1, ratio)
    assert np.corrcoef(order, np.arange(400))[0, 1] > 0.99
    weights = InclusionWeights(ratio[order])[:count]
    assert np.isfinite(weights).all()
    assert weights.mean() == pytest.approx(1.0)
    largest = np.exp(-740 / 399 * np.arange(4))
    np.testing.assert_allclose(np.sort(weights)[::-1][:4] / weights.max(), largest, rtol=1e-6)


@pytest.mark.parametrize("count", [1, 20, 399])
def test_weights_are_the_ratio_over_the_probability_of_being_among_the_first(count):
    ratio = np.random.default_rng(1).gamma(0.3, size=400)
    weights = InclusionWeights(ratio)[:count]
    time = np.exp(brentq(lambda t: np.sum(-np.expm1(-np.exp(t) * ratio)) - count, -20, 40))
    expected = ratio[:count] / -np.expm1(-time * ratio[:count])
    np.testing.assert_allclose(weights, expected / expected.mean(), rtol=1e-6)
