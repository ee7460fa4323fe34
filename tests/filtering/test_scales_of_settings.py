"""In which scale settings are handed on, and from which rows they are learnt."""

from types import SimpleNamespace

import numpy as np
import pytest

from pymc_kbr.filtering import KernelBayesFilter, choice
from pymc_kbr.filtering import filter as published
from pymc_kbr.filtering.choice import transition_ridge
from pymc_kbr.filtering.training import Joint, Training, Units
from pymc_kbr.kernels import Gaussian, Linear, median_heuristic
from pymc_kbr.regression.choose_ridge import choose_kernel_and_ridge
from tests.filtering.problems import turning

N = 64


@pytest.mark.parametrize("rule", ["iw_kbr", "kbr"])
def test_without_evidence_the_start_is_kept_and_ridges_are_shares_of_the_rows(rule, rng, monkeypatch):
    monkeypatch.setattr(choice, "EVIDENCE", 1e9)
    monkeypatch.setattr(choice, "OBSERVATION_SCALES", (0.5, 4.0))
    z, x = turning(N, rng)
    state, observation, strength = choice.START[rule]
    settings = KernelBayesFilter(rule, scale=False, solver="exact").fit(z, x).settings_
    assert settings.regularisation == pytest.approx(strength / N)
    assert settings.prior_regularisation == pytest.approx(choice.PRIOR_STRENGTH / N)
    assert settings.state_kernel.bandwidth == pytest.approx(state * median_heuristic(z - z.mean(axis=0)))
    assert settings.observation_kernel.bandwidth == pytest.approx(observation * median_heuristic(x))


@pytest.mark.parametrize("rule", ["iw_kbr", "kbr"])
def test_ridges_of_pairs_are_a_regressions_divided_by_its_rows(rule, rng):
    z, x = turning(N, rng)
    found = KernelBayesFilter(rule, scale=False).fit(pairs=(z, x), transitions=(z[:-1], z[1:])).settings_
    kernels = [Gaussian(scale * median_heuristic(x)) for scale in choice.OBSERVATION_SCALES]
    expected = choose_kernel_and_ridge(x, z - np.vstack([z, z[:-1], z[1:]]).mean(axis=0), kernels)
    assert found.observation_kernel.bandwidth == pytest.approx(expected.kernel.bandwidth)
    ridge = expected.ridge / N
    assert found.regularisation == pytest.approx(ridge if rule == "iw_kbr" else ridge**2)


def test_the_step_backs_ridge_is_that_of_the_step_before_given_the_one_after(rng):
    z = rng.uniform(-2, 2, size=(N, 1))
    after = z[:-1] ** 2 + 0.01 * rng.normal(size=(N - 1, 1))  # back from which the sign is lost
    found = KernelBayesFilter(scale=False).fit(pairs=(z, z), transitions=(z[:-1], after)).settings_
    centre = np.vstack([z, z[:-1], after]).mean(axis=0)
    one, other, kernel = z[:-1] - centre, after - centre, found.state_kernel
    backward, forward = (transition_ridge(*rows, kernel, True) for rows in ((other, one), (one, other)))
    assert backward > 1.5 * forward
    assert found.backward_regularisation == pytest.approx(backward)
    assert found.transition_regularisation == pytest.approx(forward)


def test_kulsifs_ridge_is_found_again_with_the_held_out_steps(rng, monkeypatch):
    monkeypatch.setattr(choice, "EVIDENCE", -1e9)
    monkeypatch.setattr(choice, "OBSERVATION_SCALES", (1.0,))
    monkeypatch.setattr(choice, "STATE_SCALES", (0.3,))
    monkeypatch.setattr(choice.Search, "kulsif", lambda self, settings, data: 1 / len(data.pairs))
    z, x = turning(N, rng)
    assert KernelBayesFilter().fit(z, x).settings_.prior_regularisation == pytest.approx(1 / N)


def test_settings_that_fail_are_not_taken_from_others_that_failed():
    failed, good = np.full(40, np.nan), np.ones(40)
    search = SimpleNamespace(squares={"start": failed, "other": failed * 2, "good": good}.get)
    held = choice.BestSettings(search, "start")
    assert held.challenge(["other"]) is None
    assert held.settings == "start"
    assert held.challenge(["other", "good"]) == 1
    assert held.error == 1.0


def test_the_grid_holds_all_but_the_start_and_what_is_given_has_one_ridge(rng, monkeypatch):
    tried = []
    squares = choice.Search.squares

    def recorded(self, settings):
        tried.append((settings.observation_kernel.bandwidth, settings.regularisation))
        return squares(self, settings)

    monkeypatch.setattr(choice.Search, "squares", recorded)
    z, x = turning(N, rng)
    KernelBayesFilter(scale=False, state_bandwidth=0.5, prior_regularisation=0.01).fit(z, x)
    ridges = choice.REGULARISATIONS["iw_kbr"]
    scales = np.array(choice.OBSERVATION_SCALES) * median_heuristic(x)
    expected = [(scale, ridge) for scale in scales for ridge in ridges]
    np.testing.assert_allclose(tried[1:], expected)
    tried.clear()
    KernelBayesFilter(scale=False, state_bandwidth=0.5, prior_regularisation=0.01, regularisation=0.07).fit(
        z, x
    )
    others = [(scale, 0.07) for scale in scales if not np.isclose(scale, tried[0][0])]
    np.testing.assert_allclose(tried[1:], others)


def test_the_published_eta_is_chosen_twice_with_predictions_of_its_own(rng, monkeypatch):
    seen = []
    monkeypatch.setattr(
        published, "predictions", lambda before, after, kernel, eta, centred: seen.append(eta) or eta
    )
    monkeypatch.setattr(published, "prior_ridge", lambda states, eta, kernel, centred: eta / 2)
    z, x = turning(N, rng)
    settings = KernelBayesFilter(tuning="published").fit(z, x).settings_
    assert settings.prior_regularisation == pytest.approx(seen[0] / 4)
    assert settings.transition_regularisation == settings.prior_regularisation
    assert seen[1] == pytest.approx(seen[0] / 2)


def test_the_diagonal_of_a_joint_kernel_is_that_of_its_matrix(rng):
    rows = rng.normal(size=(7, 3))
    for kernel in (Joint(Gaussian(0.5), Linear(1.0), 2), Joint(Linear(0.5), Gaussian(1.0), 1)):
        np.testing.assert_allclose(kernel.diag(rows), np.diag(kernel(rows)))
        np.testing.assert_allclose(kernel(rows[:2], rows), kernel(rows)[:2])


@pytest.mark.parametrize("scaled", [True, False])
def test_units_of_controls_go_back_and_forth(scaled, rng):
    z, x = turning(20, rng)
    u = 5 + 3 * rng.normal(size=(20, 2))
    units = Units.of(Training.of_sequences(z, x, u), scaled)
    np.testing.assert_allclose(units.unscaled_controls(units.controls(u)), u)
    found = units.controls(u[:-1]).std(axis=0)
    np.testing.assert_allclose(found, 1 if scaled else u[:-1].std(axis=0))
