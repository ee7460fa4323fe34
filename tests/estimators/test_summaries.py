import warnings

import numpy as np
import pytest

import pymc_kbr as pk
from pymc_kbr.estimators.sets import _spread
from pymc_kbr.estimators.summaries import PosteriorMean, Relevance
from pymc_kbr.estimators.summaries.relevance import mean_gradients
from pymc_kbr.estimators.summaries.transformed import CommonScale
from pymc_kbr.regression.kernel_ridge import RidgeRegression


@pytest.fixture
def noisy(rng):
    """One parameter, one statistic that tells about it and nine that do not."""
    theta = rng.normal(size=(1500, 1))
    x = np.hstack([theta + 0.3 * rng.normal(size=(1500, 1)), rng.normal(size=(1500, 9))])
    return theta, x


def test_a_common_scale_has_one_unit_and_one_centre(rng):
    x = rng.normal(size=(500, 3)) * [1, 2, 3] + [0, 5, -5]
    found = CommonScale.fit(x)
    middle = np.median(x)
    np.testing.assert_allclose(found.transform(x), (x - middle) / np.median(np.abs(x - middle)))
    positive = CommonScale.fit(np.exp(x))  # from zero, so that these stay positive
    np.testing.assert_allclose(positive.transform(np.exp(x)), np.exp(x) / np.median(np.exp(x)))
    counts = np.where(rng.random((50, 2)) < 0.1, 1.0, 0.0)
    assert CommonScale.fit(counts).scale[0] == pytest.approx(counts.std())
    with pytest.warns(UserWarning, match=r"columns \[1\] are constant"):
        half = CommonScale.fit(np.column_stack([x[:, 0], np.full(500, 9.0)]))
    assert half.transform(np.array([[1.0, 9.0]])).shape == (1, 1)
    assert half.centre[0] == pytest.approx(np.median(x[:, 0]))


def test_a_common_scale_is_not_that_of_a_few_rows(rng):
    """There is no warning of outliers, which a median distance does not see."""
    theta, x = rng.normal(size=(300, 1)), rng.normal(size=(300, 9))
    x[3] = 1e6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pk.Rejection(30, scale="common").fit(theta, x)
    with pytest.warns(UserWarning, match="is that of"):
        pk.Rejection(30, scale=True).fit(theta, x)


def test_useless_statistics_are_shortened(noisy):
    relevance = Relevance.fit(noisy[1], noisy[0])
    lengths = np.linalg.norm(relevance.matrix, axis=0)
    assert lengths[0] > 0.9
    assert lengths[1:].max() < 0.2


def test_a_statistic_that_changes_the_spread_alone_counts(rng):
    x = rng.normal(size=(1500, 3))
    theta = np.exp(x[:, :1]) * rng.normal(size=(1500, 1))  # its mean is zero whatever x
    lengths = np.linalg.norm(Relevance.fit(x, theta).matrix, axis=0)
    assert lengths[0] > 2 * lengths[1:].max()


def test_gradients_are_those_of_the_regression(rng):
    x = rng.normal(size=(200, 2))
    targets = np.column_stack([x[:, 0] * 2.0, x[:, 1]])
    found = mean_gradients(x, targets - targets.mean(axis=0))
    np.testing.assert_allclose(found, np.diag([4.0, 1.0]), atol=0.4)


def test_the_posterior_mean_is_a_statistic(noisy):
    theta, x = noisy
    summary = PosteriorMean.fit(x, theta)
    one = summary.transform(x)
    assert one.shape == (1500, 1)
    assert np.corrcoef(one[:, 0], theta[:, 0])[0, 1] > np.corrcoef(x[:, 0], theta[:, 0])[0, 1] - 0.01


@pytest.mark.statistical
@pytest.mark.parametrize(
    "scale", ["relevance", *(f"{kind}posterior_mean" for kind in ("", "linear_", "curved_", "joint_"))]
)
def test_learnt_statistics_sharpen_rejection(scale, noisy):
    theta, x = noisy
    observed = np.append(1.0, np.zeros(9))
    plain = pk.Rejection(50).fit(theta, x).condition(observed).cov()
    learnt = pk.Rejection(50, scale=scale).fit(theta, x).condition(observed).cov()
    assert learnt[0, 0] < 0.7 * plain[0, 0]


def test_a_fitted_summary_can_be_given(noisy):
    theta, x = noisy
    fitted = Relevance.fit(x, theta)
    one = pk.Rejection(50, scale=fitted).fit(theta, x).weights(x[0])
    np.testing.assert_array_equal(one, pk.Rejection(50, scale="relevance").fit(theta, x).weights(x[0]))
    with pytest.raises(ValueError, match="fitted on 10 statistics"):
        pk.Rejection(50, scale=fitted).fit(theta, x[:, :5])


def test_constant_statistics_are_left_out(noisy):
    theta, x = noisy
    with pytest.warns(UserWarning, match="constant"):
        relevance = Relevance.fit(np.hstack([x, np.ones((1500, 1))]), theta)
    assert relevance.size == 11
    assert relevance.transform(np.ones((2, 11))).shape == (2, 10)


@pytest.mark.parametrize("columns", [4, 60])
def test_left_out_residuals_and_estimates_are_those_of_fits_without_the_row(columns, rng):
    x, weights = rng.normal(size=(30, columns)), rng.uniform(0.5, 2, size=30)
    weights /= weights.mean()
    theta = x[:, :2] + rng.normal(size=(30, 2))
    x -= weights @ x / weights.sum()
    regression = RidgeRegression(x, theta, weights)
    constant = weights @ theta / weights.sum()
    penalty = regression.ridge * np.eye(columns)
    np.testing.assert_allclose(
        regression.predict(x), constant + x @ _slopes(x, theta - constant, weights, penalty), atol=1e-8
    )
    ones = np.hstack([np.ones((30, 1)), x])
    for row in range(30):
        rest = np.delete(np.arange(30), row)
        slopes = _slopes(x[rest], theta[rest] - constant, weights[rest], penalty)
        np.testing.assert_allclose(regression.estimates[row], constant + x[row] @ slopes, atol=1e-8)
        refitted = _slopes(ones[rest], theta[rest], weights[rest], np.pad(penalty, ((1, 0), (1, 0))))
        np.testing.assert_allclose(regression.residuals[row], theta[row] - ones[row] @ refitted, atol=1e-8)


def _slopes(x, targets, weights, penalty):
    return np.linalg.solve(x.T @ (weights[:, None] * x) + penalty, x.T @ (weights[:, None] * targets))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("scale", "noise"),
    [("linear_posterior_mean", 1200), ("joint_posterior_mean", 150), ("posterior_mean", 40)],
)
def test_intervals_hold_with_about_as_many_statistics_as_rows(scale, noise, rng):
    n, held_out = 800, 300
    theta = rng.normal(size=(n + held_out, 2))  # nothing tells about the second one
    x = np.hstack(
        [theta[:, :1] + 0.3 * rng.normal(size=(len(theta), 10)), rng.normal(size=(len(theta), noise))]
    )
    estimator = pk.Adjusted(pk.Rejection(200, scale=scale), "local_linear").fit(
        theta[:n], x[:n], random_seed=0
    )
    draws = np.array([posterior.draw(400, 0) for posterior in estimator.condition(x[n:])])
    inside = np.abs(np.mean(draws < theta[n:, None], axis=1) - 0.5) < 0.45
    # Four binomial deviations of 300 rows, and 0.02 for quantiles of 200 atoms.
    assert inside.mean(axis=0) == pytest.approx(0.9, abs=4 * np.sqrt(0.09 / held_out) + 0.02)


# --- data sets ---


def test_data_sets_have_estimates_of_unnamed_parameters_and_their_sizes(rng):
    theta = rng.normal(size=(60, 1))
    sets = [
        rng.normal(mean, 1.0, (size, 2)) for mean, size in zip(theta, rng.integers(20, 31, 60), strict=True)
    ]
    sets[:2] = [rng.normal(size=(size, 2)) for size in (20, 30)]
    features = pk.SetFeatures(embedding=4, quantiles=3, directions=3).fit(sets, theta)
    assert features.names_ == ["estimate_0", "log_size"]
    np.testing.assert_allclose(np.linalg.norm(features.directions_, axis=1), 1)
    levels = features.levels_
    assert np.all(np.diff([0, *levels, 1]) > 0)
    np.testing.assert_allclose(levels + levels[::-1], 1)
    with pytest.raises(ValueError, match="of the parameters"):
        pk.SetFeatures(embedding=4).fit(sets, np.where(theta > 0, np.nan, theta))
    fresh = [rng.normal(mean, 1.0, (25, 2)) for mean in (-1.5, 1.5)]
    found = features(fresh)
    assert found[1, 0] - found[0, 0] > 1.5
    np.testing.assert_allclose(found[:, 1], np.log(25))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for size in (18, 33):  # a tenth beyond, and no more
            features([rng.normal(size=(size, 2))])
    for size in (17, 34):
        with pytest.warns(UserWarning, match=f"data sets have {size} to {size} rows, and those .* 20 to 30"):
            features([rng.normal(size=(size, 2))])


def test_spreads_of_rows_are_half_their_quartiles_or_their_deviation():
    rows = np.column_stack([np.arange(101.0), np.where(np.arange(101) < 2, 50.0, 0.0), np.ones(101)])
    np.testing.assert_allclose(_spread(rows), [25.0, rows[:, 1].std(), 1.0])
