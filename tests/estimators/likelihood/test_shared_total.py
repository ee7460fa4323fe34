"""Counts that share a total: found in the table, and right by construction."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

import pymc_kbr as pk
from pymc_kbr.arrays.support import Support
from pymc_kbr.estimators.likelihood.shared_total import shared_totals

N, TOTAL = 1500, 6
RNG = np.random.default_rng(3)
THETA = RNG.normal(size=(N, 1))
SHARES = np.exp(THETA * [-0.5, 0.0, 0.7])
SHARES /= SHARES.sum(axis=1, keepdims=True)
COUNTS = RNG.multinomial(TOTAL, SHARES).astype(float)
AT = np.array([[-1.0], [0.0], [1.3]])
EVERY = np.array([x for x in product(range(TOTAL + 1), repeat=3) if sum(x) == TOTAL], dtype=float)


@pytest.fixture(scope="module")
def learnt():
    return pk.KernelLikelihood().for_scores().fit(THETA, COUNTS, random_seed=1)


def test_totals_are_found_and_nothing_else():
    noise, other = RNG.normal(size=N), RNG.poisson(3.0, N).astype(float)
    two = RNG.multinomial(20, [0.2, 0.3, 0.5], N).astype(float)
    columns = np.column_stack([COUNTS[:, 0], noise, COUNTS[:, 1:], other, two])
    found = sorted(shared_totals(columns))
    assert found == [((0, 2, 3), TOTAL, 1.0), ((5, 6, 7), 20, 1.0)]
    assert shared_totals(np.column_stack([noise, other, two[:, 0]])) == []
    assert shared_totals(np.column_stack([noise, -noise])) == []
    pair = two[:, :1]  # which has a part in one total alone, where it is given twice
    given_twice = shared_totals(np.column_stack([pair, 20 - pair, pair, 20 - pair]))
    columns_found = [column for each in given_twice for column in each.columns]
    assert len(columns_found) == len(set(columns_found)) > 0
    rare = COUNTS.copy()
    rare[-1, 0] += 1  # in one row of all there is another sum
    assert shared_totals(rare) == []


def test_probabilities_sum_to_one_over_what_there_can_be_and_are_near_the_exact_ones(learnt):
    found = np.exp(learnt.log_likelihoods(AT, EVERY))
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-8)
    shares = np.exp(AT * [-0.5, 0.0, 0.7])
    exact = [stats.multinomial(TOTAL, each).pmf(EVERY) for each in shares / shares.sum(axis=1, keepdims=True)]
    # Halves of summed differences, in which a logit that is off by 0.1 makes 0.06 for six units.
    assert np.abs(found - exact).sum(axis=1).max() / 2 < 0.06


def test_another_total_has_no_density_and_is_refused_in_data(learnt):
    assert np.all(learnt.log_likelihoods(AT, np.array([[1.0, 2.0, 2.0], [4.0, 4.0, 0.0]])) == -np.inf)
    with pytest.raises(ValueError, match="sum"):
        learnt.condition(np.array([1.0, 2.0, 2.0]))
    with pytest.raises(ValueError, match="sum"):
        learnt.condition(np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 2.0]]), trials=True)


def test_draws_have_the_total_and_the_shares(learnt):
    drawn = learnt.draw_statistics(np.repeat(AT, 2000, axis=0), 1)
    assert np.all(drawn.sum(axis=1) == TOTAL)
    assert drawn.min() >= 0
    shares = np.exp(AT * [-0.5, 0.0, 0.7])
    shares /= shares.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(drawn.reshape(3, 2000, 3).mean(axis=1) / TOTAL, shares, atol=0.04)


def test_counts_that_vary_more_than_binomial_ones():
    """Dirichlet-multinomial counts, in which each is beta-binomial among what is left."""
    rng = np.random.default_rng(5)
    theta = rng.normal(size=(3000, 1))
    weights = 3 * np.exp(theta * [0.5, 0.0, -0.5])
    shares = np.array([rng.dirichlet(each) for each in weights])
    counts = rng.multinomial(30, shares).astype(float)
    learnt = pk.KernelLikelihood().for_scores().fit(theta, counts, random_seed=1)
    held_out = rng.multinomial(30, [rng.dirichlet(each) for each in weights[:500]]).astype(float)
    at = learnt.log_likelihoods(theta[:500], held_out).diagonal()
    exact = [
        stats.dirichlet_multinomial(w, 30).logpmf(x.astype(int))
        for w, x in zip(weights, held_out, strict=False)
    ]
    assert np.mean(exact - at) < 0.05


def test_one_count_may_be_missing(learnt):
    row = np.array([[2.0, np.nan, 1.0]])
    same = learnt.log_likelihoods(AT, np.array([[2.0, 3.0, 1.0]]))[:, 0]
    np.testing.assert_allclose(learnt.log_likelihood(AT, row), same, atol=1e-8)
    unknown = np.array([[2.0, np.nan, np.nan]])
    every = EVERY[EVERY[:, 0] == 2]
    expected = np.log(np.exp(learnt.log_likelihoods(AT, every)).sum(axis=1))
    np.testing.assert_allclose(learnt.log_likelihood(AT, unknown), expected, atol=1e-8)


def test_shares_of_a_constant_total_have_the_probabilities_of_the_counts(learnt):
    shares = pk.KernelLikelihood().for_scores().fit(THETA, COUNTS / TOTAL, random_seed=1)
    found, expected = shares.log_likelihoods(AT, EVERY / TOTAL), learnt.log_likelihoods(AT, EVERY)
    np.testing.assert_allclose(found, expected, atol=1e-8)
    np.testing.assert_allclose(shares.draw_statistics(AT, 1).sum(axis=1), 1)
    with pytest.raises(ValueError, match="whose sum is not 1,"):
        shares.condition(np.array([1.0, 2.0, 2.0]) / TOTAL)


def test_counts_that_depend_on_a_statistic_before_them():
    """The counts are made of x, which says all of the parameter: its posterior is that given x."""
    rng = np.random.default_rng(1)
    theta = rng.normal(size=(2000, 1))
    x = theta[:, 0] + rng.normal(size=2000)
    shares = np.exp(x[:, None] * [-0.5, 0.0, 0.7])
    counts = rng.multinomial(30, shares / shares.sum(axis=1, keepdims=True)).astype(float)
    learnt = pk.KernelLikelihood().fit(theta, np.column_stack([x, counts]), random_seed=1)
    found = learnt.condition(np.array([1.5, 4, 6, 20.0]))
    assert abs(found.mean()[0] - 0.75) < 0.15 * np.sqrt(0.5)
    assert found.draw(2000, 1).std() == pytest.approx(np.sqrt(0.5), rel=0.1)


@pytest.mark.parametrize("total", [12, 300])
def test_what_is_hidden_of_a_large_total_is_summed_over_all_counts(total):
    counts = np.random.default_rng(2).multinomial(total, SHARES[:600]).astype(float)
    learnt = pk.KernelLikelihood().for_scores().fit(THETA[:600], counts, random_seed=1)
    row = counts[:1]
    for column in range(3):
        one = row.copy()
        one[0, column] = np.nan
        expected = learnt.log_likelihood(AT, row)
        np.testing.assert_allclose(learnt.log_likelihood(AT, one), expected, atol=1e-8)
    two = row.copy()
    two[0, :2] = np.nan
    first = np.arange(total - row[0, 2] + 1)
    every = np.column_stack([first, total - row[0, 2] - first, np.full(len(first), row[0, 2])])
    for data, limits, some in (
        (two, None, every),
        ([[np.nan, 2.0, row[0, 2]]], {1: (None, 2)}, every[every[:, 1] >= 2]),
        ([[3.0, np.nan, row[0, 2]]], {0: (3, None)}, every[every[:, 0] <= 3]),
    ):
        expected = np.log(np.exp(learnt.log_likelihoods(AT, some)).sum(axis=1))
        found = learnt.log_likelihood(AT, np.array(data), censored=limits)
        np.testing.assert_allclose(found, expected, atol=1e-8)


def test_a_wrong_sum_is_said_of_the_row_that_was_given(learnt):
    data = np.array([[2.0, 3, 1], [2, np.nan, 1], [0, 0, 6], [0, 7, np.nan]])
    with pytest.raises(ValueError, match=r"row 3 .*7\. nan.* columns 0, 1, 2 whose sum is not 6"):
        learnt.condition(data, trials=True)


def test_a_probability_between_its_bounds_moves_the_logit_of_its_share():
    rng = np.random.default_rng(4)
    p = rng.uniform(size=(3000, 2))
    counts = rng.binomial([14, 18], p).astype(float)
    table = np.column_stack([counts, [14, 18] - counts])
    at = np.column_stack([[0.002, 0.02, 0.1, 0.3], np.full(4, 0.5)])
    exact = stats.binom.logpmf(0, 14, at[:, 0]) + stats.binom.logpmf(6, 18, 0.5)

    def error(support):
        likelihood = pk.KernelLikelihood().for_scores().fit(p, table, support, random_seed=1)
        found = likelihood.log_likelihoods(at, np.array([[0.0, 6.0, 14.0, 12.0]]))[:, 0]
        return np.abs(found - exact).max()

    # Without its bounds a probability is a number like any other.
    bounded = Support.from_bounds({"p": (0, 1), "q": (0, 1)}, ["p", "q"])
    assert error(bounded) < 0.5 * error(Support.unbounded(2))
    # Of shares that are smooth in the parameters these stay as they are.
    bounded = Support.from_bounds({"theta": (-20, 20)}, ["theta"])
    plain = pk.KernelLikelihood().for_scores().fit(THETA, COUNTS, bounded, random_seed=1)
    assert plain._evaluation.of_parameters.upper is None
