"""The same seed gives the same numbers to the last bit; another one gives others."""

from copy import copy

import numpy as np
import pytest
from sklearn.base import clone

import pymc_kbr as pk
from pymc_kbr.arrays.support import Support
from pymc_kbr.estimators.prior_weights import ratio_of_draws
from pymc_kbr.gram import Nystroem, RandomFeatures, RandomlyPivotedCholesky, Subsample
from pymc_kbr.kernels import Gaussian

N = 80
RANDOM = {
    "subsample": Subsample(20),
    "nystroem": Nystroem(20),
    "nystroem_leverage": Nystroem(20, "leverage"),
    "random_features": RandomFeatures(50),
    "randomly_pivoted_cholesky": RandomlyPivotedCholesky(20),
}


@pytest.fixture
def arrays(rng):
    theta = rng.normal(size=(N, 2))
    return theta, theta + 0.5 * rng.normal(size=theta.shape)


def numbers(estimator, arrays, seed, **kwargs):
    posterior = clone(estimator).fit(*arrays, random_seed=seed, **kwargs).condition([0.3, -0.2])
    return np.append(posterior.weights, posterior.atoms)


def check(make):
    """Two seeds differ, and one gives the same bits, as a number or as a generator of it."""
    one = make(1)
    np.testing.assert_array_equal(make(1), one)
    np.testing.assert_array_equal(make(np.random.default_rng(1)), one)
    assert not np.array_equal(make(2), one)


@pytest.mark.parametrize("solver", RANDOM)
@pytest.mark.parametrize("cls", [pk.ConditionalMean, pk.ImportanceWeightedKernelBayes, pk.KernelBayes])
def test_solvers_draw_by_the_seed(cls, solver, arrays):
    check(lambda seed: numbers(cls(2.0, 1e-3, solver=RANDOM[solver]), arrays, seed))


@pytest.mark.parametrize("cls", [pk.ImportanceWeightedKernelBayes, pk.KernelBayes])
def test_weights_of_a_prior_draw_by_the_seed(cls, arrays, rng):
    draws = rng.normal(0.5, 0.5, size=(40, 2))
    settings = {"prior_regularisation": 1e-2, "parameter_kernel": Gaussian(1.0), "solver": Nystroem(20)}
    estimator = cls(2.0, 1e-3, **settings)

    def weights(seed):
        return clone(estimator).fit(*arrays, prior=draws, random_seed=seed)._prior.gamma

    check(weights)


@pytest.mark.parametrize("name", ["kernel_ridge", "heteroscedastic_kernel_ridge"])
def test_adjustments_draw_by_the_seed(name, arrays):
    check(lambda seed: numbers(pk.Adjusted(pk.Rejection(30), name), arrays, seed))


def test_estimated_ratios_draw_by_the_seed(arrays, rng, monkeypatch):
    draws = rng.normal(0.5, 0.5, size=(40, 2))
    monkeypatch.setattr("pymc_kbr.estimators.prior_weights.Auto", lambda: Nystroem(20))
    check(lambda seed: ratio_of_draws(arrays[0], draws, Support.unbounded(2), np.random.default_rng(seed)))
    check(lambda seed: numbers(pk.NadarayaWatson(1.0), arrays, seed, prior=draws))


def test_particles_are_drawn_by_the_seed(arrays):
    likelihood = pk.KernelLikelihood("location_scale", 20)
    fitted = likelihood.fit(*arrays, log_prior=lambda theta: -0.5 * np.sum(theta**2, axis=1), random_seed=0)

    def particles(seed):
        open_simulation = copy(fitted)
        open_simulation._start(np.random.default_rng(seed))
        return open_simulation.condition([0.3, -0.2]).atoms

    check(particles)


def test_draws_of_a_prior_count_by_their_weights(arrays, rng):
    prior = rng.normal(0.5, 0.5, size=(40, 2)), rng.random(40)
    ratio = ratio_of_draws(arrays[0], prior, Support.unbounded(2), np.random.default_rng(1))
    found = numbers(pk.NadarayaWatson(1.0), arrays, 1, prior=prior)
    np.testing.assert_array_equal(found, numbers(pk.NadarayaWatson(1.0), arrays, 1, ratio=ratio))
