"""What a table of rounds says of the edges of its prior and of its last bounds."""

import dataclasses

import numpy as np
import pymc as pm
import pytest
from scipy.stats import norm

import pymc_kbr as pk
from pymc_kbr.checking.diagnostics import diagnose
from pymc_kbr.embedding.embedding import Atoms
from pymc_kbr.kernels import Gaussian
from pymc_kbr.posterior.posterior import Posterior
from tests.checking.looked_at import looked_at

QUIET = {"progressbar": False}
LINEAR = pk.Adjusted(pk.Rejection(60), "local_linear")


def normal(rng, mean, scale, size):
    return rng.normal(mean, scale, size)


def a_model(scale=0.05, known=None, prior=pm.Normal, at=(0.0, 1.0), observed=0.5):
    with pm.Model() as model:
        mean = prior("mean", *at)
        if known is not None:
            pm.Normal("seen", mean, 0.1, observed=np.full(20, known))
        pm.Simulator("y", normal, mean, scale, observed=[observed])
    return model


def refined(model, n=600, rounds=2):
    return pk.refine(n, model=model, rounds=rounds, estimator=LINEAR, random_seed=1, **QUIET)


def edges(table, drawn):
    """Messages of a posterior of these draws (m,)."""
    points = drawn[:, None]
    posterior = Posterior.of(Atoms(points, Gaussian(0.1)), np.full(len(drawn), 1 / len(drawn)), table.support)
    found = diagnose(posterior, points, looked_at(table))
    return [concern.message for concern in found if concern.name == "edge"]


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_known_likelihood_is_no_part_of_the_priors_edges(rounds):
    """Whose quantiles would be those of a posterior: 0.4 plus and minus 0.05."""
    model = a_model(known=0.4, observed=0.45, prior=pm.Uniform, at=(-2.0, 2.0))
    table = pk.simulate(600, model=model, random_seed=1, **QUIET) if rounds == 1 else refined(model)
    assert table.origin.known == ("seen",)
    np.testing.assert_allclose(looked_at(table).edges[:, 0], [-1.96, 1.96], atol=0.15)
    assert edges(table, np.random.default_rng(1).normal(0.35, 0.02, 500)) == []


def test_a_prior_without_an_end_has_no_edge():
    """Draws far in the tail of a normal prior are not at its edge; those of an exponential are at zero."""
    table = pk.simulate(600, model=a_model(), random_seed=1, **QUIET)
    assert edges(table, np.random.default_rng(1).normal(2.8, 0.1, 500)) == []
    positive = a_model(prior=pm.Exponential, at=(1.0,), scale=0.3)
    table = pk.simulate(600, model=positive, random_seed=1, **QUIET)
    assert edges(table, np.linspace(5.0, 9.0, 500)) == []
    (message,) = edges(table, np.linspace(0.0001, 0.02, 500))
    assert "in the lower 1% of the prior" in message


def test_files_of_before_have_no_edges_where_a_known_likelihood_weights_rows_of_rounds():
    table = refined(a_model(known=0.4))
    origin = dataclasses.replace(table.origin, prior_edges=(), cut_edges=())
    seen = looked_at(dataclasses.replace(table, origin=origin))
    assert np.isnan(seen.edges).all()
    assert np.isinf(seen.cut).all()


@pytest.mark.parametrize("seed", [1, 2])
def test_after_rounds_the_edges_are_those_of_the_whole_prior(seed):
    table = refined(a_model())
    assert np.ptp(table.parameters) < 2
    assert not table.origin.between_bounds
    np.testing.assert_allclose(looked_at(table).edges[:, 0], norm.ppf([0.01, 0.99]), atol=0.45)
    # What lies well within the last bounds is near no edge.
    assert edges(table, np.random.default_rng(seed).normal(0.5, 0.05, 1000)) == []


def test_a_posterior_at_the_priors_own_edge_after_rounds_is_told_so():
    """Of Gamma(1, 1): a tenth of the draws beyond the hundredth from which on its edge is."""
    model = a_model(prior=pm.Gamma, at=(1, 1), scale=0.3, observed=3.0)
    table = refined(model)
    drawn = np.linspace(2.0, 5.2, 500)
    (message,) = edges(table, drawn)
    assert "in the upper 1% of the prior" in message
    assert "widen the prior" in message
    assert "bounds" not in message


@pytest.mark.parametrize("side", [-1, 1])
def test_draws_near_the_last_bounds_may_be_cut_off(side):
    table = refined(a_model())
    low, high = np.array(table.origin.cut_edges, dtype=float)[:, 0]
    assert table.parameters.min() < low < 0.5 < high < table.parameters.max()
    end = high if side > 0 else low
    rng = np.random.default_rng(1)
    within = rng.uniform(0.45, 0.55, 960)
    assert edges(table, np.append(within, np.full(40, end + 0.01 * side))) == []
    (message,) = edges(table, np.append(within, np.full(60, end + 0.01 * side)))
    assert f"6% of the draws of 'mean' lie near the {'upper' if side > 0 else 'lower'} end" in message
    assert "may be cut off" in message
    assert "in more rounds" in message


def test_rows_that_are_left_out_beyond_the_priors_edge_cut_nothing_off():
    """The posterior lies in the upper tail of the prior; above it there is next to nothing."""
    table = refined(a_model(observed=2.6, scale=0.3), n=1200, rounds=3)
    assert table.origin.left_out > 0
    lower, upper = (ends[0] for ends in table.origin.cut_edges)
    assert lower is not None
    assert upper is None


def test_two_modes_far_apart_are_not_cut_off():
    with pm.Model() as model:
        x = pm.Normal("x", 0, 2)
        pm.Simulator("y", lambda rng, x, size: np.abs(x) + rng.normal(0, 0.03, size), x, observed=[1.0])
    table = pk.refine(1000, model=model, estimator=pk.Rejection(60), random_seed=1, **QUIET)
    rng = np.random.default_rng(2)
    drawn = np.where(rng.random(1000) < 0.5, -1, 1) + rng.normal(0, 0.03, 1000)
    assert edges(table, drawn) == []


def test_bounds_of_ones_own_keep_the_narrower_limit():
    model = a_model(scale=0.5)
    table = pk.simulate(600, model=model, within={"mean": (0.0, 1.0)}, random_seed=1, **QUIET)
    (message,) = edges(table, np.append(np.full(96, 0.5), np.full(4, 0.99)))
    assert "in the upper 5% of the prior: the bounds between which" in message


def test_the_prior_that_is_shown_says_that_rows_were_left_out():
    model = a_model()
    table = refined(model)
    idata = pk.sample_abc(50, reference_table=table, model=model, estimator=LINEAR, random_seed=1, **QUIET)
    words = " ".join(map(str, idata["prior"].attrs.values()))
    assert f"without {table.origin.left_out} rows that lie far from the posterior" in words
