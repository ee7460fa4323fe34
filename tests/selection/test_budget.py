"""Budgets of work and of time that end a choice, and what is said of it."""

import numpy as np
import pytest

import pymc_kbr as pk
from pymc_kbr.selection.budget import Budget, Cost, cost_of
from pymc_kbr.selection.race import ROUNDS, Race
from tests.selection.test_selection import LINEAR, table


def test_a_budget_that_is_spent_is_reported():
    found = pk.select(table(), random_seed=0, work=1e-3, progressbar=False)
    notes = [row["note"] for row in found.selection_.table()]
    assert sum("no work was left" in note for note in notes) == len(notes) - 1
    assert np.isfinite(found.condition(np.zeros(2)).mean()).all()
    assert not found.selection_.cut_short


def test_seconds_that_are_over_are_warned_of_and_recorded():
    with pytest.warns(UserWarning, match="give more seconds, or leave `time_budget` out"):
        found = pk.select(table(), random_seed=0, time_budget=1e-3, progressbar=False)
    notes = [row["note"] for row in found.selection_.table()]
    assert sum("no time was left" in note for note in notes) == len(notes) - 1
    assert found.selection_.cut_short
    assert "budget of time ended" in found.selection_.reason()


def test_work_that_runs_out_between_rounds_is_reported():
    """Enough for the first rows of both candidates, and for no more."""
    candidates = [pk.Rejection(60), "rejection"]
    complete = pk.select(table(), candidates=["rejection", LINEAR], random_seed=1, progressbar=False)
    assert not complete.selection_.ended_early
    costs = [cost_of(pk.Rejection(60), 1080, 2, 2), cost_of(pk.Rejection(), 1080, 2, 2)]
    enough = sum(cost.fit + min(ROUNDS) * cost.a_row for cost in costs)
    found = pk.select(table(), candidates=candidates, work=1.2 * enough, random_seed=1, progressbar=False)
    assert found.selection_.ended_early
    assert not found.selection_.cut_short
    assert "budget of work ended the comparison early" in found.selection_.reason()
    assert [row["rows"] for row in found.selection_.table()] == [min(ROUNDS)] * 2
    assert found.selection_.work == pytest.approx(enough)


def test_seconds_that_run_out_between_rounds_are_reported(monkeypatch):
    """The clock jumps as soon as both candidates have been scored on the first rows."""
    open_simulation, score = [], Race._score

    def counted(self, one, *rest):
        score(self, one, *rest)
        open_simulation.append(one)

    monkeypatch.setattr(Race, "_score", counted)
    monkeypatch.setattr(Budget, "_elapsed", lambda self: 1e9 if len(open_simulation) >= 2 else 0.0)
    candidates = [pk.Rejection(60), "rejection"]
    with pytest.warns(UserWarning, match="with 2 of 2 candidates tried"):
        found = pk.select(table(), candidates=candidates, time_budget=60.0, random_seed=1, progressbar=False)
    assert found.selection_.ended_early
    assert found.selection_.cut_short
    assert [row["rows"] for row in found.selection_.table()] == [min(ROUNDS)] * 2


def test_what_has_been_spent_decides_what_may_begin_and_go_on():
    budget, cost = Budget(10.0), Cost(1.0, 0.1)
    assert budget.spent == 0
    assert budget.may_begin(90, cost) == ""  # exactly all of it
    assert "it needs 10.1, and 0.0 are spent" in budget.may_begin(91, cost)
    # A tenth is kept to fit the chosen one to all rows, and one and a half times the costliest fit.
    assert budget.may_score(89, cost, 0.0)
    assert not budget.may_score(91, cost, 0.0)
    budget.charge_fit(cost)
    budget.charge_rows(20, cost)
    assert budget.spent == pytest.approx(3.0)
    assert budget.may_score(54, cost, 0.0)
    assert not budget.may_score(56, cost, 0.0)
    assert not budget.late
    assert Budget(10.0, refit=False).may_score(99, cost, 0.0)


def test_what_is_sure_to_begin_is_what_may_begin_after_all_before_it():
    budget = Budget(10.0)
    budget.charge_fit(Cost(1.0, 0.0))
    assert budget.surely(4.5)  # with it, 0.55 of all
    assert not budget.surely(4.6)
    assert not Budget(10.0, seconds=1e9).surely(0.1)  # a clock may forbid it


def test_seconds_that_a_fit_has_taken_are_kept_for_the_last_one(monkeypatch):
    monkeypatch.setattr(Budget, "_elapsed", lambda self: 2.0)
    budget, free = Budget(1e9, seconds=10.0), Cost(0.0, 0.0)
    assert budget.may_begin(50, free) == ""
    assert budget.may_score(69, free, 0.1)
    budget.note_fit(1.0)
    budget.note_fit(4.0)
    budget.note_fit(2.0)
    assert budget.may_score(19, free, 0.1)
    assert not budget.late
    assert not budget.may_score(21, free, 0.1)
    assert budget.late
    monkeypatch.setattr(Budget, "_elapsed", lambda self: 5.6)
    late = Budget(1e9, seconds=10.0)
    assert late.may_begin(50, free) == "not tried: no time was left"
    assert late.late
