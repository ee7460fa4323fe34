"""One budget of simulations in rounds, or in rounds where one table is too coarse."""

import numpy as np
import pymc as pm
import pytest

import pymc_kbr as pk
from pymc_kbr.rounds import when_coarse
from pymc_kbr.rounds.when_coarse import simulate_in_rounds
from pymc_kbr.simulation import SimulationOptions

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
    monkeypatch.setattr(when_coarse, "_going_by", lambda statistics: LINEAR)


def made(answer, rounds="auto", draws=400):
    asked = []

    def is_coarse(table):
        asked.append(len(table))
        return answer

    options = SimulationOptions(draws, to_be_extended=False, **QUIET)
    return simulate_in_rounds(model(), rounds, is_coarse, options), asked


def test_a_table_that_is_fine_enough_becomes_one_of_the_prior(by_regression):
    table, asked = made(answer=False)
    assert asked == [200]
    assert len(table) == 400
    assert table.prior_ratio is None
    assert not table.origin.proposed
    assert len(np.unique(table.parameters)) == 400
    # 400 draws of the standard normal prior.
    assert abs(table.parameters.mean()) < 4 / np.sqrt(400)
    assert table.parameters.std() == pytest.approx(1, abs=4 / np.sqrt(800))
    assert "2 round(s) of 200, 200 simulations, 0 of them" in table.provenance["rounds"]


def test_the_rest_of_a_table_that_is_too_coarse_is_simulated_near_the_posterior(by_regression):
    table, asked = made(answer=True)
    assert asked == [200]
    assert table.simulations == 400
    assert table.prior_ratio is not None
    assert "too coarse" in table.provenance["rounds"]
    # The prior has 1.3% of its mass within two hundredths of the posterior's mean, five rows of 400.
    assert np.sum(np.abs(table.parameters - 0.5) < 0.02) > 30


def test_a_number_of_rounds_is_made_without_asking(by_regression):
    table, asked = made(answer=False, rounds=2)
    assert asked == []
    assert "2 round(s) of 200, 200 simulations, 1 of them" in table.provenance["rounds"]
    assert made(answer=False, rounds=1)[0].prior_ratio is None


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
        (1000, 3, [333, 333, 334]),
        (1000, 1, [1000]),
    ],
)
def test_sizes_of_rounds_add_up(draws, rounds, sizes):
    found = when_coarse._sizes(draws, rounds, 80)
    assert found == sizes
    assert sum(found) == draws


def test_too_few_simulations_are_refused_with_the_number_that_will_do():
    with pytest.raises(ValueError, match="at least 160 with this model"):
        when_coarse._sizes(159, "auto", 80)
    with pytest.raises(ValueError, match="each of 5 rounds has 60; give each at least 80"):
        when_coarse._sizes(300, 5, 80)


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


@pytest.mark.coarse
def test_sample_abc_closes_in_where_its_table_is_too_coarse(by_regression):
    """A hundred times as narrow as the prior: rejection from 400 rows of it cannot see that."""
    given = {"model": model(), "simulations": 400, "estimator": pk.Rejection(40), **QUIET}
    near = pk.sample_abc(500, rounds="auto", **given)["posterior"]
    assert "too coarse" in near.attrs["rounds"]
    far = pk.sample_abc(500, **given)["posterior"]
    assert "rounds" not in far.attrs
    assert float(near["mean"].std()) < 0.5 * float(far["mean"].std())
