"""Trials that are lapses: `LearnedSimulator(..., lapse=)`."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_kbr as pk
from tests.models import AS_WRITTEN, densities_and_gradient, relative_errors

QUICK = {"mode": AS_WRITTEN}
RNG = np.random.default_rng(3)
START = RNG.uniform(0, 1, 300)
TABLE = pd.DataFrame({"t0": START})
TRIALS = pd.DataFrame({"rt": START + RNG.gamma(3, 0.2, 300), "choice": (RNG.random(300) < 0.3).astype(float)})
DATA = np.array([[1.4, 0.0], [0.9, 1.0], [1.2, 0.0]])


@pytest.fixture(scope="module")
def learnt():
    known = {"shift": {"rt": "t0"}, "lower": {"rt": "t0"}}
    return pk.KernelLikelihood("autoregressive", **known).for_scores().fit(TABLE, TRIALS, random_seed=1)


def model_of(learnt, lapse, data=DATA, **more):
    with pm.Model() as model:
        t0 = pm.Uniform("t0", 0, 1)
        share = pm.Beta("share", 1, 9)
        given = lapse(share)
        pk.LearnedSimulator("y", learnt, t0, observed=data, lapse=given, **more)
    return model


def point_of(t0, share):
    return {"t0_interval__": np.log(t0 / (1 - t0)), "share_logodds__": np.log(share / (1 - share))}


def densities(model, t0, share):
    return model.compile_logp([model["y"]], sum=False, **QUICK)(point_of(t0, share))[0]


@pytest.mark.versions
def test_a_lapse_is_even_between_the_simulated_values_whatever_the_parameters(learnt):
    share, width = 0.1, np.ptp(TRIALS["rt"])
    found = densities(model_of(learnt, lambda share: share), 0.5, share)
    own = np.exp(learnt.log_likelihoods([[0.5]], DATA)[0])
    np.testing.assert_allclose(np.exp(found), (1 - share) * own + share / (2 * width), rtol=1e-6)


def test_what_only_a_lapse_can_be_has_a_density_and_finite_gradients(learnt):
    """A time below every t0 is impossible without lapses; one beyond the range of lapses is the model's."""
    below, above = np.array([[-0.5, 1.0]]), np.array([[2.9, 0.0]])
    with pm.Model(), pytest.raises(ValueError, match="edge"):
        pk.LearnedSimulator("y", learnt, pm.Uniform("t0", 0, 1), observed=below)
    data = np.vstack([DATA, below, above])
    model = model_of(learnt, lambda share: (share, {"rt": (-1.0, 2.0)}), data)
    at, point = densities_and_gradient(model), point_of(0.5, 0.1)
    found = at(point)[0]
    assert found[3] == pytest.approx(np.log(0.1 / 6))
    assert found[4] == pytest.approx(np.log(0.9) + learnt.log_likelihoods([[0.5]], above)[0, 0])
    assert relative_errors(at, point).max() < 1e-5


def test_draws_hold_as_many_lapses_as_there_should_be(learnt):
    data = np.tile(DATA, (1000, 1))
    with pm.Model() as model:
        lapse = (0.3, {"rt": (5.0, 6.0)})
        pk.LearnedSimulator("y", learnt, pm.Uniform("t0", 0, 1), observed=data, lapse=lapse)
    drawn = pm.draw(model["y"], random_seed=1)
    lapses = drawn[:, 0] >= 5
    assert lapses.mean() == pytest.approx(0.3, abs=4 * np.sqrt(0.3 * 0.7 / 3000))
    assert drawn[lapses, 1].mean() == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(900))
    assert drawn[~lapses, 1].mean() == pytest.approx(0.3, abs=0.1)


@pytest.mark.versions
def test_each_group_has_its_share(learnt):
    group = np.array([0, 1, 1])
    with pm.Model() as model:
        t0 = pm.Uniform("t0", 0, 1, shape=2)
        pk.LearnedSimulator("y", learnt, t0, observed=DATA, group=group, lapse=np.array([0.0, 0.5]))
    point = {"t0_interval__": np.zeros(2)}
    found = model.compile_logp([model["y"]], sum=False, **QUICK)(point)[0]
    own = np.exp(learnt.log_likelihoods([[0.5]], DATA)[0])
    even = 1 / (2 * np.ptp(TRIALS["rt"]))
    np.testing.assert_allclose(np.exp(found), np.where(group == 0, own, 0.5 * own + 0.5 * even), rtol=1e-6)


@pytest.mark.versions
@pytest.mark.parametrize(
    ("lapse", "error", "word"),
    [
        (1.5, ValueError, "probability"),
        (-0.1, ValueError, "probability"),
        ("often", TypeError, "lapse|parameter"),
        ((0.1, {"speed": (0, 1)}), ValueError, "speed"),
        ((0.1, {"choice": (0, 1)}), ValueError, "continuous"),
        ((0.1, {"rt": (3, 1)}), ValueError, "lower"),
        ((0.1, 10.0), TypeError, "ranges"),
        (np.full((2, 2), 0.1), ValueError, "group"),
    ],
)
def test_bad_lapses_are_refused(learnt, lapse, error, word):
    with pm.Model(), pytest.raises(error, match=word):
        pk.LearnedSimulator("y", learnt, pm.Uniform("t0", 0, 1), observed=DATA, lapse=lapse)


@pytest.mark.versions
def test_predictive_draws_and_changed_data_have_lapses_too(learnt):
    data = np.vstack([DATA, [[0.05, 0.0]]])
    with pm.Model() as model:
        t0, share = pm.Uniform("t0", 0, 1), pm.Beta("share", 1, 9)
        trials = pm.Data("trials", data)
        pk.LearnedSimulator("y", learnt, t0, observed=trials, lapse=(share, {"rt": (0.0, 3.0)}))
        before = model.compile_logp(**QUICK)(model.initial_point())
        drawn = pm.sample_prior_predictive(20, random_seed=1)
        assert drawn.prior_predictive["y"].shape == (1, 20, 4, 2)
        pm.set_data({"trials": data[:2]})
        after = model.compile_logp(**QUICK)(model.initial_point())
    assert np.isfinite([before, after]).all()
    assert before != after
