"""Settings from training data alone."""

import numpy as np
import pytest

from pymc_kbr.filtering import KernelBayesFilter, choice
from pymc_kbr.filtering import filter as published
from pymc_kbr.filtering.choice import is_better, prior_ridge, transition_ridge
from pymc_kbr.filtering.training import Training
from pymc_kbr.kernels import Gaussian
from tests.filtering.problems import fixed, gram, turning


def test_the_last_steps_are_held_out_and_no_transition_leads_there(rng):
    z, x = turning(50, rng)
    u = np.arange(50.0)[:, None]
    part, held = Training.of_sequences([z[:20], z[20:]], [x[:20], x[20:]], [u[:20], u[20:]]).split(12)
    np.testing.assert_array_equal(part.states, z[:38])
    np.testing.assert_array_equal(part.following - part.previous, 1)
    assert 19 not in part.previous
    np.testing.assert_array_equal(part.controls[:, 0], part.previous)
    (states, observations, controls) = held[0]
    np.testing.assert_array_equal(states, z[38:])
    np.testing.assert_array_equal(observations, x[38:])
    np.testing.assert_array_equal(controls[:-1], u[38:-1])  # none acts after the last step


def test_more_held_out_steps_than_a_sequence_has_take_it_whole(rng):
    z, x = turning(50, rng)
    part, held = Training.of_sequences([z[:30], z[30:]], [x[:30], x[30:]]).split(25)
    assert [len(states) for states, _, _ in held] == [20, 5]
    np.testing.assert_array_equal(part.states, z[:25])
    with pytest.raises(ValueError, match="no training sequence is left"):
        Training.of_sequences(z, x).split(49)


def test_the_transitions_ridge_has_the_smallest_error_when_rows_are_left_out(rng):
    z, _ = turning(31, rng)
    before, after, kernel = z[:-1], z[1:], Gaussian(0.8)
    found = transition_ridge(before, after, kernel, False) * 30
    target = gram(after / after.std(axis=0), after / after.std(axis=0), 1.0)

    def error(ridge):
        total = 0.0
        for i in range(30):
            kept = np.arange(30) != i
            g = gram(before[kept], before[kept], 0.8) + ridge * np.eye(29)
            w = np.linalg.solve(g, gram(before[kept], before[i : i + 1], 0.8)[:, 0])
            total += target[i, i] - 2 * w @ target[kept, i] + w @ target[np.ix_(kept, kept)] @ w
        return total

    # what is chosen may be one candidate above the best, which is hardly worse: see `NEAR`
    assert error(found) < min(error(found * 30), error(found / 30))


def test_kulsif_wants_less_regularisation_where_the_ratio_is_sharper(rng):
    theta, kernel = rng.normal(size=(200, 1)), Gaussian(0.5)
    same, sharp = rng.normal(size=(200, 1)), 0.2 * rng.normal(size=(200, 1)) + 1
    equal = np.full(200, 1 / 200)
    smooth = prior_ridge(theta, [(same, equal)], kernel, True)
    assert prior_ridge(theta, [(sharp, equal)], kernel, True) < smooth


@pytest.mark.parametrize("tuning", ["held_out", "published"])
def test_all_settings_are_those_with_the_smallest_held_out_error(tuning, rng, monkeypatch):
    z, x = turning(90, rng)
    tried = []
    squares = choice.Search.squares

    def recorded(self, settings):
        found = squares(self, settings)
        tried.append((found.mean(), settings))
        return found

    monkeypatch.setattr(choice.Search, "squares", recorded)
    monkeypatch.setattr(choice, "EVIDENCE", -1e9)  # the lowest error is enough
    kbf = KernelBayesFilter(tuning=tuning, centred=False, scale=False).fit(z, x)
    errors = np.array([error for error, _ in tried])
    if tuning == "published":
        assert len(tried) == len(published.BETAS) * len(published.PUBLISHED_REGULARISATIONS)
        assert kbf.validation_error_ == errors.min()
        best = tried[int(errors.argmin())][1]
        assert kbf.settings_.regularisation == best.regularisation
        ratio = kbf.settings_.state_kernel.bandwidth / best.state_kernel.bandwidth
        assert 0.8 < ratio < 1.25  # the same beta, the median of all training states
        assert kbf.settings_.transition_regularisation == kbf.settings_.prior_regularisation
    else:
        grid = errors[: 1 + len(choice.OBSERVATION_SCALES) * len(choice.REGULARISATIONS["iw_kbr"])]
        best = tried[int(grid.argmin())][1]
        assert kbf.settings_.regularisation == pytest.approx(best.regularisation)


@pytest.mark.parametrize(("noise", "least"), [(0.0, True), (0.3, False)])
def test_lambda_goes_below_its_grid_where_observations_have_no_noise(noise, least, rng):
    """Curves of the state alone, which a frame of a camera is, against ones that are seen with noise."""
    z, _ = turning(200, rng)
    x = np.hstack([np.sin(2 * z), np.cos(3 * z), z]) + noise * rng.normal(size=(200, 6))
    lowest = min(choice.REGULARISATIONS["iw_kbr"])
    found = KernelBayesFilter().fit(z, x).settings_.regularisation
    assert (found < 0.5 * lowest) is least
    if least:
        assert np.log10(lowest / found) == pytest.approx(round(np.log10(lowest / found)))
        assert KernelBayesFilter(regularisation=0.01).fit(z, x).settings_.regularisation == 0.01


def test_the_original_rules_delta_is_twice_epsilon(rng):
    z, x = turning(60, rng)
    settings = KernelBayesFilter("kbr", tuning="published").fit(z, x).settings_
    assert settings.regularisation == 2 * settings.prior_regularisation
    assert settings.transition_regularisation == settings.prior_regularisation
    assert settings.printed("kbr", 60) == pytest.approx(3600 * settings.regularisation)
    assert settings.printed("iw_kbr", 60) == pytest.approx(60 * settings.regularisation)


def test_what_is_given_is_taken(rng):
    z, x = turning(90, rng)
    kbf = KernelBayesFilter(observation_bandwidth=0.7, prior_regularisation=0.02).fit(z, x)
    assert kbf.settings_.observation_kernel.bandwidth == 0.7
    assert kbf.settings_.prior_regularisation == 0.02


def test_pairs_are_chosen_for_without_a_sequence(rng):
    z, x = turning(90, rng)
    kbf = KernelBayesFilter().fit(pairs=(z, x), transitions=(z[:-1], z[1:]))
    assert np.isnan(kbf.validation_error_)
    error = np.mean(np.sum((kbf.filter(x).mean() - z) ** 2, axis=1))
    assert error < 0.75 * np.mean(np.sum((x - z) ** 2, axis=1))


def test_evidence_is_a_standard_error_of_block_means(rng):
    than = rng.normal(size=200) ** 2
    noise = rng.normal(size=200)
    blocks = np.array([block.mean() for block in np.array_split(noise, 20)])
    error = blocks.std(ddof=1) / np.sqrt(20)
    shift = blocks.mean()
    assert is_better(than + noise - shift - 1.01 * choice.EVIDENCE * error, than)
    assert not is_better(than + noise - shift - 0.99 * choice.EVIDENCE * error, than)
    assert is_better(than, np.full(200, np.inf))


def test_the_same_data_give_the_same_settings(rng):
    z, x = turning(70, rng)
    one, other = (KernelBayesFilter().fit(z, x, random_seed=4) for _ in range(2))
    assert one.settings_ == other.settings_
    assert fixed().fit(z, x).settings_.regularisation == 1e-2
