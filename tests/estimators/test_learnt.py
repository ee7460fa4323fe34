"""Statistics that are learnt from the table, against what is written out."""

import numpy as np
import pytest
from scipy.linalg import sqrtm

import pymc_kbr as pk
from pymc_kbr.arrays.scaling import Scaler
from pymc_kbr.arrays.weighted import spread_out
from pymc_kbr.embedding.learnt_lengthscale import learn_lengthscale
from pymc_kbr.estimators.summaries import (
    SUMMARIES,
    CurvedPosteriorMean,
    JointPosteriorMean,
    LearntLengthscales,
    LinearPosteriorMean,
    PosteriorMean,
    Relevance,
    coordinates,
    make_summary,
)
from pymc_kbr.estimators.summaries.relevance import mean_gradients
from pymc_kbr.gram import pivoted_cholesky
from pymc_kbr.kernels import Gaussian, median_heuristic, parameter_kernel
from pymc_kbr.regression.choose_ridge import SCALES, choose_kernel_and_ridge
from pymc_kbr.regression.kernel_ridge import KernelRegression, RidgeRegression

N = 90


@pytest.fixture
def arrays(rng):
    x = rng.normal(size=(N, 3)) * [1.0, 50.0, 0.1] + [0, 10, 3]
    theta = np.column_stack([np.sin(x[:, 0]), x[:, 1]]) + 0.3 * rng.normal(size=(N, 2))
    return x, theta


def chosen(x, targets, scales):
    kernels = [Gaussian(scale * median_heuristic(x)) for scale in scales]
    return choose_kernel_and_ridge(x, targets, kernels, targets=targets, most=500)


@pytest.mark.parametrize("scales", [SCALES, (0.5, 1.0, 2.0)])
def test_gradients_are_differences_of_the_regression(scales, rng):
    x = rng.normal(size=(40, 2))
    targets = np.column_stack([np.sin(x[:, 0]), x[:, 0] * x[:, 1]])
    targets -= targets.mean(axis=0)
    choice = chosen(x, targets, scales)
    system = np.block(
        [
            [choice.kernel(x) + choice.ridge * np.eye(40), np.ones((40, 1))],
            [np.ones((1, 40)), np.zeros((1, 1))],
        ]
    )
    solved = np.linalg.solve(system, np.vstack([targets, np.zeros((1, 2))]))

    def f(points):
        return choice.kernel(points, x) @ solved[:40] + solved[40]

    step = 1e-5
    slopes = np.stack([(f(x + step * e) - f(x - step * e)) / (2 * step) for e in np.eye(2)])  # (d, n, t)
    expected = np.mean([slopes[:, i] @ slopes[:, i].T for i in range(40)], axis=0)
    np.testing.assert_allclose(mean_gradients(x, targets, scales), expected, rtol=1e-5)


@pytest.mark.parametrize("rows", [N, 50])
def test_relevance_is_three_rounds_of_gradients(rows, arrays, set_default):
    set_default(Relevance.fit, rows_for_gradients=rows)
    x, theta = arrays
    few = spread_out(N, rows)
    scaler = Scaler.fit(x)
    at = scaler.transform(x)[few]
    targets = pivoted_cholesky(parameter_kernel(theta[few]), theta[few], 50, 1e-3)[0]
    targets = targets - targets.mean(axis=0)
    metric = np.eye(3)
    for scales in (SCALES, (0.5, 1.0, 2.0), (0.5, 1.0, 2.0)):
        gradients = metric @ mean_gradients(at @ metric, targets, scales) @ metric
        metric = np.real(sqrtm(gradients / np.linalg.eigvalsh(gradients)[-1]))
    found = Relevance.fit(x, theta)
    np.testing.assert_allclose(found.matrix, 0.9 * metric + 0.1 * np.eye(3), atol=1e-6)
    values = np.linalg.eigvalsh(found.matrix)
    assert values[-1] == pytest.approx(1)
    assert values[0] >= 0.1 - 1e-9
    np.testing.assert_allclose(found.transform(x[:4]), scaler.transform(x[:4]) @ found.matrix)
    assert found.size == 3


def test_parameters_that_do_not_vary_leave_statistics_as_they_are(arrays):
    x = arrays[0]
    found = Relevance.fit(x, np.full((N, 1), 2.0))
    np.testing.assert_allclose(found.transform(x), Scaler.fit(x).transform(x))


@pytest.mark.parametrize("most", [10_000, 45, 30])
def test_the_posterior_mean_is_a_regression_of_which_rows_are_left_out(most, arrays, set_default):
    set_default(PosteriorMean.fit, most_rows=most)
    x, theta = arrays
    step = max(1, N // most)
    metric = Relevance.fit(x, theta)
    regression = KernelRegression(metric.transform(x[::step]), theta[::step], np.random.default_rng(0))
    predicted = regression.predict(metric.transform(x))
    predicted[::step] = regression.estimates
    mean, deviation = predicted.mean(axis=0), predicted.std(axis=0)
    found = PosteriorMean.fit(x, theta)
    np.testing.assert_allclose(found.coordinates(x), (predicted - mean) / deviation, rtol=1e-6)
    other = x[:5] + 0.01
    expected = (regression.predict(metric.transform(other)) - mean) / deviation
    for transform in (found.transform, found.coordinates):
        np.testing.assert_allclose(transform(other), expected, rtol=1e-6)
    assert not np.allclose(found.transform(x), found.coordinates(x))
    assert found.size == 3
    assert found.kept.tolist() == [True] * 3


def test_the_linear_posterior_mean_is_a_ridge_regression_of_which_rows_are_left_out(arrays):
    x, theta = arrays
    wider = np.column_stack([x, np.ones(N)])
    with pytest.warns(UserWarning, match=r"columns \[3\] are constant"):
        found = LinearPosteriorMean.fit(wider, theta)
    scaled = (x - x.mean(axis=0)) / x.std(axis=0)
    regression = RidgeRegression(scaled, theta)
    mean, deviation = regression.estimates.mean(axis=0), regression.estimates.std(axis=0)
    np.testing.assert_allclose(found.coordinates(wider), (regression.estimates - mean) / deviation)
    expected = (regression.predict(scaled[:5] + 0.1) - mean) / deviation
    other = wider[:5] + np.append(0.1 * x.std(axis=0), 0)
    for transform in (found.transform, found.coordinates):
        np.testing.assert_allclose(transform(other), expected)
    assert found.size == 4
    assert found.kept.tolist() == [True, True, True, False]


def test_a_spread_is_linear_in_curves_and_not_in_the_data():
    """Twenty normal data of unknown deviation, one of them in other units, and a constant."""
    rng = np.random.default_rng(1)
    spread = rng.uniform(0.5, 2, size=(1500, 1))
    x = np.hstack([spread * rng.normal(size=(1500, 20)), np.ones((1500, 1))])
    x[:, 3] = np.sinh(3 * x[:, 3])
    with pytest.warns(UserWarning, match=r"columns \[20\] are constant"):
        found = CurvedPosteriorMean.fit(x[:1000], spread[:1000])
    truth, seen = spread[1000:, 0], found.transform(x[1000:])[:, 0]
    # The maximum likelihood estimate of twenty data has this correlation with the truth.
    best = np.corrcoef(np.sqrt(np.mean(np.delete(x, [3, 20], axis=1)[1000:] ** 2, axis=1)), truth)[0, 1]
    assert np.corrcoef(seen, truth)[0, 1] > best - 0.05
    with pytest.warns(UserWarning, match="constant"):
        linear = LinearPosteriorMean.fit(x[:1000], spread[:1000]).transform(x[1000:])[:, 0]
    assert abs(np.corrcoef(linear, truth)[0, 1]) < 0.3
    np.testing.assert_allclose(found.transform(x[:3]).std(), found.coordinates(x[:3]).std())
    assert not np.allclose(found.transform(x[:1000]), found.coordinates(x[:1000]))
    assert (found.size, found.kept.sum()) == (21, 20)


def test_the_spread_of_sorted_data_about_two_centres_needs_all_of_them():
    """Twenty sorted data of two normal laws: curves of each do not tell spread from distance."""
    rng = np.random.default_rng(2)
    n = 3000
    centres, spread = rng.normal(0, 3, size=(n, 2)), np.exp(rng.normal(0, 0.5, size=(n, 1)))
    first = rng.random((n, 20)) < 0.5
    x = np.where(first, centres[:, :1], centres[:, 1:]) + spread * rng.normal(size=(n, 20))
    x = np.hstack([np.sort(x, axis=1), np.ones((n, 1))])
    target = np.log(spread)

    def explained(kind):
        with pytest.warns(UserWarning, match=r"columns \[20\] are constant"):
            found = kind.fit(x[:2000], target[:2000])
        assert (found.size, found.kept.sum()) == (21, 20)
        at = found.coordinates(x[:2000])
        assert not np.allclose(found.transform(x[:2000]), at)
        # Those of the table's rows are spread as those of others: neither has seen its own parameters.
        fresh = found.transform(x[2000:])
        assert np.std(at) == pytest.approx(np.std(fresh), rel=4 / np.sqrt(2 * 1000))
        return np.corrcoef(fresh[:, 0], target[2000:, 0])[0, 1] ** 2

    by_curves, jointly = explained(CurvedPosteriorMean), explained(JointPosteriorMean)
    assert 1 - jointly < 0.8 * (1 - by_curves)


def test_statistics_that_hardly_vary_have_joint_estimates():
    rng = np.random.default_rng(3)
    theta, x = rng.normal(size=(300, 2)), np.zeros((300, 3))
    x[7, 0] = 1.0  # which no quantile sees
    with pytest.warns(UserWarning, match="constant"):
        found = JointPosteriorMean.fit(x, theta)
    assert np.isfinite(found.transform(x)).all()
    x[:, 1] = rng.random(300) < 0.02
    with pytest.warns(UserWarning, match="constant"):
        assert np.isfinite(JointPosteriorMean.fit(x, theta).transform(x)).all()


def test_a_joint_regression_of_some_rows_predicts_the_others(arrays):
    x, theta = arrays
    found = JointPosteriorMean.fit(x, theta, most_rows=100)
    used = spread_out(len(x), 100)
    others = np.setdiff1d(np.arange(len(x)), used)
    at = found.coordinates(x)
    np.testing.assert_allclose(at[others], found.transform(x[others]))
    assert not np.allclose(at[used], found.transform(x[used]))
    alone = JointPosteriorMean.fit(x[used], theta[used])
    np.testing.assert_allclose(
        alone.regression.predict(alone.features(x)), found.regression.predict(found.features(x))
    )


@pytest.mark.parametrize("name", SUMMARIES)
def test_estimators_measure_the_tables_rows_by_estimates_without_them(name, arrays):
    x, theta = arrays
    summary = make_summary(name, x, theta)
    fitted = pk.Rejection(10, scale=name).fit(theta, x)
    at = coordinates(summary, x)
    np.testing.assert_allclose(fitted.table_.statistics, at)
    observed = x[:1] + 0.01
    distances = np.linalg.norm(at - summary.transform(observed), axis=1)
    assert set(np.flatnonzero(fitted.weights(observed[0]))) == set(np.argsort(distances)[:10].tolist())
    assert make_summary(summary, x, theta) is summary
    with pytest.raises(ValueError, match="fitted on 3 statistics; there are 2"):
        make_summary(summary, x[:, :2], theta)


def test_learnt_lengthscales_divide_scaled_statistics(arrays):
    x, theta = arrays
    wider = np.column_stack([x, np.full(N, 7.0)])
    with pytest.warns(UserWarning, match="constant"):
        found = LearntLengthscales.fit(wider, theta)
    learnt = learn_lengthscale((x - x.mean(axis=0)) / x.std(axis=0), separate=True).lengthscale
    np.testing.assert_allclose(found.lengthscale, learnt)
    np.testing.assert_allclose(found.transform(wider[:5]), Scaler.fit(x).transform(x[:5]) / learnt)
    assert found.size == 4
    assert found.kept.tolist() == [True, True, True, False]


@pytest.mark.parametrize(
    "estimator", [pk.ConditionalMean, pk.Localised, pk.KernelBayes, pk.ImportanceWeightedKernelBayes]
)
def test_learnt_bandwidth_of_rules_is_that_of_the_scaled_statistics(estimator, arrays):
    x, theta = arrays
    scaled = Scaler.fit(x).transform(x)
    options = {"neighbours": 50} if estimator is pk.Localised else {}
    fitted = estimator(bandwidth="bayesian", **options).fit(theta, x)
    assert fitted.kernel_ == learn_lengthscale(scaled).kernel
    assert fitted.bandwidth_ == learn_lengthscale(scaled).lengthscale[0]
    with pytest.raises(ValueError, match="'bayesian', which is for the Gaussian kernel"):
        estimator(bandwidth="bayesian", kernel="laplace").fit(theta, x)


def test_learnt_bandwidths_of_densities(arrays):
    x, theta = arrays
    scaled = Scaler.fit(x).transform(x)
    learnt = learn_lengthscale(scaled).lengthscale[0]
    assert pk.NadarayaWatson("bayesian").fit(theta, x).bandwidth_ == learnt
    assert pk.NadarayaWatson("median").fit(theta, x).bandwidth_ == median_heuristic(scaled)
    joint = np.hstack([theta / theta.std(axis=0), scaled])
    wanted = learn_lengthscale(joint).lengthscale[0]
    assert pk.KernelDensity("bayesian").fit(theta, x).bandwidth_ == pytest.approx(wanted)
    with pytest.raises(ValueError, match="'bayesian', which is for the Gaussian kernel"):
        pk.NadarayaWatson("bayesian", kernel="top_hat").fit(theta, x)
