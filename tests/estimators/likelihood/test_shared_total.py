"""Counts that share a total: found in the table, and right by construction."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

import pymc_kbr as pk
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
    assert found == [((0, 2, 3), TOTAL), ((5, 6, 7), 20)]
    assert shared_totals(np.column_stack([noise, other, two[:, 0]])) == []
    assert shared_totals(np.column_stack([noise, -noise])) == []
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
