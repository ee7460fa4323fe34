"""Data that a model cannot make: a statistic is the same in all simulations, and another in the data."""

import numpy as np
import pytest

import pymc_kbr as pk
from pymc_kbr.arrays.support import Block, Support

pytestmark = [
    pytest.mark.filterwarnings("ignore:the statistics in columns:UserWarning"),
    pytest.mark.filterwarnings("ignore::pymc_kbr.PosteriorWarning"),
]
RNG = np.random.default_rng(9)
THETA = RNG.normal(size=(120, 1))
X = THETA + 0.5 * RNG.normal(size=(120, 2))
POSSIBLE, IMPOSSIBLE = [0.4, 0.0, 2.0], [0.4, 0.0, 3.0]


def learnt(whole, support=None):
    """The second statistic in whole numbers, or as it is; the third is two."""
    x = np.column_stack([X[:, 0], np.round(X[:, 1]) if whole else X[:, 1], np.full(120, 2.0)])
    theta = THETA if support is None else np.round(THETA)
    return pk.KernelLikelihood("location_scale", 50).fit(theta, x, support, random_seed=1)


@pytest.fixture(scope="module", params=[False, True], ids=["continuous", "whole"])
def likelihood(request):
    return learnt(request.param)


def test_they_have_no_evidence_and_the_posterior_is_what_the_rest_says(likelihood):
    with pytest.warns(pk.PosteriorWarning, match="is 2 in every simulation and 3 in the data"):
        lost, found = likelihood.condition([IMPOSSIBLE, POSSIBLE])
    assert lost.settings["log_evidence"] == -np.inf
    assert np.isfinite(found.settings["log_evidence"])
    # Two means of 50 draws each.
    assert abs(lost.mean() - found.mean()) < 4 * np.sqrt(2 / 50) * np.sqrt(found.cov()[0, 0])


def test_one_impossible_trial_makes_its_data_set_impossible(likelihood):
    sets = [np.array([POSSIBLE, IMPOSSIBLE]), np.array([POSSIBLE, POSSIBLE])]
    lost, found = likelihood.condition(sets, trials=True)
    assert lost.settings["log_evidence"] == -np.inf
    assert np.isfinite(found.settings["log_evidence"])
    # Two means of 50 draws each.
    assert abs(lost.mean() - found.mean()) < 4 * np.sqrt(2 / 50) * np.sqrt(found.cov()[0, 0])


def test_rows_are_weighted_by_the_rest():
    likelihood = learnt(False, Support(1, (Block((0,), smooth=False, numbers=False),)))
    lost, found = likelihood.condition([IMPOSSIBLE, POSSIBLE])
    assert lost.settings["log_evidence"] == -np.inf
    assert np.isfinite(found.settings["log_evidence"])
    np.testing.assert_allclose(lost.weights, found.weights)
    np.testing.assert_allclose(likelihood.weights(IMPOSSIBLE), found.weights)


def test_each_observation_has_a_density_of_its_own(likelihood):
    prepared = likelihood.prepare([IMPOSSIBLE, POSSIBLE])
    logs = likelihood.log_density(likelihood.describe(np.zeros((2, 1))), prepared)
    assert logs[0] == -np.inf
    assert logs[1] == pytest.approx(likelihood.log_likelihood([[0.0]], POSSIBLE)[0])
    assert likelihood.log_likelihood([[0.0]], IMPOSSIBLE)[0] == -np.inf
