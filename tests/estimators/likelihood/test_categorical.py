"""Statistics of few values: probabilities against known laws, posteriors of trials, draws, refusals."""

import pickle

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

import pymc_kbr as pk
from pymc_kbr.estimators.likelihood.autoregressive import Conditional, Past
from pymc_kbr.estimators.likelihood.categorical import Categorical, fit_categorical, fit_logit
from pymc_kbr.estimators.likelihood.smooth_function import (
    LINEAR_PRECISION,
    Effort,
    Inputs,
    WhitenedBasis,
    start_kernel,
)
from pymc_kbr.estimators.likelihood.tempered import ImpossibleObservation
from pymc_kbr.estimators.summaries.transformed import Levels, rare

N = 2000
GRID = np.linspace(-2.5, 2.5, 21)[:, None]
THREE = Levels(np.array([0.0, 1.0, 3.0]), np.array([-1.0, -0.5, 1.0]), np.array([-0.5, 0.0, 1.5]))


def choice_and_time(n, rng):
    """A parameter of the choice and one of the time's spread; the time's mean depends on the choice."""
    theta = rng.normal(size=(n, 2))
    choice = (rng.random(n) < expit(theta[:, 0])).astype(float)
    time = np.where(choice > 0, 1 + theta[:, 0], -1.0) + np.exp(0.3 * theta[:, 1]) * rng.normal(size=n)
    return theta, np.column_stack([choice, time])


def log_density_of_choice_and_time(theta, x):
    probability = np.where(x[:, 0] > 0, expit(theta[:, 0]), expit(-theta[:, 0]))
    mean = np.where(x[:, 0] > 0, 1 + theta[:, 0], -1.0)
    return np.log(probability) + norm.logpdf(x[:, 1], mean, np.exp(0.3 * theta[:, 1]))


def probabilities(likelihood, theta, values):
    """Shape (k, v)."""
    return np.exp(np.column_stack([likelihood.log_likelihood(theta, [value]) for value in values]))


@pytest.fixture(scope="module")
def binary():
    rng = np.random.default_rng(1)
    z = rng.normal(size=(N, 1))
    x = (rng.random((N, 1)) < expit(z)).astype(float)
    return pk.KernelLikelihood(particles=2000).fit(z, x, random_seed=1)


@pytest.fixture(scope="module")
def with_gap():
    """Values 0, 1 and 3 by two continuation ratios; 2 lies on their lattice and is never taken."""
    rng = np.random.default_rng(2)
    z = rng.normal(size=(N, 1))
    some, more = (rng.random((N, 1)) < expit(a) for a in (z, 1 - 2 * z))
    x = np.where(some, np.where(more, 3.0, 1.0), 0.0)
    return pk.KernelLikelihood(particles=500).fit(z, x, random_seed=1)


@pytest.fixture(scope="module")
def pair():
    return pk.KernelLikelihood(particles=500).fit(
        *choice_and_time(1500, np.random.default_rng(3)), random_seed=1
    )


def test_probabilities_are_those_of_a_logistic_distribution(binary):
    found = probabilities(binary, GRID, [0.0, 1.0])
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-12)
    # A logit's two coefficients have standard errors of about 0.055 each with 2,000 rows.
    error = 0.055 * np.hypot(1, GRID) * expit(GRID) * expit(-GRID)
    assert np.all(np.abs(found[:, 1:] - expit(GRID)) < 3.5 * error)
    assert binary.choice_.name == "autoregressive"
    assert isinstance(binary.form_.conditionals[0], Categorical)


def test_trials_have_their_exact_posterior(binary):
    trials = np.r_[np.ones(160), np.zeros(40)][:, None]
    grid = np.linspace(-4, 6, 4001)
    weights = np.exp(norm.logpdf(grid) - 160 * np.logaddexp(0, -grid) - 40 * np.logaddexp(0, grid))
    weights /= weights.sum()
    mean = weights @ grid
    deviation = np.sqrt(weights @ (grid - mean) ** 2)
    posterior = binary.condition(trials, trials=True)
    # The fit's own error at this place is about 0.055 |(1, mean)|, half of the posterior's deviation.
    assert abs(posterior.mean()[0] - mean) < 2.5 * 0.055 * np.hypot(1, mean)
    assert abs(posterior.draw(2000, 1).std() / deviation - 1) < 0.15


def test_three_values_of_a_lattice_of_four(with_gap):
    found = probabilities(with_gap, GRID, [0.0, 1.0, 3.0])
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-12)
    more = expit(1 - 2 * GRID)
    expected = np.hstack([expit(-GRID), expit(GRID) * (1 - more), expit(GRID) * more])
    assert np.abs(found - expected).mean() < 0.02
    assert np.abs(found - expected).max() < 0.07


@pytest.mark.parametrize("value", [0.5, 2.0, -1.0, 4.0, 2.5])
def test_a_value_that_was_never_seen_is_impossible(with_gap, value):
    found = with_gap.log_likelihood(GRID, [value])
    np.testing.assert_array_equal(found, -np.inf)
    np.testing.assert_array_equal(with_gap.log_likelihood(GRID, [[1.0], [value]]), -np.inf)
    with pytest.raises(ValueError, match="the model does not make"):
        with_gap.condition([value])


def test_rounding_makes_no_other_value(with_gap):
    found = with_gap.log_likelihood(GRID, [3 * (1 + 1e-15)])
    np.testing.assert_array_equal(found, with_gap.log_likelihood(GRID, [3.0]))


def test_only_seen_values_are_drawn_as_often_as_their_probabilities_say(with_gap):
    theta = np.full((20_000, 1), 0.4)
    drawn = with_gap.draw_statistics(theta, 1)
    values, counts = np.unique(drawn, return_counts=True)
    np.testing.assert_array_equal(values, [0, 1, 3])
    expected = probabilities(with_gap, theta[:1], values)[0]
    error = np.sqrt(expected * (1 - expected) / len(theta))
    assert np.all(np.abs(counts / len(theta) - expected) < 4.5 * error)


def test_a_time_whose_distribution_depends_on_a_choice(pair):
    theta, x = choice_and_time(1000, np.random.default_rng(4))
    lost = log_density_of_choice_and_time(theta, x) - [
        pair.log_likelihood(t[None], row)[0] for t, row in zip(theta, x, strict=True)
    ]
    assert abs(lost.mean()) < 0.05
    choice, time = pair.form_.conditionals
    assert isinstance(choice, Categorical)
    assert isinstance(time, Conditional)
    drawn = pair.draw_statistics(np.tile([[0.5, 0.0]], (10_000, 1)), 1)
    for value, mean in ((0.0, -1.0), (1.0, 1.5)):
        assert abs(drawn[drawn[:, 0] == value, 1].mean() - mean) < 0.12


def test_later_statistics_see_the_value_and_not_the_place_in_its_cell(pair):
    point = pair._evaluation.prepare(np.array([[1.0, 0.3]])).points[0, 0]
    levels = pair.form_.levels[0]
    within = np.tile(point, (1, 2, 1))
    within[0, :, 0] = levels.spread(np.array([1, 1]), np.array([0.1, 0.9]))
    found = pair.form_.log_density(np.zeros((1, 2)), within)[0]
    assert found[0] == found[1]
    # One point is enough for an observation: its density is even over the cell.
    assert pair._evaluation.prepare(np.array([[1.0, 0.3]])).points.shape[1] == 1


def test_transforms_of_held_out_rows_are_uniform(pair, binary, with_gap):
    assert min(each.choice_.pvalue for each in (pair, binary, with_gap)) > 1e-3


def test_beside_counts_of_many_values_probabilities_sum_to_one(rng):
    theta = rng.normal(size=(600, 1))
    x = np.column_stack([rng.random(600) < expit(theta[:, 0]), rng.poisson(np.exp(1 + theta[:, 0] / 2))])
    learnt = pk.KernelLikelihood(particles=200).for_scores().fit(theta, x.astype(float), random_seed=1)
    observed = np.array([[choice, count] for choice in (0.0, 1.0) for count in range(200)])
    total = np.exp(learnt.log_likelihoods(np.zeros((1, 1)), observed)).sum()
    assert abs(total - 1) < 1e-6
    np.testing.assert_array_equal(learnt.log_likelihood(np.zeros((1, 1)), [0.5, 2.0]), -np.inf)


def test_a_form_that_is_asked_for_has_densities(rng):
    theta = rng.normal(size=(300, 1))
    x = (rng.random((300, 1)) < expit(theta)).astype(float)
    named = pk.KernelLikelihood("location_scale", particles=100).fit(theta, x, random_seed=1)
    assert named.choice_.name == "location_scale"
    alone = pk.KernelLikelihood("autoregressive", particles=100).fit(theta, x, random_seed=1)
    assert isinstance(alone.form_.conditionals[0], Categorical)
    unscaled = pk.KernelLikelihood("autoregressive", particles=100, scale=False)
    # Its residuals have two values, and no kernel density of them has a width.
    assert isinstance(unscaled.fit(theta, x, random_seed=1).form_.conditionals[0], Conditional)


def test_some_statistics_are_left_out(pair):
    choice = pair.marginal(np.array([0]))
    whole = np.array([1.0, 0.2])
    np.testing.assert_allclose(probabilities(choice, np.zeros((1, 2)), [0.0, 1.0]).sum(), 1, rtol=1e-12)
    missing = pair.condition([1.0, np.nan])
    np.testing.assert_array_equal(missing.atoms, choice.condition([1.0]).atoms)
    assert missing.mean()[0] > 0.2
    # The time was learnt given the choice: without this it is fitted anew.
    assert pair.marginal(np.array([1])) is None
    assert np.isfinite(pair.log_likelihood(np.zeros((1, 2)), whole)).all()


def test_it_is_saved_and_pickled(pair, tmp_path):
    path = pk.save(pair, tmp_path / "pair.npz")
    for again in (pickle.loads(pickle.dumps(pair)), pk.load(path)):
        observed = [[0.0, -0.5], [1.0, 2.0]]
        np.testing.assert_array_equal(
            again.log_likelihood(np.ones((3, 2)), observed), pair.log_likelihood(np.ones((3, 2)), observed)
        )
        np.testing.assert_array_equal(again.condition([1.0, 1.0]).atoms, pair.condition([1.0, 1.0]).atoms)


def test_discrete_parameters_have_no_posterior_of_an_impossible_observation(rng):
    z = rng.integers(0, 3, size=(400, 1)).astype(float)
    x = (rng.random((400, 1)) < expit(z - 1)).astype(float)
    support = pk.Support.from_bounds({}, ["z"], discrete=["z"])
    learnt = pk.KernelLikelihood().fit(z, x, support=support, random_seed=1)
    weights = learnt.condition([1.0]).weights
    expected = expit(z[:, 0] - 1)
    assert np.abs(weights - expected / expected.sum()).max() < 0.3 / len(z)
    with pytest.raises(ImpossibleObservation):
        learnt.condition([0.5])


def test_curves_leave_probabilities_exact(rng):
    """Values that lie far apart have logarithms for coordinates."""
    theta = rng.normal(size=(800, 1))
    x = np.array([1.0, 10.0, 1000.0])[rng.binomial(2, expit(theta))]
    learnt = pk.KernelLikelihood(particles=100).for_scores().fit(theta, x, random_seed=1)
    assert learnt.table_.scaler.curves[0].kind != "linear"
    found = probabilities(learnt, GRID, [1.0, 10.0, 1000.0])
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-9)
    assert learnt.choice_.pvalue > 1e-3


def test_levels_by_a_loop():
    y = np.array([-1.2, -0.9, -0.5, -0.1, 0.4, 0.6, 1.2, 9.0])
    expected = [0, 0, 1, 1, 1, 2, 2, 2]
    np.testing.assert_array_equal(THREE.numbers(y), expected)
    np.testing.assert_allclose(THREE.middle(y), [[-0.75, -0.25, 1.25][i] for i in expected])
    numbers, seen = THREE.of_values(np.array([0.0, 1 + 1e-12, 2.0, 3.0, -1.0]))
    np.testing.assert_array_equal(numbers[[0, 1, 3]], [0, 1, 2])
    np.testing.assert_array_equal(seen, [True, True, False, True, False])


def test_density_distribution_and_draws_are_of_one_distribution(rng):
    inputs = Inputs(rng.normal(size=(500, 1)), rng.normal(size=(500, 1)))
    numbers = rng.binomial(2, expit(inputs.theta[:, 0] + inputs.past[:, 0]))
    y = THREE.spread(numbers, rng.random(500))
    found = fit_categorical(inputs, y, THREE, rng, Effort(60, 300, 300, 30, 10))
    theta, past = np.array([[0.3]]), np.array([[-0.4]])
    axis = np.linspace(-1.2, 1.7, 29_001)
    density = np.exp(found.log_density(theta, axis[None], past[None], shared=True))[0]
    k = len(axis)
    below = found.distribution(np.tile(theta, (k, 1)), axis, np.tile(past, (k, 1)))
    integral = np.cumsum(density) * (axis[1] - axis[0])
    np.testing.assert_allclose(below, integral, atol=1e-3)
    assert not np.any(density[(axis < -1) | (axis > 1.5) | ((axis > 0.001) & (axis < 0.999))])
    drawn = found.draw(np.tile(theta, (k, 1)), np.tile(past, (k, 1)), rng)
    uniform = np.sort(found.distribution(np.tile(theta, (k, 1)), drawn, np.tile(past, (k, 1))))
    assert np.abs(uniform - np.arange(k) / k).max() < 2 / np.sqrt(k)
    # Each of its own, and all together.
    thetas, pasts = rng.normal(size=(4, 1)), rng.normal(size=(2, 3, 1))
    together = found.log_density(thetas, axis[None, :3], pasts[:1], shared=True)
    alone = found.log_density(thetas, np.tile(axis[:3], (4, 1)), np.tile(pasts[:1], (4, 1, 1)))
    np.testing.assert_allclose(together, alone, rtol=1e-12)
    at = THREE.spread(np.array([0, 1, 2, 2, 1, 0]), np.full(6, 0.3)).reshape(2, 3)
    groups = found.log_density(thetas, at, pasts, shared=True)
    alone = found.log_density(thetas, np.repeat(at, 2, axis=0), np.repeat(pasts, 2, axis=0))
    np.testing.assert_allclose(groups, alone, rtol=1e-12)


def test_few_rows_of_a_kind_have_laplaces_rule(rng):
    inputs = Inputs(rng.normal(size=(200, 1)), np.zeros((200, 1)))
    numbers = np.zeros(200, dtype=int)
    numbers[:3] = 1
    found = fit_categorical(inputs, THREE.spread(numbers, np.full(200, 0.5)), THREE, rng, Effort())
    middles = THREE.spread(np.arange(3), np.full(3, 0.5))
    widths = THREE.upper - THREE.lower
    density = np.exp(found.log_density(np.array([[5.0]]), middles[None], np.zeros((1, 1, 1)), shared=True))
    some = 4 / 202
    np.testing.assert_allclose(density[0] * widths, [1 - some, some * 4 / 5, some / 5])


def test_what_does_not_depend_on_the_inputs_is_a_constant(rng):
    inputs = Inputs(rng.normal(size=(400, 2)), np.zeros((400, 1)))
    y = THREE.spread(rng.binomial(2, 0.5, size=400), np.full(400, 0.5))
    found = fit_categorical(inputs, y, THREE, rng, Effort(100, 400, 400, 40, 15))
    far = np.array([[-2.0, 2.0], [2.0, -2.0]])
    values = found.logits[0](far, np.zeros((2, 1, 1)))
    assert np.ptp(values) < 1.5


def test_left_out_logits_are_those_of_fits_without_a_row(rng):
    inputs = Inputs(rng.normal(size=(80, 1)), rng.normal(size=(80, 1)))
    above = rng.random(80) < expit(inputs.theta[:, 0])
    kernel, landmarks = start_kernel(inputs), inputs.rows(slice(15))
    basis = WhitenedBasis(kernel, inputs, landmarks)
    fitted = fit_logit(above, basis, np.zeros(80))
    g = fitted.function.at(inputs)
    # At the maximum the gradient by whitened coefficients is zero.
    v = np.linalg.lstsq(basis.features, g, rcond=None)[0]
    np.testing.assert_allclose(basis.features @ v, g, atol=1e-6)
    for row in range(0, 80, 16):
        rest = np.arange(80) != row
        without = fit_logit(above[rest], WhitenedBasis(kernel, inputs.rows(rest), landmarks), np.zeros(79))
        exact = without.function.at(inputs.rows(slice(row, row + 1)))[0]
        assert abs(fitted.left_out[row] - exact) < 0.3 * abs(exact - g[row]) + 0.02


def test_a_logistic_regression_is_that_of_its_penalised_likelihood(rng):
    """Without landmarks that matter, by a solver that knows nothing of the basis."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    inputs = Inputs(rng.normal(size=(300, 2)), np.zeros((300, 1)))
    above = rng.random(300) < expit(inputs.theta @ [1.0, -0.5])
    basis = WhitenedBasis(start_kernel(inputs), inputs, inputs.rows(slice(1))).larger(1e-6)
    found = fit_logit(above, basis, np.zeros(300)).function
    exact = linear_model.LogisticRegression(C=1 / LINEAR_PRECISION, tol=1e-10).fit(inputs.theta, above)
    np.testing.assert_allclose(found.theta_slopes, exact.coef_[0], atol=1e-3)
    np.testing.assert_allclose(found.constant, exact.intercept_[0], atol=1e-3)


def test_a_past_that_does_not_vary_in_some_rows(rng):
    points = THREE.spread(np.zeros(20, dtype=int), rng.random(20))[:, None]
    past = Past.of(points, np.array([0]), (THREE,))
    np.testing.assert_allclose(past(points), 0, atol=1e-12)


@pytest.mark.parametrize(
    ("values", "counts", "stands"),
    [
        ([0, 1, 2], [600, 350, 50], {3: 2}),  # one step, and no more
        ([0, 1, 2], [50, 600, 350], {}),  # no count lies below zero
        ([-1, 0, 1], [50, 600, 350], {-2: -1}),
        ([1, 2], [20, 980], {0: 1}),
        ([0, 2, 4], [900, 80, 20], {6: 4}),
        ([0, 1, 3], [900, 80, 20], {2: 1, 4: 3}),  # 2 lies beside two rare ones
        ([0, 1e-3], [980, 20], {2e-3: 1e-3}),
    ],
)
def test_a_rare_value_represents_those_one_step_away(values, counts, stands):
    values = np.array(values, dtype=float)
    levels = Levels(values, *np.arange(2 * len(values), dtype=float).reshape(-1, 2).T, rare(np.array(counts)))
    asked = [*stands, *values, 1.5, 2.5, 5.0, 9.0, -999.0, 512.3456, 1_000_000.5, 1e12, 1e80]
    numbers, missed = levels.nearest_level(np.array(asked))
    assert dict(zip(np.array(asked)[missed], levels.values[numbers[missed]], strict=True)) == stands


def test_a_table_misses_the_next_value_of_a_poisson_distribution_that_is_rare():
    n, tables = 500, 4000
    rng = np.random.default_rng(1)
    for mean in (0.05, 0.3):
        draws = rng.poisson(mean, size=(tables, n))
        counts = np.stack([(draws == value).sum(axis=1) for value in (0, 1)], axis=1)
        fires = np.array([rare(each)[1] for each in counts])
        missed = (draws < 2).all(axis=1)
        # A table that misses it has a rare value but once in fifty, give or take three standard errors.
        share = np.mean(missed & ~fires)
        assert share <= 0.02 + 3 * np.sqrt(0.02 / tables)
        assert fires.mean() > 0.99 if mean < 0.1 else fires.mean() < 0.01


def test_a_count_beyond_the_table_is_read_as_its_rarest(rng):
    theta = rng.normal(size=(1000, 1))
    count = (rng.random((1000, 1)) < 0.02 * np.exp(0.5 * theta)).astype(float)
    x = np.hstack([theta + rng.normal(size=(1000, 1)), count])
    learnt = pk.KernelLikelihood(particles=500).fit(theta, x, random_seed=1)
    words = "value 2 of the statistic in column 1.*likelihood is that of the neighbouring value 1"
    with pytest.warns(pk.PosteriorWarning, match=words):
        beyond = learnt.condition([0.3, 2.0])
    np.testing.assert_array_equal(beyond.atoms, learnt.condition([0.3, 1.0]).atoms)
    with pytest.warns(pk.PosteriorWarning, match="no simulation has the value 2"):
        logs = learnt.log_likelihood(GRID, [[0.3, 2.0], [0.3, 0.0]])
    np.testing.assert_array_equal(logs, learnt.log_likelihood(GRID, [[0.3, 1.0], [0.3, 0.0]]))
    # No lattice has halves, and three is two steps away.
    for value in (1.5, 3.0, -999.0):
        with pytest.raises(ImpossibleObservation, match=r"discrete statistic does not take|by their root"):
            learnt.condition([0.3, value])
    with pytest.warns(pk.PosteriorWarning, match="value 2 of the statistic in column 1,"):
        learnt.condition([np.nan, 2.0])
    assert np.all(learnt.log_likelihood(GRID, [0.3, 1.5]) == -np.inf)
