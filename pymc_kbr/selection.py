"""The estimator with the best score on held-out rows of its own reference table."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.progress import Progress
from scipy.spatial import KDTree
from sklearn.base import clone

from pymc_kbr.adjustments import JointNeighbours
from pymc_kbr.estimators import Adjusted, Estimator, Localised, Rejection, make_estimator
from pymc_kbr.reference_table import ReferenceTable
from pymc_kbr.scores import covered, energy_score
from pymc_kbr.smoothing import effective_sample_size
from pymc_kbr.summaries import SUMMARIES, Scaler
from pymc_kbr.support import Support

HELD_OUT, MOST = 0.1, 400
"""Share of the rows that are held out, and their largest number."""

LEAST_ROWS = 100
"""Rows of a table below which nothing is chosen."""

DRAWS = 300
"""Draws of each posterior that is scored."""

POWER = 0.1
"""Of distances in the energy score by which is chosen: below one, blurred modes and bends count more."""

ROUNDS = {40: 8, 100: 5, 200: 3}
"""Held-out rows after which candidates that are behind are dropped, and how many are kept at most."""

BEHIND = 2.0
"""Standard errors of the difference to the best candidate at which another one is dropped."""

TIED = 0.2
"""Standard errors a parameter within which candidates are as good as the best: the most atoms then decide.

The atoms that it takes to fill a posterior without lumps grow with its dimension.
"""

FOR_TRIALS = 0.8
"""Share of the time budget for trials; the rest is for fitting the chosen estimator to all rows."""

FOR_FIRST = 0.7
"""Share of the trials' time after which no further candidate is begun: the rest is for more rows."""

MANY = 20
"""Statistics above which joint neighbours, whose slopes are then costly, are tried late."""

PLENTY = 300
"""Effective sample size from which smoothing makes no difference to a score, and is left out of it."""

NEAR = 0.25
"""Share of the table, nearest to the observation, from which rows are held out where there is one."""


@dataclass
class Trial:
    """One candidate's scores.

    Attributes
    ----------
    label : str
    estimator : Estimator
        Fitted to the rows that are not held out, or as it was given.
    scores : ndarray
        Energy scores of the held-out rows, in their order, as far as the candidate came.
    covered : list of ndarray of bool, shape (p,)
        Whether the central 90% of draws covered each parameter.
    size : float
        Mean effective sample size of its posteriors' atoms.
    seconds : float
    note : str
        Why it was dropped or not tried.
    """

    label: str
    estimator: Estimator
    scores: np.ndarray = field(default_factory=lambda: np.empty(0))
    covered: list[np.ndarray] = field(default_factory=list)
    size: float = 0.0
    seconds: float = 0.0
    note: str = ""


@dataclass(frozen=True, eq=False)
class Selection:
    """What was tried, and what was chosen.

    Parameters
    ----------
    trials : tuple of Trial
        The best first.
    weights : ndarray of shape (h,)
        Of the held-out rows.
    seconds : float
    """

    trials: tuple[Trial, ...]
    weights: np.ndarray
    seconds: float

    @property
    def chosen(self) -> Trial:
        """The best trial."""
        return self.trials[0]

    def table(self) -> list[dict[str, Any]]:
        """One row a candidate: its score, the excess over the chosen one's, the standard error of that."""
        return [
            {
                "candidate": trial.label,
                "rows": len(trial.scores),
                "score": _mean(trial.scores, self.weights),
                **dict(zip(("excess", "standard_error"), self._excess(trial), strict=True)),
                "effective_sample_size": trial.size,
                "seconds": trial.seconds,
                "note": trial.note,
            }
            for trial in self.trials
        ]

    def reason(self) -> str:
        """One sentence that says what was chosen and why."""
        best, *others = self.trials
        tried = [trial for trial in others if len(trial.scores)]
        if not len(best.scores):
            return f"{best.label}: {best.note}"
        text = (
            f"{best.label}: the lowest energy score of {1 + len(tried)} candidates on {len(best.scores)} "
            "held-out rows, or the most atoms of those that cannot be told from it: "
            f"{_mean(best.scores, self.weights):.4f}"
        )
        if tried:
            excess, error = self._excess(tried[0])
            text += f"; next {tried[0].label}, {excess:+.4f} with a standard error of {error:.4f}"
        return text

    def coverage(self) -> np.ndarray:
        """Share of held-out rows whose parameters the chosen candidate's central 90% covered, shape (p,)."""
        return np.average(self.chosen.covered, axis=0, weights=self.weights[: len(self.chosen.covered)])

    def _excess(self, trial: Trial) -> tuple[float, float]:
        return difference(trial.scores, self.chosen.scores, self.weights)


def default_candidates(n: int, d: int = 1) -> list[Estimator]:
    """The estimators and settings that are tried on n rows of d statistics, the most promising first."""

    def accepted(rows: float, scale: Any, kernel: str = "epanechnikov") -> Rejection:
        return Rejection(int(np.clip(rows, 20, n)), kernel=kernel, scale=scale)

    scales = (True, "relevance")
    joint: list[Estimator] = [Adjusted(accepted(400, scale), JointNeighbours()) for scale in scales]
    joint.append(Adjusted(accepted(200, True), JointNeighbours()))
    candidates: list[Estimator] = [
        *(Adjusted(accepted(0.3 * n, scale), "kernel_ridge") for scale in scales),
        Adjusted(accepted(0.1 * n, True), "heteroscedastic_kernel_ridge"),
        *(joint if d <= MANY else []),
        *(Adjusted(accepted(0.1 * n, scale), "local_linear") for scale in scales),
        Adjusted(accepted(0.1 * n, "relevance"), "heteroscedastic_kernel_ridge"),
        *(accepted(100, scale, "top_hat") for scale in scales),
        Adjusted(accepted(n, True), "kernel_ridge"),
        Adjusted(accepted(0.3 * n, True), "heteroscedastic_kernel_ridge"),
        Adjusted(accepted(0.1 * n, True), "heteroscedastic_local_linear"),
        Adjusted(accepted(0.3 * n, True), "local_linear"),
        Adjusted(accepted(100, True, "top_hat"), "none", smoothing="global"),
        *([] if d <= MANY else joint),
        Localised(),
    ]
    return candidates


def select(
    table: ReferenceTable,
    *,
    candidates: Sequence[str | Estimator] | None = None,
    time_budget: float = 20.0,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
) -> Estimator:
    """The estimator with the best energy score on held-out rows of a table, fitted to all of them.

    Parameters
    ----------
    table : ReferenceTable
        Its observation plays no part: the choice is for use on many.
    candidates : sequence of str or Estimator, optional
        Names, or estimators with settings of your own; `default_candidates` where left out.
    time_budget : float
        Seconds, about: candidates for which no time is left are not tried, and the result says so. On a
        slower machine the choice may therefore be another one.
    random_seed : int or numpy.random.Generator, optional
        Of the rows that are held out, and of draws.
    progressbar : bool

    Returns
    -------
    Estimator
        With an attribute ``selection_``, a `Selection`: the scores of all candidates.

    Raises
    ------
    TypeError, ValueError
        If a candidate's name is unknown, one of its arguments is out of range, or the budget is not
        positive.

    Notes
    -----
    A tenth of the rows, at most 400, is held out. Each candidate is fitted to the others and its
    posteriors are scored at the held-out parameters by `energy_score` with power one tenth, over the
    parameters' standard deviations: it sees a blurred mode sooner than power one does. Of the candidates
    within a fifth of a standard error a parameter of the lowest score the one with the largest effective
    sample size is taken, since a score does not see how often few atoms are repeated in many draws. After
    40, 100 and 200 rows candidates that are behind the best one by two standard errors are dropped, and
    all but 8, 5 and 3.
    """
    return choose(
        table.parameters,
        table.statistics,
        table.support,
        candidates=candidates,
        time_budget=time_budget,
        rng=np.random.default_rng(random_seed),
        progressbar=progressbar,
    )


def choose(
    parameters: np.ndarray,
    statistics: np.ndarray,
    support: Support,
    *,
    rng: np.random.Generator,
    candidates: Sequence[str | Estimator] | None = None,
    time_budget: float = 20.0,
    ratio: np.ndarray | None = None,
    near: np.ndarray | None = None,
    progressbar: bool = True,
) -> Estimator:
    """What `select` does, on arrays; for another prior by its density ratio; near an observation (d,)."""
    started = time.perf_counter()
    if not time_budget > 0:
        raise ValueError(f"time_budget is {time_budget!r}; it must be above zero seconds")
    n = len(parameters)
    rows = np.arange(n) if ratio is None else np.flatnonzero(ratio > 0)
    if len(rows) < LEAST_ROWS:
        chosen = Localised().fit(parameters, statistics, support, ratio=ratio, random_seed=rng)
        note = f"{len(rows)} rows are too few to choose among estimators; {LEAST_ROWS} are needed"
        trial = Trial(label(chosen), chosen, note=note)
        chosen.selection_ = Selection((trial,), np.empty(0), 0.0)  # type: ignore[attr-defined]
        return chosen
    held_out = hold_out(statistics, rows, near, rng)
    rest = np.setdiff1d(rows, held_out)
    given = (
        default_candidates(len(rest), statistics.shape[1])
        if candidates is None
        else [make_estimator(c) for c in candidates]
    )
    if not given:
        raise ValueError("there are no candidates; give at least one, or leave them out")
    for candidate in given:
        candidate.check(len(rest))
    race = Race(
        parameters,
        statistics,
        support,
        ratio,
        rest,
        held_out,
        rng,
        started=started,
        seconds=FOR_TRIALS * time_budget,
    )
    trials = race.run([Trial(label(c), c) for c in given], progressbar)
    best = with_summaries(trials[0].estimator, race.summaries)
    fitted = clone(best, safe=False).fit(parameters, statistics, support, ratio=ratio, random_seed=rng)
    weights = np.ones(len(held_out)) if ratio is None else ratio[held_out] / ratio[held_out].mean()
    fitted.selection_ = Selection(tuple(trials), weights, time.perf_counter() - started)
    return fitted


def hold_out(
    statistics: np.ndarray, rows: np.ndarray, near: np.ndarray | None, rng: np.random.Generator
) -> np.ndarray:
    """The rows that are held out: of all, or of those nearest to an observation."""
    count = int(np.clip(HELD_OUT * len(rows), 20, MOST))
    if near is not None:
        scaler = Scaler.fit(statistics[rows])
        most = max(2 * count, int(NEAR * len(rows)))
        tree = KDTree(scaler.transform(statistics[rows]))
        rows = rows[tree.query(scaler.transform(near[None])[0], k=min(most, len(rows)))[1]]
    return rng.choice(rows, min(count, len(rows) // 2), replace=False)


class Race:
    """Candidates scored on more and more held-out rows, the losers dropped on the way."""

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
    ) -> None:
        self.train = (parameters[rest], statistics[rest], support)
        self.ratio = None if ratio is None else ratio[rest]
        deviation = parameters[rest].std(axis=0)
        self.unit = np.where(deviation > 0, deviation, 1.0)
        self.truth, self.observed = parameters[held_out], statistics[held_out]
        self.weights = np.ones(len(held_out)) if ratio is None else ratio[held_out]
        self.seed = int(rng.integers(2**31))
        self.started, self.seconds = started, seconds
        self.summaries: dict[str, Any] = {}
        self._fitted: dict[Any, Adjusted] = {}

    def run(self, trials: list[Trial], progressbar: bool) -> list[Trial]:
        """All trials, the best first."""
        stops = sorted({min(stop, len(self.truth)) for stop in (*ROUNDS, len(self.truth))})
        alive = list(trials)
        with Progress(disable=not progressbar, transient=True) as progress:
            task = progress.add_task("choosing an estimator", total=len(self.truth))
            for start, stop in zip([0, *stops[:-1]], stops, strict=True):
                for trial in list(alive):
                    if trial is alive[0] or not self._late(FOR_FIRST if start == 0 else 1.0):
                        self._score(trial, start, stop, alive)
                    elif start == 0:
                        trial.note = "not tried: no time was left"
                        alive.remove(trial)
                if not alive:
                    raise ValueError(
                        "no candidate could be fitted: " + "; ".join(f"{t.label}: {t.note}" for t in trials)
                    )
                progress.update(task, completed=stop)
                if min(len(trial.scores) for trial in alive) < stop:
                    break
                self._drop(alive, ROUNDS.get(stop, len(alive)), stop)
                if len(alive) == 1:
                    break
        most = max(len(trial.scores) for trial in alive)
        ranked = self.ranked([trial for trial in alive if len(trial.scores) == most])
        ranked += sorted(
            (trial for trial in alive if trial not in ranked),
            key=lambda trial: difference(trial.scores, ranked[0].scores, self.weights)[0],
        )
        dropped = [trial for trial in trials if trial not in alive]
        scored = [trial for trial in dropped if len(trial.scores)]
        scored.sort(key=lambda trial: difference(trial.scores, ranked[0].scores, self.weights)[0])
        return [*ranked, *scored, *[trial for trial in dropped if not len(trial.scores)]]

    def _drop(self, alive: list[Trial], most: int, rows: int) -> None:
        """Drop the candidates that are behind, and those beyond the best `most`."""
        best = min(alive, key=lambda trial: _mean(trial.scores, self.weights))
        alive.sort(key=lambda trial: _mean(trial.scores, self.weights))
        for place, trial in enumerate(list(alive)):
            excess, error = difference(trial.scores, best.scores, self.weights)
            if place >= most or excess > BEHIND * error > 0:
                trial.note = f"dropped after {rows} rows"
                alive.remove(trial)

    def ranked(self, trials: list[Trial]) -> list[Trial]:
        """Those that are tied with the best by effective sample size, then the others by score."""
        best = min(trials, key=lambda trial: _mean(trial.scores, self.weights))

        def key(trial: Trial) -> tuple[bool, float]:
            excess, error = difference(trial.scores, best.scores, self.weights)
            tied = trial is best or excess <= TIED * len(self.unit) * error
            return (False, -trial.size) if tied else (True, excess)

        return sorted(trials, key=key)

    def _late(self, share: float = 1.0) -> bool:
        return time.perf_counter() > self.started + share * self.seconds

    def _score(self, trial: Trial, start: int, stop: int, alive: list[Trial]) -> None:
        """Score a trial on held-out rows `start` to `stop`; drop it where it cannot be fitted."""
        then = time.perf_counter()
        try:
            if start == 0:
                trial.estimator = self._fit(trial.estimator)
            posteriors = trial.estimator.condition(self.observed[start:stop])
        except (ValueError, MemoryError, np.linalg.LinAlgError) as error:
            trial.note = f"refused: {error}"
            alive.remove(trial)
            return
        scores, sizes = [], []
        for row, posterior in zip(range(start, stop), posteriors, strict=True):
            smoothing = "none" if posterior.effective_sample_size > PLENTY else None
            draws = posterior.draw(DRAWS, np.random.default_rng((self.seed, row)), smoothing=smoothing)
            scores.append(energy_score(draws / self.unit, self.truth[row] / self.unit, POWER))
            sizes.append(effective_sample_size(posterior.simplex_weights))
            trial.covered.append(covered(draws, self.truth[row]))
        trial.scores = np.append(trial.scores, scores)
        trial.size = float(np.mean(sizes))
        trial.seconds += time.perf_counter() - then

    def _fit(self, estimator: Estimator) -> Estimator:
        """A candidate fitted to the rows that are not held out, sharing what others have computed."""
        for name, value in estimator.get_params().items():
            if name.split("__")[-1] == "scale" and isinstance(value, str) and value not in self.summaries:
                self.summaries[value] = SUMMARIES[value].fit(self.train[1], self.train[0])
        prepared = with_summaries(estimator, self.summaries)
        if isinstance(prepared, Adjusted):
            key = (repr(prepared.adjustment), id(prepared.scale))
            if key in self._fitted:
                return prepared.like(self._fitted[key])
            self._fitted[key] = prepared.fit(*self.train, ratio=self.ratio, random_seed=self.seed)
            return prepared
        return prepared.fit(*self.train, ratio=self.ratio, random_seed=self.seed)


def with_summaries(estimator: Estimator, summaries: dict[str, Any]) -> Estimator:
    """A copy whose arguments `scale` that name a summary hold the fitted one."""
    copied = clone(estimator)
    for name, value in estimator.get_params().items():
        if name.split("__")[-1] == "scale" and isinstance(value, str):
            copied.set_params(**{name: summaries[value]})
    return copied


def difference(scores: np.ndarray, best: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Mean difference of two candidates' scores on the rows that both have, and its standard error."""
    common = min(len(scores), len(best))
    if common < 2:
        return float("nan"), float("nan")
    apart, w = scores[:common] - best[:common], weights[:common] / weights[:common].sum()
    mean = float(w @ apart)
    return mean, float(np.sqrt(np.sum(w**2 * (apart - mean) ** 2)))


def label(estimator: Estimator) -> str:
    """A candidate in words: its class and the arguments that are not the defaults."""
    return " ".join(repr(estimator).split())


def _mean(scores: np.ndarray, weights: np.ndarray) -> float:
    return float(np.average(scores, weights=weights[: len(scores)])) if len(scores) else float("nan")
