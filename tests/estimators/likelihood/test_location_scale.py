"""Basis, mean and spread of the location-scale form, against derivatives, formulas and known laws."""

import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.stats import multivariate_normal

from pymc_kbr.estimators.likelihood.basis import Landmarks, make_basis
from pymc_kbr.estimators.likelihood.conditional_mean import mean_basis
from pymc_kbr.estimators.likelihood.location_scale import fit_location_scale
from pymc_kbr.estimators.likelihood.spread import (
    Below,
    choose_basis,
    choose_spread,
    fit_spread,
    frames,
    standardised,
)


def landmarks(rng, q=3, directions=True):
    turn = rng.normal(size=(q, q)) if directions else None
    return Landmarks(rng.normal(size=(6, q)), rng.uniform(0.5, 2, size=(6, q)), turn)


@pytest.mark.parametrize("directions", [False, True])
def test_slopes_of_a_basis_are_its_derivatives(directions):
    rng = np.random.default_rng(0)
    group, theta, step = landmarks(rng, directions=directions), rng.normal(size=(7, 3)), 1e-5
    coefficients = rng.normal(size=(10, 2))
    slopes = group.slopes(theta, coefficients)
    for j, move in enumerate(step * np.eye(3)):
        up, down = group.combined(theta + move, coefficients), group.combined(theta - move, coefficients)
        moved = (up - down) / (2 * step)
        np.testing.assert_allclose(slopes[:, :, j], moved, atol=1e-8)


@pytest.mark.parametrize("directions", [False, True])
def test_a_moved_kernel_is_the_same_function_of_differences(directions):
    rng = np.random.default_rng(4)
    group, theta, shift = landmarks(rng, directions=directions), rng.normal(size=(5, 3)), rng.normal(size=3)
    alike = Landmarks(group.centres, np.tile(group.precisions[0], (6, 1)), group.directions)
    points = rng.normal(size=(4, 3))
    moved = alike.moved(points)
    np.testing.assert_allclose(moved.kernel(points).diagonal(), 1.0)
    np.testing.assert_allclose(
        moved.kernel(theta), alike.moved(points + shift).kernel(theta + shift), atol=1e-12
    )


def test_directions_and_bandwidth_of_a_compared_fit_are_taken():
    rng = np.random.default_rng(6)
    theta = rng.normal(size=(300, 2))
    points = np.sin(2 * theta[:, :1]) + 0.1 * rng.normal(size=(300, 1))
    compared = fit_location_scale(theta[:200], points[:200], np.random.default_rng(1), landmarks=40)
    found = fit_location_scale(theta, points, np.random.default_rng(2), landmarks=60, compared=compared)
    np.testing.assert_array_equal(found.mean.precisions[0], compared.mean.precisions[0])
    np.testing.assert_array_equal(found.mean.directions, compared.mean.directions)
    # Landmarks that others determine are left out: of one direction there are few.
    assert 20 < len(compared.mean) < len(found.mean) < 40


def test_kernels_compare_parameters_in_their_directions():
    rng = np.random.default_rng(1)
    group, theta = landmarks(rng), rng.normal(size=(4, 3))
    gaps = (theta @ group.directions)[:, None] - group.centres
    expected = np.exp(-0.5 * np.sum(gaps**2 * group.precisions, axis=2))
    np.testing.assert_allclose(group.kernel(theta), expected, atol=1e-12)


def test_basis_is_orthonormal_and_the_weight_of_a_kernel_divides_its_penalty():
    rng = np.random.default_rng(2)
    theta, group = rng.normal(size=(60, 3)), landmarks(rng, directions=False)
    basis, values = make_basis(theta, [group])
    np.testing.assert_allclose(values.T @ values / 60, np.eye(values.shape[1]), atol=1e-8)
    np.testing.assert_allclose(basis(theta), values, atol=1e-8)
    lighter, _ = make_basis(theta, [group], [0.1])
    np.testing.assert_allclose(lighter.penalties, 10 * basis.penalties, rtol=1e-6)


def test_mean_finds_the_direction_in_which_it_moves():
    # Of six parameters only one sum matters, quickly.
    rng = np.random.default_rng(3)
    theta = rng.normal(size=(1500, 6))
    points = np.sin(theta.sum(axis=1, keepdims=True)) + 0.3 * rng.normal(size=(1500, 1))
    basis, _ = mean_basis(theta, points, 200, rng)
    turn = basis.landmarks.directions * np.sqrt(basis.landmarks.precisions[0])
    metric = turn @ turn.T
    along = np.ones(6) / np.sqrt(6) @ metric @ np.ones(6) / np.sqrt(6)
    assert along > 0.8 * np.trace(metric)


def test_mean_keeps_euclidean_distances_where_directions_do_not_help():
    rng = np.random.default_rng(4)
    theta = rng.normal(size=(800, 4))
    points = theta @ rng.normal(size=(4, 3)) + rng.normal(size=(800, 3))
    basis, _ = mean_basis(theta, points, 100, rng)
    np.testing.assert_array_equal(basis.landmarks.directions, np.eye(4))


def loss(coefficients, features, residuals, penalties, below):
    """Penalised mean of the negative normal log density, by determinants of matrices."""
    e, total = residuals.shape[1], 0.0
    for f, r in zip(features, residuals, strict=True):
        values = f @ coefficients
        unit = np.eye(e)
        unit[below.rows, below.columns] = values[e:] + below.constants
        factor = unit @ np.diag(np.exp(values[:e]))
        total += 0.5 * np.sum((factor @ r) ** 2) - np.log(abs(np.linalg.det(factor)))
    return total / len(features) + 0.5 * np.sum(penalties[:, None] * coefficients**2)


def test_spread_is_at_the_lowest_penalised_loss():
    rng = np.random.default_rng(5)
    n, e = 80, 3
    theta = rng.normal(size=(n, 2))
    basis, features = make_basis(theta, [landmarks(rng, 2, directions=False)])
    residuals = rng.normal(size=(n, e)) * np.exp(0.5 * theta[:, :1])
    rows, columns = np.tril_indices(e, -1)
    below = Below(rows, columns, rng.normal(size=3))
    penalties = 1e-2 * basis.penalties
    found = fit_spread(features, residuals, penalties, below, steps=2000)
    least = loss(found, features, residuals, penalties, below)
    z, logdet = standardised(features, residuals, found, below)
    assert least == pytest.approx(
        np.mean(0.5 * np.sum(z**2, axis=1) - logdet) + 0.5 * np.sum(penalties[:, None] * found**2), abs=1e-10
    )
    for _ in range(20):
        move = 1e-2 * rng.normal(size=found.shape) / np.sqrt(1 + penalties[:, None])
        assert loss(found + move, features, residuals, penalties, below) > least


def test_what_a_penalty_leaves_next_to_nothing_of_is_left_at_zero():
    """And is missed by no more than that."""
    rng = np.random.default_rng(5)
    theta = rng.normal(size=(400, 1))
    basis, features = make_basis(theta, [landmarks(rng, 1, directions=False)])
    residuals = rng.normal(size=(400, 2)) * np.exp(np.sin(2 * theta))
    none = Below(np.zeros(0, int), np.zeros(0, int), np.zeros(0))
    penalties = 1e4 / basis.penalties.max() * basis.penalties
    found = fit_spread(features, residuals, penalties, none, steps=500)
    left = penalties >= 1e3
    assert 0 < left.sum() < len(left)
    np.testing.assert_array_equal(found[left], 0.0)
    whole = fit_spread(features, residuals, penalties, none, steps=500, negligible=1e-300)
    assert np.all(whole[left] != 0.0)
    np.testing.assert_allclose(features @ found, features @ whole, atol=5e-3)


def test_frames_whiten_the_residuals_of_all_rows():
    rng = np.random.default_rng(6)
    residuals = rng.normal(size=(500, 4)) @ rng.normal(size=(4, 4))
    for whiten, below in frames(residuals):
        unit = np.eye(4)
        unit[below.rows, below.columns] = below.constants
        np.testing.assert_allclose(np.cov((residuals @ whiten.T @ unit.T).T), np.eye(4), atol=1e-6)
    assert len(frames(rng.normal(size=(500, 30)))) == 1


@pytest.mark.parametrize("moves", ["scales", "combinations"])
def test_frame_follows_what_moves(moves):
    # Statistics of constant correlation whose own scales move, or constant sums of independent ones.
    rng = np.random.default_rng(7)
    n, e = 1800, 4
    theta = rng.normal(size=(n, 2))
    scales = np.exp(0.8 * theta[:, [0, 1, 0, 1]] * [1, 1, -1, -1])
    mix = np.tril(np.ones((e, e)))
    noise = rng.normal(size=(n, e))
    residuals = scales * (noise @ mix.T) if moves == "scales" else (scales * noise) @ mix.T
    held_out = np.arange(n) < 600
    choice, basis, values = choose_basis(theta, residuals, held_out, rng)
    assert choice.frame == (0 if moves == "scales" else 1)
    # In units in which functions have a norm of one: what is rough is known to fewer digits.
    np.testing.assert_allclose((basis(theta) - values) / np.sqrt(1 + basis.penalties), 0, atol=1e-7)


def test_smaller_ridges_are_tried_until_they_lose():
    rng = np.random.default_rng(8)
    theta = rng.normal(size=(600, 1))
    basis, features = make_basis(theta, [Landmarks(theta[:20], np.full((20, 1), 4.0))])
    none = Below(np.empty(0, int), np.empty(0, int), np.empty(0))
    held_out = np.arange(600) < 200
    still = choose_spread(features, rng.normal(size=(600, 1)), basis.penalties, (10.0, 1e-8), none, held_out)
    moving = rng.normal(size=(600, 1)) * np.exp(2 * np.sin(3 * theta))
    assert still.ridge == 10.0
    assert choose_spread(features, moving, basis.penalties, (1e4, 1e-3), none, held_out).ridge == 1e-3


@pytest.mark.parametrize(
    ("rows", "factor", "taken"), [(200, 0.99, True), (200, 1.01, False), (100, 1.01, False), (99, 1.01, True)]
)
def test_a_smaller_ridge_must_gain_more_than_its_standard_error(rows, factor, taken):
    """The gain of held-out rows is known, by each ridge's own fit; of few any gain will do."""
    rng = np.random.default_rng(9)
    theta = rng.normal(size=(600, 1))
    basis, features = make_basis(theta, [Landmarks(theta[:20], np.full((20, 1), 4.0))])
    none = Below(np.empty(0, int), np.empty(0, int), np.empty(0))
    residuals, held_out = rng.normal(size=(600, 1)) * np.exp(0.4 * np.sin(3 * theta)), np.arange(600) < rows
    settings = features, residuals, basis.penalties
    values, w = [], None
    for ridge in (1e4, 1e-2):
        w = fit_spread(features[~held_out], residuals[~held_out], ridge * basis.penalties, none, w)
        z, logdet = standardised(features[held_out], residuals[held_out], w, none)
        values.append(logdet - 0.5 * np.sum(z**2, axis=1))
    gain = values[1] - values[0]
    assert gain.mean() > 0
    errors_gained = factor * gain.mean() / (gain.std() / np.sqrt(rows))
    found = choose_spread(*settings, (1e4, 1e-2), none, held_out, errors_gained=errors_gained)
    assert found.ridge == (1e-2 if taken else 1e4)
    assert found.held_out == pytest.approx(np.mean(values[taken]), abs=1e-6)


@pytest.mark.statistical
def test_density_and_draws_of_a_near_singular_distribution():
    # Differences of statistics are known a hundred times better than themselves, at scales that move.
    rng = np.random.default_rng(9)
    n, e = 4000, 3
    theta = rng.normal(size=(n, 2))
    factor = np.linalg.cholesky(0.9999 * np.ones((e, e)) + 0.0001 * np.eye(e))
    scales = np.exp(0.4 * theta[:, [0, 1, 1]])
    points = scales * (rng.normal(size=(n, e)) @ factor.T)
    form = fit_location_scale(theta[:3000], points[:3000], rng)
    test, at = points[3000:], theta[3000:]
    logs = form.log_density(form.describe(at), test[:, None, :])[:, 0]
    exact = multivariate_normal(np.zeros(e), factor @ factor.T).logpdf(test / scales[3000:]) - np.log(
        scales[3000:]
    ).sum(axis=1)
    # A tenth of what a law of independent residuals would lose.
    assert np.mean(exact - logs) < -0.1 * np.log(np.diag(factor)).sum()
    drawn = form.draw(form.describe(at), rng)
    logs_of_drawn = form.log_density(form.describe(at), drawn[:, None, :])[:, 0]
    error = np.hypot(logs.std(), logs_of_drawn.std()) / np.sqrt(1000)
    assert abs(logs.mean() - logs_of_drawn.mean()) < 0.3 + 4 * error


@pytest.mark.statistical
def test_density_is_that_of_the_fitted_distribution():
    """The density integrates what `draw` draws: means and covariances at one parameter."""
    rng = np.random.default_rng(10)
    theta = rng.normal(size=(1500, 2))
    mix = block_diag([[1.0]], [[0.5, 0.0], [0.4, 0.3]])
    points = theta @ rng.normal(size=(2, 3)) + np.exp(0.5 * theta[:, :1]) * (
        rng.normal(size=(1500, 3)) @ mix.T
    )
    form = fit_location_scale(theta, points, rng)
    at = np.tile([[0.5, -0.2]], (20_000, 1))
    drawn = form.draw(form.describe(at), rng)
    described = form.describe(at[:1])
    # Importance sampling from a wide normal law: the density's integral, and its first two moments.
    centre, wide = drawn.mean(axis=0), 2.5 * np.cov(drawn.T)
    law = multivariate_normal(centre, wide)
    proposed = law.rvs(20_000, random_state=11)
    weights = np.exp(form.log_density(described, proposed[None])[0] - law.logpdf(proposed))
    error = weights.std() / np.sqrt(20_000)
    assert abs(weights.mean() - 1) < 4 * error
    deviation = drawn.std(axis=0)
    gap = (weights @ proposed / weights.sum() - centre) / deviation
    assert np.all(np.abs(gap) < 5 * np.sqrt(2) * np.sqrt(np.mean(weights**2)) / np.sqrt(20_000) + 0.02)
