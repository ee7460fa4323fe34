"""Learned likelihoods of statistics of few values in PyMC: the same numbers, and their gradient."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy.special import expit

import pymc_kbr as pk
from tests.models import AS_WRITTEN

pytestmark = pytest.mark.versions


@pytest.fixture(scope="module")
def learnt():
    rng = np.random.default_rng(5)
    theta = rng.normal(size=(600, 2))
    choice = (rng.random(600) < expit(theta[:, 0])).astype(float)
    time = choice * theta[:, 1] + rng.normal(size=600)
    three = rng.binomial(2, expit(theta[:, 1] - choice)).astype(float)
    return (
        pk.KernelLikelihood().for_scores().fit(theta, np.column_stack([choice, time, three]), random_seed=1)
    )


def points_of(learnt):
    x = np.array([[0.0, 0.3, 0.0], [1.0, -0.2, 1.0], [1.0, 1.5, 2.0]])
    return learnt._evaluation.prepare(x).points.reshape(1, 3, 3)


def test_the_gradient_is_that_of_finite_differences(learnt):
    form, points, symbol = learnt.form_, points_of(learnt), pt.dmatrix("theta")
    theta = np.array([[0.2, -0.4], [-0.6, 0.9]])
    for at in (points, np.repeat(points, 2, axis=0)):
        logs = form.log_density(form.describe(symbol, pt), at, pt)
        gradient = pytensor.grad(logs.sum(), symbol)
        found = [each.eval({symbol: theta}, mode=AS_WRITTEN) for each in (logs, gradient)]
        np.testing.assert_allclose(found[0], form.log_density(theta, at), rtol=1e-10)
        numeric = np.empty_like(theta)
        for i in range(2):
            # Of fourth order: differences of first order have no six digits.
            values = [
                form.log_density(theta + step * 1e-3 * np.eye(2)[i], at).sum(axis=1)
                for step in (-2, -1, 1, 2)
            ]
            numeric[:, i] = np.array([1, -8, 8, -1]) @ np.array(values) / 12e-3
        np.testing.assert_allclose(found[1], numeric, rtol=1e-6)


@pytest.mark.parametrize("changeable", [False, True])
def test_a_model_has_the_likelihood_of_its_data(learnt, changeable):
    data = np.array([[0.0, 0.3, 0.0], [1.0, -0.2, 1.0], [1.0, 1.5, 2.0]])
    at = np.array([0.2, -0.4])
    with pm.Model() as model:
        t = pm.Normal("t", 0, 1, shape=2)
        observed = pm.Data("data", data) if changeable else data
        pk.LearnedSimulator("y", learnt, t, observed=observed)
    found = model.compile_logp(vars=model["y"], jacobian=False, mode=AS_WRITTEN)({"t": at})
    np.testing.assert_allclose(found, learnt.log_likelihood(at[None], data)[0], rtol=1e-8)
