"""The form for many statistics: against its formula, known laws and exact posteriors."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kstest, norm, skew

import pymc_kbr as pk
from pymc_kbr.estimators.likelihood import diagonal_scale as common_whitening
from pymc_kbr.estimators.likelihood import diagonal_scale as pooled_law
from pymc_kbr.estimators.likelihood.choice import forms_of
from pymc_kbr.estimators.likelihood.conditional_mean import (
    MeanSearch,
    mean_basis,
    regress,
    regress_with_common_weights,
)
from pymc_kbr.estimators.likelihood.conditional_mixture import ConditionalMixture
from pymc_kbr.estimators.likelihood.diagonal_scale import (
    fit_diagonal_scale,
    fit_distribution,
    fit_whitened,
    size_of,
    without_columns,
)
from pymc_kbr.estimators.likelihood.spread import spread_basis

TIMES = np.linspace(0, 3, 30)


def wave(theta):
    """Means (n, 30): a wave of unknown frequency and height."""
    return np.exp(0.3 * theta[:, 1:2]) * np.sin((2 + theta[:, :1]) * TIMES)


def waves(n, rng, noise=None):
    theta = rng.normal(size=(n, 2))
    noise = rng.normal(size=(n, 30)) if noise is None else noise(theta, rng)
    return theta, wave(theta) + 0.4 * noise


@pytest.fixture(scope="module")
def fitted():
    return fit_diagonal_scale(*waves(1500, np.random.default_rng(0)), np.random.default_rng(1))


def uneven(theta, rng):
    return np.exp(0.5 * theta[:, :1]) * rng.normal(size=(len(theta), 30))


def heavy(theta, rng):
    return rng.standard_t(3, size=(len(theta), 30))


def correlated(theta, rng):
    return np.cumsum(rng.normal(size=(len(theta), 30)), axis=1) / 3


def skewed(theta, rng):
    """Centred, of deviation one, and more and more skewed: gamma laws of shape 1 / s^2 have skewness 2 s."""
    shapes = np.exp(-2 * theta[:, :1])
    return (rng.gamma(shapes, size=(len(theta), 30)) - shapes) / np.sqrt(shapes)


ALIKE = [uneven, heavy, correlated]
"""Laws whose shape does not move: of one that does, scales and law are only together those of residuals."""


@pytest.fixture(scope="module", params=[*ALIKE, skewed], ids=lambda law: law.__name__)
def of_law(request):
    rows = waves(900, np.random.default_rng(2), request.param)
    return request.param, fit_diagonal_scale(*rows, np.random.default_rng(3), landmarks=200)


def test_density_is_that_of_its_formula(of_law):
    _, form = of_law
    rng = np.random.default_rng(4)
    theta, points = rng.normal(size=(3, 2)), rng.normal(size=(1, 5, 30))
    described = form.describe(theta)
    means, logs = described[:, :30], described[:, 30:60]
    z = np.exp(logs)[:, None] * ((points @ form.whiten.T) - means[:, None])
    law = form.law
    if isinstance(law, ConditionalMixture):
        densities = 0.0
        for share, centre, log in law.parts(theta, np.stack([means - form.centre, logs], axis=2)):
            of_part = norm.pdf(z, centre[:, None], np.exp(log)[:, None])
            densities = densities + np.exp(share)[:, None] * of_part
    else:
        densities = norm.pdf(z[..., None], law.means[:, 0], 1 / law.factors[:, 0, 0]) @ law.weights
    expected = np.log(densities).sum(axis=2) + logs.sum(axis=1)[:, None] + np.log(np.diag(form.whiten)).sum()
    np.testing.assert_allclose(form.log_density(described, points), expected, rtol=1e-9)
    each = np.repeat(points, 3, axis=0)
    np.testing.assert_allclose(form.log_density(described, each), expected, rtol=1e-9)


def test_draws_are_distributed_as_it_says(of_law):
    _, form = of_law
    rng = np.random.default_rng(5)
    described = form.describe(rng.normal(size=(400, 2)))
    transforms = form.transforms(described, form.draw(described, rng))
    assert kstest(transforms.ravel(), "uniform").pvalue > 1e-3
    # Elements are independent: so many correlations are at most about sqrt(2 log 435 / 400).
    correlations = np.corrcoef(norm.ppf(transforms).T)[np.triu_indices(30, 1)]
    assert np.abs(correlations).max() < 5 / np.sqrt(400)


@pytest.mark.parametrize("of_law", ALIKE, indirect=True, scope="module", ids=lambda law: law.__name__)
def test_scales_follow_the_parameters(of_law):
    law, form = of_law
    axis = np.column_stack([np.linspace(-1.5, 1.5, 7), np.zeros(7)])
    logs = -form.describe(axis)[:, 30:60].mean(axis=1)
    slope = np.polyfit(axis[:, 0], logs, 1)[0]
    # One parameter's slope from 900 rows of 30 squares each: its error is sqrt(2 / 27,000) / 2.
    assert abs(slope - (0.5 if law is uneven else 0.0)) < 0.05


def test_statistics_are_mixed_where_their_noise_is_correlated(of_law):
    law, form = of_law
    mixed = bool(np.any(np.tril(form.whiten, -1)))
    assert mixed is (law is correlated)
    if law is correlated:
        assert without_columns(form, np.array([0, 1])) is None


def test_distribution_of_residuals_is_as_heavy_as_theirs(of_law):
    law, form = of_law
    assert (size_of(form.law) > 1) is (law in (heavy, skewed))


def test_distribution_of_residuals_moves_only_where_it_does(of_law):
    law, form = of_law
    assert isinstance(form.law, ConditionalMixture) is (law is skewed)
    if law is skewed:
        theta = np.repeat([[-1.0, 0.0], [0.7, 0.0]], 300, axis=0)
        described = form.describe(theta)
        drawn = form.draw(described, np.random.default_rng(16)) @ form.whiten.T
        z = np.exp(described[:, 30:60]) * (drawn - described[:, :30])
        # 2 exp(theta) = .74 and 4.0, the latter by a tail that a mixture of few parts ends early.
        assert abs(skew(z[:300].ravel()) - 0.74) < 0.35
        assert skew(z[300:].ravel()) > 1.6


def test_a_distribution_moves_with_the_mean_of_each_element():
    """Of Bernoulli noise about a mean m, which is skewed to either side as m is below or above a half."""
    rng = np.random.default_rng(17)
    theta, means = rng.normal(size=(900, 1)), rng.uniform(0.1, 0.9, size=(900, 20))
    z = (rng.random(means.shape) < means) - means + 0.1 * rng.normal(size=means.shape)
    z /= np.sqrt(means * (1 - means) + 0.01)
    levels = means, np.zeros_like(means)
    law = fit_distribution(z, theta, levels, np.arange(900) % 5 == 0, 1, rng)
    assert isinstance(law, ConditionalMixture)
    assert not law.features.by_theta.any()
    assert law.features.by_past[0].any()
    at = law.distribution(np.zeros((2, 1)), np.zeros((2, 1)), np.array([[[0.2, 0.0]], [[0.8, 0.0]]]))
    # No success lies m below the mean, a success 1 - m above it, both with noise of .1. Of 18,000 elements
    # some 1,000 are within .02 of either m: an error of sqrt(.16 / 1,000) = .013, and that of few parts.
    low, high = 0.8 * norm.cdf(2), 0.2 + 0.8 * norm.cdf(-2)
    np.testing.assert_allclose(at[:, 0], [low, high], atol=0.05)


def test_statistics_that_are_left_out_leave_the_density_of_the_others(fitted):
    kept = np.array([3, 11, 20])
    alone = without_columns(fitted, kept)
    theta, points = np.random.default_rng(6).normal(size=(4, 2)), np.zeros((1, 2, 30))
    points[0, 1, kept] = [0.3, -0.2, 0.5]
    described, few = fitted.describe(theta), alone.describe(theta)
    # What is independent given the parameters cancels from the ratio of two densities.
    whole = np.diff(fitted.log_density(described, points), axis=1)
    np.testing.assert_allclose(np.diff(alone.log_density(few, points[:, :, kept]), axis=1), whole, rtol=1e-8)


def test_gaps_of_an_observation_leave_what_is_described_of_the_others():
    theta, x = waves(200, np.random.default_rng(15))
    learnt = pk.KernelLikelihood("diagonal_scale", 20, scale=False).fit(theta, x[:, :6], random_seed=1)
    assert not np.any(np.tril(learnt.form_.whiten, -1))
    gaps = np.where(np.arange(6) == 2, np.nan, x[0, :6])
    alone, there = learnt.marginal(np.array([0, 1, 3, 4, 5])), gaps[[0, 1, 3, 4, 5]]
    logs = alone.log_likelihood(theta, there)
    weights = np.exp(logs - logs.max())
    np.testing.assert_allclose(alone.weights(there), weights / weights.sum(), rtol=1e-9)
    np.testing.assert_array_equal(learnt.condition(gaps).atoms, alone.condition(there).atoms)


@pytest.mark.statistical
def test_posterior_is_near_the_exact_one():
    rng = np.random.default_rng(7)
    theta, x = waves(1500, rng)
    learnt = pk.KernelLikelihood("diagonal_scale", 1000).fit(theta, x, random_seed=8)
    truths = rng.normal(size=(3, 2))
    seen = wave(truths) + 0.4 * rng.normal(size=(3, 30))
    grid = np.stack(np.meshgrid(*[np.linspace(-4, 4, 401)] * 2), axis=-1).reshape(-1, 2)
    for posterior, observed in zip(learnt.condition(seen), seen, strict=True):
        logs = -0.5 * np.sum(((observed - wave(grid)) / 0.4) ** 2, axis=1) - 0.5 * np.sum(grid**2, axis=1)
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        mean = weights @ grid
        deviation = np.sqrt(weights @ (grid - mean) ** 2)
        assert np.all(np.abs(posterior.mean() - mean) < 0.5 * deviation)
        assert np.all(np.abs(np.log(posterior.atoms.std(axis=0) / deviation)) < np.log(1.3))


def test_directions_and_bandwidth_of_a_compared_fit_are_taken(fitted):
    rows = waves(300, np.random.default_rng(9))
    found = fit_diagonal_scale(*rows, np.random.default_rng(1), landmarks=50, compared=fitted)
    np.testing.assert_array_equal(found.mean.precisions[0], fitted.mean.precisions[0])
    np.testing.assert_array_equal(found.mean.directions, fitted.mean.directions)


@pytest.mark.parametrize("moves", [False, True])
def test_units_of_the_statistics_do_not_matter(moves, monkeypatch):
    theta, x = waves(300, np.random.default_rng(10))
    units, shift = np.geomspace(1e-3, 1e3, 30), np.linspace(-5, 5, 30)
    if moves:
        # Steps towards a law that moves are cut off where they have not settled, and multiply rounding
        # errors: by powers of two there are none.
        units, shift = 2.0 ** np.arange(-15, 15), 0.0
    else:
        monkeypatch.setattr(pooled_law, "fit_conditional_mixture", lambda base, *_, **__: base)
    plain = fit_diagonal_scale(theta, x, np.random.default_rng(1), landmarks=60)
    moved = fit_diagonal_scale(theta, x * units + shift, np.random.default_rng(1), landmarks=60)
    at = [
        form.log_density(form.describe(theta[:5]), y[None, :4])
        for form, y in ((plain, x), (moved, x * units + shift))
    ]
    assert isinstance(plain.law, ConditionalMixture) is moves
    np.testing.assert_allclose(at[1], at[0] - np.log(units).sum(), rtol=1e-6)


def test_residuals_of_a_weighted_regression_leave_the_row_out():
    rng = np.random.default_rng(11)
    features, points = rng.normal(size=(40, 5)), rng.normal(size=(40, 2))
    features /= np.sqrt(np.mean(features**2, axis=0))
    penalties, weights = np.arange(5.0), rng.uniform(0.2, 3, 40)
    found = regress_with_common_weights(features, penalties, points, weights, slice(4, 5))
    ridge = found.ridges[0]
    unit = weights / weights.mean()
    root = np.sqrt(unit)[:, None] * features
    ridged = np.diag(40 * ridge * penalties)
    ridged += 1e-10 * np.trace(root.T @ root / 40) / 5 * 40 * np.eye(5)
    for i in range(3):
        left = np.arange(40) != i
        slopes = np.linalg.solve(
            root[left].T @ root[left] + ridged, root[left].T @ (np.sqrt(unit)[:, None] * points)[left]
        )
        np.testing.assert_allclose(found.residuals[i], points[i] - features[i] @ slopes, rtol=1e-6)


def test_rows_with_little_noise_count_for_more():
    rng = np.random.default_rng(12)
    theta = rng.uniform(-1, 1, size=(400, 1))
    noise = np.where(rng.random(400) < 0.5, 0.01, 3.0)[:, None]
    truth = np.sin(3 * theta)
    points = truth + noise * rng.normal(size=(400, 1))
    basis, features = mean_basis(theta, points, 50, rng)
    plain = regress(features, basis.penalties, points)
    weighted = regress_with_common_weights(features, basis.penalties, points, noise[:, 0] ** -2)
    error = [np.mean((features @ one.coefficients - truth) ** 2) for one in (plain, weighted)]
    assert error[1] < 0.1 * error[0]


def test_a_walk_ends_where_errors_rise_and_finds_what_trying_all_finds():
    rng = np.random.default_rng(13)
    theta = rng.normal(size=(500, 1))
    points = np.sin(6 * theta) + 0.3 * rng.normal(size=(500, 1))
    found = [
        mean_basis(theta, points, 100, np.random.default_rng(1), search=MeanSearch(turns=0, walks=walks))[0]
        for walks in (True, False)
    ]
    np.testing.assert_array_equal(found[0].landmarks.precisions, found[1].landmarks.precisions)


def test_scales_of_each_statistic_are_found():
    rng = np.random.default_rng(14)
    theta = rng.normal(size=(2000, 2))
    slopes = np.array([0.6, 0.0, -0.4])
    residuals = np.exp(theta[:, :1] * slopes) * rng.normal(size=(2000, 3))
    basis, parts = spread_basis(theta, rng)
    found = fit_whitened(residuals, parts, basis.penalties, np.arange(2000) % 5 == 0)
    at = [np.polyfit(theta[:, 0], -column, 1)[0] for column in found.logs.T]
    # A slope's error is about sqrt(1 / 2 / 2,000) = .016; the kernels' freedom makes it somewhat larger.
    np.testing.assert_allclose(at, slopes, atol=0.1)
    np.testing.assert_allclose(np.mean(found.z[np.arange(2000) % 5 != 0] ** 2, axis=0), 1.0, rtol=1e-6)


@pytest.mark.parametrize("law", [correlated])
def test_a_fit_to_all_rows_takes_the_frame_of_the_one_that_was_compared(law, monkeypatch):
    theta, points = waves(700, np.random.default_rng(15), law)
    asked, frame = [], common_whitening._common_scales
    monkeypatch.setattr(common_whitening, "_common_scales", lambda *given: asked.append(1) or frame(*given))
    few = fit_diagonal_scale(theta[:500], points[:500], np.random.default_rng(1))
    assert bool(asked)
    mixed = bool(np.any(np.tril(few.whiten, -1)))
    assert mixed == (law is correlated)
    # The covariance of what is independent may be shrunk until nothing is left beside its diagonal.
    for compared in (few, replace(few, whiten=np.eye(30))) if mixed else (few,):
        asked.clear()
        whole = fit_diagonal_scale(theta, points, np.random.default_rng(1), compared=compared)
        assert not asked
        assert bool(np.any(np.tril(whole.whiten, -1))) == bool(np.any(np.tril(compared.whiten, -1)))


def test_the_number_of_statistics_decides_which_forms_are_tried():
    assert forms_of(24) == ["location_scale", "autoregressive"]
    assert forms_of(25) == ["diagonal_scale", "autoregressive"]
    assert forms_of(251) == ["diagonal_scale", "series"]
