"""Summaries of filtered states, their labels, ArviZ and pictures."""

import arviz as az
import matplotlib as mpl
import numpy as np
import pytest

from pymc_kbr.filtering import KernelBayesFilter
from pymc_kbr.filtering.validation import make_point, nearest_rotation
from tests.filtering.problems import fixed, turning

mpl.use("agg")


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(3)
    z, x = turning(130, rng)
    kbf = fixed().fit(z[:120], x[:120])
    return kbf.filter(x[120:], times=np.arange(10) + 7), z[120:], x[120:]


def test_summaries_are_those_of_each_time(found):
    states, _, _ = found
    posterior = states.posterior(4)
    np.testing.assert_allclose(states.cov()[4], posterior.cov())
    np.testing.assert_allclose(states.mode()[4], posterior.mode())
    np.testing.assert_allclose(states.interval(0.8)[4], posterior.quantile([0.1, 0.9]))
    np.testing.assert_allclose(states.effective_sample_size[4], posterior.effective_sample_size)
    np.testing.assert_allclose(states[4].mean(), states.mean()[4])
    assert len(states) == 10
    assert "filtered, 10 times" in repr(states)


def test_draws_have_the_projected_mean_and_the_seed_decides(found):
    states, _, _ = found
    draws = states.draw(4000, 1)
    expected = states.posterior(4)
    projected = expected.simplex_weights @ expected.atoms
    error = np.sqrt(np.diag(states.cov()[4]) / 4000)
    assert np.all(np.abs(draws[4].mean(axis=0) - projected) < 4 * error + 1e-3)
    np.testing.assert_array_equal(states.draw(5, 1), states.draw(5, 1))
    assert np.abs(states.draw(5, 1) - states.draw(5, 2)).max() > 1e-6


def test_labels(found):
    states, _, _ = found
    dataset = states.renamed(("u", "v")).to_xarray(0.8)
    assert dataset["mean"].dims == ("time", "state")
    assert dataset["state"].to_numpy().tolist() == ["u", "v"]
    np.testing.assert_array_equal(dataset["time"], np.arange(10) + 7)
    np.testing.assert_allclose(dataset["mean"].sel(state="v", time=9), states.mean()[2, 1])
    np.testing.assert_allclose(dataset["upper"], states.interval(0.8)[:, 1])
    np.testing.assert_allclose(dataset["sd"], np.sqrt(np.diagonal(states.cov(), axis1=1, axis2=2)))
    np.testing.assert_allclose(dataset["weight"] @ dataset["atoms"], states.mean())
    with pytest.raises(ValueError, match="3 names are given for 2 columns"):
        states.renamed(("a", "b", "c"))


def test_names_are_those_of_a_data_frame(rng):
    import pandas as pd

    z, x = turning(40, rng)
    kbf = fixed().fit(pd.DataFrame(z, columns=["east", "north"]), x)
    assert kbf.filter(x[:3]).names == ("east", "north")


def test_arviz_keeps_draws_and_signed_weights(found):
    states, _, _ = found
    result = states.to_arviz(200, chains=2, random_seed=1)
    drawn = np.asarray(result["posterior"]["state"])
    assert drawn.shape == (2, 200, 10, 2)
    np.testing.assert_allclose(drawn.reshape(400, 10, 2)[:, 3], states.draw(400, 1)[3])
    np.testing.assert_allclose(np.asarray(result["weighted_atoms_data"]["weight"]), states.weights)
    assert len(az.summary(result, kind="stats")) == 20


def test_bands_and_truth_are_drawn(found):
    states, truth, observed = found
    axes = states.plot(truth, observations=observed)
    labels = [line.get_label() for line in axes[0].get_lines()]
    assert {"mean", "observed", "truth"} <= set(labels)
    line = axes[1].get_lines()[labels.index("truth")]
    np.testing.assert_allclose(line.get_ydata(), truth[:, 1])
    with pytest.raises(ValueError, match=r"truth has shape \(3, 2\)"):
        states.plot(truth[:3])
    mpl.pyplot.close("all")


def random_rotations(count, rng):
    turns, _ = np.linalg.qr(rng.normal(size=(count, 3, 3)))
    turns[:, :, 0] *= np.linalg.det(turns)[:, None]
    return turns.reshape(count, 9)


def test_no_rotation_is_nearer(rng):
    others = random_rotations(3000, rng)
    for mean in [*rng.normal(size=(5, 9)), -np.eye(3).ravel() + 0.1 * rng.normal(size=9)]:
        found = nearest_rotation(mean)
        matrix = found.reshape(3, 3)
        np.testing.assert_allclose(matrix @ matrix.T, np.eye(3), atol=1e-12)
        assert np.linalg.det(matrix) == pytest.approx(1)
        assert np.sum((found - mean) ** 2) <= np.sum((others - mean) ** 2, axis=1).min()


def test_means_are_rotations_where_asked(rng):
    z = random_rotations(60, rng)
    x = z + 0.05 * rng.normal(size=z.shape)
    means = fixed(point="rotation").fit(z, x).filter(x[:4]).mean().reshape(4, 3, 3)
    np.testing.assert_allclose(np.linalg.det(means), 1)
    ends = fixed(point=lambda mean: np.round(mean)).fit(z, x).filter(x[:4]).mean()
    np.testing.assert_array_equal(ends, np.round(ends))


@pytest.mark.parametrize(
    ("point", "states", "words"),
    [
        ("rotations", np.eye(2), "the names are mean, rotation"),
        ("rotation", np.eye(2), "2 columns"),
        ("rotation", -np.eye(3).reshape(1, 9), "1 state.s. are no rotation"),
        (lambda mean: mean[:1], np.eye(2), "must return a finite point"),
        (lambda mean: mean * np.nan, np.eye(2), "must return a finite point"),
        (3, np.eye(2), "give a name"),
    ],
)
def test_points_that_are_none_are_refused(point, states, words):
    with pytest.raises((TypeError, ValueError), match=words):
        make_point(point, states)


def test_a_filter_needs_fit_first():
    with pytest.raises(ValueError, match="not fitted"):
        KernelBayesFilter().filter(np.zeros((3, 1)))
