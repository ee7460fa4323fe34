"""Tables whose statistics are predicted, for simulators without noise."""

import dataclasses
import re

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy.stats import chi2

import pymc_kbr as pk
from pymc_kbr.rounds import emulator
from pymc_kbr.simulation import ForwardModel

TIMES = np.linspace(0.2, 3, 15)
NOISE = 0.02
OBSERVED = 2.0 * np.exp(-0.7 * TIMES) + NOISE * np.random.default_rng(5).normal(size=len(TIMES))
QUIET = {"progressbar": False}


def decay(rng, start, rate, size=None):
    return start * np.exp(-rate * TIMES)


def decay_with_noise(rng, start, rate, size=None):
    return decay(rng, start, rate) + 0.3 * rng.normal(size=len(TIMES))


def decay_model(simulator=decay):
    with pm.Model() as model:
        start = pm.HalfNormal("start", 5)
        rate = pm.HalfNormal("rate", 2)
        pk.vector_simulator("y", simulator, start, rate, observed=OBSERVED)
    return model


def exact():
    """Mean and deviation of start and rate, on a grid."""
    start, rate = np.linspace(1.8, 2.2, 401)[:, None], np.linspace(0.6, 0.8, 401)[None]
    away = (start[..., None] * np.exp(-rate[..., None] * TIMES) - OBSERVED) / NOISE
    log = -0.5 * np.sum(away**2, axis=2) - start**2 / 50 - rate**2 / 8
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    means = np.array([np.sum(weights * start), np.sum(weights * rate)])
    squares = [np.sum(weights * (start - means[0]) ** 2), np.sum(weights * (rate - means[1]) ** 2)]
    return means, np.sqrt(squares)


@pytest.fixture(scope="module")
def few():
    return pk.zoom(1000, model=decay_model(), rounds=3, noise=NOISE, random_seed=1, **QUIET)


@pytest.fixture(scope="module")
def many(few):
    return pk.emulate(few, 8000, model=decay_model(), noise=NOISE, random_seed=2)


def test_the_posterior_is_the_exact_one(many):
    estimator = pk.NadarayaWatson(NOISE, scale=False).fit(many.parameters, many.statistics, many.support)
    posterior = estimator.condition(many.observed)
    mean, deviation = exact()
    # The weights' effective sample size says how well a mean and a deviation are known.
    size = 1 / np.sum(posterior.weights**2)
    assert size > 300
    assert np.all(np.abs(posterior.mean() - mean) < 4 * deviation / np.sqrt(size))
    found = np.sqrt(np.diag(posterior.cov()))
    assert np.all(np.abs(np.log(found / deviation)) < 4 / np.sqrt(2 * size))


def test_predicted_statistics_are_those_that_would_have_been_simulated(few, many):
    simulated = np.array([decay(None, *row) for row in many.parameters[:500]])
    assert np.sqrt(np.mean((many.statistics[:500] - simulated) ** 2)) < 0.1 * NOISE
    assert many.simulations == 1000
    words = rf"from {len(few)} rows; leave-one-out error \S+ of the noise"
    assert re.fullmatch(words, many.provenance["emulated"])
    assert "emulate" in many.timings


def test_rows_are_draws_of_the_prior_in_their_support(many):
    assert many.support.contains(many.parameters).all()
    within = many.support.blocks[0].steps[0]
    forward = ForwardModel.read(decay_model())
    bounds = {name: (within.lower[i], within.upper[i]) for i, name in enumerate(many.parameter_columns.names)}
    others, _ = forward.draw(8000, 9, bounds)
    apart = many.parameters.mean(axis=0) - others.mean(axis=0)
    assert np.all(np.abs(apart) < 4 * others.std(axis=0) * np.sqrt(2 / 8000))


def test_the_same_seed_gives_the_same_table(few, many):
    again = pk.emulate(few, 8000, model=decay_model(), noise=NOISE, random_seed=2)
    assert np.array_equal(again.parameters, many.parameters)
    np.testing.assert_allclose(again.statistics, many.statistics, rtol=1e-9)
    other = pk.emulate(few, 100, model=decay_model(), noise=NOISE, random_seed=3)
    assert not np.isin(other.parameters, many.parameters).any()


def test_the_observation_is_compared_with_rows_that_have_its_noise(few, many):
    for table in (few, many):
        assert np.array_equal(table.noise, np.full(len(TIMES), NOISE))
        assert not pk.observation_support(table).far
        assert pk.observation_support(table, table.observed + 10 * NOISE * (-1) ** np.arange(len(TIMES))).far
        origin = dataclasses.replace(table.origin, noise=())
        assert pk.observation_support(dataclasses.replace(table, origin=origin)).far
    each = np.linspace(0.01, 0.02, len(TIMES))
    assert np.array_equal(pk.emulate(few, 20, model=decay_model(), noise=each, random_seed=1).noise, each)


def test_even_draws_are_nearer_to_the_prior_than_chance():
    forward = ForwardModel.read(decay_model())
    bounds = {"start": (0.0, 10.0), "rate": (0.0, 4.0)}
    # Mean and deviation of a half-normal distribution below two of its deviations.
    mean, deviation = np.array([5, 2]) * 0.72279, np.array([5, 2]) * 0.50131
    draws = [forward.draw(2048, seed, bounds, even=True)[0] for seed in range(8)]
    errors = [(even.mean(axis=0) - mean) / (deviation / np.sqrt(2048)) for even in draws]
    # In standard errors of as many independent draws, of which 16 have a smaller sum once in 100,000 times.
    assert np.mean(np.square(errors)) < chi2.ppf(1e-5, 16) / 16
    assert not np.array_equal(draws[4], forward.draw(2048, 4, bounds)[0])
    assert np.array_equal(draws[4][:100], forward.draw(100, 4, bounds, even=True)[0])


def test_without_noise_rows_are_drawn_from_the_tables_own_prior(monkeypatch):
    shown = []
    monkeypatch.setattr(emulator, "tracked", lambda items, words, asked: shown.append(asked) or items)
    table = pk.simulate(60, model=decay_model(), random_seed=1, **QUIET)
    with pytest.warns(UserWarning, match="of their deviations in the table"):  # 60 rows for all of it
        many = pk.emulate(table, 600, model=decay_model(), random_seed=3)
    assert many.support == table.support
    assert len(many) == 600
    assert re.fullmatch(
        r"from 60 rows; leave-one-out error \S+ of the deviation", many.provenance["emulated"]
    )
    assert shown == [True]


def test_a_noisy_simulator_is_warned_about():
    model = decay_model(decay_with_noise)
    table = pk.simulate(400, model=model, random_seed=1, **QUIET)
    with pytest.warns(UserWarning, match="where the simulator is noisy put an estimator on the table itself"):
        pk.emulate(table, 100, model=model, random_seed=3)


def test_too_few_rows_for_the_noise_are_warned_about():
    table = pk.simulate(60, model=decay_model(), random_seed=1, **QUIET)
    with pytest.warns(UserWarning, match="zoom in further, or simulate more rows"):
        pk.emulate(table, 100, model=decay_model(), noise=1e-6, random_seed=3)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"draws": 1}, ValueError, "at least two rows"),
        ({"draws": 2.5}, TypeError, "must be a whole number"),
        ({"noise": 0.0}, ValueError, "positive and finite"),
        ({"noise": [1.0, 2.0]}, ValueError, r"noise has shape \(2,\)"),
        ({"noise": "large"}, TypeError, "must be a number"),
    ],
)
def test_what_cannot_be_is_refused(few, arguments, error, words):
    with pytest.raises(error, match=words):
        pk.emulate(few, **({"draws": 100, "model": decay_model()} | arguments))


def test_another_model_and_a_table_without_an_observation_are_refused(few):
    with pm.Model() as other:
        a = pm.Normal("a")
        pk.vector_simulator("y", lambda rng, a, size: a * TIMES, a, observed=OBSERVED)
    with pytest.raises(ValueError, match=r"the model's parameters are \['a'\]"):
        pk.emulate(few, 100, model=other)
    with pm.Model() as other:
        start, rate = pm.Uniform("start", 0, 50), pm.Normal("rate")
        pk.vector_simulator("y", decay, start, rate, observed=OBSERVED)
    wide = pk.simulate(20, model=other, random_seed=1, **QUIET)
    with pytest.raises(ValueError, match="neither that of the model's prior nor bounds on each"):
        pk.emulate(wide, 100, model=decay_model())
    with pytest.raises(ValueError, match="has no observation"):
        pk.emulate(dataclasses.replace(few, observed=None), 100, model=decay_model(), noise=NOISE)


def test_bounds_with_noise_keep_the_posterior_and_a_store_goes_on(tmp_path):
    settings = {"model": decay_model(), "rounds": 3, "noise": NOISE, "random_seed": 4, **QUIET}
    table = pk.zoom(1000, store=tmp_path / "rounds", **settings)
    mean, deviation = exact()
    assert np.all(table.parameters.min(axis=0) < mean - 3 * deviation)
    assert np.all(table.parameters.max(axis=0) > mean + 3 * deviation)
    again = pk.zoom(1000, store=tmp_path / "rounds", **settings)
    assert np.array_equal(table.statistics, again.statistics)
    # Without the noise the bounds close in on what fits best, and leave most of the posterior out.
    del settings["noise"]
    bare = pk.zoom(1000, **settings)
    assert np.any(np.ptp(bare.parameters, axis=0) < np.ptp(table.parameters, axis=0) / 2)


@pytest.mark.parametrize("shown", [True, False])
def test_predicted_rows_are_counted_where_it_is_asked_for(shown, monkeypatch, rng):
    asked = []
    monkeypatch.setattr(
        emulator, "tracked", lambda items, words, shown: asked.append((len(items), shown)) or items
    )
    x = rng.normal(size=(30, 1))
    frame = pd.DataFrame({"a": x[:, 0], "s": np.sin(x[:, 0])})
    table = pk.ReferenceTable.from_dataframe(frame, parameters=["a"], statistics=["s"])
    fitted = emulator.Emulator.fit(table, np.ones(1), rng)
    monkeypatch.setattr(emulator, "PREDICTED_AT_ONCE", 7)
    found = fitted(x, shown)
    assert asked == [(4, shown)]
    np.testing.assert_allclose(found, fitted(x))
    np.testing.assert_allclose(found[:, 0], np.sin(x[:, 0]), atol=0.05)
