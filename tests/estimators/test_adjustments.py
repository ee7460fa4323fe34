import numpy as np
import pytest
from scipy.linalg import solve

import pymc_kbr as pk
from pymc_kbr.arrays.bijections import Interval
from pymc_kbr.arrays.support import Block, Support
from pymc_kbr.estimators.adjustments import ADJUSTMENTS

OBSERVED = np.array([0.5, -1.0, 0.3])


def exact(linear):
    """Posterior mean and covariance of the linear model at OBSERVED."""
    theta, x = linear
    mix = np.linalg.lstsq(theta, x, rcond=None)[0]
    covariance = np.linalg.inv(mix @ mix.T / 0.25 + np.eye(2))
    return covariance @ mix @ OBSERVED / 0.25, covariance


@pytest.mark.parametrize("name", sorted(set(ADJUSTMENTS) - {"none", "joint_neighbours"}))
def test_regressions_recover_a_linear_model(name, linear):
    mean, covariance = exact(linear)
    estimator = pk.Adjusted(pk.Rejection(300, kernel="epanechnikov"), name)
    posterior = estimator.fit(*linear, random_seed=0).condition(OBSERVED)
    deviation = np.sqrt(np.diag(covariance))
    size = posterior.effective_sample_size
    # The mean of so many residuals, and a regression's error of the same size; heteroscedastic versions
    # estimate the deviation twice.
    assert np.all(np.abs(posterior.mean() - mean) < 4 * deviation / np.sqrt(size) * np.sqrt(2))
    draws = posterior.draw(4000, 1)
    assert np.all(np.abs(draws.std(axis=0) / deviation - 1) < 4 / np.sqrt(2 * size) * np.sqrt(2))


def test_local_linear_is_weighted_least_squares(linear):
    theta, x = linear
    estimator = pk.Adjusted(pk.Rejection(200, kernel="epanechnikov"), "local_linear").fit(theta, x)
    posterior, weights = estimator.condition(OBSERVED), estimator.weights(OBSERVED)
    rows = np.flatnonzero(weights)
    w, design = weights[rows], np.hstack([np.ones((len(rows), 1)), x[rows] - OBSERVED])
    coefficients = solve(design.T @ (w[:, None] * design), design.T @ (w[:, None] * theta[rows]))
    moved = coefficients[0] + theta[rows] - design @ coefficients
    np.testing.assert_allclose(posterior.mean(), w @ moved, atol=1e-9)
    np.testing.assert_allclose(np.sort(posterior.atoms[:, 0]), np.sort(moved[:, 0]), atol=1e-9)


def test_joint_neighbours_keep_two_branches_apart(rng):
    # theta = +-(x + e): moving with one slope for all would blur both branches into each other.
    sign, x = rng.choice([-1.0, 1.0], 4000), rng.uniform(1, 2, 4000)
    theta = sign * (x + 0.02 * rng.standard_normal(4000))
    arrays = theta[:, None], x[:, None]
    plain = pk.Rejection(400, kernel="epanechnikov")
    spread = {}
    for name in ("none", "local_linear", "joint_neighbours"):
        draws = pk.Adjusted(plain, name).fit(*arrays).condition([1.5]).draw(2000, 0)[:, 0]
        spread[name] = np.abs(draws).std()
    assert spread["joint_neighbours"] < 0.03
    assert min(spread["none"], spread["local_linear"]) > 0.02 * 1.1
    assert spread["joint_neighbours"] < 0.9 * min(spread["none"], spread["local_linear"])


def test_heteroscedastic_residuals_are_scaled_to_the_observation(rng):
    x = rng.uniform(-2, 2, (3000, 1))
    theta = x + np.exp(0.5 * x) * rng.standard_normal((3000, 1))
    everything = pk.Rejection(3000, kernel="gaussian")
    for name, low in (("kernel_ridge", 1.0), ("heteroscedastic_kernel_ridge", 0.0)):
        posterior = pk.Adjusted(everything, name).fit(theta, x, random_seed=0).condition([-1.5])
        ratio = posterior.draw(4000, 0).std() / np.exp(-0.75)
        assert (ratio > 1.3) if low else abs(ratio - 1) < 0.15


def test_atoms_stay_inside_the_support(rng):
    theta = rng.random((1000, 1))
    x = theta + 0.3 * rng.standard_normal((1000, 1))
    support = Support.from_bounds({"a": (0, 1)}, ["a"])
    for name in ADJUSTMENTS:
        posterior = pk.Adjusted(adjustment=name).fit(theta, x, support, random_seed=0).condition([1.5])
        assert posterior.atoms.min() >= 0
        assert posterior.atoms.max() <= 1
        assert support.contains(posterior.draw(500, 0)).all()


def test_discrete_parameters_and_atoms_on_an_edge_stay_where_they_are(rng):
    count = rng.integers(0, 4, 800).astype(float)
    rate = rng.random(800)
    rate[:5] = 1.0  # on the edge
    theta = np.column_stack([count, rate])
    x = (count + rate + 0.2 * rng.standard_normal(800))[:, None]
    support = Support(2, (Block((0,), (), smooth=False), Block((1,), (Interval((0.0,), (1.0,)),))))
    posterior = pk.Adjusted(pk.Rejection(700), "local_linear").fit(theta, x, support).condition([2.0])
    np.testing.assert_array_equal(posterior.atoms[:, 0], np.round(posterior.atoms[:, 0]))
    assert np.all(np.isin(posterior.draw(300, 0)[:, 0], [0, 1, 2, 3]))
    assert np.sum(posterior.atoms[:, 1] == 1.0) == np.sum(
        pk.Rejection(700).fit(theta, x).weights([2.0])[:5] > 0
    )


@pytest.mark.parametrize(
    "base", [pk.ConditionalMean(2.0, 1e-3), pk.Localised(200, 2.0, 1e-3), pk.NadarayaWatson(0.7)]
)
def test_any_estimator_can_be_adjusted(base, linear):
    mean, covariance = exact(linear)
    estimator = pk.Adjusted(base, "kernel_ridge").fit(*linear, random_seed=0)
    np.testing.assert_allclose(estimator.weights(OBSERVED), base.fit(*linear).weights(OBSERVED))
    error = (estimator.condition(OBSERVED).mean() - mean) / np.sqrt(np.diag(covariance))
    assert np.abs(error).max() < 0.35


def test_a_density_ratio_reaches_the_regression(linear):
    theta, x = linear
    ratio = np.exp(-2 * (theta[:, 0] - 1) ** 2 + 0.5 * theta[:, 0] ** 2)
    mix = np.linalg.lstsq(theta, x, rcond=None)[0]
    precision = mix @ mix.T / 0.25 + np.diag([4.0, 1.0])
    expected = solve(precision, mix @ OBSERVED / 0.25 + [4.0, 0.0])
    for name in ("kernel_ridge", "local_linear"):
        fitted = pk.Adjusted(pk.Rejection(500), name).fit(theta, x, ratio=ratio, random_seed=0)
        assert np.abs(fitted.condition(OBSERVED).mean() - expected).max() < 0.1


@pytest.mark.parametrize(
    ("estimator", "error", "words"),
    [
        (pk.Adjusted(adjustment="magic"), ValueError, "joint_neighbours"),
        (pk.Adjusted(adjustment=3), TypeError, "joint_neighbours"),
        (pk.Adjusted(smoothing="much"), ValueError, "'global'"),
        (pk.Adjusted("rejection"), TypeError, "give an estimator"),
        (pk.Adjusted(pk.Adjusted()), TypeError, "not adjusted itself"),
        (pk.Adjusted(pk.Rejection(0)), ValueError, "between 1"),
        (pk.Rejection(kernel="box"), ValueError, "epanechnikov"),
        (pk.Rejection(scale="magic"), ValueError, "relevance"),
    ],
)
def test_bad_arguments_are_refused(estimator, error, words, linear):
    with pytest.raises(error, match=words):
        estimator.fit(*linear)


def test_three_tenths_of_the_rows_are_accepted_or_ten_thousand(rng):
    theta = rng.normal(size=(40_000, 1))
    x = theta + rng.normal(size=theta.shape)
    for rows, accepted in ((1000, 300), (40_000, 10_000)):
        fitted = pk.Adjusted(adjustment="local_linear").fit(theta[:rows], x[:rows])
        assert np.count_nonzero(fitted.condition([1.0]).weights) == accepted


def test_an_epanechnikov_kernel_falls_to_zero_at_the_first_row_that_is_not_accepted(linear):
    fitted = pk.Rejection(50, kernel="epanechnikov").fit(*linear)
    weights = fitted.weights(OBSERVED)
    scaled = fitted.table_.statistics - fitted.table_.scaler.transform(OBSERVED[None])
    distances = np.linalg.norm(scaled, axis=1)
    edge = np.sort(distances)[50]
    expected = np.maximum(1 - (distances / edge) ** 2, 0)
    np.testing.assert_allclose(weights, expected / expected.sum(), atol=1e-12)
    assert np.all(pk.Rejection(600, kernel="epanechnikov").fit(*linear).weights(OBSERVED) > 0)
