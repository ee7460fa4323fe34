"""A learned likelihood sampled by gradients, against the exact posterior."""

import numpy as np
import pymc as pm
import pytest

import pymc_kbr as pk

pytestmark = pytest.mark.statistical

SLOPES = np.array([[1.0, 0.5], [-0.5, 1.0], [0.3, 0.8]])
NOISE = np.array([0.5, 0.7, 0.4])
PRIOR = np.array([1.0, 1.5])
OBSERVED = np.array([0.6, 0.2, 0.9])


def simulator(rng, a, b, size=None):
    means = np.stack(np.broadcast_arrays(a, b), axis=-1) @ SLOPES.T
    return means + NOISE * rng.standard_normal(means.shape)


@pytest.fixture(scope="module")
def learned():
    with pm.Model() as model:
        a, b = pm.Normal("a", 0, PRIOR[0]), pm.Normal("b", 0, PRIOR[1])
        pk.vector_simulator("y", simulator, a, b, observed=OBSERVED)
    return pk.learn_simulators(model, 5000, random_seed=2, progressbar=False)


def errors(idata):
    """Of means, in exact deviations, and of deviations, relatively."""
    cov = np.linalg.inv(np.diag(PRIOR**-2.0) + (SLOPES.T / NOISE**2) @ SLOPES)
    mean, deviation = cov @ (SLOPES.T / NOISE**2) @ OBSERVED, np.sqrt(np.diag(cov))
    draws = np.stack([idata["posterior"][name].values.ravel() for name in "ab"])
    return (draws.mean(axis=1) - mean) / deviation, draws.std(axis=1) / deviation - 1


def test_nuts_within_a_twentieth_of_a_deviation(learned):
    # 8,000 draws, of more than 2,500 effective ones: one Monte Carlo error is 0.02.
    idata = pm.sample(4000, tune=1000, chains=2, cores=1, random_seed=1, model=learned, progressbar=False)
    of_means, of_deviations = errors(idata)
    assert np.abs(of_means).max() < 0.05
    assert np.abs(of_deviations).max() < 0.05


@pytest.mark.parametrize("sampler", ["nutpie", "numpyro"])
def test_other_samplers(learned, sampler):
    pytest.importorskip(sampler, reason=f"{sampler} is not installed")
    with learned:
        idata = pm.sample(1500, tune=500, chains=2, nuts_sampler=sampler, random_seed=1, progressbar=False)
    of_means, of_deviations = errors(idata)
    # 3,000 draws, of more than 900 effective ones: three Monte Carlo errors.
    assert np.abs(of_means).max() < 0.1
    assert np.abs(of_deviations).max() < 0.1
