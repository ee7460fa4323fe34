"""Parts of rounds by themselves: emulators of many statistics, bounds, levels and what is handed on."""

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy.stats import binom

import pymc_kbr as pk
from pymc_kbr.rounds import bounds as rounds_bounds
from pymc_kbr.rounds import sequence
from pymc_kbr.rounds.bounds import likely_bounds
from pymc_kbr.rounds.emulate import _warn_of_errors
from pymc_kbr.rounds.emulator import Emulator, _directions, _sketched, noise_kept
from pymc_kbr.rounds.sequence import Rounds, indistinguishable
from pymc_kbr.simulation import ForwardModel, SimulationOptions

QUIET = {"progressbar": False}


def a_table(x, theta, observed=None, bounds=(-5, 5)):
    names = [f"s{i}" for i in range(x.shape[1])]
    columns = [f"a{i}" for i in range(theta.shape[1])]
    return pk.ReferenceTable.from_dataframe(
        pd.DataFrame(np.hstack([theta, x]), columns=[*columns, *names]),
        parameters=columns,
        statistics=names,
        observed=np.zeros(x.shape[1]) if observed is None else observed,
        bounds=dict.fromkeys(columns, bounds),
    )


# --- emulators ---


@pytest.mark.parametrize("d", [3, 45])
def test_errors_are_a_deviation_of_noise_in_its_unit(d):
    """Statistics that no parameter tells of are predicted with an error of their deviation."""
    rng = np.random.default_rng(1)
    theta, units = rng.uniform(-1, 1, (250, 2)), np.geomspace(1e-2, 1e3, d)
    table = a_table(2 * units * rng.normal(size=(250, d)) + 7 * units, theta)
    emulator = Emulator.fit(table, units, np.random.default_rng(0))
    assert emulator.error == pytest.approx(2, rel=0.1)
    np.testing.assert_allclose(
        emulator(theta).mean(axis=0), table.statistics.mean(axis=0), atol=0.5 * units[-1]
    )


def test_many_statistics_come_back_in_their_units():
    rng = np.random.default_rng(2)
    theta, units = rng.uniform(-1, 1, (200, 1)), np.geomspace(1e-2, 1e3, 45)
    shifts = np.linspace(0, 3, 45)

    def function(theta):
        return units * np.sin(theta + shifts)

    emulator = Emulator.fit(a_table(function(theta), theta), units, np.random.default_rng(0))
    fresh = np.linspace(-0.9, 0.9, 20)[:, None]
    assert emulator.error < 1e-3
    assert np.abs((emulator(fresh) - function(fresh)) / units).max() < 1e-2


def test_a_parameter_that_stands_there_three_times_changes_no_prediction():
    """Distances and their median grow in the same way."""
    rng = np.random.default_rng(7)
    theta = rng.uniform(-1, 1, (80, 1))
    x = np.sin(3 * theta) + 0.1 * rng.normal(size=(80, 1))
    one, three = (
        Emulator.fit(a_table(x, np.repeat(theta, copies, axis=1)), np.ones(1), np.random.default_rng(0))
        for copies in (1, 3)
    )
    fresh = np.linspace(-0.9, 0.9, 20)[:, None]
    np.testing.assert_allclose(three(np.repeat(fresh, 3, axis=1)), one(fresh), atol=1e-6)
    assert three.error == pytest.approx(one.error)


def test_sketches_keep_squares_and_directions_all_but_the_error():
    rng = np.random.default_rng(3)
    few, many = rng.normal(size=(400, 32)), rng.normal(size=(400, 60))
    assert _sketched(few, rng) is few
    sketched = _sketched(many, rng)
    assert sketched.shape == (400, 32)
    # Each sum of squares has an error of the root of 2 / 32 of itself.
    assert np.sum(sketched**2) == pytest.approx(np.sum(many**2), rel=4 * np.sqrt(2 / 32))
    np.testing.assert_array_equal(_directions(few, 1e9), np.eye(32))
    deviations = np.geomspace(1e-3, 1.0, 40)
    targets = np.linalg.qr(rng.normal(size=(400, 40)))[0] * np.sqrt(400) * deviations
    error = 1.5 * np.sum(deviations[:10] ** 2)
    kept = _directions(targets, error)
    left = np.sum(targets**2) / 400 - np.sum((targets @ kept) ** 2) / 400
    assert 0 < left < error
    assert left + np.sort(np.mean((targets @ kept) ** 2, axis=0))[0] >= error
    np.testing.assert_allclose(kept.T @ kept, np.eye(kept.shape[1]), atol=1e-10)
    assert _directions(targets, 1e9).shape[1] == 1


def test_noise_that_is_the_same_for_all_is_kept_once():
    assert noise_kept(None) == ()
    assert noise_kept(np.full(4, 0.5)) == (0.5,)
    assert noise_kept(np.array([0.5, 0.25])) == (0.5, 0.25)


@pytest.mark.parametrize(
    ("error", "noise", "warned"),
    [(0.6, True, True), (0.4, True, False), (0.06, False, True), (0.04, False, False)],
)
def test_errors_are_warned_of_for_all_statistics_together(error, noise, warned):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        _warn_of_errors(error, 4, noise)
    assert len(seen) == warned


# --- bounds ---


def known(parameters):
    """A simulator that is its parameter, with draws that are given and an emulator without error."""
    forward = SimpleNamespace(draw=lambda *_, **__: (parameters, None))

    class Exact:
        error = 0.0

        def __call__(self, parameters):
            return parameters

    return Exact(), forward


def test_likely_rows_are_counted_from_the_likeliest_and_some_are_always_kept():
    theta = np.linspace(0, 1, 1001)[:, None]
    emulator, forward = known(theta)
    table = a_table(theta, theta, observed=[3.0])
    # The likeliest row is twenty deviations away, and others as far in likelihood are within 4.5 of that.
    found = likely_bounds(emulator, table, forward, 1, None, np.array([0.1]))[1]["a0"]
    lowest = theta[theta[:, 0] >= 3 - 0.1 * np.hypot(20, 4.5), 0].min()
    margin = 0.05 * (1 - lowest)
    if np.sum(theta >= lowest) < 100:
        margin = 0.5 * (1 - lowest)
    assert found[0] == pytest.approx(lowest - margin)
    # Of a tiny noise the nearest twelve rows and one are kept, with the margin of few.
    table = a_table(theta, theta, observed=[0.5])
    found = likely_bounds(emulator, table, forward, 1, None, np.array([1e-9]))[1]["a0"]
    np.testing.assert_allclose(found, (0.494 - 0.006, 0.506 + 0.006), atol=1.1e-3)


def test_rows_are_moved_by_a_regression_on_five_times_as_many():
    rng = np.random.default_rng(4)
    theta = rng.uniform(-1, 1, (400, 1))
    x = 2 * theta + 0.1 * rng.normal(size=(400, 1))
    table = a_table(x, theta, observed=[0.3])
    as_they_are, moved = rounds_bounds._ranges(table, 12, False)
    near = np.argsort(np.abs(x[:, 0] - 0.3))[:60]
    slope = np.polyfit(x[near, 0], theta[near, 0], 1)[0]
    points = theta[near, 0] - slope * (x[near, 0] - 0.3)
    assert moved.lower[0] == pytest.approx(points.min() - 0.4 * np.ptp(points))
    assert moved.upper[0] == pytest.approx(points.max() + 0.4 * np.ptp(points))
    assert as_they_are.upper[0] == pytest.approx(theta[near[:12]].max() + 0.75 * np.ptp(theta[near[:12]]))
    assert moved.covered > 0.9


# --- levels ---


def test_alikeness_has_its_level_and_knows_no_units():
    rng = np.random.default_rng(5)
    apart = sum(
        not indistinguishable(rng.normal(size=(15, 1)), rng.normal(size=(15, 1)), rng) for _ in range(400)
    )
    least, most = binom.ppf([5e-4, 1 - 5e-4], 400, 0.05)  # but for one in a thousand times
    assert least <= apart <= most
    one, other = rng.normal(size=(40, 2)), rng.normal([0.0, 2.0], 1.0, size=(40, 2))
    assert not indistinguishable(one, other, rng)
    assert not indistinguishable(one * [1e6, 1.0], other * [1e6, 1.0], rng)


# --- what is handed on ---


@pytest.fixture(scope="module")
def forward():
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1, shape=2)
        pm.Simulator("y", lambda rng, mean, size: rng.normal(mean, 0.1, size), mean, observed=[0.5, -0.3])
    return ForwardModel.read(model)


def test_a_proposal_is_of_draws_of_the_posterior_worth_their_effective_size(forward, monkeypatch):
    table = pk.simulate(200, model=forward.graph.model, random_seed=1, **QUIET)
    asked = {"draws": 400, "rounds": 2, "prior_share": 0.15}
    rounds = Rounds(forward, pk.Rejection(30), SimulationOptions(200, **QUIET), asked, None, [table], [None])
    given = []
    monkeypatch.setattr(sequence, "proposal_of", lambda *values: given.append(values))
    monkeypatch.setattr(sequence, "widening", lambda *_: 2.5)
    for seed in (1, 1, 2):
        rounds._propose(seed)
    drawn, independent, support, share, wider, _, notes, of_prior = given[0]
    assert of_prior is table.parameters
    assert drawn.shape == (sequence.DRAWS_FOR_PROPOSAL, 2)
    assert independent == pytest.approx(30)
    assert support is forward.support
    assert (share, wider, notes["widened"]) == (0.15, 2.5, 2.5)
    np.testing.assert_array_equal(notes["compared"], drawn[:500])
    assert notes["last"] is True
    np.testing.assert_array_equal(given[1][0], drawn)
    assert not np.array_equal(given[2][0], drawn)
