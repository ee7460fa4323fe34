"""Seconds that a comparison has taken, as the result shows them."""

from types import SimpleNamespace

from pymc_kbr.arrays.threads import inline
from pymc_kbr.selection import race as race_module
from pymc_kbr.selection.selection import Candidate
from tests.selection.test_race import LINEAR, a_race


def test_they_are_those_of_the_work_and_not_of_waiting_for_a_core(monkeypatch):
    clock, race = SimpleNamespace(now=0.0), a_race()
    monkeypatch.setattr(race_module, "time", SimpleNamespace(perf_counter=lambda: clock.now))

    def waits(work):
        clock.now += 100.0
        return inline(work)

    scored = race._working(Candidate("linear", LINEAR), 0, 5, waits)()
    assert (scored.to_fit, scored.to_score) == (0.0, 0.0)
    assert len(scored.lines) == 5
