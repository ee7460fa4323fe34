"""Parts of the learned likelihood by themselves: mixtures, margins, moves and weights against formulas."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import approx_fprime
from scipy.special import ndtri
from scipy.stats import kstest

import pymc_kbr as pk
from pymc_kbr.arrays.bijections import Interval
from pymc_kbr.arrays.support import Block, Support
from pymc_kbr.estimators.kernel_likelihood import share_beyond
from pymc_kbr.estimators.likelihood import choice, conditional_mean, conditional_mixture
from pymc_kbr.estimators.likelihood import normal_mixture as residual_shape
from pymc_kbr.estimators.likelihood import prior_density as prior_choice
from pymc_kbr.estimators.likelihood.autoregressive import _lagged, _pairs
from pymc_kbr.estimators.likelihood.basis import ParameterScale
from pymc_kbr.estimators.likelihood.conditional_mean import regress, regress_weighted
from pymc_kbr.estimators.likelihood.normal_mixture import NormalMixture, ResidualShape, fit_mixture, fit_shape
from pymc_kbr.estimators.likelihood.prior_density import Flat, Range, ValueShares, range_of
from pymc_kbr.estimators.likelihood.prior_density import MarginMixture as Margin
from pymc_kbr.estimators.likelihood.prior_density import fit_mixture as fit_margin
from pymc_kbr.estimators.likelihood.smooth_function import Inputs
from pymc_kbr.estimators.likelihood.spread import LARGEST_LOG, Below, factor_at
from pymc_kbr.estimators.likelihood.tempered import (
    FREEDOM,
    FRESH,
    Counted,
    LocalMixture,
    Streams,
    _spread,
    effective_size,
    fit_mixtures,
    log_mean,
    log_normal_mixture,
    moved_squares,
    next_step,
    parts,
    propose,
    propose_within,
    resample,
    scaled,
    usual_squares,
)

# --- tempering ---


def test_effective_size_is_that_of_normalised_weights_and_zero_of_none(rng):
    logs = np.vstack([rng.normal(size=6) - 800, np.full(6, 3.0), np.full(6, -np.inf)])
    w = np.exp(logs[0] - logs[0].max())
    w /= w.sum()
    np.testing.assert_allclose(effective_size(logs), [1 / np.sum(w**2), 6, 0])


def test_next_step_leaves_the_effective_size_asked_for_and_goes_no_farther(rng):
    values = rng.normal(size=(3, 200)) * [[1e-3], [5.0], [500.0]]
    values[:, 0] = -np.inf
    step = next_step(values, np.array([0.7, 1.0, 1.0]), np.full(3, 100.0))
    assert step[0] == 0.7
    np.testing.assert_allclose(effective_size(scaled(values, step))[1:], 100, rtol=1e-3)
    weighted = next_step(values[1:2], np.ones(1), np.full(1, 50.0), rng.normal(size=(1, 200)))
    assert 0 < weighted[0] < 1
    np.testing.assert_array_equal(scaled(np.array([[2.0, -np.inf]]), np.zeros(1)), [[0.0, -np.inf]])


def test_log_mean_is_the_logarithm_of_a_mean():
    np.testing.assert_allclose(log_mean(np.log([[1.0, 2.0, 6.0]])), np.log(3.0))


def test_resampling_is_systematic_and_never_takes_what_is_impossible():
    weights = np.array([[0.0, 0.25, 0.5, 0.25, 0.0]])
    with np.errstate(divide="ignore"):
        logs = np.log(weights)
    for u in (0.0, 0.3, 0.999):
        found = resample(logs + 5, 8, np.array([u]))
        np.testing.assert_array_equal(np.bincount(found[0], minlength=5), [0, 2, 4, 2, 0])
    assert resample(logs, 1, np.array([1.0])).max() == 3  # as a number next to one is rounded
    assert [int(resample(np.zeros((1, 2)), 1, np.array([u]))[0, 0]) for u in (0.3, 0.8)] == [0, 1]


def test_wrong_likelihoods_are_counted_for_their_observation():
    counted = Counted(
        lambda free, which: np.where(free[..., 0] > 0, np.nan, which[:, None] + 0.0), np.array([5, 7])
    )
    found = counted(np.array([[[1.0], [-1.0], [-2.0]]]), np.array([1]))
    np.testing.assert_array_equal(found, [[-np.inf, 7, 7]])
    assert (counted.undefined.tolist(), counted.evaluations.tolist()) == ([0, 1], [0, 3])
    np.testing.assert_array_equal(counted.cleaned(np.array([[np.inf], [-np.inf]])), [[-np.inf], [-np.inf]])
    assert counted.undefined.tolist() == [1, 1]


# --- local mixtures and moves ---


def a_mixture(rng, b=2, size=3, q=2):
    roots = np.tril(rng.normal(size=(b, size, q, q)), -1)
    roots[..., np.arange(q), np.arange(q)] = rng.uniform(0.3, 1.5, (b, size, q))
    shares = rng.dirichlet(np.ones(size), b)
    return LocalMixture(np.log(shares), rng.normal(size=(b, size, q)), roots, np.linalg.inv(roots))


def test_the_normal_mixture_is_that_of_its_parts(rng):
    mixture, points = a_mixture(rng), rng.normal(size=(2, 7, 2))
    expected = [
        np.log(
            sum(
                np.exp(w) * stats.multivariate_normal(m, f @ f.T).pdf(x)
                for w, m, f in zip(mixture.log_weights[i], mixture.means[i], mixture.factors[i], strict=True)
            )
        )
        for i, x in enumerate(points)
    ]
    np.testing.assert_allclose(log_normal_mixture(mixture, points), expected)


@pytest.mark.parametrize("fresh", [True, False])
def test_moves_within_a_mixture_keep_its_student_distribution(fresh, rng):
    """Points drawn from the mixture of Student's parts stay draws of it, and ratios say so."""
    mixture, n = a_mixture(rng, b=1, size=2, q=1), 20_000
    part = (rng.random(n) > np.exp(mixture.log_weights[0, 0])).astype(int)
    points = mixture.means[0, part] + mixture.factors[0, part, 0] * rng.standard_t(FREEDOM, size=(n, 1))
    step = np.full((1, n), 0.6)
    proposed, ratio = propose_within(mixture, points[None], np.full((1, n), fresh), step, Streams([rng]))

    def cdf(x):
        return sum(
            np.exp(w) * stats.t.cdf((x - m[0]) / f[0, 0], FREEDOM)
            for w, m, f in zip(mixture.log_weights[0], mixture.means[0], mixture.factors[0], strict=True)
        )

    def log_density(x):
        return np.log(
            sum(
                np.exp(w) * stats.t.pdf((x - m[0]) / f[0, 0], FREEDOM) / f[0, 0]
                for w, m, f in zip(mixture.log_weights[0], mixture.means[0], mixture.factors[0], strict=True)
            )
        )

    assert stats.kstest(proposed[0, :, 0], cdf).pvalue > 1e-4
    np.testing.assert_allclose(
        ratio[0], log_density(points[:, 0]) - log_density(proposed[0, :, 0]), atol=1e-9
    )
    moved = np.corrcoef(points[:, 0], proposed[0, :, 0])[0, 1]
    assert (abs(moved) < 5 / np.sqrt(n)) == fresh


def test_a_mixture_is_fitted_to_two_clouds_and_its_modes_are_apart(rng):
    clouds = np.concatenate([rng.normal(-20, 1, (150, 1)), rng.normal(20, 2, (50, 1))])
    points = np.stack([rng.permutation(clouds), rng.permutation(clouds)])
    mixture = fit_mixtures(points, np.ones(1), (1, 2), Streams([rng, rng.spawn(1)[0]]))
    for b in range(2):
        order = np.argsort(mixture.means[b, :, 0])
        np.testing.assert_allclose(mixture.means[b, order], [[-20], [20]], atol=1)
        np.testing.assert_allclose(np.exp(mixture.log_weights[b, order]), [151 / 202, 51 / 202])
        np.testing.assert_allclose(mixture.factors[b] * mixture.inverses[b], 1, atol=1e-9)
    within, member = parts(mixture, points)
    # The mean of the covariances within, and which cloud a point is of.
    np.testing.assert_allclose(within, 1.75, atol=0.6)
    for b in range(2):
        assert len(np.unique(member[b][points[b, :, 0] > 0])) == 1
        assert len(np.unique(member[b])) == 2
    one = fit_mixtures(rng.normal(size=(1, 200, 2)), np.ones(2), (1, 2), Streams([rng]))
    assert np.isneginf(one.log_weights[0, 1])
    np.testing.assert_allclose(np.exp(one.log_weights[0, 0]), 1)


def test_parts_that_overlap_are_one_mode(rng):
    near = LocalMixture(
        np.log([[0.5, 0.5]]), np.array([[[0.0], [1.0]]]), np.ones((1, 2, 1, 1)), np.ones((1, 2, 1, 1))
    )
    within, member = parts(near, rng.normal(size=(1, 30, 1)))
    assert len(np.unique(member)) == 1
    np.testing.assert_allclose(within, [[[1 + 0.25]]])


def test_moves_are_squares_in_units_of_the_scale_cut_at_two(rng):
    root = np.array([[2.0, 0.0], [1.0, 0.5]])
    points, origin = rng.normal(size=(1, 6, 2)), rng.normal(size=(1, 6, 2))
    white = np.linalg.solve(root, (points - origin)[0].T)
    expected = np.minimum(np.sum(white**2, axis=0) / 4, 2.0)
    np.testing.assert_allclose(moved_squares(points, origin, np.linalg.inv(root)[None])[0], expected)


def test_usual_squares_are_one_for_independent_points_of_one_mode(rng):
    n = 40_000
    points = rng.normal(size=(1, n, 1))
    found = usual_squares(points, np.zeros((1, n), int), np.ones((1, 1, 1)))
    # E min(d^2, 2) of d^2 chi-squared of one degree of freedom.
    chi = stats.chi2(1)
    expected = quad(lambda s: s * chi.pdf(s), 0, 2)[0] + 2 * chi.sf(2)
    assert found[0] == pytest.approx(expected, abs=5 / np.sqrt(n))
    apart = np.where(np.arange(n) % 2, 50.0, -50.0)[None, :, None] + points
    modes = (np.arange(n) % 2)[None]
    assert usual_squares(apart, modes, np.ones((1, 1, 1)))[0] == pytest.approx(expected, abs=0.05)


def test_moves_along_differences_are_symmetric_and_fresh_ones_are_weighted(rng):
    mixture, m = a_mixture(rng, b=1), 500
    points = rng.normal(size=(1, m, 2))
    shares = np.full((1, 7), 1 / 7)
    found = propose(
        points, rng.normal(size=(1, m, 2)), rng.normal(size=(60, 2)), mixture, np.eye(2)[None], shares,
        np.zeros(1), Streams([rng]),
    )  # fmt: skip
    assert set(np.unique(found.kinds)) == set(range(7))
    counts = np.bincount(found.kinds[0])
    assert np.all(np.abs(counts - m / 7) < 5 * np.sqrt(m / 7))
    along = found.kinds < FRESH
    assert np.all(found.log_ratio[along] == 0)
    assert np.all(found.log_ratio[~along] != 0)
    assert np.all(np.any(found.points != points, axis=2))
    assert FRESH in found.kinds


# --- mixtures of residuals ---


def whole_mixture(rng):
    factors = np.tril(rng.normal(size=(2, 2, 2)), -1)
    factors[:, [0, 1], [0, 1]] = rng.uniform(0.5, 2, (2, 2))
    return NormalMixture(np.array([0.3, 0.7]), rng.normal(size=(2, 2)), factors)


def test_mixtures_of_residuals_are_those_of_their_parts(rng):
    mixture, z = whole_mixture(rng), rng.normal(size=(6, 2))
    laws = [
        stats.multivariate_normal(m, np.linalg.inv(p.T @ p))
        for m, p in zip(mixture.means, mixture.factors, strict=True)
    ]
    expected = np.log(sum(w * law.pdf(z) for w, law in zip(mixture.weights, laws, strict=True)))
    np.testing.assert_allclose(mixture.log_density(z[:, None])[:, 0], expected)
    values, slopes = mixture.slopes(z)
    np.testing.assert_allclose(values, expected)
    for j, step in enumerate(1e-6 * np.eye(2)):
        ends = [mixture.log_density((z + way * step)[:, None])[:, 0] for way in (1, -1)]
        np.testing.assert_allclose(slopes[:, j], (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-7)
    again = mixture.fitted_to(mixture.draw(20_000, rng), 1)
    np.testing.assert_allclose(again.weights, mixture.weights, atol=5 * 0.5 / np.sqrt(20_000))
    drawn = mixture.draw(20_000, rng)
    uniform = mixture.transforms(drawn)
    assert all(stats.kstest(column, "uniform").pvalue > 1e-4 for column in uniform.T)
    assert abs(np.corrcoef(uniform.T)[0, 1]) < 5 / np.sqrt(20_000)
    mean = mixture.weights @ mixture.means
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=5 * drawn.std() / np.sqrt(20_000))


def test_as_many_parts_are_taken_as_held_out_rows_ask_for(rng):
    held_out = np.arange(900) % 3 == 0
    one = fit_mixture(rng.normal(size=(900, 1)), held_out, 1)
    two = fit_mixture(rng.normal(size=(900, 1)) + 8 * (np.arange(900) % 2)[:, None], held_out, 1)
    assert (len(one), len(two)) == (1, 2)
    few = fit_mixture(np.array([[-9.0], [9.0]] * 4) + 0.1 * rng.normal(size=(8, 1)), np.arange(8) < 2, 1)
    assert len(few) == 1  # two parts have six numbers, of which each takes two rows


def test_shapes_are_normalised_and_drawn_as_they_say(rng):
    shape = ResidualShape(np.log([0.2, 0.8]), np.array([-1.0, 0.5]), np.array([0.3, 1.5]))
    assert quad(lambda z: np.exp(shape.log_density(np.array([z])))[0], -20, 20)[0] == pytest.approx(1)
    at = np.array([-2.0, 0.1, 3.0])
    below = [quad(lambda z: np.exp(shape.log_density(np.array([z])))[0], -20, x)[0] for x in at]
    np.testing.assert_allclose(shape.distribution(at), below, rtol=1e-6)
    drawn = shape.draw(np.zeros((5000, 1)), None, rng)
    assert stats.kstest(drawn, shape.distribution).pvalue > 1e-4
    assert len(fit_shape(rng.normal(size=2000), rng).means) == 1
    assert len(fit_shape(rng.normal(size=2000) + 6 * (np.arange(2000) % 2), rng).means) == 2


def test_a_shape_of_one_part_has_the_residuals_moments_and_others_start_there(rng, monkeypatch):
    z = rng.normal(3, 2, size=500)
    one = residual_shape.fit_parts(z, 1, rng)
    least = (0.03 * z.std()) ** 2
    assert (one.log_shares[0], one.means[0]) == (0, pytest.approx(z.mean()))
    assert one.deviations[0] == pytest.approx(np.sqrt(z.var() + least))
    two = np.concatenate([z, rng.normal(-9, 0.5, size=300)])
    found = residual_shape.fit_parts(two, 2, rng)
    # From where it ended, one step of the algorithm moves it by next to nothing.
    mixture = residual_shape.GaussianMixture
    monkeypatch.setattr(
        residual_shape, "GaussianMixture", lambda *given, **settings: mixture(*given, max_iter=1, **settings)
    )
    again = residual_shape.fit_parts(two, 2, rng, found)
    for name in ("log_shares", "means", "deviations"):
        np.testing.assert_allclose(getattr(again, name), getattr(found, name), atol=1e-3)
    # Nor do digits depend on where the residuals lie.
    far = residual_shape.fit_parts(
        two + 1e6, 2, rng, ResidualShape(found.log_shares, found.means + 1e6, found.deviations)
    )
    np.testing.assert_allclose(far.deviations, again.deviations, rtol=1e-6)


@pytest.mark.parametrize("z", [np.zeros(400), np.full(400, 3.0), np.append(np.ones(399), np.nan)])
@pytest.mark.parametrize("parts", [1, 2])
def test_residuals_that_no_mixture_describes_are_refused(z, parts, rng):
    with pytest.raises(ValueError, match="no mixture describes them"):
        residual_shape.fit_parts(z, parts, rng)


def test_the_gradient_of_moving_shapes_and_what_surprises(rng):
    z, phi = rng.normal(size=40), rng.normal(size=(40, 2))
    x = 0.3 * rng.normal(size=3 * 2 * 3)
    value, gradient = conditional_mixture._objective(x, phi, z, 2.0)
    numeric = approx_fprime(x, lambda v: conditional_mixture._objective(v, phi, z, 2.0)[0], 1e-6)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-3, atol=1e-3)
    slopes = x[6:]
    assert value == pytest.approx(conditional_mixture._objective(x, phi, z, 0.0)[0] + np.sum(slopes**2))
    theta = rng.normal(size=(2000, 2))
    inputs = Inputs(theta, np.zeros((2000, 1)))
    base = ResidualShape(np.zeros(1), np.zeros(1), np.ones(1))
    found = conditional_mixture.surprises(base, inputs, np.exp(0.3 * theta[:, 1]) * rng.normal(size=2000))
    assert abs(found[0]) < 4.5
    assert found[1] > 20
    assert found[2] == -np.inf


@pytest.mark.parametrize("most", [4, 30])
def test_smooth_features_are_the_kernels_largest_directions(most, rng):
    theta = rng.normal(2, 3, size=(60, 2))
    features = conditional_mixture._features(
        Inputs(theta, np.zeros((60, 0))), np.array([1]), most_smooth=most
    )
    u = (theta[:, 1] - theta[:, 1].mean()) / theta[:, 1].std()
    values = np.linalg.eigvalsh(np.exp(-((u[:, None] - u) ** 2) / (2)))
    values = values[values > 1e-4 * values[-1]][-most:]
    found = features(theta, np.zeros((60, 1, 0)))[:, 0]
    np.testing.assert_allclose(found[:, 0], u)
    np.testing.assert_allclose(found[:, 1:].T @ found[:, 1:], np.diag(values), atol=1e-8 * values[-1])


def test_moving_shapes_are_drawn_as_they_say_at_each_input(rng):
    base = ResidualShape(np.log([0.1, 0.3, 0.6]), np.array([-1.0, 0.5, 3.0]), np.array([0.3, 0.8, 0.5]))
    features = conditional_mixture.ShapeFeatures(
        np.array([[1.0]]), np.array([[0.5]]), np.zeros(1), np.zeros((1, 1)), np.zeros((1, 0))
    )
    shape = conditional_mixture.ConditionalMixture(
        features, base, np.array([[0.6, -0.6, 0.1, 0.4, -0.2, 0.3, 0.5, -0.5, 0.2]])
    )
    theta, past = rng.normal(size=(4000, 1)), rng.normal(size=(4000, 1))
    drawn = shape.draw(theta, past, rng)
    below = shape.distribution(drawn[:, None], theta, past[:, None])
    assert stats.kstest(below[:, 0], "uniform").pvalue > 1e-4
    at = theta[:1], past[:1, None]
    density = quad(lambda z: np.exp(shape.log_density(np.array([[z]]), *at))[0, 0], -30, 1.0)[0]
    assert density == pytest.approx(shape.distribution(np.array([[1.0]]), *at)[0, 0], rel=1e-6)


def test_what_moves_by_an_odd_function_without_slope_surprises_too(rng):
    u, other = rng.normal(size=(2, 4000))
    cubic = np.clip(u, -3, 3) ** 3
    # So little that the spread, which moves by the square of it, tells next to nothing.
    z = 0.05 * (cubic - np.polyval(np.polyfit(u, cubic, 1), u)) + rng.normal(size=4000)
    base = ResidualShape(np.zeros(1), np.zeros(1), np.ones(1))
    inputs = Inputs(np.column_stack([u, other]), np.zeros((4000, 0)))
    found = conditional_mixture.surprises(base, inputs, z / z.std())
    assert found[0] > 8
    assert abs(found[1]) < 4.5


def test_spreads_of_columns_that_do_not_vary_are_small_beside_their_values_and_above_zero(rng):
    start = np.column_stack([3 * rng.normal(size=50), np.full(50, -40.0), np.zeros(50)])
    np.testing.assert_allclose(_spread(start), [start[:, 0].std(), 0.04, 0.001])


@pytest.mark.parametrize("side", [-1, 1])
def test_logarithms_of_a_spread_are_cut_at_both_ends(side):
    none = Below(np.zeros(0, int), np.zeros(0, int), np.zeros(0))
    at = factor_at(np.array([[side * 50.0], [side * 2.0]]), np.ones((2, 1)), none)
    np.testing.assert_array_equal(at.logs, [[side * LARGEST_LOG], [side * 2.0]])
    np.testing.assert_allclose(at.z, np.exp(at.logs))


# --- margins of priors ---


@pytest.mark.parametrize(
    ("margin", "law"),
    [
        (Flat(), lambda x: stats.uniform.cdf(1 / (1 + np.exp(-x)))),
        (Range(-2.0, 3.0), lambda x: (x + 2) / 5),
        (Range(1.0, 4.0, 1), lambda x: (np.exp(x) - 1) / 3),
        (Range(-4.0, -1.0, -1), lambda x: (4 - np.exp(-x)) / 3),
        (Margin((0.3, 0.7), (-1.0, 2.0), (0.5, 1.0)),
         lambda x: 0.3 * stats.norm.cdf(x, -1, 0.5) + 0.7 * stats.norm.cdf(x, 2, 1)),
    ],
)  # fmt: skip
def test_margins_are_densities_and_scores_those_of_their_distribution(margin, law):
    inside = np.array([0.2, 0.9, 1.1]) * (-1 if getattr(margin, "side", 0) < 0 else 1)
    step = 1e-5
    slope = (law(inside + step) - law(inside - step)) / (2 * step)
    np.testing.assert_allclose(np.exp(margin.log_density(inside)), slope, rtol=1e-6)
    np.testing.assert_allclose(margin.scores(inside), ndtri(law(inside)), rtol=1e-6)


def test_ranges_end_a_little_beyond_the_draws_and_angles_at_half_a_turn():
    assert range_of(np.array([0.0, 10.0]), 100, 0) == Range(-0.1, 10.1)
    positive = range_of(np.log([1.0, 3.0]), 20, 1)
    assert (positive.lower, positive.upper) == pytest.approx((0.9, 3.1))
    np.testing.assert_array_equal(
        np.isfinite(Range(1.0, 2.0).log_density(np.array([0.9, 1, 2, 2.1]))), [0, 1, 1, 0]
    )
    turn = Margin((1.0,), (3.0,), (1.0,), half_turn=True)
    assert quad(lambda x: np.exp(turn.log_density(np.array([x])))[0], -np.pi, np.pi)[0] == pytest.approx(1)
    assert turn.log_density(np.array([3.2]))[0] == -np.inf
    atoms = ValueShares((1.0, 2.0, 5.0), (0.2, 0.3, 0.5))
    np.testing.assert_allclose(np.exp(atoms.log_density(np.array([1.0, 5.0, 3.0, 9.0]))), [0.2, 0.5, 0, 0])


def test_a_margin_is_fitted_to_weighted_draws(rng):
    free = rng.normal(size=6000) * 3
    weights = stats.norm.pdf(free, 1, 0.5) / stats.norm.pdf(free, 0, 3)
    found = fit_margin(free, weights / weights.sum(), 1)
    assert found.means[0] == pytest.approx(1, abs=0.05)
    assert found.deviations[0] == pytest.approx(0.5, abs=0.05)
    again = fit_margin(free, weights / weights.sum(), found)
    np.testing.assert_allclose(again.means, found.means, atol=1e-3)


def test_gains_are_weighted_means_with_their_errors_and_the_simplest_is_kept(rng):
    held = np.arange(60) < 40
    draws = prior_choice.Draws(np.zeros((60, 1)), rng.dirichlet(np.ones(60)), held, np.zeros((2, 1)), 60)
    logs, w = rng.normal(size=40), draws.weights[:40] / draws.weights[:40].sum()
    mean, error = draws.gain(logs)
    assert mean == pytest.approx(w @ logs)
    assert error == pytest.approx(np.sqrt(np.sum(w**2 * (logs - w @ logs) ** 2)))
    noise = rng.normal(size=40)
    noise -= w @ noise
    error = draws.gain(noise)[1]
    better, worse = (noise + factor * 0.3 * error for factor in (1.1, 0.9))
    assert prior_choice.simplest(draws, [np.zeros(40), better]) == 1
    assert prior_choice.simplest(draws, [np.zeros(40), worse, better]) == 2
    assert prior_choice.simplest(draws, [np.zeros(40), worse]) == 0
    column, weights = draws.column(0)
    assert len(column) == 20
    assert weights.sum() == pytest.approx(1)


# --- parameters, regressions and series ---


def test_skewed_parameters_enter_by_their_distance_from_a_bound(rng):
    low, high = rng.exponential(size=500) + 2, 5 - rng.exponential(size=500)
    even = rng.uniform(0, 1, 500)
    support = Support(3, tuple(
        Block((i,), (Interval((lower,), (upper,)),))
        for i, (lower, upper) in enumerate([(2.0, np.inf), (-np.inf, 5.0), (0.0, 1.0)])
    ))  # fmt: skip
    theta = np.column_stack([low, high, even])
    made = ParameterScale.fit(theta, support)
    np.testing.assert_array_equal(made.sign, [1, -1, 0])
    found = made(theta)
    logs = np.column_stack([np.log(low - 2), np.log(5 - high), even])
    np.testing.assert_allclose(found, (logs - logs.mean(axis=0)) / logs.std(axis=0), rtol=1e-9)
    slope = Support(1, (Block((0,), (Interval((2.0,), (np.inf,), ((0.0,),), None),)),))
    assert ParameterScale.fit(theta[:, :1], slope).sign[0] == 0
    plain = ParameterScale.fit(theta, Support.unbounded(3))
    np.testing.assert_allclose(plain(theta), (theta - theta.mean(axis=0)) / theta.std(axis=0), rtol=1e-9)


def orthonormal(rng, n=50, k=6):
    f, _ = np.linalg.qr(np.column_stack([np.ones(n), rng.normal(size=(n, k - 1))]))
    return f * np.sqrt(n)


def test_residuals_of_the_mean_are_those_without_the_row_at_its_best_ridge(rng):
    f, penalties = orthonormal(rng), np.array([0, 1, 2, 4, 8, 16.0])
    y = np.column_stack([f @ rng.normal(size=6) + rng.normal(size=50), rng.normal(size=50)])
    found = regress(f, penalties, y)
    for j in range(2):
        pull = 50 * found.ridges[j] * np.diag(penalties)
        for i in (0, 17):
            rest = np.arange(50) != i
            # The penalty of the whole: leaving a row out leaves the squares of all others.
            w = np.linalg.solve(f[rest].T @ f[rest] + pull, f[rest].T @ y[rest, j])
            assert found.residuals[i, j] == pytest.approx(y[i, j] - f[i] @ w)
        np.testing.assert_allclose(
            found.coefficients[:, j], f.T @ y[:, j] / 50 / (1 + found.ridges[j] * penalties)
        )
    assert found.ridges[1] > found.ridges[0]


@pytest.mark.parametrize("looked_at", [600, 199])
def test_of_large_tables_ridges_are_chosen_by_some_rows_and_all_residuals_are_kept(looked_at, rng):
    """Every third row goes against the others, and what is learnt of all: to these no ridge is too large."""
    f, penalties = orthonormal(rng, 300), np.array([0, 1, 2, 4, 8, 16.0])
    y = f @ rng.normal(size=(6, 2)) + 0.1 * rng.normal(size=(300, 2))
    y[::3] *= -1
    found = regress(f, penalties, y, most_errors=looked_at)
    left_out = []
    for ridge in conditional_mean.BASIS_RIDGES:
        hat = f / (1 + ridge * penalties) @ f.T / 300
        left_out.append((y - hat @ y) / (1 - np.diag(hat))[:, None])
    step = 600 // looked_at
    best = np.argmin([np.sum(one[::step] ** 2, axis=0) for one in left_out], axis=0)
    # With these penalties no ridge below 1e-6 changes anything.
    best = np.minimum(best, np.argmin(np.abs(np.array(conditional_mean.BASIS_RIDGES) - 1e-6)))
    assert (best[0] == 0) == (step == 3)
    np.testing.assert_array_equal(found.ridges, np.array(conditional_mean.BASIS_RIDGES)[best])
    np.testing.assert_allclose(found.residuals, np.stack([left_out[b][:, j] for j, b in enumerate(best)], 1))


@pytest.mark.parametrize(("size", "ridge"), [(2.5, 1e-6), (20.0, 1e-12)])
def test_a_tiny_ridge_is_for_what_is_there_and_not_for_what_chance_gains(rng, size, ridge):
    """Of noise of variance one the last function has a part of `size` standard errors, the others none."""
    f, penalties = orthonormal(rng, 800, 8), np.append(np.zeros(7), 1e12)
    noise = rng.normal(size=(800, 1))
    noise -= f @ (f.T @ noise) / 800
    y = noise / noise.std() + size / np.sqrt(800) * f[:, -1:]
    assert regress(f, penalties, y).ridges == pytest.approx(ridge)


def test_weighted_regression_trusts_rows_of_little_noise(rng):
    f, penalties = orthonormal(rng, 300), np.array([0, 1, 2, 4, 8, 16.0])
    truth = rng.normal(size=6)
    deviation = np.where(np.arange(300) < 100, 0.05, 3.0)
    y = (f @ truth + deviation * rng.normal(size=300))[:, None]
    plain = regress(f, penalties, y)
    weighted = regress_weighted(f, penalties, y, (deviation**-2)[:, None], plain)
    errors = [np.linalg.norm(fit.coefficients[:, 0] - truth) for fit in (plain, weighted)]
    assert errors[1] < errors[0] / 3
    # Deviations that differ by a tenth say next to nothing, and the columns are left as they are.
    alike = np.exp(0.09 * rng.choice([-1.0, 1.0], size=(300, 1)))
    same = regress_weighted(f, penalties, y, alike**-2, plain)
    np.testing.assert_array_equal(same.coefficients, plain.coefficients)
    np.testing.assert_array_equal(same.residuals, plain.residuals)


def test_values_before_are_those_of_the_same_row(rng):
    points = np.arange(40.0).reshape(5, 8)
    row, time = _pairs(5, 3, 8, rng)
    assert sorted(zip(row.tolist(), time.tolist(), strict=True)) == [
        (r, t) for r in range(5) for t in range(3, 8)
    ]
    found = _lagged(points, row, time, np.array([0, 1, 3]))
    np.testing.assert_array_equal(
        found, np.column_stack([time, points[row, time] - 1, points[row, time] - 3])
    )


def test_the_form_is_the_densest_and_all_groups_are_asked_for_uniform_transforms():
    rng = np.random.default_rng(1)
    theta = rng.normal(size=(400, 2))
    transforms = rng.random((400, 3))
    right = theta[:, 1] > np.median(theta[:, 1])
    transforms[right, 2] **= 4
    transforms[~right, 2] = 1 - (1 - transforms[~right, 2]) ** 4

    class Known:
        def __init__(self, density):
            self.density = density

        def describe(self, theta):
            return theta

        def log_density(self, described, points):
            return np.full((len(described), 1), self.density)

        def transforms(self, described, points):
            return transforms[: len(described)]

    checked, logs = choice._checked("one", Known(1.5), theta, transforms, theta)
    np.testing.assert_array_equal(logs, np.full(len(theta), 1.5))
    assert checked.densities == {"one": 1.5}
    assert checked.worst == 2
    assert checked.pvalue < 1e-6
    below = theta <= np.median(theta, axis=0)
    groups = [slice(None), *below.T, *~below.T]
    smallest = min(kstest(column[rows], "uniform").pvalue for rows in groups for column in transforms.T)
    assert checked.pvalue == pytest.approx(15 * smallest, rel=1e-6, abs=0)


@pytest.mark.parametrize(
    ("gain", "of_first", "of_second", "found"),
    [
        (0.001, 0.5, 0.5, "second"),
        (-0.001, 0.5, 0.5, "first"),
        (0.013, 0.5, 1e-4, "first"),  # transforms of the denser one are not uniform
        (0.002, 1e-4, 0.5, "second"),
        (-0.002, 1e-4, 0.5, "first"),
        (0.013, 1e-4, 1e-4, "second"),
        (-0.013, 1e-4, 1e-4, "first"),
    ],
)
def test_the_form_is_taken_under_which_held_out_rows_are_denser(
    monkeypatch, gain, of_first, of_second, found
):
    rng = np.random.default_rng(2)
    theta, points = rng.normal(size=(400, 2)), rng.normal(size=(400, 3))
    fits = dict.fromkeys(("first", "second"), lambda *_: None)
    monkeypatch.setattr(choice, "SPARINGLY", fits)
    common, wave = rng.normal(size=80), 0.05 * (-1.0) ** np.arange(80)
    logs = {"first": common, "second": common + gain + wave}
    pvalues = {"first": of_first, "second": of_second}

    def check(name, form, *_):
        return choice.Choice(name, {}, pvalues[name], 0), logs[name]

    monkeypatch.setattr(choice, "_checked", check)
    chosen, _ = choice.choose_form(theta, points, list(fits), rng)
    assert chosen.name == found
    assert chosen.densities == pytest.approx({name: each.mean() for name, each in logs.items()})


def test_a_series_that_is_asked_for_alone_is_refused_where_there_is_none(rng):
    # As a candidate of 21 to 250 statistics: `sample_abc` goes on with the others.
    theta = rng.normal(size=(400, 1))
    points = theta + rng.normal(size=(400, 3))
    with pytest.raises(ValueError, match="do not share one conditional"):
        pk.KernelLikelihood("series", scale=False).fit(theta, points)
    chosen, _ = choice.choose_form(theta, points, ["diagonal_scale", "series"], rng)
    assert list(chosen.densities) == ["diagonal_scale"]


def test_the_share_beyond_the_rows_is_that_of_the_weights():
    atoms = np.array([[0.5, 0.5], [1.5, 0.5], [0.5, -0.1], [1.0, 0.0]])
    found = share_beyond(np.array([[0.0, 0.0], [1.0, 1.0]]), atoms, np.array([0.1, 0.2, 0.4, 0.3]))
    assert found == pytest.approx(0.6)


def test_halves_without_rows_say_nothing_of_uniformity(rng):
    transforms = rng.random((300, 2)) ** 1.3
    theta = np.column_stack([rng.random(300) < 0.8, rng.normal(size=300)])
    pvalue, worst = choice._uniform(transforms, theta.astype(float))
    # Three groups of rows are left, and a half that is all of them counts twice.
    alone, same = choice._uniform(transforms, theta[:, 1:])
    assert (worst, pvalue) == (same, pytest.approx(min(1.0, alone * 4 / 3)))
