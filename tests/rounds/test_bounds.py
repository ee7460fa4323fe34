"""Bounds that close in: with a margin, inside the old ones, and only where they hold."""

import dataclasses

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_kbr as pk
from pymc_kbr.rounds import bounds as rounds_bounds
from pymc_kbr.rounds.bounds import _NearBounds, closed_in, likely_bounds, narrower
from pymc_kbr.rounds.emulator import Emulator
from pymc_kbr.simulation import ForwardModel

QUIET = {"progressbar": False}


def table(n=400, d=20):
    """One parameter and more statistics than rows are kept, so that none are moved by a regression."""
    rng = np.random.default_rng(1)
    theta = rng.uniform(-1, 1, (n, 1))
    x = theta + 0.05 * rng.normal(size=(n, d))
    names = [f"s{i}" for i in range(d)]
    frame = pd.DataFrame(np.hstack([theta, x]), columns=["a", *names])
    return pk.ReferenceTable.from_dataframe(
        frame, parameters=["a"], statistics=names, observed=np.full(d, 0.1), bounds={"a": (-1, 1)}
    )


def test_bounds_are_the_nearest_rows_range_and_three_quarters_of_it_on_each_side():
    t = table()
    narrowed, found = narrower(t, None, True)
    x = (t.statistics - t.statistics.mean(axis=0)) / t.statistics.std(axis=0)
    y = (t.observed - t.statistics.mean(axis=0)) / t.statistics.std(axis=0)
    near = t.parameters[np.argsort(np.linalg.norm(x - y, axis=1))[:12], 0]
    margin = 0.75 * np.ptp(near)
    assert narrowed
    assert found["a"][0] == pytest.approx(near.min() - margin)
    assert found["a"][1] == pytest.approx(near.max() + margin)


@pytest.mark.parametrize("within", [None, {"a": (np.array(-0.4), np.array(0.3))}])
def test_new_bounds_lie_inside_the_old_ones(within):
    t = table()
    old = (t.parameters.min(), t.parameters.max()) if within is None else (-0.4, 0.3)
    narrowed, found = closed_in(np.array([-5.0]), np.array([0.1]), t.parameters, within, t)
    assert narrowed
    assert found["a"] == (old[0], 0.1)
    narrowed, found = closed_in(np.array([-5.0]), np.array([5.0]), t.parameters, within, t)
    assert not narrowed
    assert found["a"] == old


def test_a_parameter_that_hardly_narrows_keeps_its_bounds():
    within = {"a": (np.array(0.0), np.array(1.0))}
    for upper, narrowed in ((0.85, False), (0.75, True)):
        found = closed_in(np.array([0.0]), np.array([upper]), table().parameters, within, table())
        assert found[0] is narrowed
        assert found[1]["a"][1] == (upper if narrowed else 1.0)


def a_range(lower, upper, covered):
    return _NearBounds(np.array([lower]), np.array([upper]), covered, float(np.log(upper - lower)))


@pytest.mark.parametrize(
    ("ranges", "taken"),
    [
        ([(-0.1, 0.2, 0.5), (-0.3, 0.4, 0.96), (-0.5, 0.5, 1.0)], (-0.3, 0.4)),
        ([(-0.1, 0.2, 0.5), (-0.3, 0.4, 0.9), (-0.5, 0.5, 0.8)], (-0.3, 0.4)),
        ([(-0.1, 0.2, 0.95), (-0.3, 0.4, 0.96)], (-0.1, 0.2)),
        ([(-9.0, -8.9, 1.0), (-0.3, 0.4, 0.96)], (-0.3, 0.4)),
    ],
)
def test_the_narrowest_bounds_that_hold_are_taken(monkeypatch, ranges, taken):
    """Of those that hold too seldom none is, unless all do; nor of those that lie beyond all rows."""
    monkeypatch.setattr(rounds_bounds, "_ranges", lambda *_: [a_range(*values) for values in ranges])
    assert narrower(table(), None, True)[1]["a"] == taken


@pytest.mark.parametrize("narrowest", [False, True, "linear_posterior_mean"])
def test_where_no_metric_is_asked_for_the_narrowest_bounds_of_all_are_taken(monkeypatch, narrowest):
    def ranges(table, kept, metric):
        return [a_range(-0.1, 0.2, 1.0) if metric == narrowest else a_range(-0.4, 0.4, 1.0)]

    monkeypatch.setattr(rounds_bounds, "_ranges", ranges)
    assert narrower(table(), None, None)[1]["a"] == (-0.1, 0.2)


def test_bounds_hold_for_as_many_simulated_rows_as_is_claimed():
    """Where neighbours in the statistics tell nothing, their range seldom holds the parameter's own value."""
    t = table()
    mixed = np.random.default_rng(0).permutation(t.statistics)
    informed, blind = (
        rounds_bounds._ranges(dataclasses.replace(t, statistics=x), 12, True)[0]
        for x in (t.statistics, mixed)
    )
    assert informed.covered > 0.9
    assert informed.size < blind.size
    assert blind.upper[0] - blind.lower[0] > 4 * (informed.upper[0] - informed.lower[0])
    # Of two other rows that tell nothing: were a row one of its own two, its bounds would always hold.
    assert rounds_bounds._ranges(dataclasses.replace(t, statistics=mixed), 2, True)[0].covered < 0.85


def test_bounds_around_likely_rows_have_a_margin_and_stay_inside_the_old_ones():
    def fn(rng, a, size=None):
        return np.array([a, 2 * a])

    with pm.Model() as model:
        a = pm.Uniform("a", 0, 1)
        pk.vector_simulator("y", fn, a, observed=np.array([0.5, 1.0]))
    noise = np.full(2, 0.05)
    t = pk.simulate(200, model=model, random_seed=1, **QUIET)
    forward = ForwardModel.read(model)
    emulator = Emulator.fit(t, noise, np.random.default_rng(0))
    within = {"a": (np.array(0.0), np.array(1.0))}
    narrowed, found = likely_bounds(emulator, t, forward, 3, within, noise)
    parameters, _ = forward.draw(4_000, 3, within, even=True)
    # The observation is noise / sqrt(5) away from a = 0.5 for each of its deviations in a.
    reach = (4.5 + emulator.error * np.sqrt(2)) * 0.05 / np.sqrt(5)
    likely = parameters[np.abs(parameters[:, 0] - 0.5) <= reach, 0]
    assert narrowed
    assert len(likely) >= 100
    margin = 0.05 * np.ptp(likely)
    assert found["a"][0] == pytest.approx(likely.min() - margin, abs=0.2 * margin)
    assert found["a"][1] == pytest.approx(likely.max() + margin, abs=0.2 * margin)
    tight = {"a": (np.array(0.48), np.array(1.0))}
    assert likely_bounds(emulator, t, forward, 3, tight, noise)[1]["a"][0] == 0.48


def test_each_round_draws_rows_of_its_own():
    """Nothing narrows, so that every round draws from the whole prior."""

    def noise_only(rng, a, size=None):
        return rng.normal(size=size)

    with pm.Model() as model:
        a = pm.Uniform("a", 0, 1)
        pm.Simulator("y", noise_only, a, observed=[0.0])
    t = pk.zoom(720, model=model, rounds=3, random_seed=2, **QUIET)
    assert t.provenance["zoomed"].count(";") >= 2
    assert len(np.unique(t.parameters)) == len(t)
    assert len(np.unique(t.statistics)) == len(t)
    other = pk.zoom(720, model=model, rounds=3, random_seed=3, **QUIET)
    assert not set(t.parameters[:, 0]) & set(other.parameters[:, 0])
