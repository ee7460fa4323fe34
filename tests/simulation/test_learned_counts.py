"""A likelihood of independent counts as an observed variable: the same densities, and their gradients."""

import numpy as np
import pymc as pm
import pytest

import pymc_kbr as pk


@pytest.mark.parametrize("in_order", [False, True])
def test_a_graph_has_the_same_densities_and_finite_gradients(in_order):
    rng = np.random.default_rng(34)
    theta = rng.normal(1.0, 0.7, size=(2000, 1))
    x = rng.poisson(np.exp(theta) * rng.gamma(2.0, 0.5, (2000, 9))).astype(float)
    x = np.sort(x, axis=1) if in_order else x
    learnt = pk.KernelLikelihood("exchangeable").fit(theta, x, random_seed=1)
    assert learnt.form_.in_order == in_order
    observed = x[:2].copy()
    observed[1, -1] = 10_000.0  # higher than any: what is left beyond the last count
    with pm.Model() as model:
        theta = pm.Normal("theta", 1.0, 0.7)
        pk.LearnedSimulator("x", learnt, theta, observed=observed)
    at = {"theta": 0.9}
    expected = learnt.log_likelihoods([[0.9]], observed)[0]
    np.testing.assert_allclose(model.compile_logp(model["x"], sum=False)(at)[0], expected, rtol=1e-10)
    gradient = model.compile_dlogp(model["theta"])(at)
    up, down = (learnt.log_likelihoods([[0.9 + s]], observed).sum() for s in (1e-5, -1e-5))
    assert gradient[0] == pytest.approx((up - down) / 2e-5 - (0.9 - 1.0) / 0.49, rel=1e-4)
