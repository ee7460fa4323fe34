"""A linear-Gaussian model, where Kalman's filter and smoother are exact."""

from dataclasses import replace

import numpy as np
import pytest

from pymc_kbr.filtering import KernelBayesFilter
from tests.filtering.problems import kalman, scalar_model

N, STEPS = 400, 300
DEVIATION = 0.3 / np.sqrt(1 - 0.81)
SETTINGS = {
    "state_bandwidth": 0.4,
    "observation_bandwidth": 2.5,
    "regularisation": 1e-3,
    "prior_regularisation": 3e-4,
    "transition_regularisation": 1e-3,
    "backward_regularisation": 1e-3,
}


@pytest.fixture(scope="module")
def sequences():
    rng = np.random.default_rng(8)
    z, x = scalar_model(N, rng)
    fresh, seen = scalar_model(STEPS, rng)
    return KernelBayesFilter(**SETTINGS).fit(z, x), fresh[:, 0], seen


@pytest.mark.parametrize("kind", ["filter", "smooth"])
def test_means_are_near_the_exact_ones(kind, sequences):
    kbf, truth, seen = sequences
    exact = kalman(seen)[0 if kind == "filter" else 1][:, 0]
    means = getattr(kbf, kind)(seen).mean()[:, 0]
    # Two regressions with some five coefficients each, from N pairs: a share sqrt(10 / N) of a deviation.
    assert np.sqrt(np.mean((means - exact) ** 2)) < np.sqrt(10 / N) * DEVIATION
    excess = (means - truth) ** 2 - (exact - truth) ** 2
    raw = (seen[:, 0] - truth) ** 2 - (exact - truth) ** 2
    assert excess.mean() < 0.2 * raw.mean()


def test_smoothing_gains_on_filtering(sequences):
    kbf, truth, seen = sequences
    gain = (kbf.filter(seen).mean()[:, 0] - truth) ** 2 - (kbf.smooth(seen).mean()[:, 0] - truth) ** 2
    blocks = gain.reshape(-1, 10).mean(axis=1)
    assert blocks.mean() > 2 * blocks.std(ddof=1) / np.sqrt(len(blocks))


def test_gaps_widen_the_belief_to_the_stationary_one(sequences):
    kbf, _, seen = sequences
    gaps = seen[:40].copy()
    gaps[10:] = np.nan
    found = kbf.filter(gaps)
    spread = np.sqrt(found.cov()[:, 0, 0])
    assert spread[9] < spread[12] < spread[39]
    exact = np.sqrt(kalman(gaps)[0][:, 1])
    # deviations of N states of a process that remembers for some twenty steps
    np.testing.assert_allclose(spread[39], exact[39], rtol=3 / np.sqrt(2 * N / 20))
    assert abs(found.mean()[39, 0]) < 3 * DEVIATION / np.sqrt(N / 20)


def test_bands_cover_what_they_say(sequences):
    kbf, truth, seen = sequences
    found = kbf.filter(seen)
    third = replace(found, weights=found.weights[::3], times=found.times[::3])
    bands, truth = third.interval(0.9)[:, :, 0], truth[::3]
    covered = np.mean((truth >= bands[:, 0]) & (truth <= bands[:, 1]))
    # four standard errors of a share of 100, which are three steps apart and hardly alike
    assert abs(covered - 0.9) < 4 * np.sqrt(0.9 * 0.1 / len(truth))
