"""Ctrl-C ends with what there is: simulations so far, or the best estimator so far."""

from importlib import import_module

import numpy as np
import pymc as pm
import pytest

import pymc_kbr as pk
from pymc_kbr.selection import race as race_module

sample_module = import_module("pymc_kbr.sample")

QUIET = {"progressbar": False, "random_seed": 1}


class Interrupts:
    """A simulator, row by row, that is interrupted in one of its calls."""

    def __init__(self, at):
        self.left = at

    def __call__(self, rng, mean, size):
        if np.size(mean) > 1:  # no batches: rows are counted
            raise ValueError("one row at a time")
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return rng.normal(mean, 0.5, size)


def model(at=10**9):
    with pm.Model() as made:
        mean = pm.Normal("mean", 0, 1)
        pm.Simulator("y", Interrupts(at), mean, observed=[0.3])
    return made


def interrupted(call):
    with pytest.warns(UserWarning, match="interrupted after") as caught:
        made = call()
    ours = [one.filename for one in caught if "interrupted" in str(one.message)]
    assert ours == [__file__] * len(ours)  # at the user's line
    return made


def test_a_table_has_the_first_rows_as_if_no_more_had_been_asked_for():
    table = interrupted(lambda: pk.simulate(5_000, model=model(2_000), **QUIET))
    assert 1_000 < len(table) < 2_000
    plain = pk.simulate(len(table), model=model(), **QUIET)
    np.testing.assert_array_equal(table.parameters, plain.parameters)
    np.testing.assert_array_equal(table.statistics, plain.statistics)
    assert table.provenance["interrupted"] == f"interrupted after {len(table):,} of 5,000 simulations"


def test_a_store_gives_what_it_has_and_the_same_call_goes_on(tmp_path):
    where = tmp_path / "table.zarr"
    stored = interrupted(lambda: pk.simulate_to_store(5_000, where, model=model(2_000), **QUIET))
    assert 1_000 < len(stored) < 2_000
    whole = pk.simulate_to_store(5_000, where, model=model(), **QUIET).load()
    np.testing.assert_array_equal(stored.load().statistics, whole.statistics[: len(stored)])
    np.testing.assert_array_equal(whole.statistics, pk.simulate(5_000, model=model(), **QUIET).statistics)


def test_before_there_are_rows_an_interrupt_is_one():
    with pytest.raises(KeyboardInterrupt):
        pk.simulate(5_000, model=model(1), **QUIET)


@pytest.mark.parametrize("at", [1_200, 4_400])
def test_rounds_end_with_the_rows_that_there_are(at):
    rounds = {"rounds": 3, "estimator": pk.Adjusted(pk.Rejection(100), "local_linear")}
    table = interrupted(lambda: pk.refine(6_000, model=model(at), **rounds, **QUIET))
    assert "interrupted" in table.provenance
    assert (table.prior_ratio is None) == (at < 2_000)
    if table.prior_ratio is not None:  # weighted rows are still draws of the prior, near the posterior
        mean = table.parameters[:, 0]
        weights = table.prior_ratio * np.exp(-0.5 * ((0.3 - mean) / 0.5) ** 2)
        weights /= weights.sum()
        # The exact posterior is N(0.24, 0.2), of which a hundredth may lie beyond the rows that were kept.
        assert abs(weights @ mean - 0.24) < 0.02 + 4 * np.sqrt(np.sum((weights * (mean - 0.24)) ** 2))


def test_models_that_were_interrupted_are_not_compared(tmp_path):
    store = {"store": tmp_path / "models"}
    both = {"one": model(2_000), "two": model()}
    with pytest.raises(KeyboardInterrupt), pytest.warns(UserWarning, match="interrupted after"):
        pk.simulate_models(both, 2_500, **store, **QUIET)
    # The same call goes on, and says nothing of what was.
    both = pk.simulate_models({"one": model(), "two": model()}, 2_500, **store, **QUIET)
    assert [(len(one), "interrupted" in one.provenance) for one in both.values()] == [(2_500, False)] * 2


def test_simulators_of_which_one_was_interrupted_are_not_learned():
    with pm.Model() as two:
        mean = pm.Normal("mean", 0, 1)
        pm.Simulator("y", Interrupts(2_000), mean, observed=[0.3])
        pm.Simulator("z", Interrupts(10**9), mean, observed=[0.3, 0.1])
    with pytest.raises(KeyboardInterrupt), pytest.warns(UserWarning, match="interrupted after"):
        pk.learn_simulators(two, 5_000, **QUIET)


def test_a_posterior_of_a_store_says_that_it_was_interrupted(tmp_path):
    few = {"simulations": 5_000, "estimator": "rejection", "store": tmp_path / "table.zarr"}
    found = interrupted(lambda: pk.sample_abc(50, model=model(2_000), **few, **QUIET))
    assert "interrupted after" in found["posterior"].attrs["warnings"]
    found = pk.sample_abc(50, model=model(), **few, **QUIET)
    assert "interrupted" not in found["posterior"].attrs["warnings"]


def test_a_posterior_is_that_of_the_simulations_so_far():
    few = {"candidates": [pk.Rejection(100), pk.Adjusted(pk.Rejection(200), "local_linear")]}
    found = interrupted(lambda: pk.sample_abc(500, simulations=5_000, model=model(2_000), **few, **QUIET))
    attrs = found["posterior"].attrs
    assert "interrupted after" in attrs["warnings"]
    assert "interrupted after" in attrs["rounds"]
    # The exact posterior is N(0.24, 0.2), a variance: 1,000 draws have an error of 0.014.
    assert abs(float(found["posterior"]["mean"].mean()) - 0.24) < 0.1


def interrupting(monkeypatch, at):
    """Ctrl-C at a fit of a choice."""
    fit, left = race_module.Fitting.__call__, [at]

    def fitted(self, estimator):
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return fit(self, estimator)

    monkeypatch.setattr(race_module.Fitting, "__call__", fitted)
    monkeypatch.setattr("pymc_kbr.arrays.threads.cores", lambda: 1)  # one after the other


@pytest.fixture(scope="module")
def table():
    return pk.simulate(1_000, model=model(), **QUIET)


FEW = [pk.Rejection(100), pk.Adjusted(pk.Rejection(200), "local_linear"), pk.Rejection(300)]


def test_a_choice_is_among_those_that_were_compared(monkeypatch, table):
    interrupting(monkeypatch, at=3)
    with pytest.warns(UserWarning, match="2 of 3 candidates were compared"):
        chosen = pk.select(table, candidates=FEW, **QUIET)
    assert chosen.selection_.candidates[-1].note == "not compared: the choice was interrupted"
    interrupting(monkeypatch, at=3)
    with pytest.warns(pk.PosteriorWarning, match="2 of 3 candidates were compared"):
        pk.sample_abc(50, reference_table=table, candidates=FEW, **QUIET)


def test_without_a_candidate_a_table_that_was_given_is_not_lost(monkeypatch, table):
    interrupting(monkeypatch, at=1)
    with pytest.raises(KeyboardInterrupt):
        pk.sample_abc(50, reference_table=table, candidates=FEW, **QUIET)


def test_without_a_candidate_simulations_of_this_call_are_in_the_result(monkeypatch):
    interrupting(monkeypatch, at=1)
    with pytest.warns(pk.PosteriorWarning, match="the fit was interrupted.*rejection ABC"):
        found = pk.sample_abc(50, simulations=1_000, model=model(), candidates=FEW, **QUIET)
    assert found["posterior"].attrs["estimator"] == "Rejection"
    assert len(pk.ReferenceTable.from_arviz(found)) == 1_000


@pytest.mark.parametrize("given", [{"estimator": "adjusted", "rounds": "auto"}, {"candidates": FEW}])
def test_an_interrupted_look_at_the_first_simulations_ends_with_these(monkeypatch, given):
    fit, calls = sample_module.fitted_for, []

    def stopped_at_first(*args, **how):
        calls.append(args)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return fit(*args, **how)

    monkeypatch.setattr(sample_module, "fitted_for", stopped_at_first)
    with pytest.warns(pk.PosteriorWarning, match="the fit was interrupted.*rejection ABC"):
        found = pk.sample_abc(50, simulations=4_000, model=model(), **given, **QUIET)
    assert found["posterior"].attrs["rounds"] == (
        "none: interrupted after 2,000 of 4,000 simulations, all draws of the prior"
    )


def test_of_an_interrupted_check_there_is_the_posterior(monkeypatch, table):
    def stopped(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr("pymc_kbr.sample.coarseness_of", stopped)
    with pytest.warns(pk.PosteriorWarning, match="the check whether the table is too coarse was interrupted"):
        pk.sample_abc(50, reference_table=table, estimator="adjusted", **QUIET)
