"""One budget of simulations in rounds, or in rounds where one table is too coarse."""

import dataclasses
import warnings

import numpy as np
import pymc as pm
import pytest

import pymc_kbr as pk
from pymc_kbr.rounds import adaptive, sequence
from pymc_kbr.rounds.adaptive import TooCoarse, simulate_in_rounds
from pymc_kbr.sample import _simulated
from pymc_kbr.simulation import ForwardModel, SimulationOptions, simulate_table
from pymc_kbr.tables.columns import Columns

QUIET = {"progressbar": False, "random_seed": 3}
LINEAR = pk.Adjusted(pk.Rejection(40), "local_linear")


def model(scale=0.01):
    with pm.Model() as made:
        mean = pm.Normal("mean", 0, 1)
        pm.Simulator(
            "y", lambda rng, m, size: rng.normal(m, scale, size), mean, sum_stat="mean", observed=[0.5]
        )
    return made


@pytest.fixture
def by_regression(monkeypatch):
    """Rounds that go by an estimator which takes no time."""
    monkeypatch.setattr(adaptive, "_going_by", lambda statistics: LINEAR)


def made(answer, rounds="auto", draws=400):
    asked = []

    def if_coarse(table):
        asked.append(len(table))
        return TooCoarse(LINEAR, "too coarse") if answer else None

    options = SimulationOptions(draws, to_be_extended=False, **QUIET)
    return simulate_in_rounds(model(), rounds, if_coarse, options), asked


def test_a_table_that_is_fine_enough_becomes_one_of_the_prior(by_regression):
    table, asked = made(answer=False)
    assert asked == [200]
    assert table.prior_ratio is None
    assert not table.origin.from_proposal
    plain = pk.simulate(400, model=model(), **QUIET)
    np.testing.assert_array_equal(table.parameters, plain.parameters)
    np.testing.assert_array_equal(table.statistics, plain.statistics)
    assert table.seed == plain.seed
    assert (
        "all 400 are draws of the prior, and the table of the first 200 was not found too"
        in table.origin.rounds
    )


def test_the_rest_of_a_table_that_is_too_coarse_is_simulated_near_the_posterior(by_regression):
    table, asked = made(answer=True)
    assert asked == [200]
    assert table.simulations == 400
    assert table.prior_ratio is not None
    assert "too coarse" in table.origin.rounds
    assert table.provenance["rounds"] == table.origin.rounds  # where people read it
    # The prior has 1.3% of its mass within two hundredths of the posterior's mean, five rows of 400.
    assert np.sum(np.abs(table.parameters - 0.5) < 0.02) > 30


def test_a_number_of_rounds_is_made_without_asking(by_regression):
    table, asked = made(answer=False, rounds=2)
    assert asked == []
    assert "2 round(s) of 200, 200 simulations, 1 of them" in table.origin.rounds
    assert made(answer=False, rounds=1)[0].prior_ratio is None
    assert made(answer=False, rounds=np.int64(2))[1] == []


def test_the_same_seed_makes_the_same_table(by_regression):
    one, two = made(answer=True)[0], made(answer=True)[0]
    np.testing.assert_array_equal(one.parameters, two.parameters)
    np.testing.assert_array_equal(one.prior_ratio, two.prior_ratio)


@pytest.mark.parametrize(
    ("draws", "rounds", "sizes"),
    [
        (1000, "auto", [500, 166, 166, 168]),
        (400, "auto", [200, 100, 100]),
        (250, "auto", [125, 125]),
        (170, "auto", [85, 85]),
        (165, "auto", [82, 83]),
        (4000, "auto", [2000, 666, 666, 668]),
        (5000, "auto", [2048, 984, 984, 984]),  # two whole batches
        (1000, 3, [333, 333, 334]),
        (1000, 1, [1000]),
    ],
)
def test_sizes_of_rounds_add_up(draws, rounds, sizes):
    found = adaptive._sizes(draws, rounds, 80)
    assert found == sizes
    assert sum(found) == draws


def test_too_few_simulations_are_refused_with_the_number_that_will_do():
    with pytest.raises(ValueError, match="at least 160 with this model"):
        adaptive._sizes(159, "auto", 80)
    with pytest.raises(ValueError, match="each of 5 rounds has 60; give each at least 80"):
        adaptive._sizes(300, 5, 80)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"rounds": "two"}, "it may be 'auto', a number of rounds, or None"),
        ({"rounds": 0}, "rounds is 0"),
        ({"rounds": 2.5}, "rounds is 2.5"),
        ({"rounds": "auto", "store": "table.zarr"}, "a store is given"),
        ({"rounds": 2, "prior": np.zeros((5, 1))}, "another prior is given"),
    ],
)
def test_what_does_not_go_with_rounds_is_refused(given, words):
    with pytest.raises((TypeError, ValueError), match=words):
        pk.sample_abc(10, model=model(), **given)


def test_rounds_of_a_table_that_is_given_are_refused():
    table = pk.simulate(50, model=model(), **QUIET)
    with pytest.raises(ValueError, match="of which nothing is simulated"):
        pk.sample_abc(10, reference_table=table, rounds="auto")


def test_discrete_parameters_are_refused_before_any_simulation():
    with pm.Model() as discrete:
        count = pm.Poisson("count", 3)
        pm.Simulator("y", lambda rng, m, size: rng.normal(m, 1, size), count, observed=[0.5])
    with pytest.raises(ValueError, match="count"):
        pk.sample_abc(10, model=discrete, rounds="auto")


@pytest.mark.parametrize("batched", [True, False])
def test_a_table_is_continued_where_its_first_rows_end(batched):
    """Of rows some of which fail, in batches of 1,024 of which one is cut through, and one by one."""

    def sometimes(rng, m, size):
        y = rng.normal(m, 1, size)
        return np.where(y > 1, np.nan, y)

    with pm.Model() as failing:
        pm.Simulator("y", sometimes, pm.Normal("mean", 0, 1), observed=[0.5])
    draws, first = (1500, 700) if batched else (60, 23)
    forward = ForwardModel.read(failing)
    options = SimulationOptions(draws, batched=batched, on_failure="drop", **QUIET)
    head = simulate_table(dataclasses.replace(options, draws=first), forward)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that many fail
        plain = simulate_table(options, forward)
        table = simulate_table(options, forward, head=head)
    assert 0 < len(head.failures) < len(table.failures)
    for name in ("parameters", "statistics"):
        np.testing.assert_array_equal(getattr(table, name), getattr(plain, name))
    np.testing.assert_array_equal(table.failures.rows, plain.failures.rows)
    np.testing.assert_array_equal(table.failures.parameters, plain.failures.parameters)
    assert table.failures.messages == plain.failures.messages
    assert table.seed == plain.seed


def test_rounds_that_cannot_go_on_end_and_say_why(monkeypatch, by_regression):
    def refused(*_):
        raise ValueError("posteriors are points")

    monkeypatch.setattr(sequence, "widening", refused)
    table, _ = made(answer=True)
    assert "was too coarse, but posteriors are points" in table.origin.rounds
    np.testing.assert_array_equal(table.parameters, pk.simulate(400, model=model(), **QUIET).parameters)
    with pytest.raises(ValueError, match="points"):
        made(answer=True, rounds=2)


def test_sample_abc_of_a_table_that_is_fine_enough_is_that_of_one_round(by_regression):
    given = {"model": model(1.0), "simulations": 400, "estimator": LINEAR, **QUIET}
    looked, one = (pk.sample_abc(100, rounds=rounds, **given)["posterior"] for rounds in ("auto", 1))
    assert "first 200 was not found too coarse" in looked.attrs["rounds"]
    assert one.attrs["rounds"] == "1 round: all simulations are draws of the prior"
    np.testing.assert_array_equal(looked["mean"], one["mean"])


def test_estimates_of_the_whole_prior_are_learnt_again_near_the_posterior(by_regression):
    given = {"model": model(1.0), "simulations": 400, **QUIET}
    found = pk.sample_abc(
        100, rounds="auto", estimator=pk.Rejection(40, scale="linear_posterior_mean"), **given
    )
    assert "regression estimates were the best statistics" in found["posterior"].attrs["rounds"]
    kept = pk.sample_abc(100, rounds="auto", estimator=pk.Rejection(40), **given)
    assert "not found too coarse" in kept["posterior"].attrs["rounds"]


@pytest.mark.coarse
def test_sample_abc_closes_in_where_its_table_is_too_coarse(by_regression):
    """A hundred times as narrow as the prior: rejection from 400 rows of it cannot see that."""
    given = {"model": model(), "simulations": 400, "estimator": pk.Rejection(40), **QUIET}
    near = pk.sample_abc(500, rounds="auto", **given)["posterior"]
    assert "too coarse" in near.attrs["rounds"]
    far = pk.sample_abc(500, **given)["posterior"]
    assert "rounds" not in far.attrs
    assert float(near["mean"].std()) < 0.5 * float(far["mean"].std())


def test_left_out_it_is_looked_where_nothing_else_goes_with_draws_of_the_prior(set_default):
    """And where there is nothing to propose with, one round is made, which says why."""
    set_default(_simulated, fewest=400)
    few = {"candidates": [LINEAR, pk.Rejection(20)], **QUIET}

    def told(simulated, **given):
        count = np.int64(400)  # as a computed number of simulations is
        return pk.sample_abc(50, simulations=count, model=simulated, **{**few, **given})["posterior"].attrs

    assert "the table of the first 200 was" in told(model())["rounds"]
    assert "rounds" not in told(model(), prior=np.linspace(-1, 1, 400)[:, None])
    assert "rounds" not in told(model(), estimator=LINEAR, candidates=None)
    with pm.Model() as discrete:
        k = pm.Poisson("k", 3)
        pm.Simulator("y", lambda rng, k, size: rng.normal(k, 1.0, size), k, observed=[2.0])
    why = told(discrete)["rounds"]
    assert why.startswith("1 round: all simulations are draws of the prior, since")
    assert "'k'" in why


def test_a_first_half_that_is_too_small_for_a_candidate_ends_nothing(monkeypatch, set_default):
    """Nobody has asked for a look; asked for, it is refused."""
    set_default(_simulated, fewest=400)
    given = {"simulations": 400, "model": model(), "candidates": [pk.Rejection(200)], **QUIET}
    told = pk.sample_abc(50, **given)["posterior"].attrs["rounds"]
    assert told.startswith("none: all 400 are draws of the prior, since accepted is 200")
    monkeypatch.setattr(adaptive.Rounds, "run", lambda self: pytest.fail("simulated"))
    for refused in ({}, {"candidates": None, "estimator": pk.Rejection(250)}):
        words = "fits an estimator to the first 200 of 400 simulations: accepted is 2.*leave `rounds` out"
        with pytest.raises(ValueError, match=words):
            pk.sample_abc(50, rounds="auto", **{**given, **refused})


def test_of_few_simulations_it_is_not_looked_unasked():
    few = {"candidates": [LINEAR, pk.Rejection(20)], **QUIET}
    assert "rounds" not in pk.sample_abc(50, simulations=400, model=model(), **few)["posterior"].attrs


@pytest.mark.parametrize("scale", [False, True, "linear_posterior_mean"])
def test_further_rounds_go_by_the_form_that_was_chosen_in_its_own_scale(scale):
    rng = np.random.default_rng(1)
    theta = rng.normal(size=(100, 2))
    x = theta + 0.5 * rng.normal(size=(100, 2))
    found = pk.KernelLikelihood("diagonal_scale", scale=scale).fit(theta, x, random_seed=1)
    further = adaptive._further(found, Columns.scalars(["s", "t"]))
    assert (further.form, further.scale) == ("diagonal_scale", scale)


@pytest.mark.parametrize("declared", [True])
def test_further_rounds_go_by_a_shift_that_is_declared_or_was_found(declared):
    """Its names are those of the model's columns, in every round."""

    def shifted(rng, mean, size):
        return mean + 0.01 * rng.exponential(size=size)

    with pm.Model() as waiting:
        mean = pm.Normal("mean", 0, 1)
        pm.Simulator("y", shifted, mean, observed=[0.5])

    def if_coarse(table):
        form = {"form": "location_scale", "shift": {"y[0]": "mean"}} if declared else {}
        fitted = pk.KernelLikelihood(**form).fit(table, random_seed=1)
        assert declared or fitted.found_structure_ == {"shift": {"y[0]": "mean"}}
        return TooCoarse(fitted, "too coarse")

    options = SimulationOptions(400 if declared else 1_000, to_be_extended=False, **QUIET)
    table = simulate_in_rounds(waiting, "auto", if_coarse, options)
    assert "of them at draws of the posterior: the table of the first one was too coarse" in (
        table.origin.rounds
    )
    assert "ended early" not in table.origin.rounds
    assert np.mean(np.abs(table.parameters - 0.5) < 0.05) > 0.2  # 2% of the prior
