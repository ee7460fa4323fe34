"""Every Gram solver under every estimator that takes one."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

import pymc_kbr as pk
from pymc_kbr.gram import SOLVERS, DivideAndConquer, Subsample
from pymc_kbr.kernels import Gaussian

POINTS = np.random.default_rng(0).normal(size=(120, 3))


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("estimator", ["conditional_mean", "kbr", "iw_kbr"])
def test_every_solver_serves_every_kernel_estimator(name, estimator, linear):
    theta, x = linear
    solver = {"divide_and_conquer": DivideAndConquer(3), "subsample": Subsample(300)}.get(name, name)
    cls = pk.ESTIMATORS[estimator]
    exact = cls(2.0, 1e-4, solver="exact").fit(theta, x).weights(x[:20]) @ theta
    fitted = cls(2.0, 1e-4, solver=solver).fit(theta, x, random_seed=0)
    means = fitted.weights(x[:20]) @ theta
    # The posterior deviations are 0.2 to 0.4; approximations stay well within one.
    assert np.sqrt(np.mean((means - exact) ** 2)) < 0.1
    again = cls(2.0, 1e-4, solver=solver).fit(theta, x, random_seed=0).weights(x[:20])
    np.testing.assert_array_equal(again, fitted.weights(x[:20]))


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("estimator", ["kbr", "iw_kbr"])
def test_every_solver_serves_a_prior_of_draws(name, estimator, linear):
    theta, x = linear
    draws = np.random.default_rng(1).normal([0.5, 0.0], [0.7, 1.0], size=(300, 2))
    settings = {"prior": draws, "prior_regularisation": 1e-3, "parameter_bandwidth": 1.5}
    solver = {"divide_and_conquer": DivideAndConquer(3), "subsample": Subsample(300)}.get(name, name)
    cls = pk.ESTIMATORS[estimator]
    regularisation = {"kbr": 1e-7, "iw_kbr": 1e-4}[estimator]
    exact = cls(2.0, regularisation, solver="exact", **settings).fit(theta, x).weights(x[:20]) @ theta
    fitted = cls(2.0, regularisation, solver=solver, **settings).fit(theta, x, random_seed=0)
    weights = fitted.weights(x[:20])
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-8)
    # Half of the posterior deviations, 0.2 to 0.4; a subsample has half of the rows.
    assert np.sqrt(np.mean((weights @ theta - exact) ** 2)) < 0.15


def test_kernels_of_scikit_learn_serve():
    theta, x = POINTS[:, :1], POINTS[:, 1:]
    ours = pk.ConditionalMean(kernel=Gaussian(1.5), regularisation=1e-2).fit(theta, x)
    theirs = pk.ConditionalMean(kernel=RBF(1.5), regularisation=1e-2).fit(theta, x)
    np.testing.assert_allclose(theirs.weights(x[:3]), ours.weights(x[:3]), atol=1e-9)
    local = pk.Localised(40, kernel=RBF(1.5), regularisation=1e-2).fit(theta, x)
    same = pk.Localised(40, kernel=Gaussian(1.5), regularisation=1e-2).fit(theta, x)
    np.testing.assert_allclose(local.weights(x[:3]), same.weights(x[:3]), atol=1e-9)


def test_estimators_hand_the_support_on(linear):
    support = pk.Support.from_bounds({"a": (-50, 50)}, ["a", "b"])
    posterior = pk.Localised(50).fit(*linear, support).condition(linear[1][0])
    assert posterior.support is support
