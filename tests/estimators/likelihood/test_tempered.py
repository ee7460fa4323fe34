"""Tempered draws against posteriors and evidences that are known."""

import numpy as np
import pytest

from pymc_kbr.estimators.likelihood.tempered import tempered


def log_normal(points, deviation=1.0):
    q = points.shape[-1]
    return -((points / deviation) ** 2).sum(axis=-1) / 2 - q * np.log(deviation * np.sqrt(2 * np.pi))


def linear(observed, deviation):
    """The log-likelihood of observations that are the parameters with noise."""
    return lambda free, which: log_normal(free - observed[which][:, None], deviation)


def run(log_likelihood, start, k, particles, rng, **keywords):
    values = log_likelihood(np.broadcast_to(start, (k, *start.shape)), np.arange(k))
    return tempered(log_likelihood, log_normal, start, values, particles, rng, **keywords)


@pytest.mark.parametrize(("q", "deviation"), [(1, 0.1), (2, 0.3), (5, 0.2)])
def test_posteriors_and_evidence_of_normal_models(q, deviation, rng):
    k, m = 20, 400
    observed = rng.normal(size=(k, q)) * np.sqrt(1 + deviation**2)
    done = run(linear(observed, deviation), rng.normal(size=(2000, q)), k, m, rng)
    gain = 1 / (1 + deviation**2)
    scaled = (done.particles - gain * observed[:, None]) / (deviation * np.sqrt(gain))
    # Moves leave almost independent draws: errors of means are 1 / sqrt(m) each, over k q of them.
    means = scaled.mean(axis=1) * np.sqrt(m)
    assert np.mean(means**2) < 1.5 + 4 * np.sqrt(2 / (k * q))
    np.testing.assert_allclose(scaled.var(axis=1).mean(), 1, atol=4 * np.sqrt(2 / (k * m * q)) + 0.02)
    ratios = np.exp(done.log_evidence - log_normal(observed, np.sqrt(1 + deviation**2)))
    assert abs(ratios.mean() - 1) < 4 * ratios.std() / np.sqrt(k)
    assert done.unique.min() == 1


def test_an_observation_without_a_possible_row_is_named(rng):
    start = rng.normal(size=(50, 2))
    values = np.zeros((3, 50))
    values[1] = -np.inf
    with pytest.raises(ValueError, match="possible for observation 1 of 3"):
        tempered(lambda free, which: np.zeros(free.shape[:2]), log_normal, start, values, 50, rng)
