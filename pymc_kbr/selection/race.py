"""Candidates scored on more and more held-out rows, the losers dropped on the way."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from rich.progress import Progress
from sklearn.base import clone

from pymc_kbr.arrays.scaling import deviations
from pymc_kbr.arrays.support import Support
from pymc_kbr.arrays.threads import cores, side_by_side
from pymc_kbr.arrays.weighted import effective_sample_size
from pymc_kbr.estimators import Adjusted, Estimator
from pymc_kbr.estimators.adjustments import make_adjustment
from pymc_kbr.estimators.summaries import SUMMARIES
from pymc_kbr.posterior.scores import covered, energy_score
from pymc_kbr.selection.candidate import Trial, difference, mean_score, none_fitted

DRAWS = 300
"""Draws of each posterior that is scored."""

POWER = 0.1
"""Of distances in the energy score by which is chosen: below one, blurred modes and bends count more."""

ROUNDS = {20: 12, 40: 8, 100: 5, 200: 3}
"""Held-out rows after which candidates that are behind are dropped, and how many are kept at most."""

BEHIND = 2.0
"""Standard errors of the difference to the best candidate at which another one is dropped."""

EQUAL = 0.002
"""Share of the best score: candidates that are not ahead of it by so much, for all that two standard errors
allow, need no further rows. With a score of power one tenth it is about two hundredths of a CRPS.
"""

SETTLED = 100
"""Held-out rows before which standard errors are not trusted with that."""

TIED = 0.2
"""Standard errors a parameter within which candidates are as good as the best: the most atoms then decide.

The atoms that it takes to fill a posterior without lumps grow with its dimension.
"""

FOR_FIRST = 0.55
"""Share of the time after which no further candidate is begun: the rest is for more rows."""

REFIT, LEAST_REFIT = 1.5, 0.1
"""Kept to fit the chosen candidate to all rows: times the slowest fit so far, but at least a share of all."""

PLENTY = 300
"""Effective sample size from which smoothing makes no difference to a score, and is left out of it."""


class Race:
    """Candidates scored on more and more held-out rows, the losers dropped on the way.

    Parameters
    ----------
    parameters, statistics : ndarray of shape (n, p), (n, d)
    support : Support
    ratio : ndarray of shape (n,), optional
        The density ratio of another prior.
    rest, held_out : ndarray of int
        Rows to fit to, and rows to score on.
    rng : numpy.random.Generator
    started : float
        When the time began to count, by `time.perf_counter`.
    seconds : float
        For all; no candidate is begun after `FOR_FIRST` of it.
    refit : bool
        Whether the chosen candidate will be fitted to all rows afterwards, for which time is kept.

    Attributes
    ----------
    cut_short : bool
        Whether time ran out before all rows, or all but one candidate.
    """

    def __init__(
        self,
        parameters: np.ndarray,
        statistics: np.ndarray,
        support: Support,
        ratio: np.ndarray | None,
        rest: np.ndarray,
        held_out: np.ndarray,
        rng: np.random.Generator,
        started: float,
        seconds: float,
        refit: bool = True,
    ) -> None:
        self.train = (parameters[rest], statistics[rest], support)
        self.ratio = None if ratio is None else ratio[rest]
        deviation = deviations(parameters[rest])
        self.unit = np.where(deviation > 0, deviation, 1.0)
        self.truth, self.observed = parameters[held_out], statistics[held_out]
        self.weights = np.ones(len(held_out)) if ratio is None else ratio[held_out]
        self.seed = int(rng.integers(2**31))
        self.started, self.seconds, self.refit = started, seconds, refit
        self.cut_short = False
        self._slowest = 0.0
        self._summaries: dict[str, Any] = {}
        self._fitted: dict[Any, Adjusted] = {}

    def run(self, trials: list[Trial], progressbar: bool) -> list[Trial]:
        """All trials, the best first: by the rows that all that were not dropped have been scored on."""
        stops = sorted({min(stop, len(self.truth)) for stop in (*ROUNDS, len(self.truth))})
        alive = list(trials)
        with Progress(disable=not progressbar, transient=True) as progress:
            task = progress.add_task("choosing an estimator", total=len(self.truth))
            for start, stop in zip([0, *stops[:-1]], stops, strict=True):
                self._round(alive, start, stop)
                if not alive:
                    raise ValueError(none_fitted(trials))
                progress.update(task, completed=stop)
                if self.cut_short:
                    break
                self._drop(alive, ROUNDS.get(stop, len(alive)), stop)
                if self._decided(alive, stop):
                    break
        ranked = self.ranked(alive)
        self._score_the_rest(ranked)
        if not ranked:
            raise ValueError(none_fitted(trials))
        out = [trial for trial in trials if trial not in ranked]
        scored = [trial for trial in out if len(trial.scores)]
        scored.sort(key=lambda trial: difference(trial.scores, ranked[0].scores, self.weights)[0])
        return [*ranked, *scored, *[trial for trial in out if not len(trial.scores)]]

    def _round(self, alive: list[Trial], start: int, stop: int) -> None:
        """Score those that are alive on held-out rows `start` to `stop`, as far as time allows.

        In the first round in their order, then the best one and the cheaper ones first.
        """
        order = alive if start == 0 else [alive[0], *sorted(alive[1:], key=lambda t: t.seconds_a_row)]
        for trial in list(order):
            if start == 0 and trial is not alive[0] and self._late(FOR_FIRST * self.seconds):
                trial.note = "not tried: no time was left"
                alive.remove(trial)
            elif start > 0 and self._late(self._end() - (stop - start) * trial.seconds_a_row):
                self.cut_short = True
                return
            else:
                self._score(trial, start, stop, alive)

    def _drop(self, alive: list[Trial], most: int, rows: int) -> None:
        """Drop the candidates that are behind, and those beyond the best `most`."""
        alive.sort(key=lambda trial: mean_score(trial.scores, self.weights))
        best = alive[0]
        for place, trial in enumerate(list(alive)):
            excess, error = difference(trial.scores, best.scores, self.weights)
            if place >= most or excess > BEHIND * error > 0:
                trial.note = f"dropped after {rows} rows"
                alive.remove(trial)

    def _score_the_rest(self, ranked: list[Trial]) -> None:
        """Score the best one on all held-out rows if time allows: they tell of its coverage."""
        best, done, all_rows = ranked[0], len(ranked[0].scores), len(self.truth)
        if done < all_rows and not self._late(self._end() - (all_rows - done) * best.seconds_a_row):
            self._score(best, done, all_rows, ranked)

    def _decided(self, alive: list[Trial], rows: int) -> bool:
        """Whether the best, which comes first, is the only one left or none can be ahead of it by `EQUAL`."""
        best, *others = alive
        allowed = EQUAL * mean_score(best.scores, self.weights) if rows >= SETTLED else -np.inf
        apart = [difference(trial.scores, best.scores, self.weights) for trial in others]
        return all(BEHIND * error - excess < allowed for excess, error in apart)

    def ranked(self, trials: list[Trial]) -> list[Trial]:
        """Those that are tied with the best by effective sample size, then the others by score.

        Two candidates are compared on the rows that both have. The best one is found among those with the
        most rows, unless one with fewer is better by more than what makes a tie.
        """
        most = max(len(trial.scores) for trial in trials)
        ahead = [trial for trial in trials if len(trial.scores) == most]
        best = min(ahead, key=lambda trial: mean_score(trial.scores, self.weights))
        found = {id(trial): self._excess(trial, best) for trial in trials if trial is not best}
        better = [trial for trial in trials if trial is not best and sum(found[id(trial)]) < 0]
        best = min(better, key=lambda trial: found[id(trial)][0], default=best)

        def key(trial: Trial) -> tuple[bool, float]:
            excess, tie = self._excess(trial, best)
            return (False, -trial.size) if trial is best or excess <= tie else (True, excess)

        return sorted(trials, key=key)

    def _excess(self, trial: Trial, best: Trial) -> tuple[float, float]:
        """How much worse a candidate is on the rows that both have, and how much of that is a tie."""
        excess, error = difference(trial.scores, best.scores, self.weights)
        return excess, TIED * len(self.unit) * error

    def _late(self, seconds: float) -> bool:
        return time.perf_counter() > self.started + seconds

    def _end(self) -> float:
        if not self.refit:
            return self.seconds
        return self.seconds - max(REFIT * self._slowest, LEAST_REFIT * self.seconds)

    def _score(self, trial: Trial, start: int, stop: int, alive: list[Trial]) -> None:
        """Score a trial on held-out rows `start` to `stop`; drop it where it cannot be fitted."""
        then = time.perf_counter()
        try:
            if start == 0:
                trial.fitted = self._fit(trial.estimator)
                self._slowest = max(self._slowest, time.perf_counter() - then)
            fitted_by = time.perf_counter()
            scored = self._scored(trial.fitted, np.arange(start, stop))
        except (ValueError, MemoryError, np.linalg.LinAlgError) as error:
            trial.note = f"refused: {error}"
            alive.remove(trial)
            return
        trial.scores = np.append(trial.scores, [score for score, _, _ in scored])
        trial.covered.extend(covers for _, covers, _ in scored)
        trial.size = float(np.mean([size for _, _, size in scored]))
        now = time.perf_counter()
        trial.seconds += now - then
        trial.seconds_a_row = (now - fitted_by) / (stop - start)

    def _scored(self, fitted: Estimator | None, rows: np.ndarray) -> list[tuple[float, np.ndarray, float]]:
        """Score, coverage and effective sample size of some held-out rows, whose draws are their own."""
        assert fitted is not None
        # Signed weights are projected in many small steps, which two threads only take from each other.
        if not isinstance(fitted, Adjusted):
            return self._scored_here(fitted, rows)
        with side_by_side(cores()) as each:
            parts = each(lambda part: self._scored_here(fitted, part), np.array_split(rows, cores()))
            return [line for part in parts for line in part]

    def _scored_here(self, fitted: Estimator, rows: np.ndarray) -> list[tuple[float, np.ndarray, float]]:
        lines = []
        for row, posterior in zip(rows.tolist(), fitted.condition(self.observed[rows]), strict=True):
            smoothing = "none" if posterior.effective_sample_size > PLENTY else None
            draws = posterior.draw(DRAWS, np.random.default_rng((self.seed, row)), smoothing=smoothing)
            score = energy_score(draws / self.unit, self.truth[row] / self.unit, POWER)
            size = effective_sample_size(posterior.simplex_weights)
            lines.append((score, covered(draws, self.truth[row]), size))
        return lines

    def _fit(self, estimator: Estimator) -> Estimator:
        """A candidate fitted to the rows that are not held out, sharing what others have computed."""
        for value in names_of_summaries(estimator).values():
            if value not in self._summaries:
                self._summaries[value] = SUMMARIES[value].fit(self.train[1], self.train[0])
        prepared = with_summaries(estimator, self._summaries)
        if isinstance(prepared, Adjusted):
            scale, adjustment = id(prepared.scale_of_statistics()), repr(make_adjustment(prepared.adjustment))
            same_scale = [fitted for (other, _), fitted in self._fitted.items() if other == scale]
            nearest = self._fitted.get((scale, adjustment), same_scale[0] if same_scale else None)
            if nearest is None:
                prepared.fit(*self.train, ratio=self.ratio, random_seed=self.seed)
            else:
                prepared.fit_sharing(nearest, np.random.default_rng(self.seed))
            self._fitted.setdefault((scale, adjustment), prepared)
            return prepared
        return prepared.fit(*self.train, ratio=self.ratio, random_seed=self.seed)


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
