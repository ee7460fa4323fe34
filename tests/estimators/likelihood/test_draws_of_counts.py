"""Independent counts: one distribution of all of them, a function of the parameters and of the count."""

import warnings

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

import pymc_kbr as pk

E, N = 12, 4000


def counts(theta, rng):
    """Negative binomial, of mean exp(theta) and size two."""
    return rng.poisson(np.exp(theta[:, :1]) * rng.gamma(2.0, 0.5, (len(theta), E))).astype(float)


def log_probability(theta, x):
    return stats.nbinom.logpmf(x, 2, 1 / (1 + np.exp(theta) / 2))


@pytest.fixture(scope="module")
def learnt():
    rng = np.random.default_rng(31)
    theta = rng.normal(1.0, 0.7, size=(N, 1))
    return pk.KernelLikelihood("exchangeable").fit(theta, counts(theta, rng), random_seed=1)


def test_probabilities_are_near_the_exact_ones_and_sum_to_one(learnt):
    rng = np.random.default_rng(32)
    theta = rng.normal(1.0, 0.7, size=(400, 1))
    x = counts(theta, rng)
    lost = log_probability(theta, x).sum(axis=1) - np.diagonal(learnt.log_likelihoods(theta, x))
    # Nats of a row of twelve: a function that is learnt from 48,000 counts has some ten numbers, of which
    # each takes half a nat of all rows together.
    assert abs(lost.mean()) < 3 * lost.std() / 20 + 0.02
    assert lost.std() < 0.5
    form, described = learnt.form_, learnt.describe(theta[:5])
    every = np.tile(form.masses.atoms.values, (5, 1))
    np.testing.assert_allclose(np.exp(form.log_densities(described, every)).sum(axis=1), 1.0, rtol=1e-12)


def test_the_posterior_is_near_the_exact_one(learnt):
    grid = np.linspace(-2, 4, 2001)
    for seed in range(3):
        x = counts(np.array([[0.3 + 0.8 * seed]]), np.random.default_rng(seed))
        logs = stats.norm.logpdf(grid, 1.0, 0.7) + log_probability(grid[:, None], x).sum(axis=1)
        weights = np.exp(logs - logs.max())
        mean = np.average(grid, weights=weights)
        deviation = np.sqrt(np.average((grid - mean) ** 2, weights=weights))
        drawn = learnt.condition(x[0]).draw(4000, np.random.default_rng(3))[:, 0]
        # 4,000 draws have an error of 0.016 deviations; the rest is that of 4,000 rows.
        assert abs(drawn.mean() - mean) < 0.25 * deviation
        assert drawn.std() == pytest.approx(deviation, rel=0.15)


def test_draws_and_transforms_agree_with_the_simulator(learnt):
    rng = np.random.default_rng(33)
    theta = np.full((3000, 1), 1.2)
    drawn, simulated = learnt.draw_statistics(theta, rng), counts(theta, rng)
    for value in (0, 1, 3, 8):
        here, there = np.mean(drawn == value), np.mean(simulated == value)
        # Two shares of 36,000 numbers each, and 0.01 for what was learnt.
        assert abs(here - there) < 4 * np.sqrt(2 * there / drawn.size) + 0.01
    assert learnt.transforms_pvalue_ > 1e-3


def test_between_counts_there_is_nothing(learnt):
    x = counts(np.array([[1.0]]), np.random.default_rng(35))[0]
    with pytest.raises(ValueError, match="numbered 2 of observation 0"):
        learnt.condition(np.where(np.arange(E) == 2, 1.5, x))
    with pytest.raises(ValueError, match="numbered 0 of observation 0"):
        learnt.condition(np.where(np.arange(E) == 0, -1.0, x))


def test_a_count_above_all_is_read_as_the_highest_or_more_and_warned_of(learnt):
    x = counts(np.array([[1.0]]), np.random.default_rng(38))[0]
    highest = learnt.form_.masses.size - 1
    above, last = np.where(np.arange(E) == 3, highest + 5, x), np.where(np.arange(E) == 3, highest, x)
    with pytest.warns(pk.PosteriorWarning, match=f"the probability of {highest} or more"):
        found = learnt.log_likelihoods([[1.0]], above[None])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(found, learnt.log_likelihoods([[1.0]], last[None]), rtol=1e-12)


def test_missing_counts_are_left_out(learnt):
    x = counts(np.array([[1.0]]), np.random.default_rng(36))[0]
    some = np.where(np.arange(E) < 4, np.nan, x)
    found = learnt.condition(some).mean()
    grid = np.linspace(-2, 4, 2001)
    logs = stats.norm.logpdf(grid, 1.0, 0.7) + log_probability(grid[:, None], x[4:]).sum(axis=1)
    weights = np.exp(logs - logs.max())
    mean = np.average(grid, weights=weights)
    deviation = np.sqrt(np.average((grid - mean) ** 2, weights=weights))
    assert abs(found[0] - mean) < 0.25 * deviation


def test_sorted_counts_have_the_same_posterior_and_the_number_of_their_orders(learnt):
    rng = np.random.default_rng(37)
    theta = rng.normal(1.0, 0.7, size=(N, 1))
    in_order = pk.KernelLikelihood("exchangeable").fit(
        theta, np.sort(counts(theta, rng), axis=1), random_seed=1
    )
    assert in_order.form_.in_order
    x = np.sort(counts(np.array([[0.4]]), rng), axis=1)
    at = np.array([[0.5], [1.5]])
    exact = log_probability(at, x).sum(axis=1)
    found = in_order.log_likelihoods(at, x)[:, 0] - exact
    multinomial = gammaln(E + 1) - gammaln(np.unique(x[0], return_counts=True)[1] + 1).sum()
    np.testing.assert_allclose(found, multinomial, atol=0.5)  # what 4,000 rows leave
