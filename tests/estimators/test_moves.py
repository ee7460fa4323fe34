"""Each adjustment against its formula in loops."""

import numpy as np
import pytest

from pymc_kbr.estimators.adjustments import (
    JointNeighbours,
    KernelRidgeAdjustment,
    LocalLinearAdjustment,
    NoAdjustment,
    squared_residual_logarithms,
)
from pymc_kbr.regression.kernel_ridge import KernelRegression

N, M = 80, 24


@pytest.fixture
def rows(rng):
    x = rng.normal(size=(N, 2))
    z = np.column_stack([np.sin(x[:, 0]), 5 * x[:, 1], x[:, 0] + x[:, 1]])
    return x, z + np.exp(0.5 * x[:, :1]) * rng.normal(size=z.shape)


@pytest.fixture
def observed():
    return np.array([0.4, -0.3])


@pytest.fixture
def near(rows, observed):
    return np.argsort(np.linalg.norm(rows[0] - observed, axis=1))[:M]


def moved_by_neighbours(x, z, observed, rows, weights, count, ridge, only=slice(None)):
    """Joint neighbours in loops: for each row the slopes among its `count` nearest, in both spaces."""
    d = x.shape[1]
    pool = np.argsort(np.linalg.norm(x - observed, axis=1))[: 4 * len(rows)]
    radius = max(np.linalg.norm(observed - x[i]) for i in rows) / 2
    deviation = z[rows].std(axis=0)
    result = []
    for i in rows[only]:
        apart = np.sum(((x[i] - x[pool]) / radius) ** 2, axis=1)
        apart += np.sum(((z[i] - z[pool]) / deviation) ** 2, axis=1)
        nearest = pool[np.argsort(apart)[:count]]
        share = np.ones(count) if weights is None else weights[nearest]
        share = share / share.sum()
        centre, mean = share @ x[nearest], share @ z[nearest]
        covariance, cross = np.zeros((d, d)), np.zeros((d, z.shape[1]))
        for w, j in zip(share, nearest, strict=True):
            covariance += w * np.outer(x[j] - centre, x[j] - centre)
            cross += w * np.outer(x[j] - centre, z[j] - mean)
        penalty = ridge * np.trace(covariance) / d
        slopes = np.linalg.inv(covariance + penalty * np.eye(d)) @ cross
        result.append(z[i] + (observed - x[i]) @ slopes)
    return np.array(result)


@pytest.mark.parametrize(("given", "count"), [(None, round(0.4 * M)), (13, 13), (2, 6), (500, N)])
@pytest.mark.parametrize("weighted", [False, True])
def test_joint_neighbours_are_the_formula(given, count, weighted, rows, observed, near, rng):
    weights = rng.uniform(0.1, 2, size=N) if weighted else None
    adjustment = JointNeighbours(given).fit(*rows, weights, rng)
    expected = moved_by_neighbours(*rows, observed, near, weights, count, 1e-2)
    np.testing.assert_allclose(adjustment.move(observed, near, np.ones(M)), expected, rtol=1e-9)


def test_joint_neighbours_follow_a_linear_map(rows, observed, near, rng, set_default):
    x, slopes = rows[0], np.array([[1.0, -2.0], [0.5, 3.0]])
    set_default(JointNeighbours.move, ridge_share=1e-12)
    adjustment = JointNeighbours().fit(x, x @ slopes + 7, None, rng)
    expected = np.broadcast_to(observed @ slopes + 7, (M, 2))
    np.testing.assert_allclose(adjustment.move(observed, near, np.ones(M)), expected, rtol=1e-8)


def test_of_one_statistic_the_slope_is_shortened_by_the_ridge(rng):
    x = rng.normal(size=(N, 1))
    adjustment = JointNeighbours(20).fit(x, 3 * x, None, rng)
    rows = np.arange(10)
    expected = 3 * x[rows] + (0.5 - x[rows]) * 3 / (1 + 1e-2)
    np.testing.assert_allclose(adjustment.move(np.array([0.5]), rows, np.ones(10)), expected)


def test_rows_at_the_observation_are_not_moved(rng):
    x, z = np.zeros((N, 1)), rng.normal(size=(N, 1))
    x[40:] = 5.0
    adjustment = JointNeighbours(4).fit(x, z, None, rng)
    np.testing.assert_allclose(adjustment.move(np.zeros(1), np.arange(8), np.ones(8)), z[:8])
    z[:] = 2.0  # without spread in the parameters either
    np.testing.assert_allclose(adjustment.move(np.zeros(1), np.arange(8), np.ones(8)), z[:8])


def test_in_parts_joint_neighbours_are_the_same(rng):
    x = rng.normal(size=(3000, 2))
    z = x[:, :1] ** 2 + 0.1 * rng.normal(size=(3000, 1))
    adjustment, observed = JointNeighbours(900).fit(x, z, None, rng), np.array([0.1, 0.2])
    near = np.argsort(np.linalg.norm(x - observed, axis=1))[:1500]  # 2.7 million numbers: two parts
    found = adjustment.move(observed, near, np.ones(1500))
    some = [0, 700, 1499]
    expected = moved_by_neighbours(x, z, observed, near, None, 900, 1e-2, some)
    np.testing.assert_allclose(found[some], expected, rtol=1e-8)


@pytest.mark.parametrize("heteroscedastic", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_kernel_regression_moves_left_out_residuals(heteroscedastic, weighted, rows, observed, near, rng):
    x, z = rows
    weights = rng.uniform(0.1, 2, size=N) if weighted else None
    adjustment = KernelRidgeAdjustment(heteroscedastic)
    adjustment.fit(x, z, weights, np.random.default_rng(3))
    same = np.random.default_rng(3)
    mean = KernelRegression(x, z, same, weights)
    residuals = mean.residuals[near]
    if heteroscedastic:
        logs = squared_residual_logarithms(mean.residuals)
        spread = KernelRegression(x, logs, same, weights, most=400, rank=200)
        fitted = logs - spread.residuals  # of each row by all the others
        residuals = residuals * np.sqrt(np.exp(spread.predict(observed[None])) / np.exp(fitted[near]))
    expected = mean.predict(observed[None]) + residuals
    np.testing.assert_allclose(adjustment.move(observed, near, np.ones(M)), expected, rtol=1e-9)
    assert adjustment.leverages_capped_ == mean.leverages_capped


@pytest.mark.parametrize("heteroscedastic", [False, True])
def test_rows_that_a_regression_has_not_seen_have_plain_residuals(heteroscedastic, rows, observed, rng):
    x, z = rows
    adjustment = KernelRidgeAdjustment(heteroscedastic).fit(x[:60], z[:60], None, rng)
    taken = np.array([70, 3, 79, 0])
    other = adjustment.for_rows(x[taken], z[taken], np.array([-1, 3, -1, 0]))
    found = other.move(observed, np.arange(4), np.ones(4))
    known = adjustment.move(observed, np.array([3, 0]), np.ones(2))
    np.testing.assert_allclose(found[[1, 3]], known)
    residuals = z[[70, 79]] - adjustment.mean_.predict(x[[70, 79]])
    if heteroscedastic:
        here, there = adjustment.spread_.predict(observed[None]), adjustment.spread_.predict(x[[70, 79]])
        residuals = residuals * np.exp(0.5 * here - 0.5 * there)
    np.testing.assert_allclose(found[[0, 2]], adjustment.mean_.predict(observed[None]) + residuals)
    assert adjustment.for_rows is not other.for_rows
    np.testing.assert_allclose(adjustment.move(observed, np.array([3, 0]), np.ones(2)), known)


def least_squares(design, targets, weights):
    return np.linalg.solve(design.T @ (weights[:, None] * design), design.T @ (weights[:, None] * targets))


@pytest.mark.parametrize("heteroscedastic", [False, True])
def test_a_local_regression_is_weighted_least_squares(heteroscedastic, rows, observed, near, rng):
    x, z = rows
    weights = rng.uniform(0.1, 2, size=M)
    adjustment = LocalLinearAdjustment(heteroscedastic).fit(x, z, None, rng)
    design = np.column_stack([np.ones(M), x[near]])
    slopes = least_squares(design, z[near], weights)
    residuals, at = z[near] - design @ slopes, np.array([1.0, *observed])
    expected = at @ slopes + residuals
    if heteroscedastic:
        of_logs = least_squares(design, np.log(residuals**2), weights)
        expected = at @ slopes + residuals * np.sqrt(np.exp(at @ of_logs) / np.exp(design @ of_logs))
    np.testing.assert_allclose(adjustment.move(observed, near, weights), expected, rtol=1e-8)
    other = adjustment.for_rows(x[near], z[near], np.full(M, -1))
    np.testing.assert_allclose(other.move(observed, np.arange(M), weights), expected, rtol=1e-8)


def test_twice_as_many_rows_as_coefficients_are_enough(rows, observed, near, rng):
    adjustment = LocalLinearAdjustment().fit(*rows, None, rng)
    adjustment.move(observed, near[:6], np.ones(6))
    with pytest.raises(ValueError, match="5 rows carry weight and the local-linear adjustment fits 3"):
        adjustment.move(observed, near[:6], np.array([1, 1, 1, 1, 1, 0.0]))


def test_residuals_of_an_exact_fit_are_no_outliers():
    residuals = np.array([[1.0, 0.0], [-2.0, 0.0], [0.0, 0.0]])
    found = squared_residual_logarithms(residuals)
    np.testing.assert_allclose(found[:, 0], np.log([1.0, 4.0, 1e-6 * 5 / 3]))
    assert np.all(np.isfinite(found))


def test_no_adjustment_leaves_rows_where_they_are(rows, observed, near, rng):
    adjustment = NoAdjustment().fit(*rows, None, rng)
    np.testing.assert_array_equal(adjustment.move(observed, near, np.ones(M)), rows[1][near])
    other = adjustment.for_rows(rows[0][near], rows[1][near], np.full(M, -1))
    np.testing.assert_array_equal(other.move(observed, np.arange(3), np.ones(3)), rows[1][near[:3]])
