"""Candidates scored on more and more held-out rows, the losers dropped on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, NoReturn

import numpy as np
from sklearn.base import clone

from pymc_kbr.arrays.checked_rows import CheckedRows
from pymc_kbr.arrays.threads import Begin, beside, inline, parallel_map
from pymc_kbr.arrays.weighted import effective_sample_size
from pymc_kbr.estimators import Adjusted, Estimator, KernelLikelihood
from pymc_kbr.estimators.adjustments import make_adjustment
from pymc_kbr.estimators.fitted_table import FittedTable, scaled
from pymc_kbr.estimators.likelihood.normal_mixture import UNSETTLED
from pymc_kbr.estimators.summaries import SUMMARIES
from pymc_kbr.posterior.scores import covered, energy_score
from pymc_kbr.selection.budget import SCORED_DRAWS, UNSMOOTHED, Budget, Cost, cost_of, summary_cost
from pymc_kbr.selection.selection import (
    NOT_NEEDED,
    Candidate,
    InclusionWeights,
    difference,
    mean_score,
    none_fitted,
)
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
    """Candidates scored on more and more held-out rows, the losers dropped on the way."""

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
        """Score those that are alive on held-out rows `start` to `stop`; whether the budget allows it."""
        order = alive if start == 0 else [alive[0], *sorted(alive[1:], key=lambda other: other.cost.a_row)]
        open_simulation = []
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
                    open_simulation.append((one, ahead[id(one)]))
                else:
                    self._score(one, start, stop, alive)
            for one, scored in open_simulation:
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
        """Begin summaries and learned likelihoods before their turn, beside the others: they take longest."""
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
        """Those that are tied with the best by effective sample size, then the others by score."""
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
        self._keep(one, self._working(one, start, stop, inline), alive)

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
            open_simulation = time.perf_counter()  # not when it was given away: it may have waited for a core
            done = fit()
            fitted_by = time.perf_counter()
            lines = self.scoring(done, np.arange(start, stop))
            now = time.perf_counter()
            return _Scored(done, lines, prepared + fitted_by - open_simulation, now - fitted_by)

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


# --- scores on validation rows ---


POWER = 0.1
"""Of distances in the energy score by which is chosen: below one, blurred modes and bends count more."""

SCORED_TOGETHER = 5
"""Held-out rows that a thread scores together; were it as many as there are for each core, rounding would
differ between machines.
"""

Line = tuple[float, np.ndarray, float]
"""Of a held-out row: its score, whether the central 90% of draws cover each parameter, and their size."""


@dataclass(frozen=True, eq=False)
class HeldOutScoring:
    """Scores held-out rows."""

    # Shapes: truth (r, p); observed (r, d); unit (p,).

    truth: np.ndarray
    observed: np.ndarray
    unit: np.ndarray
    seed: int

    def __call__(self, fitted: Estimator, rows: np.ndarray) -> list[Line]:
        """Score, coverage and effective sample size of held-out rows, by their numbers."""
        # Signed weights are projected in many small steps, which two threads only take from each other.
        if not isinstance(fitted, Adjusted):
            return self.here(fitted, rows)
        parts = [rows[i : i + SCORED_TOGETHER] for i in range(0, len(rows), SCORED_TOGETHER)]
        with parallel_map(len(parts)) as each:
            return [line for part in each(lambda part: self.here(fitted, part), parts) for line in part]

    def here(self, fitted: Estimator, rows: np.ndarray) -> list[Line]:
        """The same, all together."""
        lines = []
        # Repeated draws would count as lumps, which those that are made as asked for have none of.
        count = fitted.particles if fitted.draws_as_asked else SCORED_DRAWS
        for row, posterior in zip(rows.tolist(), fitted.condition(self.observed[rows]), strict=True):
            smoothing = "none" if posterior.effective_sample_size > UNSMOOTHED else None
            draws = posterior.draw(count, np.random.default_rng((self.seed, row)), smoothing=smoothing)
            score = energy_score(draws / self.unit, self.truth[row] / self.unit, POWER, fair=True)
            size = effective_sample_size(posterior.simplex_weights)
            lines.append((score, covered(draws, self.truth[row]), size))
        return lines


# --- when a candidate is dropped or tied ---


ROUNDS = {20: 10, 40: 5, 100: 3, 200: 2}
"""Held-out rows after which candidates that are behind are dropped, and how many are kept at most."""

BEHIND = {20: 3.0, 40: 2.5}
"""Standard errors of the difference to the best candidate at which another one is dropped, by the rows.

The best of many after few rows has been lucky, too, and a standard error of few rows is itself a rough one.
"""

BEHIND_LATER = 2.0
"""The same after more rows; and how many standard errors all must be behind for the race to end."""

EQUAL = 0.002
"""Share of the best score: candidates that are not ahead of it by so much, for all that two standard errors
allow, need no further rows. With a score of power one tenth it is about two hundredths of a CRPS.
"""

SETTLED = 100
"""Held-out rows before which standard errors are not trusted with that."""

TIED = 0.2
"""Standard errors a parameter within which candidates are as good as the best: the most atoms then decide.

The atoms that it takes to fill a posterior without lumps grow with its dimension. An estimator that makes
draws as they are asked for repeats none, and has the most. Settled on problems with counts of growth, a
linear model in a box, a crescent, several modes and raw normal data.
"""

TIED_IN_PART, MENDED = 2.0, 0.01
"""Standard errors within which a candidate ties that is compared by a fit to a part of the rows, and the
share of the best score by which it is behind then at most.

It will do better than its score, but not by any amount; where scores scatter, standard errors allow more.
"""

ROWS_IN_PART = 40
"""Held-out rows on which a candidate is scored that is fitted to a part of the rows and would be taken by
them: each takes long.
"""

ROWS_IN_PART_OF_FEW, SMALL_TABLE = 100, 2_000
"""The same of tables of fewer rows than the second number, where each takes less, and what is chosen matters
more. `tests.statistical.race_rules` has what is won by it; as many rows of all tables win no more than that.
"""

ROWS_IN_DOUBT = 100
"""Held-out rows before which a learned likelihood is not given up that these do not refute.

It learns from fewer rows than it would have, and may be behind on the first ones by chance: like those that
beat it there, it is raced on.
"""


@dataclass(frozen=True, eq=False)
class RaceRule:
    """When a race drops a candidate, and when two of them are tied."""

    rounds: Mapping[int, int] = field(default_factory=lambda: ROUNDS)
    behind: Mapping[int, float] = field(default_factory=lambda: BEHIND)
    tied: float = TIED
    tied_in_part: float = TIED_IN_PART
    mended: float = MENDED
    rows_in_part: int = ROWS_IN_PART
    rows_in_doubt: int = ROWS_IN_DOUBT

    @classmethod
    def of_table(cls, rows: int) -> RaceRule:
        """That of a table of so many rows."""
        return cls(rows_in_part=ROWS_IN_PART_OF_FEW if rows < SMALL_TABLE else ROWS_IN_PART)

    def drops(self, excess: float, error: float, rows: int) -> bool:
        """Whether a candidate is behind the best one after so many rows."""
        return excess > self.behind.get(rows, BEHIND_LATER) * error > 0

    def decided(self, excess: float, error: float, rows: int, score: float) -> bool:
        """Whether a candidate cannot be noticeably ahead of the best one, whose score is given."""
        allowed = EQUAL * score if rows >= SETTLED else -np.inf
        return BEHIND_LATER * error - excess < allowed

    def tie(self, error: float, parameters: int, score: float, in_part: bool) -> float:
        """How far behind the best one, whose score is given, a candidate is as good."""
        tie = self.tied * parameters * error
        return max(tie, min(self.tied_in_part * error, self.mended * score)) if in_part else tie


# --- fits that share their computations ---


class Fitting:
    """Fits candidates to the rows that are not held out."""

    def __init__(self, rows: CheckedRows, seed: int) -> None:
        self._rows, self._seed = rows, seed
        self._summaries: dict[str, Any] = {}
        self._begun: dict[str, Callable[[], Any]] = {}
        self._charged: set[str] = set()
        self._tables: dict[int, FittedTable] = {}
        self._fitted: dict[int, list[Adjusted]] = {}

    def cost(self, estimator: Estimator) -> Cost:
        """What a candidate costs, less what has been computed for others already."""
        n, p, d = *self._rows.parameters.shape, self._rows.statistics.shape[1]
        # In one order, so that the sum is rounded alike in every process.
        named = sorted(set(names_of_summaries(estimator).values()) - self._charged)
        summaries = sum(summary_cost(name, n, d, p) for name in named)
        nearest = None
        # A summary that is still to be fitted, or refused, is a scale of its own, in which nothing is known.
        known = set(names_of_summaries(estimator).values()) <= self._charged & set(self._summaries)
        if isinstance(estimator, Adjusted) and known:
            nearest = self._nearest(estimator)
        own = cost_of(estimator, n, d, p, nearest)
        return Cost(summaries + own.fit, own.a_row)

    def charge(self, estimator: Estimator) -> None:
        """Note that the summaries of a candidate are charged: others of the same are not."""
        self._charged |= set(names_of_summaries(estimator).values())

    def begin(self, estimator: Estimator, begin: Begin) -> None:
        """Begin the summaries of a candidate that are not fitted yet, for when they are asked for."""
        for name in names_of_summaries(estimator).values():
            if name not in self._summaries and name not in self._begun:
                self._begun[name] = begin(self._summary(name))

    def _summary(self, name: str) -> Callable[[], Any]:
        return partial(SUMMARIES[name].fit, self._rows.statistics, self._rows.parameters)

    def fit(self, estimator: Estimator) -> Estimator:
        """A fitted copy, whose summaries count as charged."""
        self.charge(estimator)
        return self.prepared(estimator)()

    def prepared(self, estimator: Estimator) -> Callable[[], Estimator]:
        """What fits a copy and returns it, on a thread of its own where it is none of `Adjusted`."""
        for name in names_of_summaries(estimator).values():
            if name not in self._summaries:
                self._summaries[name] = self._begun.pop(name, self._summary(name))()
        prepared, rng = with_summaries(estimator, self._summaries), np.random.default_rng(self._seed)
        if isinstance(prepared, Adjusted):
            return partial(self._fit_sharing, prepared, self._nearest(estimator), rng)
        compared = prepared.for_scores()
        if isinstance(compared, KernelLikelihood):  # its form is settled here
            compared.tries_all = True
        return partial(compared.fit_table, self._table(prepared), rng)

    def _fit_sharing(
        self, prepared: Adjusted, nearest: Adjusted | None, rng: np.random.Generator
    ) -> Adjusted:
        # What was scaled and factored once is the same for all candidates in that scale.
        if nearest is None:
            prepared.fit_table(self._table(prepared), rng)
        else:
            prepared.fit_sharing(nearest, rng)
        self._fitted.setdefault(id(prepared.scale_of_statistics()), []).append(prepared)
        return prepared

    def _table(self, prepared: Estimator) -> FittedTable:
        """The rows in the scale of a candidate, which all of the same scale share."""
        scale = prepared.scale_of_statistics()
        # By identity: a fitted summary has no equality, and is one object for all candidates.
        if id(scale) not in self._tables:
            prepared.check(len(self._rows))
            self._tables[id(scale)] = scaled(self._rows, scale)
        return self._tables[id(scale)]

    def _nearest(self, estimator: Adjusted) -> Adjusted | None:
        """The fitted candidate to share with: of the same adjustment, or the first in the same scale."""
        scale = with_summaries(estimator, self._summaries).scale_of_statistics()
        same_scale, adjustment = self._fitted.get(id(scale), []), repr(make_adjustment(estimator.adjustment))
        same = [fitted for fitted in same_scale if repr(fitted.adjustment_) == adjustment]
        return next(iter([*same, *same_scale]), None)


def with_summaries(estimator: Estimator, summaries: dict[str, Any]) -> Estimator:
    """A copy whose arguments `scale` that name a summary hold the fitted one."""
    named = names_of_summaries(estimator)
    return clone(estimator).set_params(**{name: summaries[value] for name, value in named.items()})


def names_of_summaries(estimator: Estimator) -> dict[str, str]:
    """The arguments `scale` of an estimator, and of those inside it, that name a summary."""
    given = estimator.get_params().items()
    return {
        name: value for name, value in given if name.split("__")[-1] == "scale" and isinstance(value, str)
    }
