"""Trials with missing or censored statistics: what is hidden is integrated out."""

import numpy as np
import pytest
from scipy import stats

import pymc_kbr as pk

N = 700
RNG = np.random.default_rng(4)
RATE, START = RNG.uniform(1, 4, N), RNG.uniform(0, 0.6, N)
PARAMETERS = {"rate": RATE, "t0": START}
RT = START + RNG.gamma(3, 1 / RATE)
TIMES = {"rt": RT}
CHOICES = {"rt": RT, "choice": (RNG.random(N) < 1 / (1 + np.exp(1 - RT))).astype(float)}
TWO = {"rt": RT, "second": RT + RNG.gamma(2, 0.3, N) + 0.3 * RATE}
COUNTS = {"hits": RNG.poisson(2 * RATE).astype(float), "rt": RT}
KNOWN = {"shift": {"rt": "t0"}, "lower": {"rt": "t0"}}
THETA = np.array([[1.5, 0.2], [3.0, 0.4], [2.2, 0.05]])


def learn(form, table, known=None):
    learnt = pk.KernelLikelihood(form, **(known or {})).for_scores()
    return learnt.fit(PARAMETERS, table, random_seed=1)


@pytest.fixture(scope="module")
def learnt():
    return {
        "one, location and scale": learn("location_scale", TIMES),
        "one, shifted": learn("location_scale", TIMES, KNOWN),
        "one, conditional": learn("autoregressive", TIMES, KNOWN),
        "choice given time": learn("autoregressive", CHOICES),
        "time given choice": learn("autoregressive", CHOICES, KNOWN),
        "two, location and scale": learn("location_scale", TWO),
        "two, conditional": learn("autoregressive", TWO),
        "two, the first shifted": learn("autoregressive", TWO, KNOWN),
        "two, location and scale, the first shifted": learn("location_scale", TWO, KNOWN),
        "count": learn("autoregressive", COUNTS),
        "count, declared": learn("autoregressive", COUNTS, KNOWN | {"lower": {"rt": "t0", "hits": 0.0}}),
    }


FORMS = [
    "one, location and scale", "one, shifted", "one, conditional", "choice given time", "time given choice",
    "two, location and scale", "two, conditional", "two, the first shifted",
    "two, location and scale, the first shifted", "count", "count, declared",
]  # fmt: skip

IN_PIECES = ("choice given time", "two, conditional", "two, the first shifted")


def summed(learnt, rows, column, values, width):
    """Log-likelihoods (k,) with a statistic of one row integrated over evenly spaced values."""
    each = np.repeat(rows, len(values), axis=0)
    each[:, column] = values
    return np.log(np.exp(learnt.log_likelihoods(THETA, each)).sum(axis=1) * width)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("limit", [0.9])
def test_a_censored_time_has_the_mass_beyond_its_limit(learnt, name, limit):
    model = learnt[name]
    column = 1 if name.startswith("count") else 0
    row = model.table_.raw[[np.argmax(RT)]]
    row[0, column] = limit
    found = model.log_likelihood(THETA, row, censored={"rt": (None, limit)})
    width = 2e-3
    exact = summed(model, row, column, np.arange(limit + width / 2, 30, width), width)
    # What was learnt given a time that is not known is taken at 32 of its values.
    np.testing.assert_allclose(found, exact, atol=0.05 if name in IN_PIECES else 5e-3)


@pytest.mark.parametrize("name", [name for name in FORMS if not name.startswith("one")])
def test_a_missing_statistic_is_integrated_out(learnt, name):
    model = learnt[name]
    time = 1 if name.startswith("count") else 0
    row = model.table_.raw[:1].copy()
    row[0, time] = np.nan
    width = 2e-3
    exact = summed(model, row, time, np.arange(width / 2, 30, width), width)
    np.testing.assert_allclose(model.log_likelihood(THETA, row), exact, atol=0.02)

    row = model.table_.raw[:1].copy()
    row[0, 1 - time] = np.nan
    values = np.arange(width / 2, 30, width)
    if name.startswith("count"):
        values, width = np.arange(0.0, 60.0), 1.0
    elif "choice" in name:
        values, width = np.array([0.0, 1.0]), 1.0
    exact = summed(model, row, 1 - time, values, width)
    np.testing.assert_allclose(model.log_likelihood(THETA, row), exact, atol=0.02)


@pytest.mark.parametrize("name", ["count", "count, declared"])
@pytest.mark.parametrize("pair", [(None, 5.0), (4.0, None), (None, 5.5)])
def test_a_censored_count_has_the_probability_of_its_limit_and_beyond(learnt, name, pair):
    model = learnt[name]
    limit = pair[0] or pair[1]
    row = model.table_.raw[:1].copy()
    row[0, 0] = limit
    found = model.log_likelihood(THETA, row, censored={"hits": pair})
    counts = np.arange(0.0, 60.0)
    beyond = counts[counts <= limit] if pair[0] else counts[counts >= limit]
    np.testing.assert_allclose(found, summed(model, row, 0, beyond, 1.0), atol=0.01)


@pytest.mark.parametrize("name", ["choice given time", "time given choice"])
def test_beyond_a_deadline_the_choice_may_be_missing_and_the_masses_sum_to_one(learnt, name):
    model, limits = learnt[name], {"rt": (None, 1.2)}
    late = [[1.2, np.nan]], [[1.2, 0.0]], [[1.2, 1.0]]
    without, *each = (model.log_likelihood(THETA, np.array(row), censored=limits) for row in late)
    np.testing.assert_allclose(without, np.logaddexp(*each), atol=5e-3)
    early = model.log_likelihood(THETA, np.array([[1.2, np.nan]]), censored={"rt": (1.2, None)})
    np.testing.assert_allclose(np.logaddexp(without, early), 0, atol=1e-6)


def test_an_interval_between_two_limits_and_limits_by_trials(learnt):
    model = learnt["one, shifted"]
    data = np.array([[0.5], [1.0], [2.0], [2.0]])
    limits = {"rt": (np.array([0.5, 0.1, 0.1, 0.1]), np.array([3.0, 3.0, 2.0, 3.0]))}
    found = model.log_likelihood(THETA, data, censored=limits)
    alone = [
        model.log_likelihood(THETA, data[:1], censored={"rt": (0.5, None)}),
        model.log_likelihood(THETA, data[2:3], censored={"rt": (None, 2.0)}),
        model.log_likelihoods(THETA, data[[1, 3]]).sum(axis=1),
    ]
    np.testing.assert_allclose(found, np.sum(alone, axis=0), rtol=1e-6)


def test_the_posterior_of_trials_with_a_deadline_is_near_the_exact_one():
    """And without the trials beyond the deadline, or with the deadline for their times, it is far off."""
    rng = np.random.default_rng(0)
    rate, t0 = rng.uniform(1, 5, 3000), rng.uniform(0, 1, 3000)
    learnt = pk.KernelLikelihood("location_scale", **KNOWN).fit(
        {"rate": rate, "t0": t0}, {"rt": t0 + rng.gamma(3, 1 / rate)}, random_seed=1
    )
    data = np.minimum(0.4 + rng.gamma(3, 1 / 2.5, (200, 1)), 1.2)
    late = data[:, 0] == 1.2
    at, start = np.meshgrid(np.linspace(1, 5, 200), np.linspace(0, 1, 201)[:-1], indexing="ij")
    logs = late.sum() * stats.gamma(3, scale=1 / at).logsf(1.2 - start)
    logs = logs + sum(stats.gamma(3, scale=1 / at).logpdf(x - start) for x in data[~late, 0])
    weights = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
    mean = np.array([(weights * at).sum(), (weights * start).sum()])
    spread = np.sqrt([(weights * (at - mean[0]) ** 2).sum(), (weights * (start - mean[1]) ** 2).sum()])
    found = learnt.condition(data, trials=True, censored={"rt": (None, 1.2)})
    assert np.abs((found.mean() - mean) / spread).max() < 0.5
    np.testing.assert_allclose(found.draw(4000, 1).std(axis=0) / spread, 1, atol=0.3)
    assert abs(learnt.condition(data[~late], trials=True).mean()[0] - mean[0]) > 2 * spread[0]


def test_rows_that_are_missing_altogether_say_nothing(learnt):
    model = learnt["choice given time"]
    data = model.table_.raw[:6].copy()
    padded = np.insert(data, [2, 2, 6], np.nan, axis=0)
    assert model.log_likelihood(THETA, padded) == pytest.approx(model.log_likelihood(THETA, data))
    found, same = (model.condition(each, trials=True) for each in (padded, data))
    np.testing.assert_allclose(found.mean(), same.mean(), atol=0.3 * same.draw(1000, 1).std(axis=0).max())


def test_missing_trials_with_conditions():
    """A stimulus that is a condition: half of the trials lack the choice."""
    rng = np.random.default_rng(6)
    inputs = {"slope": rng.normal(size=900), "stimulus": rng.choice([-1.0, 1.0], 900)}
    x = inputs["slope"] * inputs["stimulus"] + rng.normal(size=900)
    y = (x + rng.normal(size=900) > 0).astype(float)
    learnt = pk.KernelLikelihood("autoregressive", conditions=["stimulus"]).for_draws(500)
    learnt.fit(inputs, {"x": x, "y": y}, random_seed=1)
    stimuli = rng.choice([-1.0, 1.0], 30)
    data = np.column_stack([0.7 * stimuli + rng.normal(size=30), np.full(30, np.nan)])
    posterior = learnt.condition(data, trials=True, conditions=stimuli)
    exact = (stimuli * data[:, 0]).sum() / 31
    assert abs(posterior.mean()[0] - exact) < 0.5 / np.sqrt(31)


@pytest.mark.parametrize(
    ("name", "data", "censored", "error", "words"),
    [
        ("one, shifted", [[1.0]], {"speed": (None, 1.0)}, ValueError, "speed.*lacks"),
        ("one, shifted", [[1.0]], {"rt": 1.0}, TypeError, "pair"),
        ("one, shifted", [[1.0]], {"rt": (None, None)}, TypeError, "pair"),
        ("one, shifted", [[1.0]], [("rt", 1.0)], TypeError, "dict"),
        ("one, shifted", [[1.0]], {"rt": (2.0, 1.0)}, ValueError, "not below"),
        ("one, shifted", [[1.0]], {"rt": (None, "late")}, TypeError, "number"),
        ("one, shifted", [[1.0], [2.0]], {"rt": (None, [1.0, 2.0, 3.0])}, ValueError, "3 limits"),
        ("one, shifted", [[1.5]], {"rt": (None, 1.0)}, ValueError, "beyond its limit"),
        ("one, shifted", [[1.0], [np.nan]], {"rt": (None, 1.0)}, ValueError, "given as the limit"),
        ("one, shifted", [[np.inf]], None, ValueError, "censored"),
        ("one, shifted", [[np.nan], [np.nan]], None, ValueError, "NaN throughout"),
        ("one, shifted", [[-1.0]], {"rt": (-1.0, None)}, ValueError, "edge|makes no"),
        ("choice given time", [[np.nan, 0.5]], None, ValueError, "discrete"),
        ("two, location and scale", [[1, 1.0]], {"rt": (None, 1), "second": (None, 1)}, ValueError, "auto"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(learnt, name, data, censored, error, words):
    with pytest.raises(error, match=words):
        learnt[name].condition(np.array(data), trials=True, censored=censored)


def test_limits_are_of_trials(learnt):
    with pytest.raises(ValueError, match="trials=True"):
        learnt["one, shifted"].condition(np.array([1.0]), censored={"rt": (None, 1.0)})
