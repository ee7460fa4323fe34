"""What `Adjusted` moves, what it puts back where it was, and what it shares."""

import numpy as np
import pytest
from scipy.special import expit, logit

import pymc_kbr as pk
from pymc_kbr.arrays.bijections import Interval
from pymc_kbr.arrays.support import Block, Support
from pymc_kbr.embedding.embedding import Atoms, Embedding
from pymc_kbr.embedding.projection import project_to_simplex


@pytest.fixture
def rows(rng):
    x = rng.normal(size=(80, 2))
    z = np.column_stack([np.sin(x[:, 0]), 5 * x[:, 1], x[:, 0] + x[:, 1]])
    return x, z + np.exp(0.5 * x[:, :1]) * rng.normal(size=z.shape)


@pytest.fixture
def observed():
    return np.array([0.4, -0.3])


@pytest.fixture
def mixed(rng):
    """A count, a share, of which some lie on the edge, and a free parameter, with two statistics."""
    count, share, free = rng.integers(0, 4, 120).astype(float), rng.random(120), rng.normal(size=120)
    share[:6] = 1.0  # too few for a point mass
    share[10:14] = 0.0
    theta = np.column_stack([count, share, free])
    x = np.column_stack([count + 2 * share, free]) + 0.3 * rng.normal(size=(120, 2))
    blocks = (
        Block((0,), (Interval((-0.7,), (4.1,)),), smooth=False),
        Block((1,), (Interval((0.0,), (1.0,)),)),
        Block((2,), ()),
    )
    return theta, x, Support(3, blocks)


def moved_by_hand(theta, x, at, weights):
    """Atoms of `mixed` after a local regression of logit share and the free parameter."""
    moving = (weights > 0) & (theta[:, 1] > 0) & (theta[:, 1] < 1)
    with np.errstate(divide="ignore"):
        z = np.column_stack([logit(theta[:, 1]), theta[:, 2]])[moving]
    design = np.column_stack([np.ones(moving.sum()), x[moving]])
    root = np.sqrt(weights[moving])[:, None]
    slopes = np.linalg.lstsq(root * design, root * z, rcond=None)[0]
    moved = np.array([1.0, *at]) @ slopes + z - design @ slopes
    result = theta.copy()
    result[moving, 1], result[moving, 2] = expit(moved[:, 0]), moved[:, 1]
    return result


@pytest.mark.parametrize("base", ["rejection", "nadaraya_watson", "signed"])
def test_discrete_parameters_edges_and_rows_without_weight_stay(base, mixed):
    theta, x, support = mixed
    inner = {
        "rejection": pk.Rejection(90, scale=False, kernel="epanechnikov"),
        "nadaraya_watson": pk.NadarayaWatson(2.0, scale=False, kernel="epanechnikov"),
        "signed": pk.ConditionalMean(1.0, 1e-3, scale=False, parameter_bandwidth=1.0),
    }[base]
    at = np.array([2.0, 0.3])
    posterior = pk.Adjusted(inner, "local_linear").fit(theta, x, support).condition(at)
    weights = inner.fit(theta, x, support).weights(at)
    if base == "signed":
        assert np.any(weights < 0)
        np.testing.assert_allclose(posterior.weights, weights)
        weights = project_to_simplex(Embedding(Atoms(theta, inner.parameter_kernel_), weights))
    expected = moved_by_hand(theta, x, at, weights)
    if base == "rejection":
        rows = np.flatnonzero(weights)
        order = [np.argsort(a[:, 2]) for a in (posterior.atoms, expected[rows])]
        np.testing.assert_allclose(posterior.atoms[order[0]], expected[rows][order[1]], rtol=1e-7)
    else:
        np.testing.assert_allclose(posterior.atoms, expected, rtol=1e-5, atol=1e-9)
        assert np.any(weights == 0)
        stay = (weights == 0) | (theta[:, 1] == 0) | (theta[:, 1] == 1)
        np.testing.assert_array_equal(posterior.atoms[stay], theta[stay])  # to the last bit
        np.testing.assert_array_equal(posterior.atoms[:, 0], theta[:, 0])
    drawn = posterior.draw(200, 0)
    assert set(drawn[:, 0]) <= {0.0, 1.0, 2.0, 3.0}
    assert np.all((drawn[:, 1] >= 0) & (drawn[:, 1] <= 1))


def test_where_nothing_can_move_nothing_does(rng):
    theta = rng.integers(0, 3, size=(40, 1)).astype(float)
    discrete = Support(1, (Block((0,), (), smooth=False),))
    x = theta + rng.normal(size=(40, 1))
    posterior = pk.Adjusted(pk.Rejection(20), "none").fit(theta, x, discrete).condition([0.5])
    assert np.all(np.isin(posterior.atoms, [0, 1, 2]))
    edges = Support.from_bounds({"a": (0, 2)}, ["a"])
    theta = np.where(rng.random((40, 1)) < 0.5, 0.0, 2.0)
    theta[-12:] = rng.uniform(0.5, 1.5, size=(12, 1))
    x = theta + np.where(np.arange(40)[:, None] < 28, 0, 50.0)  # rows inside are far from the observation
    posterior = pk.Adjusted(pk.Rejection(20), "local_linear").fit(theta, x, edges).condition([0.5])
    assert np.all(np.isin(posterior.atoms, [0, 2]))


def test_settings_hold_those_of_the_regressions(rows):
    fitted = pk.Adjusted(pk.NadarayaWatson(1.5), "heteroscedastic_kernel_ridge").fit(*rows[::-1])
    found = fitted.settings()
    for name in ("mean", "spread"):
        regression = getattr(fitted.adjustment_, f"{name}_")
        assert found[f"adjustment_{name}_bandwidth"] == regression.bandwidth
        assert found[f"adjustment_{name}_ridge"] == regression.ridge
    assert found["bandwidth"] == 1.5
    plain = pk.Adjusted(pk.NadarayaWatson(1.5), "none").fit(*rows[::-1]).settings()
    assert plain == {"bandwidth": 1.5}


def test_the_default_accepts_near_rows_by_the_epanechnikov_kernel(rows):
    inner = pk.Adjusted()._inner()
    assert (inner.accepted, inner.most, inner.kernel) == (0.3, 10_000, "epanechnikov")
    assert pk.Adjusted(pk.Rejection(0.2, scale=False)).scale_of_statistics() is False
    assert pk.Adjusted().scale_of_statistics() is True
    for smoothing in ("local", "none"):
        fitted = pk.Adjusted(adjustment="local_linear", smoothing=smoothing).fit(*rows[::-1])
        assert fitted.condition([0.0, 0.0]).smoothing == smoothing
