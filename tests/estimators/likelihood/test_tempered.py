"""Tempered draws against posteriors and evidences that are known."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, log_expit

from pymc_kbr.estimators.likelihood import tempered as module
from pymc_kbr.estimators.likelihood.tempered import log_integral, tempered


def log_normal(points, deviation=1.0):
    q = points.shape[-1]
    return -((points / deviation) ** 2).sum(axis=-1) / 2 - q * np.log(deviation * np.sqrt(2 * np.pi))


def log_logistic(points):
    """Uniform between zero and one, in the unconstrained space."""
    return (log_expit(points) + log_expit(-points)).sum(axis=-1)


def linear(observed, deviation):
    """The log-likelihood of observations that are the parameters with noise."""
    return lambda free, which: log_normal(free - observed[which][:, None], deviation)


def run(log_likelihood, start, k, particles, rng, log_prior=log_normal, **keywords):
    values = log_likelihood(np.broadcast_to(start, (k, *start.shape)), np.arange(k))
    return tempered(log_likelihood, log_prior, start, values, particles, rng, **keywords)


def within_errors(values, expected):
    """Student's test that the mean of independent values is the expected one, at four normal deviations."""
    return stats.ttest_1samp(values, expected).pvalue > 2 * stats.norm.sf(4)


@pytest.mark.parametrize(("q", "deviation"), [(2, 0.3), (5, 0.2), (20, 0.7)])
def test_posteriors_and_evidence_of_normal_models(q, deviation, rng):
    k, m = (20, 400) if q < 20 else (6, 1000)
    observed = rng.normal(size=(k, q)) * np.sqrt(1 + deviation**2)
    done = run(linear(observed, deviation), rng.normal(size=(4000, q)), k, m, rng)
    gain = 1 / (1 + deviation**2)
    scaled = (done.particles - gain * observed[:, None]) / (deviation * np.sqrt(gain))
    # Moves leave almost independent draws: errors of means are 1 / sqrt(m) each, over k q of them.
    means = scaled.mean(axis=1) * np.sqrt(m)
    assert np.mean(means**2) < 1.5 + 4 * np.sqrt(2 / (k * q))
    np.testing.assert_allclose(scaled.var(axis=1).mean(), 1, atol=4 * np.sqrt(2 / (k * m * q)) + 0.02)
    ratios = np.exp(done.log_evidence - log_normal(observed, np.sqrt(1 + deviation**2)))
    assert within_errors(ratios, 1)
    assert done.unique.min() == 1
    assert all(steps[-1] == 1 and np.all(np.diff(steps) > 0) for steps in done.temperatures)


@pytest.mark.parametrize("q", [1, 4])
def test_the_integral_of_a_prior_that_is_known_up_to_a_factor(q, rng):
    rows = rng.logistic(size=(4000, q))
    logs = rows[:, 0] / 2 - 0.3 * rows[:, 0] ** 2

    def log_tilted(points):
        return log_logistic(points) + points[:, 0] / 2 - 0.3 * points[:, 0] ** 2 + 2.0

    tilted = np.log(np.mean(np.exp(logs))) + 2.0
    found = [
        log_integral(lambda points: log_logistic(points) + 3.0, rows, rng),
        log_integral(log_tilted, rows, rng, start_log_weights=logs),
    ]
    # The error of a ratio of so many rows and draws: below a fiftieth where they overlap by half.
    np.testing.assert_allclose(found, [3.0, tilted], atol=4 * 0.02)


@pytest.mark.parametrize(("q", "rows"), [(2, 50), (10, 200)])
def test_the_integral_of_few_rows_is_unbiased(q, rows):
    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        found.append(log_integral(log_normal, rng.normal(size=(rows, q)), rng))
    assert within_errors(found, 0)


def test_unequal_modes_of_a_mixture(rng):
    """Exact shares and evidence of a likelihood that is a mixture of a tight and a wide normal."""
    k, q = 20, 3

    def log_likelihood(free, which):
        tight, wide = log_normal(free - 1, 0.15), log_normal(free + 1, 0.4)
        return np.logaddexp(np.log(0.3) + tight, np.log(0.7) + wide)

    parts = [
        np.log(share) + q * stats.norm.logpdf(1, 0, np.sqrt(1 + d**2))
        for share, d in ((0.3, 0.15), (0.7, 0.4))
    ]
    done = [run(log_likelihood, rng.normal(size=(4000, q)), 1, 1000, rng) for _ in range(k)]
    evidence = np.logaddexp(*parts)
    assert within_errors([np.exp(d.log_evidence[0] - evidence) for d in done], 1)
    shares = [(d.particles[0].mean(axis=1) > 0.2).mean() for d in done]
    centres = np.array([1 / 1.0225, -1 / 1.16])
    deviations = np.sqrt(np.array([0.0225 / 1.0225, 0.16 / 1.16]) / q)
    expected = stats.norm.sf(0.2, centres, deviations) @ np.exp(np.array(parts) - evidence)
    assert within_errors(shares, expected)


@pytest.mark.statistical
def test_a_thin_curved_posterior(rng):
    """The second parameter is the square of the first, less a half, within 0.1."""
    k, noise = 25, 0.1

    def log_likelihood(free, which):
        return log_normal(free[..., 1:] - free[..., :1] ** 2 + 0.5, noise)

    done = [run(log_likelihood, rng.normal(size=(3000, 2)), 1, 600, rng) for _ in range(k)]
    x = np.linspace(-6, 6, 20_001)
    law = stats.norm.pdf(x) * stats.norm.pdf(x**2 - 0.5, 0, np.sqrt(1 + noise**2))
    evidence = np.log(law.sum() * (x[1] - x[0]))
    assert within_errors([np.exp(d.log_evidence[0] - evidence) for d in done], 1)
    assert within_errors([(d.particles[0, :, 0] ** 2).mean() for d in done], law @ x**2 / law.sum())
    assert within_errors([d.particles[0, :, 0].mean() for d in done], 0)


@pytest.mark.statistical
def test_a_posterior_that_hugs_a_bound(rng):
    """A uniform prior and an exponential likelihood: most of the posterior is within a hundredth of it."""
    rate, k = 200.0, 15

    def log_likelihood(free, which):
        return -rate * expit(free[..., 0])

    done = [run(log_likelihood, rng.logistic(size=(3000, 3)), 1, 600, rng, log_logistic) for _ in range(k)]
    draws = expit(np.concatenate([d.particles[0] for d in done]))
    # Particles of one run are not quite independent: a KS statistic twice that of independent draws.
    limit = 2 * 1.63 / np.sqrt(len(draws))
    assert stats.kstest(draws[:, 0], stats.expon(scale=1 / rate).cdf).statistic < limit
    assert stats.kstest(draws[:, 1], stats.uniform.cdf).statistic < limit
    assert within_errors([np.exp(d.log_evidence[0]) * rate for d in done], 1)


def test_heavy_tails_of_the_prior_stay(rng):
    """Parameters that the likelihood says nothing about keep their prior, a Student of two degrees."""
    q = 4
    start = rng.standard_t(2, size=(5000, q))
    done = run(
        lambda free, which: log_normal(free[..., :1] - 3, 0.2),
        start,
        5,
        1000,
        rng,
        lambda free: stats.t.logpdf(free, 2).sum(axis=-1),
    )
    ranks = stats.t.cdf(done.particles[..., 1:].reshape(-1, q - 1), 2)
    for column in ranks.T:
        assert stats.kstest(column, stats.uniform.cdf).statistic < 2 * 1.63 / np.sqrt(len(column))
    assert not done.capped.any()


def test_rows_with_weights_are_draws_of_the_prior(rng):
    """Rows from a wider density, weighted, give what rows of the prior give."""
    k = 20
    start = 2 * rng.normal(size=(6000, 2))
    weights = log_normal(start) - log_normal(start, 2.0)
    observed = rng.normal(size=(k, 2))
    done = run(linear(observed, 0.3), start, k, 400, rng, start_log_weights=weights + 7)
    ratios = np.exp(done.log_evidence - log_normal(observed, np.sqrt(1.09)))
    assert within_errors(ratios, 1)
    errors = (done.particles.mean(axis=1) - observed / 1.09) / (0.3 / np.sqrt(1.09)) * np.sqrt(400)
    assert np.mean(errors**2) < 1.5 + 4 * np.sqrt(2 / (2 * k))


def test_an_observation_gets_the_same_draws_alone_and_among_others(rng, set_default):
    observed, start = rng.normal(size=(6, 2)), rng.normal(size=(500, 2))
    seed = np.random.default_rng
    together = run(linear(observed, 0.1), start, 6, 100, seed(3))
    set_default(module.tempered, most_particles=200)
    apart = run(linear(observed, 0.1), start, 6, 100, seed(3))
    np.testing.assert_allclose(apart.particles, together.particles, rtol=1e-9)
    np.testing.assert_allclose(apart.log_evidence, together.log_evidence)
    np.testing.assert_allclose(np.concatenate(apart.temperatures), np.concatenate(together.temperatures))
    np.testing.assert_array_equal(apart.sweeps, together.sweeps)


def test_more_particles_grow_from_scouts_without_copies(rng):
    observed = np.array([[0.5, -0.5]])
    done = run(linear(observed, 0.1), rng.normal(size=(1000, 2)), 1, 6000, rng)
    assert done.particles.shape == (1, 6000, 2)
    assert len(np.unique(done.particles[0], axis=0)) == 6000
    assert done.evaluations[0] < 20 * 6000
    scaled = (done.particles[0] - observed / 1.01) / (0.1 / np.sqrt(1.01))
    for column in scaled.T:
        assert stats.kstest(column, stats.norm.cdf).statistic < 2 * 1.63 / np.sqrt(6000)
    # Copies of one scout have forgotten it: neighbours in memory are as far apart as others.
    near = np.linalg.norm(np.diff(scaled, axis=0), axis=1)
    far = np.linalg.norm(scaled - np.roll(scaled, 2500, axis=0), axis=1)
    assert abs(near.mean() / far.mean() - 1) < 0.1


def test_one_possible_row_is_enough(rng):
    """A likelihood of one on a disc that holds few rows, and zero elsewhere."""
    start = np.vstack([rng.normal(size=(300, 2)) - 5, [[1.5, 1.5]]])

    def log_likelihood(free, which):
        return np.where(((free - 1.5) ** 2).sum(axis=-1) < 0.01, 0.0, -np.inf)

    done = run(log_likelihood, start, 1, 500, rng)
    radius = np.linalg.norm(done.particles[0] - 1.5, axis=1) / 0.1
    assert done.unique[0] == 1
    assert stats.kstest(radius**2, stats.uniform.cdf).statistic < 2 * 1.63 / np.sqrt(500)


@pytest.mark.statistical
def test_a_posterior_a_millionth_of_the_prior(rng):
    """From few rows, through dozens of temperatures."""
    k, q, deviation = 8, 2, 1e-6
    observed = rng.normal(size=(k, q))
    done = [
        run(linear(observed[i : i + 1], deviation), rng.normal(size=(200, q)), 1, 400, rng) for i in range(k)
    ]
    scaled = np.stack([d.particles[0] - observed[i] / (1 + deviation**2) for i, d in enumerate(done)])
    means = scaled.mean(axis=1) / deviation * np.sqrt(400)
    assert np.mean(means**2) < 1.5 + 4 * np.sqrt(2 / (k * q))
    expected = log_normal(observed, np.sqrt(1 + deviation**2))
    assert within_errors([np.exp(d.log_evidence[0] - e) for d, e in zip(done, expected, strict=True)], 1)


def test_fewer_possible_rows_than_parameters(rng):
    """One in 128 rows is possible: the others' halves span no space of twenty dimensions."""

    def log_likelihood(free, which):
        return np.where((free[..., :7] > 0).all(axis=-1), 0.0, -np.inf)

    start = np.abs(rng.normal(size=(15, 20)))
    start = np.vstack([start, -np.abs(rng.normal(size=(15 * 127, 20)))])
    done = run(log_likelihood, start, 1, 500, rng)
    assert done.particles[0, :, :7].min() > 0
    assert done.unique[0] == 1
    assert done.log_evidence[0] == pytest.approx(-7 * np.log(2))


def test_undefined_likelihoods_count_as_zero_and_are_counted(rng):
    def log_likelihood(free, which):
        wrong = np.where(free[..., 1] > 1, np.inf, 0.0)
        return np.where(free[..., 0] > 1, np.nan, log_normal(free - 0.7, 0.5)) + wrong

    done = run(log_likelihood, rng.normal(size=(1000, 2)), 2, 200, rng)
    assert done.particles.max() <= 1
    assert np.all(done.undefined > 0)


def test_the_likelihood_is_never_asked_outside_the_prior(rng):
    def log_prior(free):
        return np.where(np.all(np.abs(free) < 1, axis=1), 0.0, -np.inf)

    def log_likelihood(free, which):
        assert np.all(np.abs(free) < 1)
        return log_normal(free - 0.9, 0.3)

    start = rng.uniform(-1, 1, size=(1000, 2))
    values = log_likelihood(start[None], np.arange(1))
    done = tempered(log_likelihood, log_prior, start, values, 200, rng)
    assert np.all(np.abs(done.particles) < 1)


def test_an_observation_without_a_possible_row_is_named(rng):
    start = rng.normal(size=(50, 2))
    values = np.zeros((3, 50))
    values[1] = -np.inf
    with pytest.raises(ValueError, match="no starting row is possible for observation 1:"):
        tempered(lambda free, which: np.zeros(free.shape[:2]), log_normal, start, values, 50, rng)
