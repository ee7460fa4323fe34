"""The estimator with the best score on held-out rows of its own reference table."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import KDTree
from sklearn.base import clone

from pymc_kbr.arrays.scaling import Scaler
from pymc_kbr.arrays.support import Support
from pymc_kbr.estimators import Estimator, Localised, make_estimator
from pymc_kbr.selection.candidate import Trial, difference, label, mean_score
from pymc_kbr.selection.default_candidates import default_candidates
from pymc_kbr.selection.race import Race, names_of_summaries
from pymc_kbr.tables.reference_table import ReferenceTable
from pymc_kbr.tables.stored_table import StoredTable

HELD_OUT, MOST = 0.1, 400
"""Share of the rows that are held out, and their largest number."""

LEAST_ROWS = 100
"""Rows of a table below which nothing is chosen."""

FEW = 0.01
"""Share of the rows below which those that are held out are not missed by the chosen candidate."""

IN_MEMORY = 20_000
"""Rows of a table on the disk on which the choice is made."""

NEAR = 0.25
"""Share of the table, nearest to the observation, from which rows are held out where there is one."""


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
    cut_short : bool
        Whether the time budget ended the comparison: with more time another one may be chosen.
    """

    trials: tuple[Trial, ...]
    weights: np.ndarray
    seconds: float
    cut_short: bool = False

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
                "score": mean_score(trial.scores, self.weights),
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
        compared = len(tried[0].scores) if tried else len(best.scores)
        text = (
            f"{best.label}: the lowest energy score of {1 + len(tried)} candidates on {compared} held-out "
            "rows, or the most atoms of those that cannot be told from it: "
            f"{mean_score(best.scores, self.weights):.4f} on {len(best.scores)}"
        )
        if tried:
            excess, error = self._excess(tried[0])
            text += f"; next {tried[0].label}, {excess:+.4f} with a standard error of {error:.4f}"
        if self.cut_short:
            text += "; the time budget ended the comparison early"
        return text

    def coverage(self) -> np.ndarray:
        """Share of held-out rows whose parameters the chosen candidate's central 90% covered, shape (p,)."""
        return np.average(self.chosen.covered, axis=0, weights=self.weights[: len(self.chosen.covered)])

    def _excess(self, trial: Trial) -> tuple[float, float]:
        return difference(trial.scores, self.chosen.scores, self.weights)


def select(
    table: ReferenceTable | StoredTable,
    *,
    candidates: Sequence[str | Estimator] | None = None,
    time_budget: float = 20.0,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
) -> Estimator:
    """The estimator with the best energy score on held-out rows of a table, fitted to the table.

    Parameters
    ----------
    table : ReferenceTable or StoredTable
        Its observation plays no part: the choice is for use on many. Of a `StoredTable` it is made on 20,000
        rows, spread evenly over it.
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
        With an attribute ``selection_``, a `Selection`: the scores of all candidates. Of a `StoredTable`,
        fitted to all rows where it reads them a part at a time and gives weight to some, otherwise to the
        20,000: the attribute ``fitted_rows_`` says which.

    Raises
    ------
    TypeError, ValueError
        If a candidate's name is unknown, one of its arguments is out of range, or the budget is not
        positive.

    Notes
    -----
    A tenth of the rows, at most 400, is held out. What is returned is fitted to all rows, or where less than
    one in a hundred was held out to the others. Each candidate is fitted to the others and its
    posteriors are scored at the held-out parameters by `energy_score` with power one tenth, over the
    parameters' standard deviations: it sees a blurred mode sooner than power one does. Of the candidates
    within a fifth of a standard error a parameter of the lowest score the one with the largest effective
    sample size is taken, since a score does not see how often few atoms are repeated in many draws. After
    20, 40, 100 and 200 rows candidates that are behind the best one by two standard errors are dropped,
    and all but 12, 8, 5 and 3. From 100 rows on the comparison ends as soon as none of the others can be
    ahead of the best one by a five-hundredth of its score, about a fiftieth of a CRPS, within two standard
    errors. The best one is then scored on all held-out rows, for its coverage.

    The best candidate so far is scored first on further rows, then the cheaper ones: where the budget ends
    the comparison, the costly ones have been scored on fewer, and are compared on those.
    """
    rng = np.random.default_rng(random_seed)
    loaded = table.load(IN_MEMORY) if isinstance(table, StoredTable) else table
    chosen = choose(
        loaded.parameters,
        loaded.statistics,
        loaded.support,
        candidates=candidates,
        time_budget=time_budget,
        rng=rng,
        progressbar=progressbar,
    )
    return fitted_to_all(chosen, table, rng) if isinstance(table, StoredTable) else chosen


def fitted_to_all(chosen: Estimator, stored: StoredTable, rng: np.random.Generator) -> Estimator:
    """An estimator that was chosen on some rows of a table, fitted to all of them if it picks rows."""
    if not (chosen.streams and chosen.picks):
        return chosen
    fitted = clone(chosen).fit(
        stored.parameters,  # type: ignore[arg-type]
        stored.statistics,  # type: ignore[arg-type]
        stored.support,
        random_seed=rng,
    )
    return fitted.chosen_by(chosen.selection_, len(stored))


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
        return chosen.chosen_by(Selection((trial,), np.empty(0), 0.0), n)
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
    refit = len(held_out) > FEW * len(rows)
    race = Race(
        parameters,
        statistics,
        support,
        ratio,
        rest,
        held_out,
        rng,
        started=started,
        seconds=time_budget,
        refit=refit,
    )
    trials = race.run([Trial(label(c), c) for c in given], progressbar)
    best = trials[0]
    if refit or best.fitted is None:
        fitted = clone(best.estimator).fit(parameters, statistics, support, ratio=ratio, random_seed=rng)
    else:
        fitted = best.fitted.set_params(**names_of_summaries(best.estimator))
    weights = np.ones(len(held_out)) if ratio is None else ratio[held_out] / ratio[held_out].mean()
    seconds = time.perf_counter() - started
    return fitted.chosen_by(Selection(tuple(trials), weights, seconds, race.cut_short), len(fitted.table_))


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
