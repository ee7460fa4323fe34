"""Rounds of simulations that are data sets of any size: columns of them are made in each round."""

import numpy as np
import pymc as pm
import pytest

import pymc_kbr as pk
from pymc_kbr.estimators.sets import columns_of_sets, most_columns
from pymc_kbr.rounds import adaptive
from pymc_kbr.rounds.adaptive import TooCoarse, simulate_in_rounds
from pymc_kbr.rounds.sequence import near_rows
from pymc_kbr.simulation import ForwardModel, SimulationOptions
from pymc_kbr.tables.columns import Columns

QUIET = {"progressbar": False, "random_seed": 3}
PRIOR, ROWS = 10.0, 40
DATA = np.random.default_rng(2).normal(4.0, 1.0, ROWS)
DEVIATION = 1 / np.sqrt(ROWS + PRIOR**-2)
MEAN = DATA.sum() * DEVIATION**2


def normal(rng, mean, size):
    return rng.normal(mean, 1.0, size)


def model(**how):
    """Sixty times as wide a prior as the posterior, which is known."""
    with pm.Model() as made:
        mean = pm.Normal("mean", 0, PRIOR)
        pk.set_simulator("y", normal, mean, observed=DATA, **({"sizes": (30, 50)} | how))
    return made


@pytest.fixture(scope="module")
def drawn():
    """Draws of the prior, for what needs no rounds."""
    return pk.simulate(60, model=model(), **QUIET)


@pytest.fixture(scope="module")
def refined():
    return pk.refine(240, model=model(), rounds=3, **QUIET)


def errors_of(table):
    """Of the posterior's mean in exact deviations, and its deviation over the exact one."""
    columns = columns_of_sets(table)
    fitted = pk.Adjusted().fit(columns, random_seed=1)
    draws = fitted.condition(columns.observed).draw(2000, 1)
    return (draws.mean() - MEAN) / DEVIATION, draws.std() / DEVIATION


def test_later_rounds_are_where_the_posterior_is(refined, drawn):
    assert refined.set_names == ["y"]
    assert np.array_equal(refined.observed, drawn.observed)
    near = np.abs(refined.parameters[:, 0] - MEAN) < 6 * DEVIATION
    # Of 240 draws of the prior 17 lie there.
    assert near.sum() > 60
    assert refined.origin.from_proposal
    assert refined.prior_ratio.shape == (len(refined),)


def test_their_posterior_is_the_exact_one(refined):
    error, width = errors_of(refined)
    assert abs(error) < 0.5
    assert 0.7 < width < 1.6


def test_bounds_close_in_on_it():
    table = pk.zoom(480, model=model(sizes=ROWS), rounds=2, **QUIET)
    assert np.ptp(table.parameters) < 3.0
    error, width = errors_of(table)
    assert abs(error) < 0.5
    assert 0.7 < width < 1.6


def test_rounds_of_sample_abc_take_data_sets():
    options = SimulationOptions(160, to_be_extended=False, **QUIET)
    for rounds, looked_at, done in ((2, 0, "2 round(s) of 80, 80"), ("auto", 1, "3 round(s) of 80, 40, 40")):
        seen = []

        def too_coarse(table, seen=seen):
            seen.append(table.set_names)
            return TooCoarse(near_rows(True), "too coarse")

        table = simulate_in_rounds(model(), rounds, too_coarse, options)
        assert seen == [["y"]] * looked_at
        assert table.origin.rounds.startswith(done)
        assert table.set_names == ["y"]
        assert np.mean(np.abs(table.parameters - MEAN) < 3) > 0.5


def test_a_likelihood_of_the_columns_is_not_gone_by():
    """Their errors fall with the size of a set, which it does not know."""
    sets, columns = ForwardModel.read(model()).graph.statistics, Columns.scalars(["mean"])
    rng = np.random.default_rng(1)
    theta = rng.normal(size=(100, 2))
    x = theta + 0.5 * rng.normal(size=(100, 2))
    likelihood = pk.KernelLikelihood("diagonal_scale", scale="relevance").fit(theta, x, random_seed=1)
    for found in (adaptive._further(likelihood, sets), adaptive._going_by(sets)):
        assert isinstance(found, pk.Adjusted)
        assert found.estimator.scale is True
    found = adaptive._further(likelihood, columns)
    assert isinstance(found, pk.KernelLikelihood)
    assert (found.form, found.scale) == ("diagonal_scale", "relevance")


def test_columns_are_as_many_as_a_round_is_told_beforehand(drawn):
    alike = pk.simulate(60, model=model(sizes=ROWS), **QUIET)
    assert columns_of_sets(drawn).statistic_columns.size == most_columns(drawn.statistic_columns, 1) == 2
    assert columns_of_sets(alike).statistic_columns.size == 1


def test_rows_of_sets_are_not_predicted(drawn):
    with pytest.raises(ValueError, match="without `noise`, or `refine`"):
        pk.zoom(400, model=model(), noise=0.1, **QUIET)
    with pytest.raises(ValueError, match="their rows are not predicted"):
        pk.emulate(drawn, 100, model=model(), **QUIET)
