"""Parameters of a transition of known form, beside the states."""

import copy
import dataclasses

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy.stats import norm

from pymc_kbr.arrays.support import Support
from pymc_kbr.filtering import KernelBayesFilter
from pymc_kbr.posterior.posterior import PosteriorWarning
from pymc_kbr.simulation.one_step import OneStep
from tests.filtering.problems import kalman, scalar_model

pytestmark = pytest.mark.filterwarnings("ignore::pymc_kbr.posterior.posterior.PosteriorWarning")
GRID = np.linspace(0.7, 0.99, 11)
N, STEPS = 500, 150


def step(states, slopes, rng):
    return slopes * states + 0.3 * rng.normal(size=states.shape)


def log_density(x, slope, mean, variance, shift=0.0):
    """Kalman's log density of observations (T, 1)."""
    total = 0.0
    for t, row in enumerate(x[:, 0]):
        if t:
            mean, variance = slope * mean + shift, slope**2 * variance + 0.09
        if np.isnan(row):
            continue
        seen = variance + 0.25
        total += norm.logpdf(row, mean, np.sqrt(seen))
        mean, variance = mean + variance / seen * (row - mean), variance * 0.25 / seen
    return total


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(1)
    z = rng.normal(size=(N, 1))
    pairs = z, z + 0.5 * rng.normal(size=z.shape)
    known = {
        name: KernelBayesFilter(transition=lambda s, rng: s, correction=correction).fit(
            pairs=pairs, random_seed=0
        )
        for name, correction in (("moments", True), ("weights", False))
    }
    return known, z, *scalar_model(STEPS, rng)


@pytest.fixture(scope="module")
def learnt(fitted):
    known, _, _, x = fitted
    return known["moments"].learn_transition(step, GRID, x, random_seed=1)


@pytest.mark.parametrize("kind", ["moments", "weights"])
def test_the_posterior_of_a_slope_is_the_exact_one(kind, fitted, learnt):
    known, z, _, x = fitted
    gaps, prior = x.copy(), np.linspace(1, 2, len(GRID))
    gaps[20:40] = np.nan
    found = learnt
    if kind == "weights":
        found = known[kind].learn_transition(step, GRID, gaps, weights=prior, random_seed=1)
    logs = np.array([log_density(x if kind == "moments" else gaps, a, z.mean(), z.var()) for a in GRID])
    exact = np.exp(logs - logs.max()) * (1.0 if kind == "moments" else prior)
    exact /= exact.sum()
    mean = exact @ GRID
    deviation = np.sqrt(exact @ (GRID - mean) ** 2)
    # The noise of observations is known to 1 / sqrt(2 N), 2%; on other sequences means are off by at most .25
    # deviations.
    assert found.posterior.mean()[0] == pytest.approx(mean, abs=0.4 * deviation)
    assert np.sqrt(found.posterior.cov()[0, 0]) == pytest.approx(deviation, rel=0.15)
    assert 0.5 * np.abs(found.weights[-1] - exact).sum() < 0.2


def test_states_are_those_of_the_exact_filter_over_the_slope(fitted, learnt):
    _, _, truth, x = fitted
    exact = kalman(x)
    for found, place in ((learnt.filter(), 0), (learnt.smooth(), 1)):
        error = np.mean((found.mean() - truth) ** 2)
        # The exact filter knows the slope.
        assert error < 1.1 * np.mean((exact[place][:, 0] - truth[:, 0]) ** 2)
        assert np.mean(np.sqrt(found.cov()[:, 0, 0]) / np.sqrt(exact[place][:, 1])) == pytest.approx(
            1, abs=0.1
        )
        np.testing.assert_allclose(found.weights.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(learnt.weights[0], 1 / len(GRID), rtol=1e-6)
    np.testing.assert_allclose(learnt.weights.sum(axis=1), 1)


def test_draws_are_of_parameters_and_paths_together(learnt):
    slopes, paths = learnt.draw(400, random_seed=0)
    assert slopes.shape == (400, 1)
    assert paths.shape == (400, STEPS, 1)
    assert slopes.mean() == pytest.approx(learnt.posterior.mean()[0], abs=4 * slopes.std() / 20)
    # Under a larger slope a path depends more on its last state.
    within = np.sum(paths[:, 1:, 0] * paths[:, :-1, 0], axis=1) / np.sum(paths[:, :-1, 0] ** 2, axis=1)
    assert np.corrcoef(within, slopes[:, 0])[0, 1] > 0.2
    smoothed = learnt.smooth()
    np.testing.assert_array_equal(smoothed.draw_paths(400, 0), paths)
    deviation = np.sqrt(smoothed.cov()[:, 0, 0])
    assert np.abs((paths.mean(axis=0) - smoothed.mean())[:, 0] / deviation).max() < 4.5 / 20


def test_weights_have_states_and_paths_too(fitted):
    known, _, truth, x = fitted
    found = known["weights"].learn_transition(step, [0.85, 0.9, 0.95], x[:60], random_seed=1)
    assert np.mean((found.filter().mean() - truth[:60]) ** 2) < 0.25
    # Pairs alone tell of no step back.
    for call in (found.smooth, lambda: found.draw(3)):
        with pytest.raises(ValueError, match="pairs alone"):
            call()
    smoothless = KernelBayesFilter(correction=False)
    z, seen = scalar_model(200, np.random.default_rng(3))
    sequence = smoothless.fit(z, seen, random_seed=0)
    again = sequence.learn_transition(step, [[0.85], [0.95]], x[:30], random_seed=1)
    assert np.isfinite(again.smooth().mean()).all()
    slopes, paths = again.draw(20, 0)
    assert set(slopes[:, 0]) <= {0.85, 0.95}
    assert paths.shape == (20, 30, 1)


def one_step():
    with pm.Model() as model:
        previous = pm.Data("previous", np.zeros(1))
        slope = pm.Beta("slope", 8, 2)
        shift = pm.Normal("shift", 0, 0.05, shape=1)
        pm.Normal("state", slope * previous + shift, 0.3, shape=1)
    return model


def test_parameters_of_a_pymc_model_have_its_prior(fitted):
    known, z, _, x = fitted
    found = known["moments"].learn_transition(one_step(), ["slope", "shift"], x[:40], draws=8, random_seed=1)
    assert found.posterior.names == ("slope", "shift[0]")
    assert "slope" in repr(found)
    # Of which prior the draws are is below; their weights are near the exact ones, as those of slopes above.
    theta, _ = OneStep(one_step(), False, ["slope", "shift"]).prior(
        8, int(np.random.default_rng(1).integers(2**32))
    )
    logs = np.array([log_density(x[:40], slope, z.mean(), z.var(), shift) for slope, shift in theta])
    exact = np.exp(logs - logs.max())
    assert 0.5 * np.abs(found.weights[-1] - exact / exact.sum()).sum() < 0.2


@pytest.mark.versions
def test_a_model_of_one_step_takes_parameters_as_they_are_given(rng):
    call = OneStep(one_step(), False, ["slope", "shift"])
    states, theta = rng.normal(size=(4000, 1)), np.tile([0.5, 2.0], (4000, 1))
    theta[2000:, 0] = -0.5
    apart = call(states, theta, rng) - theta[:, :1] * states - 2.0
    for half in (apart[:2000], apart[2000:]):
        assert abs(half.mean()) < 4 * 0.3 / np.sqrt(2000)
        assert half.std() == pytest.approx(0.3, rel=4 / np.sqrt(4000))
    values, names = call.prior(500, 3)
    assert names == ("slope", "shift[0]")
    assert values[:, 0].mean() == pytest.approx(0.8, abs=0.03)
    np.testing.assert_array_equal(values, call.prior(500, 3)[0])


def test_controls_act_beside_parameters(rng):
    u = rng.normal(size=(160, 1))
    z = np.zeros((160, 1))
    for t in range(159):
        z[t + 1] = 0.5 * z[t] + 0.7 * u[t] + 0.1 * rng.normal()
    x = z + 0.3 * rng.normal(size=z.shape)
    kbf = KernelBayesFilter().fit(z[:100], x[:100], controls=u[:100], random_seed=0)

    def driven(states, gains, controls, rng):
        return 0.5 * states + gains * controls + 0.1 * rng.normal(size=states.shape)

    frame = pd.DataFrame({"gain": np.linspace(0.3, 1.1, 9)})
    support = Support.from_bounds({"gain": (0.0, 2.0)}, ["gain"])
    found = kbf.learn_transition(driven, frame, x[100:], controls=u[100:], support=support, random_seed=0)
    assert found.posterior.names == ("gain",)
    assert found.posterior.mean()[0] == pytest.approx(0.7, abs=0.1)
    assert found.smooth().draw_paths(3, 0).shape == (3, 60, 1)


def test_values_too_far_apart_are_warned_of_and_what_does_not_fit_is_refused(fitted):
    known, _, _, x = fitted
    kbf = known["moments"]
    with pytest.warns(PosteriorWarning, match="too far apart"):
        kbf.learn_transition(step, [-0.9, 0.9], x, random_seed=0)
    for given, words in (
        ({"parameters": [[0.9]]}, "two or more"),
        ({"parameters": [0.9, np.nan]}, "NaN|finite"),
        ({"weights": [1.0]}, "one for each"),
        ({"weights": [0.0, 0.0]}, "some positive"),
        ({"weights": [-1.0, 1.0]}, "none negative"),
        ({"observations": np.full((4, 1), np.nan)}, "NaN"),
        ({"observations": np.empty((0, 1))}, "rows"),
    ):
        with pytest.raises(ValueError, match=words):
            kbf.learn_transition(
                **{"transition": step, "parameters": [0.8, 0.9], "observations": x[:5]} | given
            )
    with pytest.raises(TypeError, match="parameters"):
        kbf.learn_transition(lambda states, rng: states, [0.8, 0.9], x)
    with pytest.raises(ValueError, match="not fitted"):
        KernelBayesFilter().learn_transition(step, [0.8, 0.9], x)
    with pytest.raises(ValueError, match="'level'"):
        kbf.learn_transition(one_step(), ["level"], x)
    with pytest.raises(TypeError, match="list of names"):
        kbf.learn_transition(one_step(), GRID, x)


@pytest.mark.parametrize("name", ["moments", "weights"])
def test_observations_beyond_the_training_are_warned_of(fitted, name):
    known, _, _, x = fitted
    far = x[:6].copy()
    far[4] = 30.0
    with pytest.warns(PosteriorWarning, match=r"1 of 6 steps .* the first of them step 4"):
        known[name].learn_transition(step, GRID[::5], far, random_seed=0)


def test_steps_too_large_for_floating_point_are_refused_by_the_value_that_makes_them(fitted):
    """A score that is no number would otherwise count as that of a row without an observation."""
    known, _, _, x = fitted

    def overflowing(states, slopes, rng):
        return np.where(slopes > 0.9, 1e300, slopes) * states

    with pytest.raises(ValueError, match=r"not finite at 1 of 2.*0\.95"):
        known["moments"].learn_transition(overflowing, [0.5, 0.95], x[:10], random_seed=0)


def test_chosen_weights_leave_out_what_is_beyond_the_training_for_all_values(fitted):
    """As in `filter`: the row is one without an observation, at which the values are still compared."""
    known, _, _, x = fitted
    kbf = copy.copy(known["weights"])
    kbf._fitted = dataclasses.replace(kbf._fitted, how=dataclasses.replace(kbf._fitted.how, skips=True))
    far, missing = x[:12].copy(), x[:12].copy()
    far[5], missing[5] = 40.0, np.nan
    one, other = (kbf.learn_transition(step, GRID[::5], rows, random_seed=0) for rows in (far, missing))
    others = np.arange(12) != 5
    np.testing.assert_allclose(one.log_scores[others], other.log_scores[others])
    assert (one.log_scores[5] < -10).all()
    shares = np.full((12, 3), 1 / 3)
    np.testing.assert_allclose(
        one._states("filtered", shares).mean(), other._states("filtered", shares).mean(), atol=1e-10
    )
