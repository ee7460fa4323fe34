"""The recursion against its equations with inverses, and against special cases of itself."""

import numpy as np
import pytest

from pymc_kbr.filtering import KernelBayesFilter
from pymc_kbr.gram import IncompleteCholesky
from tests.filtering.problems import SETTINGS, WrittenOut, conditioned, fixed, gram, turning

N = 40


@pytest.fixture
def sequence(rng):
    z, x = turning(N + 12, rng)
    return z[:N], x[:N], x[N:]


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize(("rule", "ridge"), [("iw_kbr", 1e-2), ("kbr", 1e-1)])
def test_weights_are_those_of_the_equations(rule, ridge, centred, sequence):
    z, x, observed = sequence
    written = WrittenOut(z, x, rule, centred, ridge).run(observed)
    found = fixed(rule, centred=centred, regularisation=ridge).fit(z, x).filter(observed)
    np.testing.assert_allclose(found.weights, written, atol=1e-8)
    np.testing.assert_allclose(found.mean(), written @ z, atol=1e-8)
    if centred:
        np.testing.assert_allclose(found.total_weight, 1, atol=1e-10)


def test_the_first_belief_is_the_conditional_mean(sequence):
    z, x, observed = sequence
    for centred in (False, True):
        kbf = fixed(centred=centred).fit(z, x)
        same = kbf.filter(observed, initial="conditional_mean").weights
        np.testing.assert_allclose(kbf.filter(observed).weights, same, atol=1e-10)


def test_the_published_starts_are_as_printed(sequence):
    z, x, observed = sequence
    written = WrittenOut(z, x, "iw_kbr", False, 1e-2)
    # Xu 2022, Algorithm 2: Algorithm 1 with the prior's embedding of even weights.
    gamma = np.linalg.solve(written.gz + N * SETTINGS["prior_regularisation"] * np.eye(N), written.gz.mean(1))
    found = fixed(centred=False).fit(z, x).filter(observed, initial="published").weights
    np.testing.assert_allclose(found[0], written.update(gamma, observed[0]), rtol=0, atol=1e-12)
    after = written.update(written.gamma(written.predict(found[0])), observed[1])
    np.testing.assert_allclose(found[1], after, atol=1e-10)
    # Fukumizu 2013: (G_Y + T epsilon I)^-1 k_Y; the factor T that is printed is no part of eq. 8.
    k = gram(x, observed[:1], SETTINGS["observation_bandwidth"])[:, 0]
    first = np.linalg.solve(written.gx + N * SETTINGS["prior_regularisation"] * np.eye(N), k)
    squared = fixed("kbr").fit(z, x)
    found = squared.filter(observed, initial="published").weights
    np.testing.assert_allclose(found[0], first, rtol=0, atol=1e-12)
    ahead = squared.predict_observations(observed, initial="published").weights
    theirs = WrittenOut(z, x, "kbr", False, 1e-3)
    np.testing.assert_allclose(ahead[1], theirs.gamma(theirs.predict(first)), atol=1e-10)
    np.testing.assert_allclose(
        fixed().fit(z, x).filter(observed, initial="published").weights,
        fixed().fit(z, x).filter(observed).weights,
        atol=1e-10,
    )


def test_a_prior_by_draws_goes_through_the_sum_rule(sequence, rng):
    z, x, observed = sequence
    draws = 0.3 * rng.normal(size=(15, 2)) + [1, 0]
    written = WrittenOut(z, x, "iw_kbr", False, 1e-2)
    g = gram(z, draws, SETTINGS["state_bandwidth"]).mean(axis=1)
    gamma = np.linalg.inv(written.gz + N * SETTINGS["prior_regularisation"] * np.eye(N)) @ g
    found = fixed(centred=False).fit(z, x).filter(observed[:1], initial=draws).weights[0]
    np.testing.assert_allclose(found, written.update(gamma, observed[0]), atol=1e-9)


@pytest.mark.parametrize("rule", ["iw_kbr", "kbr"])
def test_a_factorisation_of_full_rank_gives_the_same(rule, sequence):
    z, x, observed = sequence
    exact = fixed(rule, regularisation=1e-1).fit(z, x).filter(observed).weights
    solver = IncompleteCholesky(N, 0.0)
    factored = fixed(rule, regularisation=1e-1, solver=solver).fit(z, x).filter(observed).weights
    np.testing.assert_allclose(factored, exact, atol=1e-6)


def test_a_stream_is_the_filter(sequence):
    z, x, observed = sequence
    kbf = fixed().fit(z, x)
    whole, belief = kbf.filter(observed), None
    for t, row in enumerate(observed):
        belief = kbf.step(belief, row)
        np.testing.assert_allclose(belief.weights, whole.weights[t], atol=1e-12)
    np.testing.assert_allclose(belief.mean(), whole.mean()[-1])
    later = kbf.filter(observed[6:], initial=kbf.filter(observed[:6]).last)
    np.testing.assert_allclose(later.weights, whole.weights[6:], atol=1e-12)


def test_prediction_is_the_transition_again_and_again(sequence):
    z, x, observed = sequence
    written = WrittenOut(z, x, "iw_kbr", True, 1e-2)
    kbf = fixed().fit(z, x)
    last = kbf.filter(observed).last
    ahead = kbf.predict(3, last)
    w = last.weights
    for t in range(3):
        w = written.predict(w)
        np.testing.assert_allclose(ahead.weights[t], w, atol=1e-9)
    assert ahead.kind == "predicted"


def test_steps_without_observations_are_predictions(sequence):
    z, x, observed = sequence
    kbf = fixed().fit(z, x)
    gaps = observed.copy()
    gaps[5:8] = np.nan
    found = kbf.filter(gaps)
    np.testing.assert_allclose(found.weights[:5], kbf.filter(observed).weights[:5])
    np.testing.assert_allclose(found.weights[5:8], kbf.predict(3, found[4]).weights, atol=1e-12)
    assert np.abs(found.weights[8] - kbf.filter(observed).weights[8]).max() > 1e-6


def test_missing_columns_leave_a_filter_of_the_others(sequence):
    z, x, observed = sequence
    gaps = observed.copy()
    gaps[:, 1] = np.nan
    found = fixed().fit(z, x).filter(gaps).weights
    np.testing.assert_allclose(found, fixed().fit(z, x[:, :1]).filter(observed[:, :1]).weights, atol=1e-12)


def test_several_sequences_are_their_pairs_and_transitions(sequence):
    z, x, observed = sequence
    kbf = fixed().fit([z[:15], z[15:]], [x[:15], x[15:]])
    before, after = np.delete(z[:-1], 14, axis=0), np.delete(z[1:], 14, axis=0)
    apart = fixed().fit(pairs=(z, x), transitions=(before, after))
    np.testing.assert_allclose(kbf.filter(observed).mean(), apart.filter(observed).mean(), atol=1e-9)
    first = apart.filter(np.full((1, x.shape[1]), np.nan)).weights[0]
    np.testing.assert_allclose(
        first, np.repeat([1 / N, 0.0], [N, 2 * len(before)])
    )  # even on what was observed
    whole = fixed().fit(z, x).filter(observed).mean()
    assert np.abs(kbf.filter(observed).mean() - whole).max() > 1e-6


def test_controls_enter_by_a_product_of_kernels(sequence, rng):
    z, x, observed = sequence
    u, later = rng.normal(size=(N, 1)), rng.normal(size=(len(observed), 1))
    kbf = fixed(scale=False).fit(z, x, controls=u)
    bandwidth = kbf.settings_.control_kernel.bandwidth
    written = WrittenOut(z, x, "iw_kbr", True, 1e-2, u, bandwidth)
    w = written.update(np.full(N, 1 / N), observed[0])
    w = written.update(written.gamma(written.predict(w, later[0])), observed[1])
    found = kbf.filter(observed, controls=later)
    np.testing.assert_allclose(found.weights[1], w, atol=1e-8)
    belief = kbf.step(found[0], observed[1], control=later[0])
    np.testing.assert_allclose(belief.weights, w, atol=1e-8)


def test_smoothing_goes_back_by_the_equations(sequence):
    z, x, observed = sequence
    kbf = fixed().fit(z, x)
    filtered, smoothed = kbf.filter(observed), kbf.smooth(observed)
    np.testing.assert_allclose(smoothed.weights[-1], filtered.weights[-1])
    written = WrittenOut(z, x, "iw_kbr", True, 1e-2)
    g, m = written.gz, N - 1
    own = np.full(m, 1 / m)
    ridge = m * SETTINGS["prior_regularisation"] * np.eye(m)
    values = g[:m] @ filtered.weights[-2]
    gamma = own + np.linalg.inv(g[:m, :m] + ridge) @ (values - g[:m, :m] @ own)
    at, back = g[1:] @ filtered.weights[-1], SETTINGS["backward_regularisation"]
    expected = conditioned(g[1:, 1:], gamma, at, back, "iw_kbr", True)
    np.testing.assert_allclose(smoothed.weights[-2, :m], expected, atol=1e-8)
    assert smoothed.weights[-2, -1] == 0


def test_units_do_not_matter_when_scaled(sequence):
    z, x, observed = sequence
    kbf, settings = KernelBayesFilter(**SETTINGS, regularisation=1e-2), {"random_seed": 0}
    one = kbf.fit(z, x, **settings).filter(observed).mean()
    units = np.array([1e3, 1e-2])
    other = kbf.fit(z * units + 5, x * units - 7, **settings).filter(observed * units - 7).mean()
    np.testing.assert_allclose((other - 5) / units, one, atol=1e-7)
