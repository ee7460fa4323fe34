"""Candidates fitted once, and scored on held-out rows: the losers are dropped, the best one is handed out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from pymc_kbr.arrays.checked_rows import CheckedRows
from pymc_kbr.arrays.threads import parallel_map
from pymc_kbr.arrays.weighted import effective_sample_size
from pymc_kbr.estimators import Adjusted, Estimator
from pymc_kbr.estimators.estimator import LogDensity
from pymc_kbr.estimators.fitted_table import scaled
from pymc_kbr.estimators.likelihood.normal_mixture import UNSETTLED
from pymc_kbr.estimators.summaries import Summary, make_summary
from pymc_kbr.posterior.scores import covered, energy_score
from pymc_kbr.selection.selection import (
    INTERRUPTED,
    Candidate,
    difference,
    label_with_found,
    mean_score,
    none_fitted,
)
from pymc_kbr.simulation.progress import Bars

REFUSALS = ValueError, MemoryError, np.linalg.LinAlgError
"""By which an estimator says that it cannot be fitted."""


def race(
    candidates: Sequence[Candidate],
    fallbacks: Sequence[Candidate],
    rest: CheckedRows,
    held_out: CheckedRows,
    rng: np.random.Generator,
    *,
    log_prior: LogDensity | None = None,
    progressbar: bool = True,
    does_not_do: Callable[[Estimator], bool] | None = None,
    stops: tuple[int, int] = (40, 100),
) -> list[Candidate]:
    """All candidates, the best first, compared on 40 rows and those that are left on 100."""
    # What is behind by a paired t test (5%) is dropped; a learned likelihood that passes its test is taken
    # unless another one is ahead by it (`tests.statistical.race_choices`). With `does_not_do` the first
    # candidate is fitted before the others, and where it is true of the fit, nothing is compared.
    scoring = Scoring.of(rest, held_out, rng)
    fitting = Fitting(rest, int(rng.integers(2**31)), log_prior)
    first, last = (min(stop, scoring.size) for stop in stops)
    every = [*candidates, *fallbacks]
    try:
        # Filters of warnings belong to the process: what a thread silences is silenced here until it ends.
        with UNSETTLED, Bars(shown=progressbar, transient=True) as progress:
            task = progress.add_task("choosing an estimator", total=len(every))

            def score(some: Sequence[Candidate], rows: int) -> None:
                fitting.prepare([one.estimator for one in some if one.fitted is None])
                with parallel_map(len(some)) as map_:
                    map_(lambda one: _score(one, fitting, scoring, rows), some)
                progress.update(task, advance=len(some))

            if does_not_do is not None:
                begin = candidates[0]
                fitting.prepare([begin.estimator])
                _score(begin, fitting, scoring, 0)
                if begin.fitted is not None and does_not_do(begin.fitted):
                    begin.note = "taken without a comparison"
                    return [begin, *(one for one in every if one is not begin)]
            score(candidates, first)
            if _leading(candidates) is None:
                score(fallbacks, first)
            else:
                for one in fallbacks:
                    one.note = "not tried: a learned likelihood held"
            alive = _alive(every)
            if not alive:
                raise ValueError(none_fitted(every))
            best = min(alive, key=_mean)
            for one in alive:
                if difference(one, best).is_positive():
                    one.note = f"dropped after {first} rows"
            alive = _alive(alive)
            if len(alive) > 1 and last > first and not best.likelihood_holds:
                score(alive, last)
    except KeyboardInterrupt:
        if not _alive(every):
            raise
        for one in every:
            one.note = one.note or ("" if len(one.scores) else INTERRUPTED)
    alive = _alive(every)
    if not alive:
        raise ValueError(none_fitted(every))
    chosen = _leading(alive) or min(alive, key=_mean)
    return sorted(every, key=lambda one: (one is not chosen, bool(one.note), not len(one.scores), _mean(one)))


def _mean(one: Candidate) -> float:
    return mean_score(one.scores)


def _alive(candidates: Sequence[Candidate]) -> list[Candidate]:
    return [one for one in candidates if len(one.scores) and not one.note]


def _leading(candidates: Sequence[Candidate]) -> Candidate | None:
    """The best learned likelihood that holds, where no other candidate is ahead of it beyond chance."""
    alive = _alive(candidates)
    holding = [one for one in alive if one.likelihood_holds]
    if not holding:
        return None
    best, first = min(alive, key=_mean), min(holding, key=_mean)
    return None if difference(first, best).is_positive() else first


def _score(one: Candidate, fitting: Fitting, scoring: Scoring, rows: int) -> None:
    """Fit a candidate unless it is, and score it on held-out rows up to that number."""
    begun = time.perf_counter()
    try:
        if one.fitted is None:
            one.fitted = fitting(one.estimator)
            one.label = label_with_found(one)
        fitted_by = time.perf_counter()
        lines = scoring(one.fitted, len(one.scores), rows) if rows > len(one.scores) else []
    except REFUSALS as error:
        one.note = f"refused: {error}"
        return
    ended = time.perf_counter()
    if not np.all(np.isfinite([line.score for line in lines])):
        one.note = "refused: its draws have no finite score"
        return
    one.seconds += ended - begun
    one.seconds_a_row = (ended - fitted_by) / max(len(lines), 1)
    one.rows = np.append(one.rows, scoring.order[len(one.scores) :][: len(lines)])
    one.scores = np.append(one.scores, [line.score for line in lines])
    one.covered.extend(line.covered for line in lines)
    one.size = float(np.mean([line.size for line in lines])) if lines else one.size


# --- scores on held-out rows ---


class Line(NamedTuple):
    """Of a held-out row: its score, whether central 90% intervals cover it (p,), the sample size."""

    score: float
    covered: np.ndarray
    size: float


@dataclass(frozen=True, eq=False)
class Scoring:
    """Scores posteriors at held-out rows, in the deviations of the parameters."""

    # Shapes: truth (r, p); observed (r, d); unit (p,); order (h,).
    truth: np.ndarray
    observed: np.ndarray
    unit: np.ndarray
    order: np.ndarray
    seed: int

    @classmethod
    def of(cls, rest: CheckedRows, held_out: CheckedRows, rng: np.random.Generator) -> Scoring:
        """Under another prior rows are drawn in proportion to its density ratio, some more than once."""
        order = np.arange(len(held_out))
        if held_out.ratio is not None:
            order = rng.choice(order, len(order), p=held_out.ratio / held_out.ratio.sum())
        seed = int(rng.integers(2**31))
        return cls(held_out.parameters, held_out.statistics, rest.unit, order, seed)

    @property
    def size(self) -> int:
        """Number of rows that can be scored."""
        return len(self.order)

    def __call__(self, fitted: Estimator, start: int, stop: int, together: int = 5) -> list[Line]:
        """Lines of rows `start` to `stop`, of which a thread has a few: as many on every machine."""
        numbers = self.order[start:stop]
        rows = np.unique(numbers)
        compared = fitted.for_scores()
        # Signed weights are projected in many small steps, which two threads only take from each other.
        if isinstance(compared, Adjusted):
            parts = [rows[i : i + together] for i in range(0, len(rows), together)]
            with parallel_map(len(parts)) as map_:
                each = [
                    line for part in map_(lambda part: self._lines(compared, part), parts) for line in part
                ]
        else:
            each = self._lines(compared, rows)
        lines = dict(zip(rows.tolist(), each, strict=True))
        return [lines[number] for number in numbers.tolist()]

    def _lines(self, fitted: Estimator, rows: np.ndarray, draws: int = 300, power: float = 0.1) -> list[Line]:
        """Energy scores of power one tenth: below one, blurred modes and bends count more."""
        lines = []
        # Repeated draws would count as lumps, which those that are made as asked for have none of.
        count = getattr(fitted, "particles", draws) if fitted.draws_as_asked else draws
        for row, posterior in zip(rows.tolist(), fitted.condition(self.observed[rows]), strict=True):
            # Smoothing makes no difference to a score of many atoms.
            smoothing = "none" if posterior.effective_sample_size > draws else None
            drawn = posterior.draw(count, np.random.default_rng((self.seed, row)), smoothing=smoothing)
            score = energy_score(drawn / self.unit, self.truth[row] / self.unit, power, fair=True)
            size = effective_sample_size(posterior.simplex_weights)
            lines.append(Line(score, covered(drawn, self.truth[row]), size))
        return lines


# --- fits to the rows that are not held out ---


class Fitting:
    """Fits candidates to the same rows; a summary that several of them name is learnt once."""

    def __init__(self, rows: CheckedRows, seed: int, log_prior: LogDensity | None) -> None:
        self._rows, self._seed, self._log_prior = rows, seed, log_prior
        self._summaries: dict[str, Summary | Exception] = {}

    def prepare(self, estimators: Sequence[Estimator]) -> None:
        """Learn the summaries that estimators name."""
        named = {name for one in estimators for name in names_of_summaries(one).values()}
        new = sorted(named - set(self._summaries))
        with parallel_map(len(new)) as map_:
            self._summaries.update(zip(new, map_(self._summary, new), strict=True))

    def _summary(self, name: str) -> Any:
        try:
            return make_summary(name, self._rows.statistics, self._rows.parameters, self._rows.lowest)
        except REFUSALS as error:  # a refusal of the candidates that name it
            return error

    def __call__(self, estimator: Estimator) -> Estimator:
        """A fitted copy, with the prior's log density where it is known."""
        named = {key: self._summaries[name] for key, name in names_of_summaries(estimator).items()}
        for summary in named.values():
            if isinstance(summary, Exception):
                raise summary
        copied = clone(estimator).set_params(**named)
        copied.check(len(self._rows))
        table = scaled(self._rows, copied.scale_of_statistics())
        fitted = copied.fit_table(table, np.random.default_rng(self._seed))
        return fitted.under(self._log_prior)


def names_of_summaries(estimator: Estimator) -> dict[str, str]:
    """The arguments `scale` of an estimator, and of those inside it, that name a summary."""
    given = estimator.get_params().items()
    return {
        name: value for name, value in given if name.split("__")[-1] == "scale" and isinstance(value, str)
    }
