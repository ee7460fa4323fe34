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
    # What forms there are to choose from is beside the point.
    form = pk.KernelLikelihood("autoregressive")
    return pk.learn_simulators(model, 3000, likelihood=form, random_seed=2, progressbar=False)


COVARIANCE = np.linalg.inv(np.diag(PRIOR**-2.0) + (SLOPES.T / NOISE**2) @ SLOPES)
MEAN, DEVIATION = COVARIANCE @ (SLOPES.T / NOISE**2) @ OBSERVED, np.sqrt(np.diag(COVARIANCE))


def errors(idata):
    """Of means, in exact deviations, and of deviations, relatively."""
    draws = np.stack([idata["posterior"][name].values.ravel() for name in "ab"])
    return (draws.mean(axis=1) - MEAN) / DEVIATION, draws.std(axis=1) / DEVIATION - 1


@pytest.fixture(scope="module")
def on_a_grid(learned):
    """Mean and deviations of the learned posterior, in which there is no Monte Carlo error."""
    factor = np.linalg.cholesky(COVARIANCE)
    steps = np.linspace(-5, 5, 13)
    points = MEAN + np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2) @ factor.T
    density = learned.compile_logp()
    logs = np.array([float(density({"a": a, "b": b})) for a, b in points])
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = weights @ points
    return mean, np.sqrt(weights @ (points - mean) ** 2)


def test_the_learned_posterior_is_within_a_twentieth_of_a_deviation(on_a_grid):
    mean, deviation = on_a_grid
    assert np.abs((mean - MEAN) / DEVIATION).max() < 0.05
    assert np.abs(deviation / DEVIATION - 1).max() < 0.05


def test_nuts_draws_from_the_learned_posterior(learned, on_a_grid):
    idata = pm.sample(300, tune=200, chains=2, cores=1, random_seed=1, model=learned, progressbar=False)
    mean, deviation = on_a_grid
    draws = np.stack([idata["posterior"][name].values.ravel() for name in "ab"])
    # 600 draws, of more than 200 effective ones: three Monte Carlo errors, of 0.071 and of 0.05.
    assert np.abs((draws.mean(axis=1) - mean) / deviation).max() < 0.21
    assert np.abs(draws.std(axis=1) / deviation - 1).max() < 0.15
    assert int(idata["sample_stats"]["diverging"].sum()) == 0  # its gradient is that of its density


@pytest.mark.parametrize("sampler", ["nutpie", "numpyro"])
def test_other_samplers(learned, sampler):
    pytest.importorskip(sampler, reason=f"{sampler} is not installed")
    with learned:
        idata = pm.sample(1500, tune=500, chains=2, nuts_sampler=sampler, random_seed=1, progressbar=False)
    of_means, of_deviations = errors(idata)
    # 3,000 draws, of more than 900 effective ones: three Monte Carlo errors.
    assert np.abs(of_means).max() < 0.1
    assert np.abs(of_deviations).max() < 0.1
