"""Mixtures that rounds draw from, the rows that they keep, and how these are weighted."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy.stats import chi2, lognorm, multivariate_normal
from sklearn.mixture import GaussianMixture

import pymc_kbr as pk
from pymc_kbr.embedding.embedding import Atoms
from pymc_kbr.estimators.likelihood.checks import fewest_rows
from pymc_kbr.kernels import Gaussian
from pymc_kbr.posterior.posterior import Posterior
from pymc_kbr.rounds.sequence import (
    Rounds,
    _mixture,
    _squared_distance,
    held_out_rows,
    joined,
    least_rows,
    proposal_of,
    region_of,
    widening,
)
from pymc_kbr.simulation import ForwardModel, Proposal, SimulationOptions
from pymc_kbr.tables.origin import Failures

QUIET = {"progressbar": False}


def normal(rng, mean, size):
    return rng.normal(mean, 0.1, size)


@pytest.fixture(scope="module")
def forward():
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1, shape=2)
        pm.Simulator("y", normal, mean, observed=[0.5, -0.3])
    return ForwardModel.read(model)


@pytest.fixture(scope="module")
def between():
    """Of a parameter that is uniform between -1 and 3, and one that is not bounded."""
    with pm.Model() as model:
        a, b = pm.Uniform("a", -1, 3), pm.Normal("b", 0, 1)
        pm.Simulator("y", normal, a + b, observed=[0.0])
    return ForwardModel.read(model).support


# --- weights of rows ---


def a_round(forward, rows, failed, seed):
    rng = np.random.default_rng(seed)
    theta = 0.3 * rng.normal(size=(rows, 2))
    table = pk.simulate(2, model=forward.graph.model, random_seed=1, **QUIET)
    gone = Failures(np.arange(failed), np.zeros((failed, 2)), ("lost",) * failed)
    return dataclasses.replace(table, parameters=theta, statistics=theta, failures=gone)


def test_rows_are_weighted_by_the_prior_over_the_mixture_of_all_rounds(forward):
    """Each round counts by what it drew, failures with it, and by its own share of the prior."""
    sizes, failed = (30, 40, 90), (0, 20, 10)
    tables = [a_round(forward, n - k, k, i) for i, (n, k) in enumerate(zip(sizes, failed, strict=True))]
    proposals = [None]
    for mean, scale in ((0.1, 0.3), (-0.1, 0.15)):
        covariance = scale**2 * np.eye(2)
        proposals.append(
            Proposal(
                np.array([0.5, 0.5]),
                np.full((2, 2), mean),
                np.stack([covariance, 4 * covariance]),
                forward.support,
                0.25,
            )
        )
    options = SimulationOptions(100, **QUIET)
    rounds = Rounds(forward, pk.Rejection(5), options, {}, None, tables, proposals)
    table = rounds._pooled()
    prior = multivariate_normal(np.zeros(2)).pdf(table.parameters)
    density = sizes[0] * prior
    for size, proposal in zip(sizes[1:], proposals[1:], strict=True):
        mixture = sum(
            0.5 * multivariate_normal(m, c).pdf(table.parameters)
            for m, c in zip(proposal.means, proposal.covariances, strict=True)
        )
        share = np.floor(0.25 * size) / size
        density += size * (share * prior + (1 - share) * mixture)
    np.testing.assert_allclose(table.prior_ratio, prior * sum(sizes) / density)
    # At least half of those that did not fail are kept.
    assert len(table) >= 65
    assert table.simulations == 160
    words = table.provenance["refined"]
    assert f"{130 - len(table)} rows left out" in words
    assert "ended early" not in words
    early = rounds._pooled(stopped=True).provenance["refined"]
    assert early == words + "; ended early, since the posterior did not change any more"


def test_rows_of_the_first_round_are_draws_of_the_prior(forward):
    table = a_round(forward, 20, 0, 1)
    rounds = Rounds(forward, pk.Rejection(5), SimulationOptions(20, **QUIET), {}, None, [table], [None])
    assert rounds._pooled() is table


def test_an_estimator_is_fitted_to_the_rows_and_weights_that_it_is_given(forward):
    fits = []

    class Remembers(pk.Rejection):
        def fit(self, parameters, statistics, support=None, **given):
            fits.append((parameters, statistics, support, given))
            return self

    table = dataclasses.replace(a_round(forward, 20, 0, 1), prior_ratio=np.arange(1.0, 21.0))
    rounds = Rounds(forward, Remembers(5), SimulationOptions(20, **QUIET), {}, None)
    rows, rng = np.array([3, 7, 8]), np.random.default_rng(1)
    assert rounds._fitted(table, rows, rng) is not rounds.estimator
    ((parameters, statistics, support, given),) = fits
    np.testing.assert_array_equal(parameters, table.parameters[rows])
    np.testing.assert_array_equal(statistics, table.statistics[rows])
    assert support is table.support
    np.testing.assert_array_equal(given.pop("ratio"), [4, 8, 9])
    assert given == {"random_seed": rng}


def test_draws_of_a_proposal_have_its_covariances(forward):
    mean, covariance = np.array([3.0, -1.0]), np.array([[1.0, 0.8], [0.8, 4.0]])
    proposal = Proposal(np.ones(1), mean[None], covariance[None], forward.support, 0.25)
    drawn = np.linalg.solve(
        np.linalg.cholesky(covariance), (proposal.draw(20_000, np.random.default_rng(1)) - mean).T
    )
    np.testing.assert_allclose(drawn.mean(axis=1), 0, atol=4 / np.sqrt(20_000))
    np.testing.assert_allclose(np.cov(drawn), np.eye(2), atol=4 * np.sqrt(2 / 20_000))


def test_the_density_of_a_proposal_is_over_parameters_and_not_over_their_logarithms():
    support = pk.Support.from_bounds({"a": (0, None)}, ["a"])
    proposal = Proposal(np.ones(1), np.array([[0.3]]), np.array([[[0.49]]]), support, 0.25)
    at = np.array([[0.2], [1.5], [4.0], [-1.0]])
    expected = lognorm(0.7, scale=np.exp(0.3)).logpdf(at[:, 0])
    np.testing.assert_allclose(proposal.log_density(at), expected)
    assert expected[-1] == -np.inf


def test_a_proposal_has_no_draws_beyond_its_range_and_its_density_has_the_integral_one():
    support = pk.Support.from_bounds({"a": (0, None)}, ["a"])
    ends = np.log([[0.5], [3.0]])
    proposal = Proposal(np.ones(1), np.array([[0.3]]), np.array([[[0.49]]]), support, 0.25, {}, ends)
    drawn = proposal.draw(4000, np.random.default_rng(1))
    assert drawn.min() >= 0.5
    assert drawn.max() <= 3.0
    law = lognorm(0.7, scale=np.exp(0.3))
    mass = law.cdf(3.0) - law.cdf(0.5)
    # The mass is that of 2**16 draws.
    error = 4 * np.sqrt((1 - mass) / mass / 2**16)
    np.testing.assert_allclose(
        proposal.log_density(np.array([[1.0]])), law.logpdf(1.0) - np.log(mass), atol=error
    )
    assert np.all(proposal.log_density(np.array([[0.4], [3.1]])) == -np.inf)
    again = Proposal.from_json(json.loads(json.dumps(proposal.to_json())), support)
    np.testing.assert_array_equal(again.free_range, ends)
    # A store of rounds that had none goes on: what identifies it is what it was.
    old = {key: value for key, value in proposal.to_json().items() if key != "free_range"}
    assert Proposal.from_json(old, support).to_json() == old


def test_a_proposal_is_that_of_its_seed_alone(forward):
    """What an estimator draws when it is fitted is drawn by that seed, too."""

    class Jittered(pk.Rejection):
        def fit(self, parameters, statistics, support=None, random_seed=None, **given):
            noise = np.random.default_rng(random_seed).normal(size=statistics.shape)
            return super().fit(parameters, statistics + noise, support, **given)

    asked = {"prior_share": 0.2, "rounds": 3}
    rounds = Rounds(forward, Jittered(40), SimulationOptions(200, **QUIET), asked, None)
    rounds.tables, rounds.proposals = [a_round(forward, 200, 0, 1)], [None]
    one, again, other = (np.array(rounds._propose(seed).notes["compared"]) for seed in (5, 5, 6))
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - other).max() > 0


def test_rounds_of_a_learned_likelihood_hold_rows_out_and_have_enough_left():
    assert least_rows(2, 3, pk.Rejection(5)) == 20 + 10 * 2
    few, many = (least_rows(2, d, pk.KernelLikelihood()) for d in (2, 40))
    assert few == 12 + fewest_rows(2, 2)
    assert many == 12 + fewest_rows(2, 40)
    assert many > few > 40


# --- mixtures ---


def test_a_mixture_is_of_near_and_wide_parts_about_the_draws(forward):
    rng = np.random.default_rng(1)
    root = np.array([[0.3, 0.0], [0.2, 0.1]])
    draws = np.array([1.0, -2.0]) + rng.normal(size=(1000, 2)) @ root.T
    notes = {"a": 1}
    of_prior = np.array([[-50.0, -40.0], [50.0, -30.0]])
    found = proposal_of(draws, 1000, forward.support, 0.15, 1.7, 3, notes, of_prior)
    np.testing.assert_array_equal(
        found.free_range, [[-50, -40], [max(50, draws[:, 0].max()), draws[:, 1].max()]]
    )
    assert found.prior_share == 0.15
    assert found.notes == notes
    assert found.support is forward.support
    # One normal part, near and wide.
    np.testing.assert_allclose(found.weights, [0.5, 0.5])
    np.testing.assert_allclose(found.means, np.tile(draws.mean(axis=0), (2, 1)), atol=1e-6)
    covariance = np.cov(draws.T, bias=True)
    for part, factor in zip(found.covariances, (1.2, 4.0), strict=True):
        expected = 1.7 * factor * covariance
        # 1e-4 is added to each variance in units of the draws' deviations.
        np.testing.assert_allclose(part, expected, rtol=1e-3, atol=2e-3 * expected[1, 1])


def test_draws_at_an_edge_are_left_out_of_a_mixture(between):
    rng = np.random.default_rng(1)
    draws = np.column_stack([rng.uniform(0, 1, 500), rng.normal(size=500)])
    at_the_edge = np.vstack([draws, [[-1.0, 0.0], [3.0, 0.0]]])
    with_them, without = (
        proposal_of(rows, 500, between, 0.1, 1.0, 3, {}, draws) for rows in (at_the_edge, draws)
    )
    np.testing.assert_array_equal(with_them.means, without.means)
    np.testing.assert_array_equal(with_them.covariances, without.covariances)


@pytest.mark.parametrize("modes", [1, 2, 3])
def test_a_mixture_has_a_part_for_each_mode_that_enough_draws_show(modes):
    rng = np.random.default_rng(modes)
    points = rng.normal(size=(900, 2)) + 12 * rng.integers(modes, size=(900, 1))
    found = _mixture(points, 900, 1)
    assert len(found.means_) == modes
    np.testing.assert_allclose(
        np.sort(found.means_[:, 0]), 12 * np.arange(modes), atol=4 / np.sqrt(900 / modes)
    )
    # A part in two dimensions has six numbers, each of which needs ten draws.
    assert len(_mixture(points, 60 * modes, 1).means_) == modes
    assert len(_mixture(points, 60 * modes - 1, 1).means_) == max(1, modes - 1)


@pytest.mark.parametrize("independent", [400, 200])
def test_the_number_of_parts_has_the_lowest_information_criterion(independent):
    """Of draws with heavy tails, for which one number or another is nearly as good."""
    chosen = []
    for seed in range(8):
        points = np.random.default_rng(seed).standard_t(4, size=(400, 2))
        fits = [GaussianMixture(k, reg_covar=1e-4, random_state=seed).fit(points) for k in (1, 2, 3)]
        criteria = [
            -2 * independent * fit.score(points) + 6 * k * np.log(independent)
            for k, fit in enumerate(fits, start=1)
        ]
        if independent == 400:  # else points count for fewer
            np.testing.assert_allclose(criteria, [fit.bic(points) + np.log(400) for fit in fits])
        found = len(_mixture(points, independent, seed).means_)
        chosen.append(found)
        assert found == 1 + np.argmin(criteria)
    assert len(set(chosen)) > 1


# --- rows that are kept ---


def a_mixture(support, means, deviations):
    """Parts of independent parameters, near and wide."""
    near = np.array([np.diag(1.2 * np.square(d)) for d in deviations])
    count = len(means)
    return Proposal(
        np.full(2 * count, 0.5 / count),
        np.tile(means, (2, 1)),
        np.concatenate([near, near * 4 / 1.2]),
        support,
        0.1,
    )


def test_rows_are_kept_within_four_deviations_of_the_nearest_part(forward):
    means, deviations = np.array([[0.0, 1.0], [2.0, -1.0]]), np.array([[0.1, 0.2], [0.3, 0.05]])
    rng = np.random.default_rng(1)
    parameters = np.vstack([rng.uniform(-10, 10, (50, 2)), rng.uniform([0, -1], [2, 1], (50, 2))])
    found = region_of(a_mixture(forward.support, means, deviations), parameters, 40)
    lower = (means - 4 * deviations).min(axis=0)
    upper = (means + 4 * deviations).max(axis=0)
    inside = np.all((parameters > lower) & (parameters < upper), axis=1)
    np.testing.assert_array_equal(found.contains(parameters), inside)
    corners = np.array([lower, upper])
    assert found.contains(corners * (1 - 1e-9 * np.sign(corners) * [[-1], [1]])).all()
    assert not found.contains(np.array([lower - 1e-6, upper + 1e-6])).any()


def test_bounds_are_drawn_wider_until_enough_rows_lie_within(forward):
    proposal = a_mixture(forward.support, np.zeros((1, 2)), np.full((1, 2), 0.1))
    distances = np.linspace(0.05, 8, 160)
    parameters = np.column_stack([distances, np.zeros(160)])
    parameters[:, 1] = np.tile([-8, 8, 0, 0], 40)
    least = 30
    found = region_of(proposal, parameters, least)
    reaches = [0.4 * 1.5**k for k in range(20)]
    counts = [np.all(np.abs(parameters) < reach, axis=1).sum() for reach in reaches]
    assert counts[0] < least
    first = next(count for count in counts if count >= least)
    assert found.contains(parameters).sum() == first


def test_a_parameter_that_is_not_narrowed_keeps_the_priors_bounds(between):
    """The first shrinks to less than four fifths of its range, the second to more."""
    rng = np.random.default_rng(1)
    parameters = np.column_stack([rng.uniform(-1, 3, 400), rng.uniform(-1, 1, 400)])
    parameters[:2] = [[-1 + 1e-9, -1], [3 - 1e-9, 1]]
    for deviation, kept in ((0.21, True), (0.19, False)):  # eight of them, of a range of two
        found = region_of(a_mixture(between, np.zeros((1, 2)), np.array([[0.2, deviation]])), parameters, 1)
        assert found.contains(np.array([[0.9, 50.0]]))[0] == kept
        # In the space without edges, log (a + 1) / (3 - a), four deviations of 0.2 about 0.
        low, high = ((-1 + 3 * np.exp(end)) / (1 + np.exp(end)) for end in (-0.8, 0.8))
        points = np.array([[low - 1e-6, 0], [low + 1e-6, 0], [high - 1e-6, 0], [high + 1e-6, 0]])
        assert found.contains(points).tolist() == [False, True, True, False]
    wide = region_of(a_mixture(between, np.zeros((1, 2)), np.array([[5.0, 5.0]])), parameters, 1)
    assert wide == between


def test_parameters_that_bound_each_other_keep_the_priors_bounds():
    with pm.Model() as model:
        a = pm.Gamma("a", 2, 1)
        b = pm.Uniform("b", 0, a)
        c = pm.Normal("c", 0, 1)
        pm.Simulator("y", normal, a + b + c, observed=[0.0])
    forward = ForwardModel.read(model)
    parameters = forward.draw(300, 1, None)[0]
    proposal = a_mixture(forward.support, np.zeros((1, 3)), np.full((1, 3), 0.05))
    found = region_of(proposal, parameters, 1)
    between_others = [block for block in forward.support.blocks if block.columns == (1,)]
    assert [block for block in found.blocks if block.columns == (1,)] == between_others
    assert len(between_others) == 1
    # The others are bounded by themselves, at four deviations of log a and of c.
    points = np.array(
        [[1.0, 0.99, 0.0], [1.2, 0.01, 0.19], [1.3, 0.5, 0.0], [1.0, 0.5, 0.21], [1.0, 1.1, 0.0]]
    )
    assert found.contains(points).tolist() == [True, True, False, False, False]


# --- how much too narrow ---


class Posteriors(pk.Estimator):
    """Normal draws about the observation, of one deviation, which remembers what it was asked."""

    scale, parameter_bandwidth = True, None

    def __init__(self, deviation=0.1):
        self.deviation = deviation

    def condition(self, observed):
        self.observed = observed
        rng = np.random.default_rng(0)
        draws = observed[:, None] + self.deviation * rng.normal(size=(len(observed), 4000, 2))
        return [
            Posterior.of(Atoms(drawn, Gaussian(1.0)), np.full(4000, 1 / 4000), self.support, smoothing="none")
            for drawn in draws
        ]

    def _check(self, n, streamed): ...

    def _fit(self, rng): ...

    def _row_weights(self, x): ...


@pytest.mark.parametrize(("rows", "near", "held_out"), [(400, 100, 12), (60, 20, 10), (30, 20, 10)])
def test_rows_near_the_observation_are_held_out(forward, rows, near, held_out):
    table = pk.simulate(rows, model=forward.graph.model, random_seed=2, **QUIET)
    estimator = Posteriors()
    estimator.support = table.support
    rng = np.random.default_rng(1)
    left_out = held_out_rows(table, rng)
    found = widening(estimator, table, left_out, rng)
    assert len(left_out) == held_out
    np.testing.assert_array_equal(
        np.sort(estimator.observed, axis=0), np.sort(table.statistics[left_out], axis=0)
    )
    away = np.linalg.norm((table.statistics - table.observed) / table.statistics.std(axis=0), axis=1)
    assert set(left_out) <= set(np.argsort(away)[:near])
    # Every posterior has its row's statistics for a mean and the deviation 0.1, of 300 draws each.
    squared = np.sum((table.parameters[left_out] - table.statistics[left_out]) ** 2, axis=1) / 0.1**2
    expected = max(1.0, np.quantile(squared, 0.8) / chi2.ppf(0.8, 2))
    assert found == pytest.approx(expected, rel=4 * np.sqrt(2 / 300))
    np.testing.assert_array_equal(left_out, held_out_rows(table, np.random.default_rng(1)))


def test_distances_are_in_the_metric_of_the_draws():
    rng = np.random.default_rng(1)
    root = np.array([[1e-3, 0.0], [5.0, 20.0]])
    draws = np.array([2.0, 100.0]) + rng.normal(size=(500, 2)) @ root.T
    truth = np.array([2.001, 80.0])
    apart = truth - draws.mean(axis=0)
    expected = apart @ np.linalg.solve(np.cov(draws.T), apart)
    assert _squared_distance(draws, truth) == pytest.approx(expected, rel=1e-4)
    one = _squared_distance(draws[:, :1], truth[:1])
    assert one == pytest.approx(apart[0] ** 2 / draws[:, 0].var(ddof=1), rel=1e-4)


# --- rows of several rounds ---


def a_table(rows, failed, seconds, width):
    rng = np.random.default_rng(rows)
    frame = pd.DataFrame(rng.uniform(-width, width, (rows, 2)), columns=["a", "s"])
    table = pk.ReferenceTable.from_dataframe(
        frame, parameters=["a"], statistics=["s"], observed=[0.0], bounds={"a": (-width, width)}
    )
    places = np.arange(failed) * 2
    failures = Failures(places, np.full((failed, 1), width), tuple(f"{width}: {i}" for i in range(failed)))
    return dataclasses.replace(table, failures=failures, timings={"simulate": seconds}, seed=3)


def test_rows_of_several_tables_are_those_in_the_last_ones_support():
    tables = [a_table(20, 2, 1.0, 4), a_table(10, 0, 2.5, 2), a_table(30, 3, 4.0, 1)]
    table = joined(tables)
    inside = [np.abs(t.parameters[:, 0]) < 1 for t in tables]
    np.testing.assert_array_equal(
        table.parameters, np.vstack([t.parameters[rows] for t, rows in zip(tables, inside, strict=True)])
    )
    np.testing.assert_array_equal(
        table.statistics, np.vstack([t.statistics[rows] for t, rows in zip(tables, inside, strict=True)])
    )
    assert table.support == tables[-1].support
    assert table.prior_ratio is None
    assert table.seed is None
    assert table.simulations == 22 + 10 + 33
    # Rows are numbered over all tables, failures with them.
    np.testing.assert_array_equal(table.failures.rows, [0, 2, 32, 34, 36])
    np.testing.assert_array_equal(table.failures.parameters[:, 0], [4, 4, 1, 1, 1])
    assert table.failures.messages == ("4: 0", "4: 1", "1: 0", "1: 1", "1: 2")
    counts = [rows.sum() for rows in inside]
    expected = f"{counts[0]} rows of 22; {counts[1]} rows of 10; 30 rows of 33"
    assert table.provenance["zoomed"] == expected
    assert table.timings == {"simulate": 7.5}
    assert len(joined(tables, word="other").provenance["other"]) == len(expected)


def test_weights_stay_with_their_rows():
    tables = [a_table(20, 2, 1.0, 4), a_table(30, 0, 4.0, 1)]
    both = np.concatenate([t.parameters[:, 0] for t in tables])
    table = joined(tables, tables[0].support, both**2)
    np.testing.assert_array_equal(table.prior_ratio, both**2)
    table = joined(tables, tables[1].support, both**2)
    np.testing.assert_array_equal(table.prior_ratio, table.parameters[:, 0] ** 2)
