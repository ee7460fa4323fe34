"""Another prior: the weights that stand for it against formulas that are written out."""

import numpy as np
import pytest
from scipy.linalg import inv

import pymc_kbr as pk
from pymc_kbr.arrays.support import Support
from pymc_kbr.embedding.density_ratio import (
    RATIO_REGULARISATIONS,
    RatioChoice,
    candidate_kernels,
    leave_one_out_scores,
)
from pymc_kbr.estimators.fitted_table import build_table
from pymc_kbr.estimators.prior_weights import (
    PriorWeights,
    ratio_of_draws,
    ratio_settings,
    shrunk_mean,
    weighted_draws,
    with_mean,
)
from pymc_kbr.gram import DivideAndConquer, Exact, Subsample
from pymc_kbr.kernels import Gaussian

N, L, ETA = 40, 30, 1e-2
KERNEL = Gaussian((0.8, 1.1))
BOUNDS = Support.from_bounds({"a": (-0.5, 3.0), "b": (None, None)}, ["a", "b"])


@pytest.fixture
def theta(rng):
    return rng.normal(size=(N, 2))


@pytest.fixture
def draws(rng):
    return np.abs(rng.normal(0.6, 0.4, size=(L, 2)))


@pytest.fixture
def weights(rng):
    return rng.uniform(-0.2, 1.0, size=L)  # of a sum that is not one


def kulsif_by_hand(theta, draws, weights, eta, centred):
    """(G + n eta I)^-1 of the embeddings' difference, by loops."""
    n = len(theta)
    gram = np.array([[_gaussian(s, t) for t in theta] for s in theta])
    g = np.array([sum(a * _gaussian(s, u) for a, u in zip(weights, draws, strict=True)) for s in theta])
    if not centred:
        return inv(gram + n * eta * np.eye(n)) @ g
    return 1 / n + inv(gram + n * eta * np.eye(n)) @ (g - gram.mean(axis=1))


def _gaussian(a, b):
    return np.exp(-0.5 * np.sum(((a - b) / np.array(KERNEL.bandwidth)) ** 2))


def mean_by_hand(draws, weights, theta, own):
    """James and Stein's estimator of `shrunk_mean`, a parameter at a time."""
    p, gap, shares = theta.shape[1], [], []
    a, b = np.zeros(p), np.zeros(p)
    for j in range(p):
        mean = sum(w * u for w, u in zip(weights, draws[:, j], strict=True))
        ours = sum(w * t for w, t in zip(own, theta[:, j], strict=True))
        variance = sum(w * (u - mean) ** 2 for w, u in zip(weights, draws[:, j], strict=True))
        h = np.sum(weights**2)  # one over the number of draws that count
        a[j], b[j] = max(variance, 0) * h / (1 - h), np.sum(own * (theta[:, j] - ours) ** 2) * np.sum(own**2)
        gap.append(ours - mean)
        shares.append(mean)
    excess = max(1, np.mean(np.array(gap) ** 2 / (a + b)))
    share = np.minimum(a / (a + b) / excess, np.sqrt(a) / np.abs(gap))
    return np.array(shares) + share * np.array(gap), share


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("eta", [ETA, 1e-7])
def test_weights_of_draws_are_the_formula(centred, eta, theta, draws, weights, rng):
    choice = RatioChoice(KERNEL, eta, float("nan"))
    found = PriorWeights.of_draws(draws, weights, theta, BOUNDS, choice, centred, Exact(), rng)
    inside = theta[:, 0] > -0.5
    assert 5 < inside.sum() < N - 5
    given = weights / weights.sum() if centred else weights
    raw = np.where(inside, kulsif_by_hand(theta, draws, given, eta, centred), 0)
    settings = found.settings
    assert settings["prior_regularisation"] == eta
    assert settings["prior_total"] == pytest.approx(raw.sum(), rel=1e-6)
    assert settings["ratio_effective_sample_size"] == pytest.approx(raw.sum() ** 2 / np.sum(raw**2), rel=1e-6)
    negative = sum(-r for r in raw if r < 0) / sum(abs(r) for r in raw)
    assert settings["prior_negative_share"] == pytest.approx(negative, rel=1e-6)
    assert negative > 0
    if not centred:
        np.testing.assert_allclose(found.gamma, raw, rtol=1e-6, atol=1e-12)
        assert found.base is None
        assert found.score is None
        return
    np.testing.assert_allclose(found.gamma, raw / raw.sum(), rtol=1e-6, atol=1e-12)
    least = min(eta, 1e-5)
    close = np.where(inside, kulsif_by_hand(theta, draws, given, least, True), 0)
    np.testing.assert_allclose(
        found.score, np.sqrt(np.maximum(raw, 0) * np.maximum(close, 0)), rtol=1e-5, atol=1e-9
    )
    mean, share = mean_by_hand(draws, weights / weights.sum(), theta, inside / inside.sum())
    assert settings["prior_shrinkage"] == pytest.approx(share.max())
    positive = np.maximum(raw, 0) / np.maximum(raw, 0).sum()
    np.testing.assert_allclose(
        found.base, tilt_by_hand(close / close.sum(), theta, positive, mean), rtol=1e-5, atol=1e-9
    )
    np.testing.assert_allclose(found.base @ theta, mean, rtol=1e-6)
    for part in (found.gamma, found.base, found.score):
        assert np.all(part[~inside] == 0)


def tilt_by_hand(base, theta, near, mean):
    """Base plus near times a linear function of sum zero, of which the mean is the wanted one."""
    apart = theta - near @ theta
    covariance = sum(w * np.outer(t, t) for w, t in zip(near, apart, strict=True))
    return base + near * (apart @ inv(covariance) @ (mean - base @ theta))


@pytest.mark.parametrize("solver", [Subsample(10), DivideAndConquer(4)])
def test_weights_of_draws_are_estimated_on_all_rows(solver, theta, draws, weights):
    choice = RatioChoice(KERNEL, ETA, float("nan"))
    one, two = (
        PriorWeights.of_draws(
            draws, weights, theta, BOUNDS, choice, True, given, np.random.default_rng(0)
        ).gamma
        for given in (solver, Exact())
    )
    np.testing.assert_array_equal(one, two)


def test_the_mean_between_prior_and_table_is_the_formula(rng):
    for shift in (0.0, 0.3, 3.0):
        theta, draws = rng.normal(size=(N, 3)), rng.normal(shift, [1, 0.1, 2], size=(L, 3))
        weights, own = rng.dirichlet(np.ones(L)), rng.dirichlet(np.ones(N))
        expected = mean_by_hand(draws, weights, theta, own)
        found = shrunk_mean(draws, weights, theta, own)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9)


def test_a_parameter_without_spread_does_not_count_among_the_others(rng):
    theta, draws = rng.normal(size=(N, 2)), rng.normal(size=(L, 2))
    weights, own = np.full(L, 1 / L), np.full(N, 1 / N)
    mean, share = shrunk_mean(draws, weights, theta, own)
    wider = [np.column_stack([side, np.full(len(side), 2.0)]) for side in (draws, theta)]
    more, shares = shrunk_mean(wider[0], weights, wider[1], own)
    np.testing.assert_allclose(more, [*mean, 2.0])
    np.testing.assert_allclose(shares, [*share, 0.0])


def test_a_parameter_that_is_zero_everywhere_stays_so(rng):
    draws, theta = np.zeros((L, 2)), np.zeros((N, 2))
    draws[:, 0], theta[:, 0] = rng.normal(size=L), rng.normal(size=N)
    mean, share = shrunk_mean(draws, np.full(L, 1 / L), theta, np.full(N, 1 / N))
    assert mean[1] == share[1] == 0
    assert np.all(np.isfinite(mean))


def test_parameters_that_are_nearly_the_same_are_tilted_as_one(rng):
    theta = rng.normal(size=(N, 1)) + np.array([[0.0, 1e-6]]) * rng.normal(size=(N, 1))
    own = np.full(N, 1 / N)
    # Means that differ by more than both parameters ever do cannot be had by weights of the size of one.
    moved = with_mean(own, theta, own, np.array([0.3, 0.301]))
    assert np.abs(moved).sum() < 2
    assert moved @ theta[:, 0] == pytest.approx(0.3, abs=1e-3)


def test_a_tilt_of_some_weights_is_the_formula_in_any_units(theta, rng):
    near = np.where(theta[:, 0] > -0.5, rng.uniform(size=N), 0)
    near, base, mean = near / near.sum(), rng.dirichlet(np.ones(N)), np.array([0.4, -0.3])
    expected = tilt_by_hand(base, theta, near, mean)
    np.testing.assert_allclose(with_mean(base, theta, near, mean), expected, rtol=1e-9)
    units = np.array([1e9, 1e-9])
    np.testing.assert_allclose(with_mean(base, theta * units, near, mean * units), expected, rtol=1e-6)


def test_a_ratio_has_the_sum_one_as_weights():
    found = PriorWeights.of_ratio(np.array([1.0, 3.0, 4.0]))
    np.testing.assert_array_equal(found.gamma, [1 / 8, 3 / 8, 1 / 2])
    np.testing.assert_array_equal(found.base, found.gamma)
    assert found.score is None


def test_a_tables_ratio_has_the_mean_one(theta, rng):
    ratio = np.where(theta[:, 0] > 0, rng.uniform(2, 9, N), 0)
    table = build_table(theta, theta, ratio=ratio)
    kept = np.flatnonzero(ratio)
    np.testing.assert_array_equal(table.rows, kept)
    np.testing.assert_allclose(table.ratio, ratio[kept] / ratio[kept].mean())
    np.testing.assert_array_equal(table.parameters, theta[kept])
    assert (table.size, len(table)) == (N, len(kept))
    fitted = pk.Rejection(5).fit(theta, theta, ratio=ratio)
    assert fitted.ratio_effective_sample_size_ == pytest.approx(ratio.sum() ** 2 / np.sum(ratio**2))


def test_the_ratio_of_draws_is_kulsif_cut_off_at_zero(theta, draws, rng):
    weights = rng.uniform(0.2, 1.0, size=L)
    choice = ratio_settings(theta, draws, weights, centred=True)
    found = ratio_of_draws(theta, (draws, weights), BOUNDS, rng)
    gram, cross = choice.kernel(theta), choice.kernel(theta, draws)
    difference = cross @ (weights / weights.sum()) - gram.mean(axis=1)
    raw = 1 / N + inv(gram + N * choice.regularisation * np.eye(N)) @ difference
    expected = np.where(theta[:, 0] > -0.5, np.maximum(N * raw, 0), 0)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
    assert np.any(raw < 0)
    assert np.any((expected == 0) & (raw > 0))
    again = ratio_of_draws(theta, (draws, 7 * weights), BOUNDS, rng)
    np.testing.assert_allclose(again, found, rtol=1e-9)


@pytest.mark.parametrize("centred", [True, False])
def test_kernel_and_eta_have_the_lowest_score_of_all(centred, theta, draws, rng):
    weights = rng.uniform(0.5, 1.5, size=L)
    share = weights / weights.sum()
    scores = {
        (kernel, eta): score
        for kernel in candidate_kernels(theta)
        for eta, score in zip(
            RATIO_REGULARISATIONS,
            leave_one_out_scores(kernel, theta, draws, RATIO_REGULARISATIONS, centred, share),
            strict=True,
        )
    }
    for kernel, eta in ((None, None), (KERNEL, None), (None, ETA)):
        found = ratio_settings(theta, draws, weights, centred, kernel, eta)
        if kernel is not None:
            of_eta = leave_one_out_scores(kernel, theta, draws, RATIO_REGULARISATIONS, centred, share)
            assert found.kernel == kernel
            assert found.regularisation == RATIO_REGULARISATIONS[int(np.argmin(of_eta))]
        elif eta is not None:
            of_kernel = {
                k: leave_one_out_scores(k, theta, draws, [eta], centred, share)[0]
                for k in candidate_kernels(theta)
            }
            assert (found.kernel, found.regularisation) == (min(of_kernel, key=of_kernel.get), eta)
        else:
            assert (found.kernel, found.regularisation) == min(scores, key=scores.get)
            assert found.score == pytest.approx(min(scores.values()))
    given = ratio_settings(theta, draws, weights, centred, KERNEL, ETA)
    assert (given.kernel, given.regularisation) == (KERNEL, ETA)


def test_equal_weights_are_no_weights(theta, draws):
    one = ratio_settings(theta, draws, np.full(L, 3.0), True)
    two = ratio_settings(theta, draws, np.full(L, 1 / L), True)
    assert one == two


def test_the_weights_of_draws_are_equal_where_none_are_given(draws):
    np.testing.assert_array_equal(weighted_draws(draws)[1], np.full(L, 1 / L))
    np.testing.assert_array_equal(weighted_draws((draws, np.arange(1, L + 1)))[1], np.arange(1.0, L + 1))
    assert weighted_draws((draws, np.arange(1, L + 1)))[0].shape == (L, 2)


@pytest.mark.parametrize(
    ("prior", "words"),
    [
        (np.ones(3), r"shape \(3,\)"),
        (np.ones((0, 2)), r"shape \(0, 2\)"),
        (np.ones((3, 0)), r"shape \(3, 0\)"),
        ((np.ones((3, 2)), np.ones(2)), r"3 draws and weights of shape \(2,\)"),
        ((np.ones((3, 2)), np.array([1, np.inf, 1])), "NaN or infinity"),
        (np.array([[1.0, np.nan]]), "NaN or infinity"),
        ((np.ones((2, 2)), np.array([1.0, -1.0])), "above zero"),
    ],
)
def test_what_is_no_prior_is_refused(prior, words):
    with pytest.raises(ValueError, match=words):
        weighted_draws(prior)


PRIORS = {
    "conditional_mean": pk.ConditionalMean(1.0, 1e-2),
    "localised": pk.Localised(15, 1.0, 1e-2),
    "nadaraya_watson": pk.NadarayaWatson(0.7),
    "rejection": pk.Rejection(15),
    "kbr": pk.KernelBayes(1.0, 1e-4),
    "iw_kbr": pk.ImportanceWeightedKernelBayes(1.0, 1e-2),
}


@pytest.mark.parametrize("name", PRIORS)
def test_rows_outside_the_support_have_no_weight(name, theta, draws, rng):
    x = theta + 0.5 * rng.normal(size=theta.shape)
    weights = rng.uniform(0.2, 1.0, size=L)
    outside = theta[:, 0] < -0.5
    found = PRIORS[name].fit(theta, x, BOUNDS, prior=(draws, weights)).weights(np.zeros((1, 2)))[0]
    np.testing.assert_allclose(found[outside], 0, atol=1e-12)
    assert found.sum() == pytest.approx(1)
    again = PRIORS[name].fit(theta, x, BOUNDS, prior=(draws, 5 * weights)).weights(np.zeros((1, 2)))[0]
    np.testing.assert_allclose(again, found, atol=1e-8)


def test_a_kernel_and_eta_that_are_given_have_no_score(theta, draws):
    found = ratio_settings(theta, draws, np.ones(L), True, KERNEL, ETA)
    assert (found.kernel, found.regularisation) == (KERNEL, ETA)
    assert np.isnan(found.score)
