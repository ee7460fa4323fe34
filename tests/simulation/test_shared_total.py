"""Counts that share a total, in a PyMC model."""

import numpy as np
import pymc as pm
import pytest

import pymc_kbr as pk

pytestmark = pytest.mark.versions

QUICK = {"mode": "FAST_COMPILE"}


def test_densities_gradients_and_draws():
    rng = np.random.default_rng(3)
    theta = rng.normal(size=(800, 1))
    weights = 2 * np.exp(theta * [-0.5, 0.0, 0.7])
    counts = rng.multinomial(12, [rng.dirichlet(each) for each in weights]).astype(float)
    learnt = pk.KernelLikelihood().for_scores().fit(theta, counts, random_seed=1)
    found = []
    for changes in (False, True):
        with pm.Model() as model:
            data = pm.Data("data", counts[:4]) if changes else counts[:4]
            pk.LearnedSimulator("y", learnt, pm.Normal("theta"), observed=data)
        found.append(model.compile_logp([model["y"]], sum=False, **QUICK)({"theta": 0.4})[0])
    np.testing.assert_allclose(found, [learnt.log_likelihoods([[0.4]], counts[:4])[0]] * 2, rtol=1e-6)
    value, gradient = model.compile_logp(**QUICK), model.compile_dlogp(**QUICK)
    numerical = (value({"theta": 0.4 + 1e-5}) - value({"theta": 0.4 - 1e-5})) / 2e-5
    assert gradient({"theta": 0.4})[0] == pytest.approx(float(numerical), rel=1e-4)
    assert np.all(pm.draw(model["y"], draws=20, random_seed=1).sum(axis=-1) == 12)
    with pm.Model(), pytest.raises(ValueError, match="sum is not 12"):
        pk.LearnedSimulator("y", learnt, pm.Normal("theta"), observed=np.array([[1.0, 2, 3]]))
