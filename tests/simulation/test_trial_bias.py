"""How far posteriors of many trials are off: `bias_for`, and the warnings that rest on it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats

import pymc_kbr as pk
from pymc_kbr.estimators.likelihood.form import Prepared
from pymc_kbr.estimators.likelihood.trial_bias import ScoreCheck


@dataclass(frozen=True)
class Known:
    """A density N(theta_0 + shift, (ratio exp(theta_1))^2) where theta_0 and exp(theta_1) are right."""

    shift: float = 0.0
    ratio: float = 1.0
    success: Any = None

    def prepare(self, statistics):
        return Prepared(statistics[:, None], np.zeros((len(statistics), 1)))

    def describe(self, parameters):
        return parameters

    def log_density(self, described, prepared):
        mean, width = described[:, 0] + self.shift, self.ratio * np.exp(described[:, 1])
        return stats.norm.logpdf(prepared.points[:, 0, 0], mean, width)


def check_of(known: Known, n: int = 5000, *, parts: tuple = ()) -> ScoreCheck:
    rng = np.random.default_rng(1)
    # Most rows lie at one side: the mean of a score does not depend on their prior.
    theta = np.column_stack([rng.gamma(2, 1, n), rng.uniform(-0.5, 0.5, n)])
    x = theta[:, :1] + np.exp(theta[:, 1:]) * rng.normal(size=(n, 1))
    return ScoreCheck.of(known, parts, theta, x, np.arange(2))


AT = np.array([[1.5, 0.0]])


def test_scores_of_the_right_density_show_no_shift():
    shift, error = check_of(Known())(200, AT)
    # A regression that saw one constant alone would have this standard error; others have a larger one.
    assert np.all(np.abs(shift) < 4 * np.maximum(error, np.sqrt(200 / 5000)))
    assert np.all(error < 0.5)


@pytest.mark.parametrize("trials", [50, 200])
def test_a_shift_of_the_density_is_found_in_posterior_deviations(trials):
    """The score of the mean is (x - theta - delta): its mean is -delta, in deviations -sqrt(r) delta."""
    shift, error = check_of(Known(shift=0.1))(trials, AT)
    assert shift[0] == pytest.approx(-0.1 * np.sqrt(trials), abs=4 * np.sqrt(trials / 5000))
    assert shift[1] == pytest.approx(0, abs=4 * np.sqrt(trials / 5000))
    assert np.all(error < 0.5)


def test_a_width_of_the_density_is_found():
    """With widths that are c times too large the score of their logarithm has the mean 1 / c^2 - 1."""
    ratio = 1.05
    shift, _ = check_of(Known(ratio=ratio))(200, AT)
    # Its second moment: z^2 / c^2 - 1 for normal z.
    information = 2 / ratio**4 + (1 / ratio**2 - 1) ** 2
    # The prior, even in one unit, has the precision 12.
    exact = 200 * (1 / ratio**2 - 1) / np.sqrt(200 * information + 12)
    assert shift[1] == pytest.approx(exact, abs=4 * np.sqrt(200 / 5000))


def test_other_fits_say_how_large_errors_of_estimation_are():
    """Fits to n' of n rows that are off by d: the fit to all is off by d (n' / (n - n'))^1/2 on average."""
    every = np.ones(5000, dtype=bool)
    parts = [(Known(shift=sign * 0.1), every, 0.25) for sign in (1.0, -1.0)]
    shift, error = check_of(Known(), parts=parts)(200, AT)
    assert abs(shift[0]) < 4 * np.sqrt(200 / 5000)
    assert error[0] == pytest.approx(np.sqrt(200 * 0.25) * 0.1, rel=0.15)


# --- of a fitted likelihood ---


RNG = np.random.default_rng(2)
THETA = RNG.normal(size=(600, 1))
NOISY = THETA + RNG.normal(size=(600, 1))


@pytest.fixture(scope="module")
def learnt():
    names = {"mean": THETA[:, 0]}, {"x": NOISY[:, 0]}
    return pk.KernelLikelihood("location_scale", particles=100).fit(*names, random_seed=1)


def test_the_error_grows_with_the_root_of_the_number_of_trials(learnt):
    few, many = (learnt.bias_for(trials, [0.3]) for trials in (100, 10_000))
    # Beside 100 trials the prior counts for one hundredth.
    np.testing.assert_allclose(many.shift, 10 * few.shift, rtol=0.02)
    # What moves each trial by itself does not add up.
    assert 7 < many.standard_error[0] / few.standard_error[0] <= 10
    assert many.expected == pytest.approx(np.hypot(many.shift[0], many.standard_error[0]))
    assert "mean" in repr(many)
    assert many.names == ("mean",)


def test_parameters_may_be_given_in_many_ways(learnt):
    exact = learnt.bias_for(100, [0.3])
    for at in ([[0.3]], np.array([0.3]), {"mean": [0.3]}, {"mean": 0.3}, 0.3):
        assert learnt.bias_for(100, at).expected == exact.expected
    assert learnt.bias_for(np.int64(100), [0.3]).trials == 100


@pytest.mark.parametrize(
    ("trials", "at", "error", "word"),
    [
        (0, [0.3], ValueError, "trials"),
        (1.5, [0.3], TypeError, "trials"),
        (True, [0.3], TypeError, "trials"),
        (10, [0.3, 0.4], ValueError, "shape"),
        (10, [np.nan], ValueError, "NaN"),
        (10, np.empty((0, 1)), ValueError, "rows"),
        (10, "mean", TypeError, "at"),
    ],
)
def test_bad_arguments_are_refused(learnt, trials, at, error, word):
    with pytest.raises(error, match=word):
        learnt.bias_for(trials, at)


def test_a_saved_likelihood_keeps_its_check(learnt, tmp_path, monkeypatch):
    before = learnt.bias_for(100, [0.3])
    loaded = pk.load(pk.save(learnt, tmp_path / "likelihood.npz"))
    monkeypatch.setattr(pk.KernelLikelihood, "_fitted_to_rows", None)  # nothing is fitted again
    after = loaded.bias_for(100, [0.3])
    np.testing.assert_array_equal(after.shift, before.shift)
    np.testing.assert_array_equal(after.standard_error, before.standard_error)


def test_conditions_are_inputs_of_the_check():
    stimulus = RNG.uniform(0.5, 2, 600)
    x = THETA * stimulus[:, None] + RNG.normal(size=(600, 1))
    inputs = {"mean": THETA[:, 0], "stimulus": stimulus}
    likelihood = pk.KernelLikelihood("location_scale", 100, conditions=["stimulus"]).fit(
        inputs, {"x": x[:, 0]}, random_seed=1
    )
    bias = likelihood.bias_for(50, [[0.3, 1.0], [0.3, 1.5]])
    assert bias.shift.shape == (1,)
    assert bias.names == ("mean",)
    with pytest.warns(pk.PosteriorWarning, match="2000 trials"):
        likelihood.condition(np.tile(x[:20], (100, 1)), trials=True, conditions=np.tile(stimulus[:20], 100))


def test_many_trials_are_warned_of_and_few_are_not(learnt):
    data = 0.3 + np.random.default_rng(1).normal(size=(2000, 1))
    with pytest.warns(pk.PosteriorWarning, match="2000 trials of a data set.*'mean'"):
        learnt.condition(data, trials=True)
    with pytest.warns(pk.PosteriorWarning, match="2000 trials"):
        learnt.condition([data[:3], data], trials=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learnt.condition(data[:3], trials=True)
        learnt.condition(data[:1], trials=True)
