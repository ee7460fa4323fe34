"""Observations predicted from those before them, their scores, and draws of whole paths."""

import functools
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm

from pymc_kbr.filtering import KernelBayesFilter
from pymc_kbr.filtering.gaussian import GaussianFilter, Mixture, Moments, Step
from pymc_kbr.filtering.predicted_observations import (
    KernelScore,
    distribution,
    draws_of,
    log_density,
    quantiles,
)
from pymc_kbr.posterior.arviz import ARVIZ_MAJOR
from pymc_kbr.posterior.posterior import PosteriorWarning
from tests.filtering.problems import WrittenOut, fixed, gram, kalman, scalar_model, turning

pytestmark = pytest.mark.filterwarnings("ignore::pymc_kbr.posterior.posterior.PosteriorWarning")
N, STEPS = 250, 300


@pytest.fixture(scope="module")
def linear():
    rng = np.random.default_rng(5)
    z, x = scalar_model(N, rng)
    return (z, x), scalar_model(STEPS, rng)[1]


@pytest.fixture(scope="module")
def fitted(linear):
    """The filter fitted to the linear sequence, once for each rule of correction."""
    return functools.cache(
        lambda correction=None: KernelBayesFilter(correction=correction).fit(*linear[0], random_seed=0)
    )


def predictive(x):
    """Kalman's means and deviations (T,) of each observation given those before it."""
    filtered = kalman(x)[0][:-1]
    mean = np.concatenate([[0.0], 0.9 * filtered[:, 0]])
    variance = np.concatenate([[0.09 / 0.19], 0.81 * filtered[:, 1] + 0.09])
    return mean, np.sqrt(variance + 0.25)


# --- the embedding, and scores of it ---


@pytest.mark.parametrize(("rule", "ridge", "centred"), [("iw_kbr", 1e-2, True), ("kbr", 1e-1, False)])
def test_the_embedding_is_that_of_the_paper(rule, ridge, centred, rng):
    z, x = turning(52, rng)
    written = WrittenOut(z[:40], x[:40], rule, centred, ridge)
    found = (
        fixed(rule, centred=centred, regularisation=ridge).fit(z[:40], x[:40]).predict_observations(x[40:])
    )
    filtered = written.run(x[40:])
    expected = [np.full(40, 1 / 40), *(written.gamma(written.predict(w)) for w in filtered[:-1])]
    np.testing.assert_allclose(found.weights, expected, atol=1e-8)
    at = found.embedding(3)(x[:2] - x[:40].mean(axis=0))
    np.testing.assert_allclose(at, gram(x[:2], x[:40], 1.1) @ expected[3], atol=1e-8)


@pytest.mark.parametrize(("correction", "coefficients"), [(True, 6), (False, 40)])
def test_log_scores_are_those_of_kalmans_predictive_density(correction, coefficients, linear, fitted):
    _, seen = linear
    found = fitted(correction).predict_observations(seen)
    mean, deviation = predictive(seen)
    lost = norm.logpdf(seen[:, 0], mean, deviation) - found.log_score
    # Each coefficient of N rows costs 1 / 2 N nats; a belief by weights has as many as its kernel.
    error = lost.std() / np.sqrt(STEPS)
    assert -3 * error < lost.mean() < 3 * error + 2 * coefficients / (2 * N)
    assert np.abs(found.pit[:, 0] - norm.cdf((seen[:, 0] - mean) / deviation)).mean() < 2 * np.sqrt(
        coefficients / N
    )
    if correction:
        # Those of the exact PITs are .15 and .003 on this sequence.
        assert all(p[0] > 1e-3 for p in found.check().values())


def test_a_wrong_model_fails_the_check_and_has_a_lower_score(linear, fitted):
    (z, x), seen = linear
    found = fitted().predict_observations(seen)
    slow = KernelBayesFilter().fit(z, z + 3 * (x - z), random_seed=0).predict_observations(seen)
    assert slow.check()["uniform"][0] < 1e-4
    assert slow.log_score.mean() < found.log_score.mean()
    # States of another order: what follows is not predicted, and PITs depend on those before.
    mixed = np.random.default_rng(0).permutation(N)
    still = KernelBayesFilter().fit(z[mixed], x[mixed], random_seed=0).predict_observations(seen)
    assert still.check()["independent"][0] < 1e-4


def test_log_scores_are_those_of_a_particle_filter_where_steps_bend():
    rng = np.random.default_rng(3)
    z, x = turning(N, rng)
    _, seen = turning(200, rng)
    found = KernelBayesFilter().fit(z, x, random_seed=0).predict_observations(seen).log_score
    cloud = turning(20_000, rng)[0]
    exact = []
    for row in seen:
        angle = np.arctan2(cloud[:, 1], cloud[:, 0]) + 0.3
        cloud = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.2 * rng.normal(size=cloud.shape)
        log = norm.logpdf(row, cloud, 0.2).sum(axis=1)
        exact.append(logsumexp(log) - np.log(len(cloud)))
        cloud = cloud[rng.choice(len(cloud), len(cloud), p=np.exp(log - logsumexp(log)))]
    lost = (np.array(exact) - found)[1:]
    # Means of two columns of two functions have some ten degrees of freedom each.
    assert -3 * lost.std() / np.sqrt(199) < lost.mean() < 2 * 40 / (2 * N) + 3 * lost.std() / np.sqrt(199)


def test_missing_observations_are_predicted_and_not_scored(linear):
    (z, x), seen = linear
    both = np.hstack([x, x**2])
    gaps = np.hstack([seen, seen**2])[:12]
    gaps[4], gaps[7, 1] = np.nan, np.nan
    for correction in (True, False):
        found = KernelBayesFilter(correction=correction).fit(z, both).predict_observations(gaps)
        for score in (found.log_score, found.kernel_score):
            np.testing.assert_array_equal(np.isnan(score), np.arange(12) == 4)
        np.testing.assert_array_equal(np.isnan(found.pit), np.isnan(gaps))
        assert np.isfinite(found.mean()).all()
        assert found.interval(0.9).shape == (12, 2, 2)
        assert found.draw(5, 1).shape == (12, 5, 2)
        assert found.cov().shape == (12, 2, 2)
        again = pickle.loads(pickle.dumps(found))
        np.testing.assert_array_equal(again.weights, found.weights)
        assert "log score" in repr(found)
        assert found.to_xarray().sizes == {"time": 12, "observation": 2}


def test_a_sequence_without_observations_is_predicted_in_silence(fitted):
    kbf = fitted()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = kbf.predict_observations(np.full((3, 1), np.nan))
        assert "nothing observed" in repr(found)
        assert np.isnan(found.check()["uniform"]).all()
    ahead = kbf.predict(2).mean()
    np.testing.assert_allclose(found.mean()[1:], ahead, atol=0.1)


def test_units_labels_and_times_are_the_users(linear, fitted):
    (z, x), seen = linear
    frame = pd.DataFrame(1e3 * x + 7, columns=["depth"])
    named = KernelBayesFilter().fit(z, frame, random_seed=0)
    found = named.predict_observations(
        pd.DataFrame(1e3 * seen[:9] + 7, columns=["depth"]), times=np.arange(9) * 2
    )
    plain = fitted().predict_observations(seen[:9])
    np.testing.assert_allclose(found.log_score, plain.log_score - np.log(1e3), atol=1e-6)
    np.testing.assert_allclose(found.pit, plain.pit, atol=1e-6)
    np.testing.assert_allclose(found.mean(), 1e3 * plain.mean() + 7, rtol=1e-6)
    assert found.names == ("depth",)
    np.testing.assert_array_equal(found.times, np.arange(9) * 2)


def test_a_mixtures_functions_agree_with_each_other(rng):
    roots = rng.normal(size=(3, 2, 2))
    covariances = roots @ np.swapaxes(roots, 1, 2)
    shares = np.array([0.2, 0.5, 0.3])
    full = Mixture(np.log(shares), rng.normal(size=(3, 2)), covariances)
    levels, row = np.array([0.01, 0.3, 0.95]), rng.normal(size=2)
    np.testing.assert_allclose(distribution(full, quantiles(full, levels)), levels[:, None] * [1, 1])
    density = sum(
        s * multivariate_normal(m, c).pdf(row)
        for s, m, c in zip(shares, full.means, covariances, strict=True)
    )
    assert log_density(full, row) == pytest.approx(np.log(density))
    diagonal = Mixture(full.shares, full.means, np.array([[0.5, 2.0]]))
    same = diagonal._replace(covariances=np.broadcast_to(np.diag([0.5, 2.0]), (3, 2, 2)))
    assert log_density(diagonal, row) == pytest.approx(log_density(same, row))
    np.testing.assert_allclose(quantiles(diagonal, levels), quantiles(same, levels))
    # The kernel score in closed form, against draws of the mixture.
    score, draws = KernelScore(rng.normal(size=(50, 2))), draws_of(full, 4000, rng)
    near = score._kernel(draws)
    np.fill_diagonal(near, 0)
    at = score._kernel(draws, row[None])[:, 0]
    by_draws = 0.5 * near.sum() / (4000 * 3999) - at.mean()
    assert score.of_mixture(full, row) == pytest.approx(by_draws, abs=4 / np.sqrt(4000))


# --- settings by predictions ---


def test_settings_are_chosen_by_predictions_where_states_are_unknown():
    rng = np.random.default_rng(2)
    z, x = turning(60, rng)
    _, unlabelled = turning(400, rng)
    fresh, seen = turning(300, rng)
    errors = []
    for given in (None, [unlabelled[:200], unlabelled[200:]]):
        kbf = KernelBayesFilter(correction=False).fit(z, x, unlabelled=given, random_seed=0)
        errors.append(np.mean((kbf.filter(seen).mean() - fresh) ** 2))
    # On eight such sequences they are 4% above those of settings by held-out states, with a deviation of 8%.
    assert errors[1] < 1.2 * errors[0]
    assert errors[1] < 0.2**2
    assert kbf.validation_error_ < 0
    pairs = KernelBayesFilter().fit(
        pairs=(z, x), transitions=(z[:-1], z[1:]), unlabelled=unlabelled, random_seed=0
    )
    assert np.mean((pairs.smooth(seen).mean() - fresh) ** 2) < np.mean(
        (pairs.filter(seen).mean() - fresh) ** 2
    )


def test_unlabelled_observations_that_cannot_be_used_are_refused(rng):
    z, x = turning(40, rng)
    for given, word in (
        ({"unlabelled": x[:5]}, "20 or more"),
        ({"unlabelled": np.full((40, 2), np.nan)}, "20 or more"),
        ({"unlabelled": x[:, :1]}, "column"),
        ({"unlabelled": x, "controls": x}, "controls"),
    ):
        with pytest.raises(ValueError, match=word):
            KernelBayesFilter().fit(z, x, **given)
    with pytest.raises(ValueError, match="published"):
        KernelBayesFilter(tuning="published").fit(z, x, unlabelled=x)


# --- whole paths ---


def exact_beliefs(seen, a, noise, sight):
    """Filtered beliefs and steps of a linear model, and its exact posterior of all states together."""
    p, beliefs, steps = 2, [], []
    mean, covariance = np.zeros(p), np.eye(p)
    for row in seen:
        gain = covariance @ np.linalg.inv(covariance + sight)
        beliefs.append(Moments(mean + gain @ (row - mean), covariance - gain @ covariance))
        m, c = beliefs[-1].mean, beliefs[-1].covariance
        mean, covariance = a @ m, a @ c @ a.T + noise
        steps.append(Step(np.zeros(1), mean[None], covariance[None], c @ a.T))
    count = len(seen)
    precision = np.zeros((count, p, count, p))
    inverse = np.linalg.inv(noise)
    for t in range(count):
        precision[t, :, t] += np.linalg.inv(sight) + (np.eye(p) if t == 0 else inverse)
        if t + 1 < count:
            precision[t, :, t] += a.T @ inverse @ a
            precision[t, :, t + 1] -= a.T @ inverse
            precision[t + 1, :, t] -= inverse @ a
    joint = np.linalg.inv(precision.reshape(count * p, -1))
    return beliefs, steps[:-1], joint @ (seen @ np.linalg.inv(sight).T).ravel(), joint


def test_paths_have_the_joint_moments_of_the_exact_smoothing_distribution(rng):
    a, sight = np.array([[0.9, 0.3], [-0.2, 0.8]]), np.array([[0.5, 0.1], [0.1, 0.3]])
    seen, draws = rng.normal(size=(7, 2)), 20_000
    beliefs, steps, mean, joint = exact_beliefs(seen, a, 0.2 * np.eye(2), sight)
    paths = GaussianFilter.draw_paths(beliefs, steps, draws, rng).reshape(draws, -1)
    deviation = np.sqrt(np.diag(joint))
    assert np.abs((paths.mean(axis=0) - mean) / deviation).max() < 4.5 / np.sqrt(draws)
    apart = (np.cov(paths.T) - joint) / np.outer(deviation, deviation)
    # An entry of a covariance has a deviation of at most sqrt(2 / draws).
    assert np.abs(apart).max() < 4.5 * np.sqrt(2 / draws)


def test_components_of_a_step_are_drawn_by_their_shares(rng):
    step = Step(
        np.log([0.3, 0.7]), np.array([[-5.0], [5.0]]), np.array([[[1.0]], [[1.0]]]), np.array([[0.8]])
    )
    first, last = Moments(np.zeros(1), np.eye(1)), Moments(np.zeros(1), 1e-12 * np.eye(1))
    paths = GaussianFilter.draw_paths([first, last], [step], 20_000, rng)[:, 0, 0]
    # Given the value in the middle, the shares are those before, and each component moves its own way.
    assert np.mean(paths > 0) == pytest.approx(0.3, abs=4 * np.sqrt(0.21 / 20_000))
    assert paths[paths > 0].mean() == pytest.approx(4.0, abs=0.05)
    assert paths[paths > 0].std() == pytest.approx(0.6, abs=0.03)


def test_learnt_paths_are_those_of_the_exact_smoother(linear, fitted):
    _, seen = linear
    smoothed = fitted().smooth(seen[:80])
    draws = 2000
    paths = smoothed.draw_paths(draws, random_seed=1)
    assert paths.shape == (draws, 80, 1)
    deviation = np.sqrt(smoothed.cov()[:, 0, 0])
    assert np.abs(paths.mean(axis=0)[:, 0] - smoothed.mean()[:, 0]).max() < 4.5 * deviation.max() / np.sqrt(
        draws
    )
    np.testing.assert_allclose(paths.std(axis=0)[:, 0], deviation, rtol=4.5 / np.sqrt(2 * draws))
    filtered, later = kalman(seen[:80])
    gain = 0.9 * filtered[40, 1] / (0.81 * filtered[40, 1] + 0.09)
    between = gain * np.sqrt(later[41, 1] / later[40, 1])
    found = np.corrcoef(paths[:, 40, 0], paths[:, 41, 0])[0, 1]
    # Some four coefficients of N rows, and the draws.
    assert found == pytest.approx(between, abs=3 * np.sqrt(4 / N + 1 / draws))
    np.testing.assert_array_equal(paths, smoothed.draw_paths(draws, random_seed=1))


def test_paths_by_weights_are_of_training_states_that_follow_each_other(rng):
    z, x = turning(300, rng)
    fresh, seen = turning(25, rng)
    smoothed = KernelBayesFilter(correction=False).fit(z, x, random_seed=0).smooth(seen)
    paths = smoothed.draw_paths(100, random_seed=0)
    assert {tuple(row) for row in paths.reshape(-1, 2)} <= {tuple(row) for row in z}
    assert np.mean((paths.mean(axis=0) - fresh) ** 2) < 0.2**2
    angle = np.arctan2(paths[:, :-1, 1], paths[:, :-1, 0]) + 0.3
    apart = paths[:, 1:] - np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    # The noise of a step, about twice, since steps are those among the training states alone.
    assert apart.std() < 2 * 0.2
    alone = smoothed.draw(100, random_seed=0).transpose(1, 0, 2)
    assert apart.std() < (alone[:, 1:] - alone[:, :-1]).std()


def test_paths_go_to_arviz_and_pickles_and_filters_have_none(linear, fitted):
    _, seen = linear
    kbf = fitted()
    smoothed = kbf.smooth(seen[:6])
    again = pickle.loads(pickle.dumps(smoothed))
    np.testing.assert_array_equal(again.draw_paths(3, 0), smoothed.draw_paths(3, 0))
    result = smoothed.to_arviz(10, chains=2, random_seed=0, paths=True)
    posterior = result["posterior"] if ARVIZ_MAJOR else result.posterior
    drawn = np.asarray(posterior["state"]).reshape(20, 6, 1)
    np.testing.assert_array_equal(drawn, smoothed.draw_paths(20, 0))
    for states in (kbf.filter(seen[:6]), kbf.predict(3)):
        with pytest.raises(ValueError, match="smooth"):
            states.draw_paths(3)
    with pytest.raises((TypeError, ValueError), match="draws"):
        smoothed.draw_paths(0)


def test_predictions_with_controls_and_beliefs_before(rng):
    u = rng.normal(size=(200, 1))
    z = np.zeros((200, 1))
    for t in range(199):
        z[t + 1] = 0.5 * z[t] + u[t] + 0.1 * rng.normal()
    x = z + 0.5 * rng.normal(size=z.shape)
    kbf = KernelBayesFilter().fit(z[:150], x[:150], controls=u[:150], random_seed=0)
    found = kbf.predict_observations(x[150:], controls=u[150:])
    assert np.mean((found.mean()[1:] - x[151:]) ** 2) < 1.5 * (0.5**2 + 0.1**2)
    smoothed = kbf.smooth(x[150:], controls=u[150:])
    assert smoothed.draw_paths(4, 0).shape == (4, 50, 1)
    plain = KernelBayesFilter().fit(z[:150], x[:150], random_seed=0)
    whole = plain.predict_observations(x[150:160])
    later = plain.predict_observations(x[154:160], initial=plain.filter(x[150:154]).last)
    np.testing.assert_allclose(later.log_score, whole.log_score[4:])
    with pytest.raises(ValueError, match="conditional_mean"):
        plain.predict_observations(x[150:], initial="prior")
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert plain.predict_observations(x[150:155], initial="conditional_mean").log_score.shape == (5,)


# --- what is unreliable ---


@pytest.mark.parametrize("correction", [True, False, None])
def test_predictions_of_what_is_beyond_the_training_are_flagged_and_warned_of(linear, fitted, correction):
    (_, x), _ = linear
    kbf = fitted(correction)
    rows = np.vstack([x[:3], x.max() + np.array([[20.0], [21.0]])])
    with pytest.warns(PosteriorWarning, match=r"unreliable, the first of them step 3") as said:
        found = kbf.predict_observations(rows)
    assert len(said) == 1
    np.testing.assert_array_equal(found.flags["outside"][:3], False)
    assert found.flags["outside"][3:].all()
    assert len(found.warnings) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not kbf.predict_observations(x[:5]).flags["outside"].any()


def test_a_mean_between_two_modes_of_weights_is_not_beyond_the_training():
    """Of a state on two sides of zero its square tells no side: the mean is where no training state is."""
    rng = np.random.default_rng(0)
    z = rng.choice([-1.0, 1.0], size=(300, 1)) * rng.uniform(0.8, 1.2, size=(300, 1))
    x = z**2 + 0.05 * rng.normal(size=z.shape)
    kbf = KernelBayesFilter(correction=False).fit(z, x, random_seed=0)
    found = kbf.filter(x[:50])
    assert np.abs(found.mean()).max() < 0.6
    assert not found.flags["outside"].any()


def test_paths_by_a_step_back_that_nothing_speaks_for_are_warned_of(linear, fitted):
    _, y = linear
    kbf = fitted(False)
    smoothed = kbf.smooth(y[:20])
    np.testing.assert_array_equal(smoothed.mean(), kbf.filter(y[:20]).mean())
    with pytest.warns(PosteriorWarning, match="nothing held out shows that the step back does better"):
        smoothed.draw_paths(5, 0)
    smoothed = fitted(True).smooth(y[:20])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        smoothed.draw_paths(5, 0)
