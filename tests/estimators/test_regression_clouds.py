"""Draws that begin at near simulations which a regression has moved."""

import numpy as np
import pytest
from scipy import stats

import pymc_kbr as pk
from pymc_kbr.arrays.neighbours import neighbours_of
from pymc_kbr.estimators.adjustments import regression_clouds
from pymc_kbr.estimators.likelihood.tempered import tempered
from tests.estimators.likelihood.test_tempered import linear, log_normal, run, within_errors


def clouds_of(x, free, observed):
    return regression_clouds(lambda count: neighbours_of(x, count), x, free, observed)


def test_of_a_linear_model_a_cloud_is_the_posterior(rng):
    theta = rng.normal(size=(20_000, 2))
    x = theta @ np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 2.0]]) + 0.5 * rng.normal(size=(20_000, 3))
    precision = np.eye(2) + np.array([[1.25, 0.5], [0.5, 5.0]]) / 0.25
    observed = x[:30]
    covariance = np.linalg.inv(precision)
    means = observed / 0.25 @ np.array([[1.0, 0.0], [0.5, 1.0], [0.0, 2.0]]) @ covariance
    clouds = clouds_of(x[30:], theta[30:], observed)
    scaled = (clouds - means[:, None]) / np.sqrt(np.diag(covariance))
    # Means of 400 moved rows, and the regression's own error of four coefficients.
    assert np.mean(scaled.mean(axis=1) ** 2) * 400 < 2 * (1.5 + 4 * np.sqrt(2 / 60))
    np.testing.assert_allclose(scaled.var(axis=(0, 1)), 1, atol=4 * np.sqrt(2 / (30 * 400)) + 0.05)


def test_few_rows_have_no_clouds_and_rows_at_an_edge_are_the_farthest(rng):
    x, free = rng.normal(size=(1000, 2)), rng.normal(size=(1000, 1))
    assert clouds_of(x[:799], free[:799], x[:1]) is None
    assert clouds_of(np.tile(x, 60), free, np.tile(x[:1], 60)) is None
    # An edge of the prior counts as the farthest row.
    at_an_edge, farthest = free.copy(), free.copy()
    at_an_edge[7], farthest[7] = np.inf, np.delete(free, 7).max()
    np.testing.assert_array_equal(clouds_of(x, at_an_edge, x[:1]), clouds_of(x, farthest, x[:1]))


def test_far_observations_are_extrapolated_to(rng):
    theta = rng.normal(size=(2000, 1))
    x = theta + 0.1 * rng.normal(size=(2000, 1))
    far = clouds_of(x, theta, np.array([[1e3]]))
    slope = 1 / 1.01
    # The slope of 400 rows in the prior's tail, times the distance.
    assert far[0].mean() == pytest.approx(1e3 * slope, rel=0.25)


def test_equal_statistics_are_no_obstacle(rng):
    clouds = clouds_of(np.zeros((1000, 2)), rng.normal(size=(1000, 1)), np.ones((1, 2)))
    assert np.all(np.isfinite(clouds))


@pytest.mark.parametrize("off", [0.0, 3.0, 300.0])
def test_posteriors_do_not_depend_on_where_clouds_lie(off, rng):
    k, q, m, deviation = 20, 4, 400, 0.1
    observed = rng.normal(size=(k, q)) * np.sqrt(1 + deviation**2)
    clouds = observed[:, None] + deviation * (off + rng.normal(size=(k, 400, q)))
    done = run(linear(observed, deviation), rng.normal(size=(2000, q)), k, m, rng, clouds=clouds)
    gain = 1 / (1 + deviation**2)
    scaled = (done.particles - gain * observed[:, None]) / (deviation * np.sqrt(gain))
    assert np.mean((scaled.mean(axis=1) * np.sqrt(m)) ** 2) < 1.5 + 4 * np.sqrt(2 / (k * q))
    np.testing.assert_allclose(scaled.var(axis=1).mean(), 1, atol=4 * np.sqrt(2 / (k * m * q)) + 0.02)
    assert within_errors(np.exp(done.log_evidence - log_normal(observed, np.sqrt(1 + deviation**2))), 1)
    assert done.unique.min() == 1


def test_a_mode_that_a_cloud_misses_is_found_by_rows(rng):
    """Two equal modes, and a cloud about one of them alone."""

    def log_likelihood(free, which):
        return np.logaddexp(log_normal(free - 1.5, 0.1), log_normal(free + 1.5, 0.1))

    k = 10
    clouds = 1.5 + 0.1 * rng.normal(size=(k, 400, 2))
    done = run(log_likelihood, rng.normal(size=(10_000, 2)), k, 400, rng, clouds=clouds)
    shares = (done.particles[:, :, 0] > 0).mean(axis=1)
    # A binomial error of 400 draws, and that of the evidence of each mode by some forty rows.
    np.testing.assert_allclose(shares, 0.5, atol=4 * np.sqrt(0.25 / 400 + 0.25 / 40))
    assert within_errors(shares, 0.5)


def test_an_observation_gets_the_same_draws_alone_and_among_others_that_have_no_cloud(rng):
    observed, start = rng.normal(size=(6, 2)), rng.normal(size=(500, 2))
    clouds = observed[:, None] + 0.1 * rng.normal(size=(6, 400, 2))
    clouds[1::2] = np.nan
    seed = np.random.default_rng
    together = run(linear(observed, 0.1), start, 6, 100, seed(3), clouds=clouds)
    without = run(linear(observed, 0.1), start, 6, 100, seed(3))
    alone = run(linear(observed[:1], 0.1), start, 1, 100, seed(3), clouds=clouds[:1])
    np.testing.assert_allclose(alone.particles[0], together.particles[0], rtol=1e-9)
    np.testing.assert_allclose(without.particles[1::2], together.particles[1::2], rtol=1e-9)


def test_weighted_rows_and_clouds_have_the_same_evidence(rng):
    k = 20
    start = 2 * rng.normal(size=(6000, 2))
    weights = log_normal(start) - log_normal(start, 2.0)
    observed = rng.normal(size=(k, 2))
    clouds = observed[:, None] + 0.3 * rng.normal(size=(k, 400, 2))
    values = linear(observed, 0.3)(np.broadcast_to(start, (k, *start.shape)), np.arange(k))
    settings = {"start_log_weights": weights + 7, "clouds": clouds}
    done = tempered(linear(observed, 0.3), log_normal, start, values, 400, rng, **settings)
    assert within_errors(np.exp(done.log_evidence - log_normal(observed, np.sqrt(1.09))), 1)


def test_a_likelihood_begins_at_clouds_and_its_draws_are_those_of_the_posterior(rng, monkeypatch):
    theta = rng.normal(size=(3000, 1))
    x = theta + 0.2 * rng.normal(size=(3000, 1))
    learnt = pk.KernelLikelihood("location_scale").fit(theta, x, random_seed=1)
    observed = np.linspace(-1, 1, 5)[:, None]
    by_clouds = learnt.condition(observed)
    monkeypatch.setattr(type(learnt), "_clouds", lambda self, prepared: None)
    by_rows = learnt.condition(observed)
    for one, other in zip(by_clouds, by_rows, strict=True):
        assert one.settings["log_evidence"] == pytest.approx(other.settings["log_evidence"], abs=0.05)
        found = stats.ks_2samp(one.draw(2000, 1)[:, 0], other.draw(2000, 2)[:, 0])
        assert found.pvalue > 1e-4
