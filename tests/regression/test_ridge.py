"""Ridge regressions of columns against regressions written out, row by row left out."""

import numpy as np
import pytest
from scipy.linalg import solve

from pymc_kbr.kernels import Gaussian, median_heuristic
from pymc_kbr.regression import kernel_ridge as ridge_module
from pymc_kbr.regression.choose_ridge import RIDGES, choose_kernel_and_ridge
from pymc_kbr.regression.kernel_ridge import KernelRegression, RidgeRegression

N = 40
RNG = np.random.default_rng(3)
WEIGHTS = RNG.exponential(size=N) + 0.1
SHAPES = {"tall": 5, "square": N, "wide": 60}


def problem(columns, weights):
    """Features of weighted mean zero, and two targets in different units that they tell something about."""
    rng = np.random.default_rng(columns)
    d = np.ones(N) if weights is None else weights / weights.mean()
    features = rng.normal(size=(N, columns))
    features -= d @ features / d.sum()
    targets = features[:, :3] @ rng.normal(size=(3, 2)) + rng.normal(size=(N, 2)) + [4.0, -1.0]
    return features, targets * [1.0, 1e3], d


def fitted(features, targets, d, ridge):
    """Constant and slopes that minimise sum d (y - c - f b)^2 + ridge |b|^2."""
    together = np.hstack([np.ones((len(d), 1)), features])
    penalty = ridge * np.eye(together.shape[1])
    penalty[0, 0] = 0
    coefficients = solve(together.T @ (d[:, None] * together) + penalty, together.T @ (d[:, None] * targets))
    return coefficients[0], coefficients[1:]


def left_out(features, targets, d, ridge):
    """Residuals of each row from a fit to the others."""
    out = np.empty_like(targets)
    for i in range(len(d)):
        rest = np.arange(len(d)) != i
        constant, slopes = fitted(features[rest], targets[rest], d[rest], ridge)
        out[i] = targets[i] - constant - features[i] @ slopes
    return out


@pytest.fixture(params=SHAPES)
def columns(request):
    return SHAPES[request.param]


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_residuals_are_those_of_refitting(columns, weights):
    features, targets, d = problem(columns, weights)
    made = RidgeRegression(features, targets, weights)
    expected = left_out(features, targets, d, made.ridge)
    np.testing.assert_allclose(made.residuals, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    assert made.leverages_capped == 0


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_the_ridge_has_the_lowest_error_on_standardised_targets(columns, weights):
    features, targets, d = problem(columns, weights)
    unit = targets.std(axis=0)
    errors = [np.sum(d[:, None] * (left_out(features, targets, d, r) / unit) ** 2) for r in RIDGES]
    assert RidgeRegression(features, targets, weights).ridge == RIDGES[int(np.argmin(errors))]


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_predictions_are_those_of_the_regression(columns, weights):
    features, targets, d = problem(columns, weights)
    made = RidgeRegression(features, targets, weights)
    constant, slopes = fitted(features, targets, d, made.ridge)
    new = np.random.default_rng(1).normal(size=(6, columns))
    np.testing.assert_allclose(made.predict(new), constant + new @ slopes, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_estimates_leave_the_row_out_of_the_slopes_and_not_of_the_constant(columns, weights):
    features, targets, d = problem(columns, weights)
    made = RidgeRegression(features, targets, weights)
    centred = targets - d @ targets / d.sum()
    expected = np.empty_like(targets)
    for i in range(N):
        rest = np.arange(N) != i
        f, y, w = features[rest], centred[rest], d[rest]
        slopes = solve(f.T @ (w[:, None] * f) + made.ridge * np.eye(columns), f.T @ (w[:, None] * y))
        expected[i] = d @ targets / d.sum() + features[i] @ slopes
    np.testing.assert_allclose(made.estimates, expected, rtol=1e-5, atol=1e-6 * np.abs(targets).max())


def test_features_of_any_size_are_regressed_on(columns):
    features, targets, d = problem(columns, WEIGHTS)
    made = RidgeRegression(features * 1e-3, targets, WEIGHTS)
    expected = left_out(features * 1e-3, targets, d, made.ridge)
    np.testing.assert_allclose(made.residuals, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())


def test_weights_have_no_unit(columns):
    features, targets, _ = problem(columns, WEIGHTS)
    one, other = (RidgeRegression(features, targets, w) for w in (WEIGHTS, 1e3 * WEIGHTS))
    np.testing.assert_allclose(one.residuals, other.residuals, rtol=1e-9)
    assert one.ridge == other.ridge


def test_a_constant_target_is_predicted_as_it_is(columns):
    features, targets, _ = problem(columns, None)
    targets[:, 1] = 7.0
    made = RidgeRegression(features, targets)
    np.testing.assert_allclose(made.predict(features)[:, 1], 7.0)
    np.testing.assert_allclose(made.residuals[:, 1], 0.0, atol=1e-9)


def test_a_row_that_determines_its_own_prediction_is_capped_and_counted():
    features, targets, _ = problem(3, None)
    features[0] = [1e6, 0, 0]
    features -= features.mean(axis=0)
    made = RidgeRegression(features, targets)
    assert made.leverages_capped == 1
    constant, slopes = fitted(features, targets, np.ones(N), made.ridge)
    np.testing.assert_allclose(
        made.residuals[0], (targets[0] - constant - features[0] @ slopes) / 0.01, rtol=1e-3, atol=1e-6
    )


def test_the_ridge_of_many_rows_is_chosen_on_some(set_default):
    features, targets, d = problem(5, None)
    set_default(ridge_module._Tall.errors, most=10)
    rows = np.linspace(0, N - 1, 10).round().astype(int)
    unit = targets.std(axis=0)
    errors = [np.sum((left_out(features, targets, d, r)[rows] / unit) ** 2) for r in RIDGES]
    assert RidgeRegression(features, targets).ridge == RIDGES[int(np.argmin(errors))]


def test_leverages_of_many_rows_are_made_in_parts(set_default):
    features, targets, _ = problem(5, WEIGHTS)
    whole = RidgeRegression(features, targets, WEIGHTS)
    set_default(ridge_module._Tall.solve, rows_at_once=7)
    parts = RidgeRegression(features, targets, WEIGHTS)
    np.testing.assert_allclose(parts.residuals, whole.residuals, rtol=1e-12)


@pytest.fixture(scope="module")
def bent():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(150, 2))
    return x, np.column_stack([np.sin(2 * x[:, 0]), 1e3 * x[:, 1]]) + 0.2 * rng.normal(size=(150, 2)) * [
        1,
        1e3,
    ]


@pytest.mark.parametrize("weights", [None, np.linspace(0.2, 2.0, 150)])
def test_a_kernel_regression_is_kernel_ridge_regression_with_a_constant(bent, weights, rng):
    x, y = bent
    made = KernelRegression(x, y, rng, weights)
    d = np.ones(150) if weights is None else weights / weights.mean()
    kernel = Gaussian(made.bandwidth)
    new = np.random.default_rng(5).normal(size=(8, 2))
    # sum d (y - c - f)^2 + ridge |f|^2 in the kernel's space, features centred about their weighted mean.
    base = d / d.sum()
    h = np.eye(150) - np.outer(np.ones(150), base)
    gram = h @ kernel(x) @ h.T
    cross = h @ (kernel(x, new) - (kernel(x) @ base)[:, None])
    dual = solve(gram + made.ridge * np.diag(1 / d), y - base @ y)
    # The factorisation leaves 1e-5 of the trace.
    np.testing.assert_allclose(made.predict(new), base @ y + cross.T @ dual, atol=0.02 * y.std(axis=0).max())
    far = np.abs(made.predict(new)[:, 0] - (base @ y + cross.T @ dual)[:, 0])
    assert far.max() < 0.02


def test_a_kernel_regressions_bandwidth_is_chosen_on_standardised_targets(bent, rng):
    x, y = bent
    made = KernelRegression(x, y, rng)
    kernels = [Gaussian(s * median_heuristic(x)) for s in (0.25, 0.5, 1, 2, 4, 8)]
    standard = (y - y.mean(axis=0)) / y.std(axis=0)
    assert made.bandwidth == choose_kernel_and_ridge(x, standard, kernels, targets=standard).kernel.bandwidth
    assert KernelRegression(x, y, rng, most=30).bandwidth == pytest.approx(
        choose_kernel_and_ridge(x, standard, kernels, targets=standard, most=30).kernel.bandwidth
    )


def test_a_kernel_regression_of_low_rank_predicts_in_parts(bent, rng):
    x, y = bent
    made = KernelRegression(x, y, rng, rank=10)
    whole = made.predict(x)
    np.testing.assert_allclose(made.predict(x, rows_at_once=20), whole, rtol=1e-12)
    assert made._ridge._coefficients.shape == (10, 2)


def test_a_kernel_regression_tells_what_it_left_out(bent, rng):
    x, y = bent
    made = KernelRegression(x, y, rng)
    assert made.leverages_capped == 0
    assert made.ridge in RIDGES
    unit = y.std(axis=0)
    # Noise of 0.2; a smooth function is left about that far by rows around it.
    np.testing.assert_allclose((made.residuals / unit).std(axis=0), 0.2 / unit * [1, 1e3], rtol=0.4)
