"""The filter against simpler cases of itself: controls, units, smoothing, choices, held-out errors."""

from dataclasses import replace

import numpy as np
import pytest

from pymc_kbr.filtering import KernelBayesFilter, choice
from pymc_kbr.filtering import choice as candidates
from pymc_kbr.filtering import filter as published
from pymc_kbr.filtering.choice import Search, prior_ridge, transition_ridge
from pymc_kbr.filtering.fitted import BackwardPass
from pymc_kbr.filtering.recursion import How
from pymc_kbr.filtering.settings import FREE, GivenSettings
from pymc_kbr.filtering.training import Training, gram_of, of_columns
from pymc_kbr.filtering.transitions import RULES, Regression, SumRule
from pymc_kbr.gram import Auto, IncompleteCholesky
from pymc_kbr.gram.low_rank import LowRankGram
from pymc_kbr.kernels import Gaussian, Laplace
from pymc_kbr.regression.choose_ridge import choose_kernel_and_ridge
from tests.filtering.problems import SETTINGS, conditioned, fixed, gram, turning

N, STEPS = 30, 5


@pytest.fixture
def sequence(rng):
    z, x = turning(N + STEPS, rng)
    u = rng.normal(size=(N + STEPS, 1))
    return z[:N], x[:N], x[N:], u[:N], u[N:]


# --- smoothing ---


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("controlled", [False, True])
def test_each_step_back_begins_at_the_smoothed_one_under_its_own_control(controlled, centred, sequence):
    z, x, observed, u, later = sequence
    given = {"controls": u} if controlled else {}
    ahead = {"controls": later} if controlled else {}
    kbf = fixed(centred=centred).fit(z, x, **given)
    filtered, smoothed = kbf.filter(observed, **ahead), kbf.smooth(observed, **ahead)
    g, m = gram(z, z, SETTINGS["state_bandwidth"]), N - 1
    own, expected = np.full(m, 1 / m), filtered.weights[-1]
    inverse = np.linalg.inv(g[:m, :m] + m * SETTINGS["prior_regularisation"] * np.eye(m))
    for t in range(STEPS - 2, -1, -1):
        base = own if centred else np.zeros(m)
        gamma = base + inverse @ (g[:m] @ filtered.weights[t] - g[:m, :m] @ base)
        if controlled:
            near = gram(u[:m], later[t : t + 1], kbf.settings_.control_kernel.bandwidth)[:, 0]
            gamma = gamma * near / near.mean()
        back = conditioned(
            g[1:, 1:], gamma, g[1:] @ expected, SETTINGS["backward_regularisation"], "iw_kbr", centred
        )
        expected = np.append(back, 0.0)
        np.testing.assert_allclose(smoothed.weights[t], expected, atol=1e-7)


@pytest.mark.parametrize("centred", [False, True])
def test_a_step_back_is_linear_in_the_belief_that_it_begins_at(centred, sequence):
    z, x, observed, _, _ = sequence
    kbf = fixed(centred=centred).fit(z, x)
    filtered = kbf.filter(observed[:2]).weights
    back = BackwardPass(kbf._ready.recursion)
    once, thrice = back(filtered), back(filtered * [[1.0], [3.0]])
    np.testing.assert_allclose(thrice[0], 3 * once[0], atol=1e-9)


# --- controls ---


def test_each_step_ahead_has_its_own_control(sequence):
    z, x, observed, u, later = sequence
    kbf = fixed(scale=True).fit(z, x, controls=5 + 3 * u)
    later = 5 + 3 * later
    filtered = kbf.filter(observed, controls=later)
    belief = filtered[2]
    ahead = kbf.predict(3, belief, controls=later[:3])
    one = kbf.predict(1, belief, controls=later[:1])
    np.testing.assert_allclose(ahead.weights[0], one.weights[0])
    two = kbf.predict(1, ahead[0], controls=later[1:2])
    np.testing.assert_allclose(ahead.weights[1], two.weights[0], atol=1e-12)
    assert np.abs(kbf.predict(1, ahead[0], controls=later[:1]).weights[0] - two.weights[0]).max() > 1e-9
    stepped = kbf.step(filtered[0], observed[1], control=later[0])
    np.testing.assert_allclose(stepped.weights, filtered.weights[1], atol=1e-10)
    by_mean = kbf.filter(observed, initial="conditional_mean", controls=later)
    np.testing.assert_allclose(by_mean.weights, filtered.weights, atol=1e-9)


def test_controls_through_a_factorisation_of_full_rank_are_the_same(sequence):
    z, x, observed, u, later = sequence
    exact, factored = (
        fixed(solver=solver).fit(z, x, controls=u).filter(observed, controls=later).weights
        for solver in ("exact", IncompleteCholesky(N, 0.0))
    )
    np.testing.assert_allclose(factored, exact, atol=1e-6)


def test_there_is_no_control_after_the_last_step_and_one_that_never_changes_does_nothing(sequence):
    z, x, observed, u, later = sequence
    kbf = fixed().fit(z, x, controls=np.ones_like(u))
    same = fixed().fit(z, x).filter(observed).weights
    np.testing.assert_allclose(kbf.filter(observed, controls=np.ones_like(later)).weights, same, atol=1e-9)
    with pytest.raises(ValueError, match=f"{STEPS - 1} to {STEPS} rows"):
        kbf.filter(observed, controls=np.ones((STEPS + 1, 1)))


# --- beginnings, units and gaps ---


def test_units_of_an_initial_prior_do_not_matter(sequence, rng):
    z, x, observed, *_ = sequence
    draws = 0.3 * rng.normal(size=(7, 2)) + [1, 0]
    units = np.array([1e3, 1e-2])
    kbf = KernelBayesFilter(**SETTINGS, regularisation=1e-2, solver="exact")
    one = kbf.fit(z, x, random_seed=0).filter(observed, initial=draws).weights
    other = kbf.fit(z * units + 5, x, random_seed=0).filter(observed, initial=draws * units + 5).weights
    np.testing.assert_allclose(other, one, atol=1e-7)


def test_without_a_first_observation_the_conditional_mean_is_the_stationary_belief(sequence):
    z, x, observed, *_ = sequence
    gaps = observed.copy()
    gaps[0] = np.nan
    kbf = fixed().fit(z, x)
    found = kbf.filter(gaps, initial="conditional_mean").weights
    np.testing.assert_allclose(found, kbf.filter(gaps).weights, atol=1e-9)
    np.testing.assert_allclose(found[0], 1 / N)


def test_the_squared_rules_first_belief_has_the_ridge_that_its_delta_is_the_square_of(sequence):
    z, x, observed, *_ = sequence
    squared, plain = (
        fixed(rule, centred=True, regularisation=ridge)
        .fit(z, x)
        .filter(observed[:1], initial="conditional_mean")
        .weights
        for rule, ridge in (("kbr", 1e-4), ("iw_kbr", 1e-2))
    )
    np.testing.assert_allclose(squared, plain, atol=1e-9)


def test_the_original_rule_is_not_centred_unless_asked(sequence):
    z, x, observed, *_ = sequence
    for rule, centred in (("kbr", False), ("iw_kbr", True)):
        default, same = (fixed(rule, **how).fit(z, x) for how in ({}, {"centred": centred}))
        np.testing.assert_array_equal(default.filter(observed).weights, same.filter(observed).weights)


@pytest.mark.parametrize("times", [np.arange(N)[::-1], np.zeros(N)])
def test_times_that_do_not_rise_are_refused(times, sequence):
    z, x, *_ = sequence
    with pytest.raises(ValueError, match="even"):
        fixed().fit(z, x, times=times)


# --- the operators ---


@pytest.mark.parametrize("centred", [False, True])
def test_sum_rule_and_regression_are_linear_in_the_belief(centred, rng):
    states = rng.normal(size=(12, 2))
    made = gram_of("exact", Gaussian(1.0), states, rng)
    one, other = rng.normal(size=12), rng.normal(size=12)
    for rule in (SumRule(made, 1e-2, centred), Regression(made, 1e-2, centred)):
        both = rule(made.apply(3 * one - 2 * other), float((3 * one - 2 * other).sum()))
        apart = [rule(made.apply(w), float(w.sum())) for w in (one, other)]
        np.testing.assert_allclose(both, 3 * apart[0] - 2 * apart[1], atol=1e-9)
        if centred and isinstance(rule, Regression):
            assert both.sum() == pytest.approx((3 * one - 2 * other).sum())


@pytest.mark.parametrize(
    "kernel",
    [Gaussian((0.5, 1.0, 2.0)), Gaussian(0.7) + Gaussian((1.0, 2.0, 3.0)), Gaussian(0.5) * Laplace(2.0)],
)
def test_a_kernel_of_some_columns_is_that_where_the_others_are_the_same(kernel, rng):
    rows, columns = rng.normal(size=(6, 3)), np.array([0, 2])
    level = rows.copy()
    level[:, 1] = 0
    found = of_columns(kernel, columns)(rows[:, columns])
    if "Laplace" not in repr(kernel):
        np.testing.assert_allclose(found, kernel(level))
    np.testing.assert_allclose(np.diag(found), of_columns(kernel, columns).diag(rows[:, columns]))


def test_auto_factors_smooth_kernels_and_keeps_rough_ones_while_they_fit(rng):
    points = rng.normal(size=(120, 2))
    smooth, rough = (gram_of("auto", Gaussian(s), points, rng) for s in (20.0, 0.01))
    assert isinstance(smooth, LowRankGram)
    assert not isinstance(rough, LowRankGram)
    assert isinstance(gram_of(Auto(memory=1000.0), Gaussian(0.01), points, rng), LowRankGram)
    assert not isinstance(gram_of("auto", Gaussian(20.0), points[:99], rng), LowRankGram)
    np.testing.assert_allclose(smooth.apply(np.ones(120)), Gaussian(20.0)(points).sum(axis=1), rtol=1e-6)


# --- beliefs ---


def test_summaries_do_not_depend_on_the_scale_of_weights_and_times_are_drawn_apart(sequence):
    z, x, observed, *_ = sequence
    found = fixed(point=np.round).fit(z, x).filter(observed)
    tripled = replace(found, weights=3 * found.weights)
    np.testing.assert_allclose(tripled.effective_sample_size, found.effective_sample_size)
    np.testing.assert_array_equal(found[1].mean(), found.mean()[1])
    named = found.renamed(("u", "v"))
    assert named[1].posterior().names == ("u", "v")
    twice = replace(found, weights=found.weights[[1, 1]], times=found.times[:2])
    first, second = twice.draw(50, 3)
    assert not np.array_equal(first, second)


# --- choices ---


@pytest.mark.parametrize("controlled", [False, True])
def test_the_held_out_error_is_the_mean_square_on_the_last_third(controlled, rng):
    z, x = turning(63, rng)
    u = rng.normal(size=(63, 1))
    given, part, later = (({"controls": rows} if controlled else {}) for rows in (u, u[:42], u[42:]))
    kbf = fixed().fit(z, x, **given)
    # The bandwidth of controls is that of all of them.
    kept = fixed(**({"control_kernel": kbf.settings_.control_kernel} if controlled else {})).fit(
        z[:42], x[:42], **part
    )
    means = kept.filter(x[42:], **later).mean()
    found = kbf.validation_error_
    expected = np.mean(np.sum((means - z[42:]) ** 2, axis=1))
    assert found == pytest.approx(expected, rel=0.2 if controlled else 1e-6)


class Asked(Exception):
    """Carries the number of steps that were to be held out."""


def test_held_out_steps_are_a_third_and_at_most_as_many_as_named(rng, monkeypatch):
    def split(self, steps):
        raise Asked(steps)

    monkeypatch.setattr(Training, "split", split)
    z, x = turning(90, rng)
    settings = {"state_bandwidth": None, "tuning": "published"}
    for rule, how, most, steps in (
        ("iw_kbr", {}, 200, 30),
        ("iw_kbr", {}, 24, 24),
        ("iw_kbr", settings, 200, 45),
        ("kbr", settings, 200, 45),
        ("iw_kbr", settings, 25, 25),
        ("kbr", settings, 25, 45),
    ):
        for module in (choice, published):
            monkeypatch.setattr(module, "LAST_STEPS", most)
        with pytest.raises(Asked, match=f"^{steps}$"):
            KernelBayesFilter(rule, **how).fit(z, x)


def test_two_steps_may_be_left_of_a_sequence(rng):
    z, x = turning(20, rng)
    part, held = Training.of_sequences(z, x).split(18)
    np.testing.assert_array_equal(part.states, z[:2])
    assert [len(states) for states, _, _ in held] == [18]


def a_search(rng, **how):
    z, x = turning(60, rng)
    nothing = dict.fromkeys(FREE)
    kernels = {f"{side}_kernel": "gaussian" for side in ("state", "observation", "control")}
    given = GivenSettings("iw_kbr", **{**nothing, **kernels, **how})
    return Search(Training.of_sequences(z, x), How(RULES["iw_kbr"], True, "exact"), given, 20)


def test_errors_do_not_depend_on_what_was_tried_before(rng):
    search, fresh = (a_search(np.random.default_rng(1)) for _ in range(2))
    first = search.of_state_scale(0.3, search.part)
    others = [
        search.with_observations(replace(first, transition_regularisation=0.3), 1.0, 1e-2),
        search.with_observations(replace(first, prior_regularisation=0.3), 1.0, 1e-2),
        search.with_observations(first, 4.0, 1e-2),
        search.with_observations(search.of_state_scale(2.0, search.part), 1.0, 1e-2),
    ]
    search.squares(search.with_observations(first, 1.0, 1e-2))
    for one in others:
        found = search.squares(one)
        fresh._last = None
        np.testing.assert_allclose(found, fresh.squares(one), rtol=1e-8)


def test_ridges_without_a_choice_do_not_depend_on_the_number_of_rows(rng):
    few, many = (a_search(np.random.default_rng(1)) for _ in range(2))
    z, x = turning(120, rng)
    many.training = Training.of_sequences(z, x)
    one, other = (s.of_state_scale(0.3).prior_regularisation * n for s, n in ((few, 60), (many, 120)))
    assert one == pytest.approx(other)


def test_ratios_ridge_is_kulsifs_where_it_is_better(rng, monkeypatch):
    """Every candidate counts as better; then the last one is taken, and found again on all of the data."""
    monkeypatch.setattr(choice, "EVIDENCE", -1e9)
    z, x = turning(60, rng)
    settings = KernelBayesFilter(scale=False, solver="exact").fit(z, x).settings_
    kernel = settings.state_kernel
    beliefs = candidates.predictions(
        z[:-1] - z.mean(axis=0), z[1:] - z.mean(axis=0), kernel, settings.transition_regularisation, True
    )
    assert settings.prior_regularisation == prior_ridge(z - z.mean(axis=0), beliefs, kernel, True)
    assert settings.backward_regularisation == transition_ridge(z[1:], z[:-1], kernel, True)


def test_the_published_ridge_of_the_ratio_is_chosen_on_predictions_made_with_it(rng):
    z, x = turning(40, rng)
    settings = KernelBayesFilter(tuning="published", centred=False, scale=False).fit(z, x).settings_
    kernel, eta = settings.state_kernel, 1e-2
    for _ in range(2):
        beliefs = candidates.predictions(z[:-1], z[1:], kernel, eta, False)
        eta = prior_ridge(z, beliefs, kernel, False)
    assert settings.prior_regularisation == eta


@pytest.mark.parametrize("rule", ["iw_kbr", "kbr"])
def test_settings_of_pairs_are_those_of_a_regression(rule, rng, monkeypatch):
    z, x = turning(40, rng)
    data = {"pairs": (z, x), "transitions": (z[:-1], z[1:])}
    settings = KernelBayesFilter(rule, scale=False).fit(**data).settings_
    other = KernelBayesFilter({"iw_kbr": "kbr", "kbr": "iw_kbr"}[rule], scale=False).fit(**data).settings_
    pair = sorted([settings, other], key=lambda one: one.regularisation)
    assert pair[0].regularisation == pytest.approx(pair[1].regularisation ** 2)
    assert pair[1].regularisation < 1
    tried = []

    def remembered(inputs, targets, kernels, ridges=None, **how):
        tried.append(ridges)
        return choose_kernel_and_ridge(inputs, targets, kernels, ridges, **how)

    monkeypatch.setattr(choice, "choose_kernel_and_ridge", remembered)
    kept = KernelBayesFilter(rule, scale=False, regularisation=0.25).fit(**data).settings_
    assert kept.regularisation == 0.25
    (given,) = [one for one in tried if one is not None]
    assert given == pytest.approx((40 * (0.25 if rule == "iw_kbr" else 0.5),))


def test_beliefs_count_equally_whatever_their_mass(rng):
    theta, points = rng.normal(size=(40, 1)), rng.normal(0.5, 0.5, size=(30, 1))
    signed, kernel = rng.normal(0.05, 0.1, size=30), Gaussian(0.5)
    signed *= np.sign(signed.sum())
    broad = (rng.normal(size=(30, 1)), np.full(30, 1 / 30))
    found = [
        prior_ridge(theta, [(points, scale * signed), broad], kernel, True) for scale in (1.0, 1e-3, 1e3)
    ]
    assert len(set(found)) == 1
    seen = []
    real = candidates.leave_one_out_scores
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            candidates, "leave_one_out_scores", lambda *given: seen.append(given[-1]) or real(*given)
        )
        prior_ridge(theta, [(points, signed)], kernel, True)
    np.testing.assert_allclose(seen[0], signed / signed.sum())


def test_beliefs_that_are_predicted_from_are_spread_over_the_sequence(rng):
    states = np.arange(40.0)[:, None]
    found = candidates.predictions(states, states, Gaussian(0.1), 1e-6, False)
    assert [int(np.argmax(weights)) for _, weights in found] == [0, 13, 26, 39]


def test_transitions_ridge_goes_with_centring(rng):
    z, _ = turning(40, rng)
    for centred in (False, True):
        direct = choose_kernel_and_ridge(z[:-1], z[1:] + 50, [Gaussian(0.8)], centred=centred).ridge / 39
        assert transition_ridge(z[:-1], z[1:] + 50, Gaussian(0.8), centred) == direct
