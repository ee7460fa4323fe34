"""The autoregressive form: its parts against their formulas, and the whole against known likelihoods."""

import pickle
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import kstest, norm

from pymc_kbr.estimators import KernelLikelihood
from pymc_kbr.estimators.likelihood import smooth_function
from pymc_kbr.estimators.likelihood.autoregressive import (
    MOST_SPARINGLY,
    SPARING,
    Autoregressive,
    _Single,
    effort_of_each,
    fit_autoregressive,
)
from pymc_kbr.estimators.likelihood.conditional_mixture import ConditionalMixture, fit_conditional_mixture
from pymc_kbr.estimators.likelihood.normal_mixture import ResidualShape
from pymc_kbr.estimators.likelihood.screening import screen
from pymc_kbr.estimators.likelihood.smooth_function import (
    Effort,
    Inputs,
    ProductKernel,
    RegressionEvidence,
    WhitenedBasis,
    choose_kernel,
    fit_log_variance,
    fit_mean,
    start_kernel,
    with_jitter,
)

KERNEL = ProductKernel(np.array([0.5, 0.2]), np.array([0.7, 0.1, 0.4]), np.array([0.3, 0.6, 0.1]), 0.4, 0.2)


@pytest.fixture
def inputs(rng):
    return Inputs(rng.normal(size=(60, 2)), rng.normal(size=(60, 3)))


def dependent_pair(n, rng):
    """Two parameters; a normal statistic, and one whose product with it and spread depend on them."""
    theta = rng.uniform(-1, 1, size=(n, 2))
    first = theta[:, 0] + 0.5 * rng.normal(size=n)
    second = theta[:, 1] * first + np.exp(0.8 * theta[:, 0]) * 0.4 * rng.normal(size=n)
    return theta, np.column_stack([first, second])


def log_density_of_pair(theta, x):
    first = norm.logpdf(x[:, 0], theta[:, 0], 0.5)
    return first + norm.logpdf(x[:, 1], theta[:, 1] * x[:, 0], 0.4 * np.exp(0.8 * theta[:, 0]))


def series(n, length, rng):
    """Values without mean, whose spread depends on the value before."""
    theta = rng.uniform(0, 1, size=(n, 1))
    x = np.zeros((n, length))
    for j in range(length):
        before = x[:, j - 1] if j else np.zeros(n)
        x[:, j] = np.sqrt(0.2 + theta[:, 0] * np.minimum(before**2, 4)) * rng.normal(size=n)
    return theta, x


def log_density_of_series(theta, x):
    before = np.column_stack([np.zeros(len(x)), x[:, :-1]])
    return norm.logpdf(x, 0, np.sqrt(0.2 + theta * np.minimum(before**2, 4))).sum(axis=1)


@pytest.fixture(scope="module")
def pair():
    return fit_autoregressive(*dependent_pair(1000, np.random.default_rng(1)), np.random.default_rng(2))


@pytest.fixture(scope="module")
def fitted_series():
    return fit_autoregressive(*series(600, 8, np.random.default_rng(3)), np.random.default_rng(4))


def test_the_kernel_is_its_formula(inputs):
    found = KERNEL(inputs, inputs.rows(slice(5)))
    for i in range(60):
        for m in range(5):
            t = KERNEL.theta_scales * (inputs.theta[i] - inputs.theta[m])
            x = KERNEL.past_scales * (inputs.past[i] - inputs.past[m])
            linear = np.sum(KERNEL.slopes**2 * inputs.past[i] * inputs.past[m])
            expected = np.exp(-t @ t / 2) * (KERNEL.level + linear + KERNEL.bump * np.exp(-x @ x / 2))
            np.testing.assert_allclose(found[i, m], expected)


def test_the_kernel_comes_back_from_its_logarithms():
    again = ProductKernel.from_logs(KERNEL.logs(), 2)
    np.testing.assert_allclose(again.logs(), KERNEL.logs())
    np.testing.assert_allclose(again.slopes, KERNEL.slopes)


def test_the_evidence_is_that_of_a_gaussian_process(inputs, rng):
    y, deviations = rng.normal(size=60), np.exp(0.3 * rng.normal(size=60))
    landmarks, noise = inputs.rows(slice(20)), 0.3
    evidence = RegressionEvidence(inputs, landmarks, y, deviations)
    logs = np.append(KERNEL.logs(), np.log(noise))
    features, prior = KERNEL(inputs, landmarks), with_jitter(KERNEL(landmarks, landmarks))
    cov = features @ np.linalg.solve(prior, features.T) + 1e4 * inputs.linear() @ inputs.linear().T
    cov += noise * np.diag(deviations**2)
    expected = 0.5 * (y @ np.linalg.solve(cov, y) + np.linalg.slogdet(cov)[1])
    # The constants that no setting changes are left out.
    zero = evidence(logs)[0] - expected
    other = logs + 0.1 * rng.normal(size=len(logs))
    kernel = ProductKernel.from_logs(other[:-1], 2)
    features, prior = kernel(inputs, landmarks), with_jitter(kernel(landmarks, landmarks))
    cov = features @ np.linalg.solve(prior, features.T) + 1e4 * inputs.linear() @ inputs.linear().T
    cov += np.exp(other[-1]) * np.diag(deviations**2)
    expected = 0.5 * (y @ np.linalg.solve(cov, y) + np.linalg.slogdet(cov)[1])
    np.testing.assert_allclose(evidence(other)[0] - expected, zero, atol=1e-5)


@pytest.mark.parametrize("larger", [1e3, 1e5, 1e9])
def test_the_evidence_of_hardly_any_noise_is_no_better_than_the_best_fit(larger):
    """A least-squares fit to the features and their prior keeps the digits that normal equations lose."""
    rng, n = np.random.default_rng(1), 60
    inputs = Inputs(rng.normal(size=(n, 2)), rng.normal(size=(n, 3)))
    y, deviations = rng.normal(size=n), np.exp(7 * rng.normal(size=n))
    landmarks, kernel = inputs.rows(slice(20)), replace(KERNEL, bump=larger, level=larger)
    value, _ = RegressionEvidence(inputs, landmarks, y, deviations)(np.append(kernel.logs(), -14))
    root = 1 / (deviations * np.exp(-7))
    features = WhitenedBasis(kernel, inputs, landmarks).features * root[:, None]
    both, target = np.vstack([features, np.eye(features.shape[1])]), np.zeros(n + features.shape[1])
    target[:n] = y * root
    _, squares, _, _ = np.linalg.lstsq(both, target)
    logdet = 2 * np.sum(np.log(np.abs(np.diag(np.linalg.qr(both)[1]))))
    assert 2 * value > (squares[0] - 14 * n + logdet) * (1 - 1e-6)


def test_the_gradient_of_the_evidence(inputs, rng):
    y = inputs.theta[:, 0] * inputs.past[:, 1] + 0.3 * rng.normal(size=60)
    evidence = RegressionEvidence(inputs, inputs.rows(slice(20)), y, np.exp(0.2 * inputs.theta[:, 1]))
    logs = np.append(start_kernel(inputs).logs(), -1.0) + 0.1 * rng.normal(size=11)
    _, gradient = evidence(logs)
    steps = 1e-5 * np.eye(len(logs))
    numeric = [(evidence(logs + s)[0] - evidence(logs - s)[0]) / 2e-5 for s in steps]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-3)


def test_left_out_means_are_those_of_fits_without_the_row(inputs, rng):
    y, noise = rng.normal(size=60), np.full(60, 0.5)
    landmarks = inputs.rows(slice(20))
    left_out = fit_mean(WhitenedBasis(KERNEL, inputs, landmarks), y, noise).left_out
    for i in (3, 40):
        others = np.delete(np.arange(60), i)
        fitted = fit_mean(WhitenedBasis(KERNEL, inputs.rows(others), landmarks), y[others], noise[others])
        np.testing.assert_allclose(left_out[i], fitted.function.at(inputs.rows([i]))[0], rtol=1e-6)


def test_landmarks_that_the_others_determine_are_left_out(rng):
    theta, past = rng.normal(size=(400, 1)), np.zeros((400, 1))
    inputs, smooth = Inputs(theta, past), ProductKernel(np.ones(1), np.ones(1), np.ones(1), 1.0, 0.1)
    y, noise = np.sin(theta[:, 0]) + 0.1 * rng.normal(size=400), 0.01
    basis = WhitenedBasis(smooth, inputs, inputs.rows(slice(200)))
    assert 5 < len(basis.landmarks.theta) < 40
    # The mean of the Gaussian process itself, whose linear part has next to no penalty.
    linear = inputs.linear()
    gram = smooth(inputs, inputs) + linear @ linear.T / smooth_function.LINEAR_PRECISION
    expected = gram @ np.linalg.solve(gram + noise * np.eye(400), y)
    found = fit_mean(basis, y, noise).function.at(inputs)
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_a_kernel_without_a_number_is_refused(inputs):
    broken = replace(KERNEL, level=np.nan)
    with pytest.raises(np.linalg.LinAlgError, match="positive variance"):
        WhitenedBasis(broken, inputs, inputs.rows(slice(20)))


def test_log_variances_are_at_the_maximum_of_their_likelihood(inputs, rng):
    squares = np.exp(inputs.theta[:, 0]) * rng.normal(size=60) ** 2
    basis = WhitenedBasis(KERNEL, inputs, inputs.rows(slice(20)))
    fitted = fit_log_variance(basis, squares, np.zeros(60)).function.at(inputs)
    v = np.linalg.lstsq(basis.features, fitted, rcond=None)[0]
    assert np.linalg.matrix_rank(basis.features) == basis.features.shape[1]

    def objective(v):
        g = basis.features @ v
        return 0.5 * np.sum(g + squares * np.exp(-g)) + 0.5 * v @ v

    best = objective(v)
    for _ in range(20):
        assert objective(v + 0.05 * rng.normal(size=len(v)) / np.sqrt(len(v))) > best - 1e-2


def test_log_variances_are_found_from_afar(inputs, rng):
    """The gradient vanishes at what is found, wherever the search began."""
    squares = np.exp(2 * inputs.theta[:, 0]) * rng.normal(size=60) ** 2
    basis = WhitenedBasis(KERNEL, inputs, inputs.rows(slice(20)))
    found = [
        fit_log_variance(basis, squares, start).function.at(inputs)
        for start in (np.zeros(60), 8 * inputs.theta[:, 0], np.full(60, -9.0))
    ]
    for one in found:
        v = np.linalg.lstsq(basis.features, one, rcond=None)[0]
        slope = 0.5 * basis.features.T @ (squares * np.exp(-one) - 1) - v
        step = np.linalg.solve(0.5 * basis.features.T @ basis.features + np.eye(len(v)), slope)
        assert np.abs(basis.features @ step).max() < 0.05


@pytest.mark.parametrize("start", [-0.03, 0.03])
def test_a_whole_step_near_the_maximum_ends_within_its_square(start, inputs):
    """Of squares of one the maximum is zero, and there the information is that which all steps have."""
    basis = WhitenedBasis(KERNEL, inputs, inputs.rows(slice(20)))
    found = fit_log_variance(basis, np.ones(60), np.full(60, start)).function.at(inputs)
    assert np.abs(found).max() < start**2


@pytest.mark.parametrize("deviation", [0.1, 0.6])
def test_noise_is_found_with_the_kernel(deviation, rng):
    theta = rng.normal(size=(400, 2))
    y = np.sin(1.5 * theta[:, 0]) + deviation * rng.normal(size=400)
    inputs = Inputs(theta, rng.normal(size=(400, 1)))
    _, noise = choose_kernel(inputs, y / y.std(), rng, effort=Effort())
    # The relative error of a variance from 400 rows, of which the function takes some.
    assert noise * y.var() == pytest.approx(deviation**2, rel=4 * np.sqrt(2 / 400) + 0.1)


def test_single_conditionals_that_another_has_fitted_are_kept(rng):
    theta, points = rng.normal(size=(60, 1)), rng.normal(size=(60, 2))
    one, other = (_Single(theta, points, rng, SPARING) for _ in range(2))
    fitted = other(0)
    one.adopt(other)
    assert one(0) is fitted


def test_the_more_statistics_the_less_effort_for_each():
    for more, less in pairwise(map(effort_of_each, (12, 40, 41))):
        assert all(a >= b for a, b in zip(more, less, strict=True))
        assert more.landmarks > less.landmarks


def test_an_effect_without_correlation_is_screened_in(rng):
    theta, x = rng.normal(size=(2000, 2)), rng.normal(size=(2000, 30))
    by_mean = theta[:, 1] * x[:, 7] + 0.5 * rng.normal(size=2000)
    assert abs(np.corrcoef(by_mean, x[:, 7])[0, 1]) < 0.1
    assert list(screen(theta, x, by_mean, 5)) == [7]
    by_spread = np.exp(0.7 * np.abs(x[:, 11])) * rng.normal(size=2000)
    assert list(screen(theta, x, by_spread, 5)) == [11]
    assert len(screen(theta, x, rng.normal(size=2000), 5)) == 0


def test_densities_integrate_to_one(pair):
    grid = np.linspace(-12, 12, 161)
    points = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(1, -1, 2)
    logs = pair.log_density(pair.describe(np.array([[0.5, -0.5], [-0.9, 0.8]])), points)
    np.testing.assert_allclose(np.exp(logs).sum(axis=1) * (grid[1] - grid[0]) ** 2, 1, atol=1e-3)


def test_a_pair_of_dependent_statistics_is_learnt(pair, rng):
    theta, x = dependent_pair(1000, rng)
    learnt = pair.log_density(pair.describe(theta), x[:, None])[:, 0]
    gaps = log_density_of_pair(theta, x) - learnt
    # A parametric fit of the right model with a dozen numbers loses 12 / 2 / 1000 nats; ten times that here.
    assert np.mean(gaps) < 0.06 + 3 * np.std(gaps) / np.sqrt(1000)


@pytest.mark.statistical
def test_values_of_a_series_share_one_conditional(fitted_series, rng):
    assert fitted_series.series is not None
    assert fitted_series.series.lags == (1,)
    theta, x = series(1000, 8, rng)
    learnt = fitted_series.log_density(theta, x[:, None])[:, 0]
    gaps = log_density_of_series(theta, x) - learnt
    assert np.mean(gaps) < 0.08 + 3 * np.std(gaps) / np.sqrt(1000)


@pytest.mark.parametrize("form", ["pair", "fitted_series"])
def test_points_for_all_parameters_equal_points_for_each(form, request, rng):
    fitted: Autoregressive = request.getfixturevalue(form)
    q, e = (2, 2) if form == "pair" else (1, 8)
    theta, points = rng.uniform(0, 1, size=(7, q)), rng.normal(size=(1, 3, e))
    shared = fitted.log_density(fitted.describe(theta), points)
    np.testing.assert_allclose(shared, fitted.log_density(theta, np.repeat(points, 7, axis=0)), atol=1e-9)
    assert shared.shape == (7, 3)


@pytest.mark.parametrize("form", ["pair", "fitted_series"])
def test_draws_have_uniform_transforms(form, request, rng):
    fitted: Autoregressive = request.getfixturevalue(form)
    theta = rng.uniform(0, 1, size=(2000, 2 if form == "pair" else 1))
    transforms = fitted.transforms(theta, fitted.draw(theta, rng))
    assert all(kstest(column, "uniform").pvalue > 1e-4 for column in transforms.T)
    assert np.abs(np.corrcoef(transforms.T)[np.triu_indices(transforms.shape[1], 1)]).max() < 4.5 / np.sqrt(
        2000
    )


def test_transforms_are_the_integral_of_the_density(pair):
    theta = np.array([[0.5, -0.5]])
    grid = np.linspace(-10, 0.7, 4001)
    points = np.column_stack([np.full(len(grid), 0.3), grid])[None]
    density = np.exp(pair.log_density(theta, points)[0])
    first = np.exp(pair.conditionals[0].log_density(theta, np.array([[0.3]]), np.zeros((1, 1, 1))))[0, 0]
    found = pair.transforms(theta, np.array([[0.3, 0.7]]))[0, 1]
    np.testing.assert_allclose(found, np.trapezoid(density, grid) / first, atol=1e-5)


def test_a_shape_moves_only_where_it_does(rng):
    inputs = Inputs(rng.uniform(-1, 1, size=(3000, 2)), np.zeros((3000, 1)))
    sign = np.where(rng.random(3000) < 0.5, -1.0, 1.0)
    apart = 0.5 * (1 + inputs.theta[:, 0])
    z = sign * apart + np.sqrt(1 - apart**2 * 0.9) * rng.normal(size=3000)
    base = ResidualShape(np.zeros(1), np.zeros(1), np.ones(1))
    moved = fit_conditional_mixture(base, inputs, z, rng)
    assert isinstance(moved, ConditionalMixture)
    assert not moved.features.by_theta[1].any()
    assert fit_conditional_mixture(base, inputs, rng.normal(size=3000), rng) is base


def test_a_fitted_form_is_pickled(pair, rng):
    theta, x = dependent_pair(5, rng)
    again = pickle.loads(pickle.dumps(pair))
    np.testing.assert_array_equal(again.log_density(theta, x[:, None]), pair.log_density(theta, x[:, None]))


def test_many_statistics_are_compared_as_a_series_alone() -> None:
    rng = np.random.default_rng(12)
    size = MOST_SPARINGLY + 2
    theta = rng.normal(size=(400, 1))
    series = np.cumsum(rng.normal(size=(400, size)), axis=1) * np.exp(0.3 * theta)
    found = fit_autoregressive(theta, series, np.random.default_rng(1), SPARING, single=False)
    assert found.series is not None
    assert len(found.conditionals) < size
    each = rng.normal(size=(400, size)) + theta * np.where(np.arange(size) % 2, 3.0, -3.0) * np.arange(size)
    with pytest.raises(ValueError, match=f"the {size} statistics do not share one conditional"):
        fit_autoregressive(theta, each, np.random.default_rng(1), SPARING, single=False)


@pytest.mark.parametrize("least", [1e-4, 1e-9])
def test_rows_of_next_to_no_noise_beside_others(least: float) -> None:
    """Beside their products the unit prior is lost to rounding."""
    rng = np.random.default_rng(3)
    theta = rng.uniform(size=(400, 1))
    past = rng.normal(size=(400, 1))
    deviations = least ** theta[:, 0]
    y = theta[:, 0] * past[:, 0] + deviations * rng.normal(size=400)
    inputs = Inputs(theta, past)
    kernel, noise = choose_kernel(
        inputs, y, np.random.default_rng(1), deviations=deviations, effort=Effort(100, 400, 400, 60, 15)
    )
    basis = WhitenedBasis(kernel, inputs, inputs.rows(np.arange(100)))
    left_out = fit_mean(basis, y, noise * deviations**2).left_out
    few = deviations < np.quantile(deviations, 0.1)
    assert np.isfinite(left_out).all()
    assert np.mean((y - left_out)[few] ** 2) < 0.01 * y.var()


def test_kernels_of_a_fit_to_enough_rows_are_taken_by_the_next(rng):
    theta, x = dependent_pair(4700, rng)
    some, every, unseen = slice(3000), slice(4200), slice(4200, None)
    before = KernelLikelihood("autoregressive").fit(theta[some], x[some], random_seed=1)
    again = KernelLikelihood().in_form_of(before).fit(theta[every], x[every], random_seed=2)
    anew = KernelLikelihood("autoregressive").fit(theta[every], x[every], random_seed=2)
    kernels = [[one.mean.kernel for one in fitted.form_.conditionals] for fitted in (before, again, anew)]
    for then, now, other in zip(*kernels, strict=True):
        np.testing.assert_array_equal(now.theta_scales, then.theta_scales)
        assert np.all(other.theta_scales != then.theta_scales)
    assert again.choice_.pvalue == before.choice_.pvalue
    # What is fitted holds thousands of numbers, which nobody reads.
    assert len(repr(again.choice_)) < 300
    assert len(repr(again.form_)) < 300
    # On other rows it is as dense as a fit that searched, but for the error of a mean of differences.
    density = [np.diagonal(one.log_likelihoods(theta[unseen], x[unseen])) for one in (again, anew)]
    differences = density[0] - density[1]
    assert differences.mean() > -3 * differences.std() / np.sqrt(len(differences))


def test_kernels_of_few_rows_are_searched_again(rng):
    theta, x = dependent_pair(1500, rng)
    before = KernelLikelihood("autoregressive").fit(theta[:700], x[:700], random_seed=1)
    again = KernelLikelihood().in_form_of(before).fit(theta, x, random_seed=2)
    then, now = (fitted.form_.conditionals[0].mean.kernel.theta_scales for fitted in (before, again))
    assert np.all(now != then)
