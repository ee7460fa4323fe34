"""Candidates scored on more and more held-out rows, the losers dropped on the way."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, NoReturn

import numpy as np

from pymc_kbr.arrays.checked_rows import CheckedRows
from pymc_kbr.arrays.threads import Begin, at_once, beside
from pymc_kbr.estimators import Estimator
from pymc_kbr.estimators.likelihood.normal_mixture import UNSETTLED
from pymc_kbr.selection.budget import Budget
from pymc_kbr.selection.candidate import NOT_NEEDED, Candidate, difference, mean_score, none_fitted
from pymc_kbr.selection.fitting import Fitting, names_of_summaries
from pymc_kbr.selection.inclusion_weights import InclusionWeights
from pymc_kbr.selection.race_rule import RaceRule
from pymc_kbr.selection.scoring import HeldOutScoring, Line
from pymc_kbr.simulation.progress import Bars

REFUSALS = ValueError, MemoryError, np.linalg.LinAlgError
"""By which an estimator says that it cannot be fitted."""


class _Scored(NamedTuple):
    """A fitted estimator, scores, coverage and sizes of held-out rows, and seconds to fit and to score."""

    fitted: Estimator
    lines: list[Line]
    to_fit: float
    to_score: float


class Race:
    """Candidates scored on more and more held-out rows, the losers dropped on the way.

    Parameters
    ----------
    rest, held_out : CheckedRows
        To fit to, and to score on.
    rng : numpy.random.Generator
    budget : Budget
        Which is spent.
    rule : RaceRule, optional
        When candidates are dropped.

    Attributes
    ----------
    ended_early : bool
        Whether the budget ended the comparison before all rows, or all but one candidate.
    """

    def __init__(
        self,
        rest: CheckedRows,
        held_out: CheckedRows,
        rng: np.random.Generator,
        budget: Budget,
        rule: RaceRule | None = None,
    ) -> None:
        self.unit = rest.unit
        self.truth = held_out.parameters
        self.weights: np.ndarray | InclusionWeights = np.ones(len(held_out))
        if held_out.ratio is not None:
            self.weights = InclusionWeights(held_out.ratio)
        self.seed = int(rng.integers(2**31))
        self.scoring = HeldOutScoring(self.truth, held_out.statistics, self.unit, self.seed)
        self.fitting = Fitting(rest, self.seed)
        self.budget, self.rule = budget, rule or RaceRule()
        self.ended_early = False

    def run(self, candidates: list[Candidate], progressbar: bool) -> list[Candidate]:
        """All candidates, the best first: by the rows that all that were not dropped have been scored on."""
        stops = sorted({min(stop, len(self.truth)) for stop in (*self.rule.rounds, len(self.truth))})
        alive, aside, spared = [one for one in candidates if not one.spare], list[Candidate](), False
        with Bars(shown=progressbar, transient=True) as progress:
            task = progress.add_task("choosing an estimator", total=len(self.truth))
            for start, stop in zip([0, *stops[:-1]], stops, strict=True):
                complete = self._round(alive, start, stop)
                if start == 0:
                    spare = [one for one in candidates if one.spare]
                    spared = self._spares(spare, alive, stop)
                    if not spared:
                        self._round(spare, 0, stop, others=bool(alive))
                        alive += spare
                if not alive and aside:  # what went on gave no finite scores
                    break
                if not alive:
                    raise ValueError(none_fitted(candidates))
                progress.update(task, completed=stop)
                if not complete:
                    self.ended_early = True
                    break
                self._drop(alive, self.rule.rounds.get(stop, len(alive)), stop)
                if stop >= self.rule.rows_in_part:
                    aside += self._set_aside(alive, stop)
                    alone = spared and all(one.in_part for one in alive)
                    if alone or self._ahead_of_all(aside, alive):
                        break
                if self._decided(alive, stop):
                    break
        ranked = self.ranked([*alive, *aside])  # before the best one alone is scored further
        self._score_the_rest(ranked)
        if not ranked:
            raise ValueError(none_fitted(candidates))
        out = [one for one in candidates if one not in ranked]
        scored = [one for one in out if len(one.scores)]
        scored.sort(key=lambda one: difference(one.scores, ranked[0].scores, self.weights)[0])
        return [*ranked, *scored, *[one for one in out if not len(one.scores)]]

    def _round(self, alive: list[Candidate], start: int, stop: int, others: bool = False) -> bool:
        """Score those that are alive on held-out rows `start` to `stop`; whether the budget allows it.

        At the first rows in their order, without `others` the first of them whatever it costs; then the best
        one and the cheaper ones first.
        """
        order = alive if start == 0 else [alive[0], *sorted(alive[1:], key=lambda other: other.cost.a_row)]
        begun = []
        # Filters of warnings belong to the process: what a thread silences is silenced here until it ends.
        with UNSETTLED, beside() as begin:
            ahead = self._ahead(order, stop, begin) if start == 0 else {}
            for one in list(order):  # a copy: those that are dropped leave `alive`
                if start > 0 and not self._may_score(one, stop - start):
                    return False
                if start == 0:
                    one.cost = self.fitting.cost(one.estimator)
                    sure = one is order[0] and not others
                    one.note = "" if sure else self.budget.may_begin(stop, one.cost)
                if one.note:
                    alive.remove(one)
                elif id(one) in ahead:
                    self._charge(one, 0, stop)
                    begun.append((one, ahead[id(one)]))
                else:
                    self._score(one, start, stop, alive)
            for one, scored in begun:
                self._keep(one, scored, alive)
        return True

    def _spares(self, spare: list[Candidate], alive: list[Candidate], rows: int) -> bool:
        """Whether a form holds, and would not be dropped: then no spare candidate is needed, as they note."""
        holding = [one for one in alive if one.stands]
        best = min(alive, key=lambda one: mean_score(one.scores, self.weights), default=None)
        apart = [difference(one.scores, best.scores, self.weights) for one in holding if best is not None]
        spared = any(not self.rule.drops(excess, error, rows) for excess, error in apart)
        for one in spare if spared else ():
            one.note = f"{NOT_NEEDED} after {rows} rows"
        return spared and bool(spare)

    def _ahead(self, order: list[Candidate], stop: int, begin: Begin) -> dict[int, Callable[[], _Scored]]:
        """Begin summaries and learned likelihoods before their turn, beside the others: they take longest.

        Of those alone whose turn will come, even if nothing that candidates share were charged only once;
        they are charged in their turn, so that the choice is the same as without.
        """
        costs = [self.fitting.cost(one.estimator) for one in order]
        needed = np.cumsum([cost.fit + stop * cost.a_row for cost in costs])
        sure = [one for one, work in zip(order, needed, strict=True) if self.budget.surely(float(work))]
        learnt = [one for one in sure if one.in_part]
        ready = [one for one in learnt if not names_of_summaries(one.estimator)]
        # The longest first: a summary would keep a core from it that it needs until the end.
        ahead = {id(one): self._working(one, 0, stop, begin) for one in ready}
        for one in sure:
            if not one.in_part:  # several others wait for its summaries
                self.fitting.begin(one.estimator, begin)
        return ahead | {id(one): self._working(one, 0, stop, begin) for one in learnt if id(one) not in ahead}

    def _may_score(self, one: Candidate, rows: int) -> bool:
        return self.budget.may_score(rows, one.cost, one.seconds_a_row)

    def _drop(self, alive: list[Candidate], most: int, rows: int) -> None:
        """Drop the candidates that are behind, and those beyond the best `most`."""
        alive.sort(key=lambda one: mean_score(one.scores, self.weights))
        best = alive[0]
        for place, one in enumerate(list(alive)):
            excess, error = difference(one.scores, best.scores, self.weights)
            # Adjusted rows are many and alike; were all of them ahead, few rows say nothing of another kind.
            crowded = place >= most and not one.estimator.draws_as_asked
            kept = one.stands and rows < self.rule.rows_in_doubt
            if crowded or (self.rule.drops(excess, error, rows) and not kept):
                one.note = f"dropped after {rows} rows"
                alive.remove(one)

    def _score_the_rest(self, ranked: list[Candidate]) -> None:
        """Score the best one on all held-out rows if the budget allows: they tell of its coverage."""
        best, done, all_rows = ranked[0], len(ranked[0].scores), len(self.truth)
        if not best.in_part and done < all_rows and self._may_score(best, all_rows - done):
            self._score(best, done, all_rows, ranked)

    def _decided(self, alive: list[Candidate], rows: int) -> bool:
        """Whether the best, which comes first, is the only one left or none can be ahead of it by much."""
        best, *others = alive
        score = mean_score(best.scores, self.weights)
        apart = [difference(one.scores, best.scores, self.weights) for one in others]
        return all(self.rule.decided(excess, error, rows, score) for excess, error in apart)

    def _set_aside(self, alive: list[Candidate], rows: int) -> list[Candidate]:
        """Take those that are compared by a part of the rows out, where others go on, unless beaten."""
        learnt, others = [[one for one in alive if one.in_part is part] for part in (True, False)]
        stand, left = [one for one in learnt if one.stands and others], self.rule.rows_in_doubt - rows
        beaten = stand and all(np.subtract(*self._excess(one, others[0])) > 0 for one in stand)
        # Where there is no work for them, the others' race is not to end.
        if not others or (beaten and left > 0 and all(self._may_score(one, left) for one in stand)):
            return []
        alive[:] = others
        return learnt

    def _ahead_of_all(self, learnt: list[Candidate], others: list[Candidate]) -> bool:
        """Whether the best of those compared by a part leads: no more rows are needed, as they win ties."""
        leads = bool(learnt) and learnt[0].holds
        return leads and all(self._excess(one, learnt[0])[0] >= 0 for one in others)

    def ranked(self, candidates: list[Candidate]) -> list[Candidate]:
        """Those that are tied with the best by effective sample size, then the others by score.

        Two candidates are compared on the rows that both have. The best one is found among those with the
        most rows, unless one with fewer is better by more than what makes a tie.
        """
        most = max(len(one.scores) for one in candidates)
        ahead = [one for one in candidates if len(one.scores) == most]
        best = min(ahead, key=lambda one: mean_score(one.scores, self.weights))
        found = {id(one): self._excess(one, best) for one in candidates if one is not best}
        better = [one for one in candidates if one is not best and sum(found[id(one)]) < 0]
        best = min(better, key=lambda one: found[id(one)][0], default=best)

        def key(one: Candidate) -> tuple[bool, bool, float, float]:
            excess, tie = self._excess(one, best)
            if one is not best and excess > tie:
                return True, False, excess, 0.0
            # Learned likelihoods have as many atoms as they are asked for: the score decides among them, but
            # one whose form is refuted comes after all that are tied with it.
            return False, not one.holds, -one.atoms, excess

        return sorted(candidates, key=key)

    def _excess(self, one: Candidate, best: Candidate) -> tuple[float, float]:
        """How much worse a candidate is on the rows that both have, and how much of that is a tie."""
        excess, error = difference(one.scores, best.scores, self.weights)
        # Both fitted to a part of the rows are alike in that, and a refuted form is not what more rows mend.
        wide = one.in_part and one.holds and not best.in_part
        return excess, self.rule.tie(error, len(self.unit), mean_score(best.scores, self.weights), wide)

    def _score(self, one: Candidate, start: int, stop: int, alive: list[Candidate]) -> None:
        """Score a candidate on held-out rows `start` to `stop`; drop it where it cannot be fitted."""
        self._charge(one, start, stop)
        self._keep(one, self._working(one, start, stop, at_once), alive)

    def _charge(self, one: Candidate, start: int, stop: int) -> None:
        if start == 0:
            self.budget.charge_fit(one.cost)
            self.fitting.charge(one.estimator)
        self.budget.charge_rows(stop - start, one.cost)

    def _working(self, one: Candidate, start: int, stop: int, begin: Begin) -> Callable[[], _Scored]:
        """Begin to score a candidate on held-out rows `start` to `stop`, fitted first where it is not yet."""
        fitted, then = one.fitted, time.perf_counter()
        try:
            fit = (lambda: fitted) if fitted is not None else self.fitting.prepared(one.estimator)
        except REFUSALS as error:
            return partial(_refuse, error)
        prepared = time.perf_counter() - then

        def work() -> _Scored:
            begun = time.perf_counter()  # not when it was given away: it may have waited for a core
            done = fit()
            fitted_by = time.perf_counter()
            lines = self.scoring(done, np.arange(start, stop))
            now = time.perf_counter()
            return _Scored(done, lines, prepared + fitted_by - begun, now - fitted_by)

        return begin(work)

    def _keep(self, one: Candidate, result: Callable[[], _Scored], alive: list[Candidate]) -> None:
        """Keep a candidate's further scores; drop it where it cannot be fitted."""
        try:
            fitted, lines, to_fit, to_score = result()
        except REFUSALS as error:
            one.note = f"refused: {error}"
            alive.remove(one)
            return
        if not np.all(np.isfinite([score for score, _, _ in lines])):
            one.note = "refused: its draws have no finite score"
            alive.remove(one)
            return
        if one.fitted is None:
            self.budget.note_fit(to_fit)
        one.fitted = fitted
        one.scores = np.append(one.scores, [score for score, _, _ in lines])
        one.covered.extend(covers for _, covers, _ in lines)
        one.size = float(np.mean([size for _, _, size in lines]))
        one.seconds += to_fit + to_score
        one.seconds_a_row = to_score / len(lines)


def _refuse(error: Exception) -> NoReturn:
    raise error
