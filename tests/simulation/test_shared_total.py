"""Counts that share a total, in a PyMC model."""

import numpy as np
import pymc as pm
import pytest

import pymc_kbr as pk
from tests.models import densities_and_gradient, relative_errors


@pytest.mark.versions
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
        at = densities_and_gradient(model)
        found.append(at({"theta": 0.4})[0])
    np.testing.assert_allclose(found, [learnt.log_likelihoods([[0.4]], counts[:4])[0]] * 2, rtol=1e-6)
    assert relative_errors(at, {"theta": 0.4}).max() < 1e-5
    assert np.all(pm.draw(model["y"], draws=20, random_seed=1).sum(axis=-1) == 12)
    with pm.Model(), pytest.raises(ValueError, match="sum is not 12"):
        pk.LearnedSimulator("y", learnt, pm.Normal("theta"), observed=np.array([[1.0, 2, 3]]))


def test_two_totals_of_which_counts_are_missing():
    rng = np.random.default_rng(5)
    theta = rng.normal(size=(600, 1))
    shares = np.exp(theta * [-0.5, 0.0, 0.7])
    shares /= shares.sum(axis=1, keepdims=True)
    groups = [rng.multinomial(total, each) for total, each in ((3, shares), (5, shares[:, ::-1]))]
    counts = np.hstack(groups).astype(float)
    learnt = pk.KernelLikelihood().for_scores().fit(theta, counts, random_seed=1)
    data = counts[:3].copy()
    data[1, 1] = data[2, 0] = data[2, 3:5] = np.nan
    with pm.Model() as model:
        pk.LearnedSimulator("y", learnt, pm.Normal("theta"), observed=data)
    at = densities_and_gradient(model)
    found = at({"theta": 0.4})[0]
    complete = learnt.log_likelihoods([[0.4]], counts[:3])[0]
    np.testing.assert_allclose(found[:2], complete[:2], rtol=1e-6)
    left = int(5 - data[2, 5])
    each = np.array([[*counts[2, :3], k, left - k, data[2, 5]] for k in range(left + 1)])
    expected = np.log(np.exp(learnt.log_likelihoods([[0.4]], each)).sum())
    assert found[2] == pytest.approx(expected, rel=1e-6)
    assert relative_errors(at, {"theta": 0.4}).max() < 1e-5
    drawn = pm.draw(model["y"], draws=5, random_seed=1)
    assert np.all(drawn[..., :3].sum(axis=-1) == 3)
    data[1] = [3, np.nan, 1, 1, 1, 3]
    with pm.Model(), pytest.raises(ValueError, match="row 1 of the observations"):
        pk.LearnedSimulator("y", learnt, pm.Normal("theta"), observed=data)
