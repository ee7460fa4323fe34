"""Declared structure of a learned likelihood in PyMC: the same numbers, their gradient, and names."""

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytest

import pymc_kbr as pk
from tests.models import AS_WRITTEN

RNG = np.random.default_rng(6)
N = 200
K, T, S = RNG.uniform(1, 4, N), RNG.uniform(0, 2, N), RNG.uniform(0.5, 2, N)
THETA = pd.DataFrame({"k": K, "t": T, "s": S})
X = pd.DataFrame(
    {
        "choice": (RNG.random(N) < 0.2 * K).astype(float),
        "time": T + S * RNG.gamma(K),
        "count": RNG.poisson(K).astype(float),
    }
)
DATA = np.array([[1.0, 2.2, 0.0], [0.0, 1.4, 2.0], [1.0, 3.0, 9.0]])
AT = np.array([2.2, 0.5, 0.9])


@pytest.fixture(scope="module")
def learnt():
    likelihood = pk.KernelLikelihood(shift={"time": "t"}, scale={"time": "s"}, lower={"time": "t"})
    return likelihood.for_scores().fit(THETA, X, random_seed=1)


def log_prior(theta):
    return float(np.sum(-0.5 * theta**2 - 0.5 * np.log(2 * np.pi)))


@pytest.mark.parametrize("changeable", [False, True])
def test_the_density_and_its_gradient(learnt, changeable):
    with pm.Model() as model:
        theta = pm.Normal("theta", 0, 1, shape=3)
        observed = pm.Data("data", DATA) if changeable else DATA
        pk.LearnedSimulator("x", learnt, theta, observed=observed, outside="extrapolate")
    value = model.rvs_to_values[theta]
    logp = model.logp(sum=True)
    both = pytensor.function([value], [logp, pytensor.grad(logp, value)], mode=AS_WRITTEN)
    found, gradient = both(AT)
    assert found - log_prior(AT) == pytest.approx(learnt.log_likelihood(AT[None], DATA)[0], rel=1e-9)
    steps = 1e-5 * np.eye(3)
    numeric = [(both(AT + step)[0] - both(AT - step)[0]) / 2e-5 for step in steps]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-5)
    # Beyond the edge there is no density, and the gradient is a number still.
    beyond, gradient = both(np.array([2.2, 1.5, 0.9]))
    assert beyond == -np.inf
    assert np.all(np.isfinite(gradient))


def test_a_statistic_on_the_whole_line_has_a_gradient_too():
    x = pd.DataFrame({"x": T + S * np.random.default_rng(1).standard_t(5, N)})
    likelihood = pk.KernelLikelihood(shift={"x": "t"}, scale={"x": "s"}).for_scores()
    likelihood.fit(THETA[["t", "s"]], x, random_seed=1)
    data = np.array([[-1.0], [0.3], [4.0]])
    with pm.Model() as model:
        theta = pm.Normal("theta", 0, 1, shape=2)
        pk.LearnedSimulator("x", likelihood, theta, observed=data, outside="extrapolate")
    value = model.rvs_to_values[theta]
    logp = model.logp(sum=True)
    both = pytensor.function([value], [logp, pytensor.grad(logp, value)], mode=AS_WRITTEN)
    at = np.array([0.7, 1.2])
    found, gradient = both(at)
    assert found - log_prior(at) == pytest.approx(likelihood.log_likelihood(at[None], data)[0], rel=1e-9)
    numeric = [(both(at + step)[0] - both(at - step)[0]) / 2e-5 for step in 1e-5 * np.eye(2)]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bad", [[1.0, -0.5, 1.0], [0.5, 2.0, 1.0]])
def test_trials_of_an_impossible_value_are_refused(learnt, bad):
    with pm.Model():
        theta = pm.Normal("theta", 0, 1, shape=3)
        with pytest.raises(ValueError, match="the model does not make"):
            pk.LearnedSimulator("x", learnt, theta, observed=[DATA[0], bad])


def test_draws_of_the_model_keep_to_the_edge(learnt):
    with pm.Model():
        k, t = pm.Uniform("k", 1.2, 3.8), pm.Uniform("t", 0.1, 1.9)
        pk.LearnedSimulator("x", learnt, k, t, 1.0, observed=DATA)
        drawn = pm.sample_prior_predictive(50, random_seed=1)
    times = drawn["prior_predictive"]["x"].values[0, :, :, 1]
    inside = np.isfinite(times)
    shifts = np.broadcast_to(drawn["prior"]["t"].values[0][:, None], times.shape)
    assert inside.mean() > 0.9
    assert np.all(times[inside] > shifts[inside])


def waiting(rng, shape, delay, size=None):
    return delay + rng.gamma(shape, size=size)


def test_simulators_are_learned_by_the_names_of_their_arguments():
    with pm.Model() as model:
        k, t0 = pm.Uniform("k", 1, 4), pm.Uniform("t0", 0, 2)
        pm.Simulator("rt", waiting, k, t0, observed=[2.0, 1.5, 3.0, 2.2])
    declared = pk.KernelLikelihood("location_scale", shift={"rt": "delay"}, lower={"rt": "delay"})
    made = pk.learn_simulators(model, 300, likelihood=declared, trials="rt", random_seed=1, progressbar=False)
    likelihood = made["rt"].owner.op.likelihood
    assert likelihood.structure_.free.tolist() == [[True, False]]
    logp = made.compile_logp(mode=AS_WRITTEN)
    low, high = {"k_interval__": 0.0, "t0_interval__": -1.0}, {"k_interval__": 0.0, "t0_interval__": 2.0}
    assert np.isfinite(logp(low))
    assert logp(high) == -np.inf


def test_a_condition_is_an_input_of_the_model():
    condition = RNG.normal(size=N)
    x = pd.DataFrame({"x": K + condition + RNG.normal(size=N)})
    inputs = pd.DataFrame({"k": K, "c": condition})
    likelihood = pk.KernelLikelihood("location_scale", conditions=["c"]).fit(inputs, x, random_seed=1)
    with pm.Model() as model:
        k = pm.Uniform("k", 1, 4)
        pk.LearnedSimulator("x", likelihood, k, np.array([0.0, 1.0]), observed=[2.0, 3.0])
        with pytest.raises(ValueError, match="its likelihood was fitted to 2"):
            pk.LearnedSimulator("y", likelihood, k, observed=[2.0, 3.0])
    assert np.isfinite(model.compile_logp(mode=AS_WRITTEN)({"k_interval__": 0.0}))
