"""The lengthscale as a variable of a PyMC model, and where its chains are."""

import numpy as np
import pytest
from scipy.stats import gamma

import pymc_kbr as pk
from pymc_kbr.embedding.marginal_likelihood import MarginalLikelihood
from tests.models import AS_WRITTEN

pytestmark = pytest.mark.versions

POINTS = np.random.default_rng(0).normal(size=(20, 2))


@pytest.mark.parametrize(
    ("prior", "shape", "rate"), [("gamma(1, 1)", 1.0, 1.0), ("gamma(0.1, 0.1)", 0.1, 0.1)]
)
def test_density_is_prior_times_marginal_likelihood(prior, shape, rate):
    model = pk.kernel_embedding_model(POINTS, prior=prior, noise=0.2)
    length = 0.8
    at = {"lengthscale_log__": np.array(np.log(length))}
    value, slopes = MarginalLikelihood(POINTS, 0.2)(np.full(2, length))
    wanted = value + gamma(shape, scale=1 / rate).logpdf(length) + np.log(length)
    assert model.compile_logp(mode=AS_WRITTEN)(at) == pytest.approx(wanted)
    # d log prior / d log l = shape - 1 - rate l, and one of the change of variables.
    assert model.compile_dlogp(mode=AS_WRITTEN)(at) == pytest.approx(slopes.sum() + shape - rate * length)


def test_separate_lengthscales_have_their_slopes():
    model = pk.kernel_embedding_model(POINTS, separate=True)
    lengths = np.array([0.7, 1.6])
    _, slopes = MarginalLikelihood(POINTS)(lengths)
    found = model.compile_dlogp(mode=AS_WRITTEN)({"lengthscale_log__": np.log(lengths)})
    np.testing.assert_allclose(found, slopes + 1 - lengths)


def test_beyond_all_floats_the_density_is_zero():
    logp = pk.kernel_embedding_model(POINTS).compile_logp(sum=False, mode=AS_WRITTEN)
    assert np.sum(logp({"lengthscale_log__": np.array(-400.0)})) == -np.inf
    counts = np.random.default_rng(2).integers(0, 30, size=60).astype(float)
    flat = pk.kernel_embedding_model(counts).compile_logp(sum=False, mode=AS_WRITTEN)
    assert np.sum(flat({"lengthscale_log__": np.array(np.log(0.05))})) == -np.inf
    for beyond_use in (-40.0, 48.0):  # where a sampler's first steps may lead
        assert -np.inf < np.sum(logp({"lengthscale_log__": np.array(beyond_use)})) < -100


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"data": POINTS[:2]}, "there are 2 rows in the data; at least 3"),
        ({"data": POINTS * [1.0, 0.0]}, r"columns \[1\] in the data are the same"),
        ({"data": POINTS, "prior": "flat"}, r"prior is 'flat'; it may be 'gamma\(1, 1\)'"),
        ({"data": POINTS, "prior": (1.0, -1.0)}, "the prior's rate is -1.0"),
        ({"data": POINTS, "noise": 0.0}, "noise is 0.0"),
    ],
)
def test_refusals(arguments, words):
    with pytest.raises(ValueError, match=words):
        pk.kernel_embedding_model(**arguments)


def test_chains_are_parted_where_their_means_are_far_apart():
    rng = np.random.default_rng(1)
    chains = rng.normal([[3.0], [0.5], [3.02], [0.49]], [[0.1], [0.02], [0.1], [0.02]], size=(4, 300))
    found = pk.chain_modes(chains)
    assert found.mode.tolist() == [1, 0, 1, 0]
    np.testing.assert_allclose(found.means, [chains[[1, 3]].mean(), chains[[0, 2]].mean()])
    np.testing.assert_allclose(found.deviations, [chains[[1, 3]].std(), chains[[0, 2]].std()])
    assert found.multimodal
    assert not pk.chain_modes(chains[[0, 2]]).multimodal
    moved = np.concatenate([chains[:1, :150], chains[1:2, :150]], axis=1)
    assert not pk.chain_modes(np.vstack([chains[:2], moved])).multimodal
    with pytest.raises(ValueError, match="give two chains or more"):
        pk.chain_modes(chains[:1])
    with pytest.raises(ValueError, match="the draws hold NaN or infinity"):
        pk.chain_modes(np.where(chains > 3.0, np.nan, chains))
    with pytest.raises(TypeError, match="texts in the draws"):
        pk.chain_modes([["a", "b"], ["c", "d"]])
