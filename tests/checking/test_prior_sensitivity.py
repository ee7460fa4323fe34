"""Power scaling of results: groups of log densities at the draws, and what ArviZ makes of them."""

import numpy as np
import pymc as pm
import pytest
from scipy.stats import norm

import pymc_kbr as pk

pytestmark = pytest.mark.filterwarnings("ignore::pymc_kbr.PosteriorWarning")  # of small tables, far data


def normal(rng, mean, size):
    return rng.normal(mean, 1.0, size)


def model_of(deviation, observed, known=None):
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, deviation)
        pm.Simulator("y", normal, mean, sum_stat="mean", observed=np.full(4, observed))
        if known is not None:
            pm.Normal("z", mean, 2.0, observed=known)
    return model


def sampled(model, **how):
    given = {
        "estimator": pk.KernelLikelihood("location_scale"),
        "simulations": 1500,
        "random_seed": 1,
        "progressbar": False,
    }
    return pk.sample_abc(500, model=model, **(given | how))


@pytest.fixture(scope="module")
def strong():
    return sampled(model_of(0.5, 2.5))


def test_log_densities_are_those_at_the_draws(strong):
    mean = strong["posterior"]["mean"].to_numpy()
    np.testing.assert_allclose(strong["log_prior"]["prior"].to_numpy(), norm(0, 0.5).logpdf(mean))
    exact = norm(mean, 0.5).logpdf(2.5)
    error = strong["log_likelihood"]["statistics"].to_numpy() - exact
    assert np.ptp(error) < 0.2 * np.ptp(exact)


@pytest.mark.parametrize(
    ("deviation", "observed", "words"),
    [(0.5, 2.5, "prior and data differ"), (20.0, 0.5, "prior has little effect")],
)
def test_the_verdict(deviation, observed, words):
    found = pk.prior_sensitivity(sampled(model_of(deviation, observed), simulations=1000))
    assert list(found.index) == ["mean"]
    assert found["diagnosis"]["mean"].startswith(words)
    assert found["likelihood"]["mean"] > 0.05


def test_a_known_density_is_part_of_the_likelihood():
    result = sampled(model_of(1.0, 0.5, known=[1.0, 2.0]), simulations=600)
    mean = result["posterior"]["mean"].to_numpy()
    np.testing.assert_allclose(result["log_prior"]["prior"].to_numpy(), norm(0, 1).logpdf(mean))
    expected = norm(mean, 2.0).logpdf(1.0) + norm(mean, 2.0).logpdf(2.0)
    np.testing.assert_allclose(result["log_likelihood"]["known"].to_numpy(), expected)


def test_without_a_learned_likelihood_the_prior_alone_is_scaled():
    result = sampled(model_of(0.5, 2.5), estimator="rejection")
    found = pk.prior_sensitivity(result)
    assert np.isnan(found["likelihood"]["mean"])
    assert found["diagnosis"]["mean"] == "prior matters"


def test_another_prior_is_the_one_that_is_scaled():
    table = pk.simulate(600, model=model_of(2.0, 0.5), random_seed=1, progressbar=False)
    result = sampled(None, reference_table=table, prior=model_of(1.0, 0.5))
    mean = result["posterior"]["mean"].to_numpy()
    np.testing.assert_allclose(result["log_prior"]["prior"].to_numpy(), norm(0, 1).logpdf(mean))


def test_a_result_without_the_prior_is_refused():
    rng = np.random.default_rng(0)
    fitted = pk.Rejection(20).fit(rng.normal(size=(100, 1)), rng.normal(size=(100, 1)))
    with pytest.raises(ValueError, match="no group `log_prior`"):
        pk.prior_sensitivity(fitted.condition([0.0]).to_arviz(20))
