"""Tests that every estimator of the table passes, and what is particular to each."""

import numpy as np
import pytest
from scipy.linalg import solve

import pymc_kbr as pk
from pymc_kbr.arrays.weighted import spread_out_by_weight
from pymc_kbr.estimators import ESTIMATORS, make_estimator

FIXED = {
    "rejection": {"accepted": 60},
    "nadaraya_watson": {"bandwidth": 0.7},
    "conditional_mean": {"bandwidth": 2.0, "regularisation": 1e-3},
    "localised": {"neighbours": 100, "bandwidth": 2.0, "regularisation": 1e-3},
    "kbr": {"bandwidth": 2.0, "regularisation": 1e-6},
    "iw_kbr": {"bandwidth": 2.0, "regularisation": 1e-3},
    "kde": {"bandwidth": 0.3},
    "kernel_likelihood": {"form": "location_scale", "particles": 200},
    "adjusted": {"estimator": pk.Rejection(200, kernel="epanechnikov"), "adjustment": "local_linear"},
}
OBSERVED = np.array([[0.5, -1.0, 0.3], [0.0, 0.2, -0.1], [2.0, 1.0, 1.0]])


def test_every_estimator_has_fixed_settings_here():
    assert FIXED.keys() == ESTIMATORS.keys()


@pytest.fixture(scope="module", params=sorted(ESTIMATORS))
def name(request):
    return request.param


@pytest.fixture(scope="module")
def fitted(name, linear):
    return ESTIMATORS[name](**FIXED[name]).fit(*linear, random_seed=1)


def test_one_and_many_observations_agree(fitted):
    together = fitted.weights(OBSERVED)
    assert together.shape == (3, 600)
    for observation, weights, posterior in zip(OBSERVED, together, fitted.condition(OBSERVED), strict=True):
        np.testing.assert_allclose(fitted.weights(observation), weights, atol=1e-10)
        if isinstance(fitted, pk.KernelLikelihood):  # each of several draws from a stream of its own
            error = 5 * np.sqrt(np.diag(posterior.cov()) / 100)
            assert np.all(np.abs(fitted.condition(observation).mean() - posterior.mean()) < error)
            continue
        np.testing.assert_allclose(fitted.condition(observation).mean(), posterior.mean(), atol=1e-9)


def test_weights_and_posterior_say_the_same(fitted, linear):
    weights = fitted.weights(OBSERVED[0])
    posterior = fitted.condition(OBSERVED[0])
    np.testing.assert_allclose(posterior.weights @ posterior.atoms, posterior.mean(), atol=1e-10)
    if not isinstance(fitted, pk.Adjusted | pk.KernelLikelihood):  # whose atoms are no rows
        np.testing.assert_allclose(weights @ linear[0], posterior.mean(), atol=1e-10)
    np.testing.assert_allclose(weights.sum(), posterior.total_weight, atol=1e-10)
    np.testing.assert_allclose(posterior.total_weight, 1.0, atol=1e-9)


def test_the_order_of_rows_does_not_matter(name, fitted, linear, rng):
    shuffled, one = rng.permutation(600), fitted
    two = ESTIMATORS[name](**FIXED[name]).fit(linear[0][shuffled], linear[1][shuffled], random_seed=1)
    if name == "kernel_likelihood":  # landmarks are drawn from the rows: only what is learnt is the same
        apart = two.log_likelihood(linear[0], OBSERVED[0]) - one.log_likelihood(linear[0], OBSERVED[0])
        assert np.average(np.abs(apart), weights=one.weights(OBSERVED[0])) < 0.3
        return
    np.testing.assert_allclose(two.weights(OBSERVED[0]), one.weights(OBSERVED[0])[shuffled], atol=1e-9)


@pytest.mark.parametrize("unit", [1e-120, 1e6])
def test_the_units_of_a_statistic_do_not_matter(name, fitted, linear, unit):
    units = np.array([1.0, unit, 1.0])
    two = ESTIMATORS[name](**FIXED[name]).fit(linear[0], linear[1] * units, random_seed=1)
    np.testing.assert_allclose(two.weights(OBSERVED * units), fitted.weights(OBSERVED), atol=1e-8)


@pytest.mark.statistical
def test_defaults_come_close_to_the_exact_mean(name, linear):
    theta, x = linear
    mix = np.linalg.lstsq(theta, x, rcond=None)[0]
    exact = solve(mix @ mix.T / 0.25 + np.eye(2), mix @ OBSERVED.T / 0.25).T
    means = np.array([p.mean() for p in ESTIMATORS[name]().fit(theta, x).condition(OBSERVED)])
    # Posterior deviations are about 0.2 to 0.4; rejection with six rows is the coarsest.
    assert np.abs(means - exact).max() < 0.5


def test_a_constant_statistic_is_dropped_with_a_warning(name, fitted, linear):
    constant = np.hstack([linear[1], np.full((600, 1), 3.0)])
    with pytest.warns(UserWarning, match=r"columns \[3\] are constant"):
        with_constant = ESTIMATORS[name](**FIXED[name]).fit(linear[0], constant, random_seed=1)
    observed = np.append(OBSERVED[0], 3.0)
    np.testing.assert_allclose(with_constant.weights(observed), fitted.weights(OBSERVED[0]), atol=1e-10)


def test_fit_does_not_change_the_constructors_arguments(name, linear):
    estimator = ESTIMATORS[name](**FIXED[name])
    before = estimator.get_params()
    estimator.fit(*linear)
    assert estimator.get_params() == before


def test_a_second_fit_tells_nothing_of_the_first(linear):
    theta, x = linear[0][:100], linear[1][:100]
    for estimator, first in (
        (pk.Rejection(50), {"ratio": np.exp(theta[:, 0])}),
        (pk.ImportanceWeightedKernelBayes(2.0, 1e-3), {"prior": 0.5 * theta[:50]}),
    ):
        fresh = type(estimator)(**estimator.get_params()).fit(theta, x).settings()
        assert "ratio_effective_sample_size" in estimator.fit(theta, x, **first).settings()
        assert estimator.fit(theta, x).settings() == fresh


@pytest.mark.parametrize(
    ("estimator", "error", "words"),
    [
        (pk.Rejection(0.0), ValueError, "above 0 and at most 1.0"),
        (pk.Rejection(1.01), ValueError, "above 0 and at most 1.0"),
        (pk.Rejection(float("nan")), ValueError, "above 0 and at most 1.0"),
        (pk.Rejection(0), ValueError, "between 1 and the number of rows, 600"),
        (pk.Rejection(601), ValueError, "between 1 and the number of rows, 600"),
        (pk.Rejection(True), TypeError, "whole number"),
        (pk.Rejection(0.5, most=0), ValueError, "most is 0; it must be at least 1"),
        (pk.Rejection(0.5, most=0.5), TypeError, "whole number"),
        (pk.Rejection(30, most=40), ValueError, "most limits a share"),
        (pk.NadarayaWatson(0.0), ValueError, "above zero"),
        (pk.NadarayaWatson(kernel="box"), ValueError, "top_hat"),
        (pk.ConditionalMean(bandwidth=-1.0), ValueError, "bandwidth is -1.0"),
        (pk.ConditionalMean(regularisation=0.0), ValueError, "regularisation is 0.0"),
        (pk.ConditionalMean(regularisation=float("nan")), ValueError, "regularisation is nan"),
        (
            pk.ConditionalMean(bandwidth="wide"),
            ValueError,
            "may be 'median', 'bayesian', or a number above zero",
        ),
        (pk.ConditionalMean(parameter_bandwidth=0.0), ValueError, "parameter_bandwidth"),
        (pk.ConditionalMean(kernel=3), TypeError, "scikit-learn"),
        (pk.KernelDensity(0.0), ValueError, "above zero"),
        (pk.KernelDensity("median"), ValueError, "it may be 'bayesian', or a number above zero"),
        (pk.NadarayaWatson("wide"), ValueError, "may be 'median', 'bayesian', or"),
        (pk.NadarayaWatson(1e-200), ValueError, "so that its square is a float"),
        (pk.Localised(601), ValueError, "neighbours is 601"),
        (pk.Localised(0), ValueError, "neighbours is 0"),
        (pk.Localised(2.5), TypeError, "neighbours is 2.5"),
    ],
)
def test_bad_arguments_are_refused(estimator, error, words, linear):
    with pytest.raises(error, match=words):
        estimator.fit(*linear)


@pytest.mark.parametrize("cls", [pk.ConditionalMean, pk.Localised])
def test_a_ridge_that_is_too_small_is_raised_with_a_warning(cls, linear):
    fitted = cls(bandwidth=500.0, regularisation=1e-300)
    with pytest.warns(UserWarning, match="take a larger regularisation"):
        posterior = fitted.fit(*linear).condition(OBSERVED[0])
    assert np.all(np.isfinite(posterior.weights))
    assert posterior.settings["ridge_raised"] >= 1


def test_a_density_ratio_changes_the_prior(name, linear):
    theta, x = linear
    mix = np.linalg.lstsq(theta, x, rcond=None)[0]
    precision = mix @ mix.T / 0.25 + np.diag([4.0, 1.0])  # theta_0 ~ N(1, 1/4), theta_1 ~ N(0, 1)
    right = mix @ OBSERVED.T / 0.25 + np.array([[4.0], [0.0]])
    exact = solve(precision, right).T
    ratio = np.exp(-2 * (theta[:, 0] - 1) ** 2 + 0.5 * theta[:, 0] ** 2)
    fitted = ESTIMATORS[name](**FIXED[name]).fit(theta, x, ratio=ratio)
    means = np.array([p.mean() for p in fitted.condition(OBSERVED)])
    # Sixty accepted rows, and a bandwidth of 0.7 deviations, are coarse beside deviations of 0.2 to 0.4.
    assert np.abs(means - exact).max() < 0.6
    assert fitted.settings()["ratio_effective_sample_size"] == pytest.approx(
        ratio.sum() ** 2 / (ratio @ ratio)
    )


def test_rows_without_density_carry_no_weight(name, linear):
    theta, x = linear
    fitted = ESTIMATORS[name](**FIXED[name]).fit(theta, x, ratio=(theta[:, 0] > -0.5).astype(float))
    weights = fitted.weights(OBSERVED)
    assert weights.shape == (3, 600)
    assert np.all(weights[:, theta[:, 0] <= -0.5] == 0)
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-9)
    assert np.all(fitted.condition(OBSERVED[0]).draw(50, 0)[:, 0] > -1.5)


def test_rows_for_a_choice_follow_their_weights():
    weights = np.where(np.arange(5000) < 1000, 4.0, 0.25)
    rows, counts = spread_out_by_weight(weights, 500)
    assert counts.sum() == 500
    assert counts[rows < 1000].sum() == pytest.approx(500 * 4000 / 5000, abs=1)
    few, same = spread_out_by_weight(weights, 5000)
    np.testing.assert_array_equal(few, np.arange(5000))
    np.testing.assert_array_equal(same, weights)


def test_unknown_names_are_answered_with_the_table_of_names():
    with pytest.raises(ValueError, match=", ".join(ESTIMATORS)):
        make_estimator("magic")
    with pytest.raises(TypeError, match=", ".join(ESTIMATORS)):
        make_estimator(3)
