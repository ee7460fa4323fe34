"""A fitted estimator that was pickled and read again is the same estimator, to the last bit."""

import pickle

import numpy as np
import pytest

import pymc_kbr as pk
from pymc_kbr.estimators.adjustments import ADJUSTMENTS
from pymc_kbr.estimators.summaries import SUMMARIES
from pymc_kbr.gram import SOLVERS, DivideAndConquer
from tests.estimators.parts import Parts

N = 100
RNG = np.random.default_rng(0)
THETA = RNG.normal(size=(N, 2))
X = np.column_stack([THETA, THETA.sum(axis=1)]) + 0.5 * RNG.normal(size=(N, 3))
OBSERVED = X[:4] + 0.1

SOLVING = ("conditional_mean", "kbr", "iw_kbr")
SMALL = {
    "rejection": {"accepted": 30},
    "localised": {"neighbours": 40},
    "kernel_likelihood": {"particles": 100},
}


def check(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.weights(OBSERVED), fitted.weights(OBSERVED))
    for ours, theirs in zip(again.condition(OBSERVED), fitted.condition(OBSERVED), strict=True):
        np.testing.assert_array_equal(ours.atoms, theirs.atoms)
        np.testing.assert_array_equal(ours.weights, theirs.weights)
        drawn = [pickle.loads(pickle.dumps(one)).draw(5, np.random.default_rng(1)) for one in (ours, theirs)]
        np.testing.assert_array_equal(*drawn)
        assert ours.settings == theirs.settings


@pytest.mark.parametrize("scale", [True, False, *SUMMARIES])
@pytest.mark.parametrize("name", [name for name in pk.ESTIMATORS if name != "adjusted"])
def test_every_estimator_in_every_scale(name, scale):
    settings = SMALL.get(name, {})
    if name == "kernel_likelihood" and scale is not True:
        settings = {**settings, "form": "location_scale"}  # once both forms are compared
    check(pk.ESTIMATORS[name](scale=scale, **settings).fit(THETA, X, random_seed=0))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", SOLVING)
def test_every_solver(name, solver):
    chosen = DivideAndConquer(3) if solver == "divide_and_conquer" else solver
    check(pk.ESTIMATORS[name](1.0, 1e-3, solver=chosen).fit(THETA, X, random_seed=0))


@pytest.mark.parametrize("name", SOLVING)
def test_another_prior_by_draws(name):
    draws = np.random.default_rng(1).normal(0.2, 0.7, size=(80, 2))
    fitted = pk.ESTIMATORS[name](1.0, 1e-3, solver="nystroem").fit(THETA, X, prior=draws, random_seed=0)
    check(fitted)


@pytest.mark.parametrize("scale", [True, *SUMMARIES])
@pytest.mark.parametrize("adjustment", ADJUSTMENTS)
def test_every_adjustment_in_every_scale(adjustment, scale):
    inner = pk.Rejection(60, scale=scale)
    check(pk.Adjusted(inner, adjustment).fit(THETA, X, random_seed=0))


def test_the_default_adjustment():
    check(pk.Adjusted().fit(THETA, X, random_seed=0))


@pytest.mark.parametrize("solver", ["incomplete_cholesky", "nystroem", "random_features"])
@pytest.mark.parametrize("centred", [True, False])
def test_every_solver_of_rows_that_are_read_in_parts(solver, centred):
    estimator = pk.ConditionalMean(1.0, 1e-3, solver=solver, centred=centred)
    check(estimator.fit(Parts(THETA), Parts(X), random_seed=0))
