"""The estimator with the best score on held-out rows of its own reference table."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.checked_rows import CheckedRows
from pymc_kbr.arrays.exchangeable import seems_exchangeable
from pymc_kbr.arrays.names import Names, refuse_sets
from pymc_kbr.arrays.refusals import flag, generator_of, of_type, shown
from pymc_kbr.arrays.rows import constants_named
from pymc_kbr.arrays.threads import one_blas_thread
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.arrays.weighted import weighted_order
from pymc_kbr.estimators import Estimator, Localised, make_estimator
from pymc_kbr.estimators.checks import warn_of_copies, warn_of_outliers, warn_of_strange
from pymc_kbr.estimators.fitted_table import scaled
from pymc_kbr.estimators.likelihood.choice import dependent_of_many
from pymc_kbr.estimators.likelihood.success import weighting_of
from pymc_kbr.estimators.refitted import after_comparison, on_all_rows
from pymc_kbr.estimators.summaries import Dependent
from pymc_kbr.selection.budget import Budget, check_budget
from pymc_kbr.selection.default_candidates import (
    MOST_FOR_CURVES,
    default_candidates,
    heavy_where_defined,
)
from pymc_kbr.selection.race import Race, RaceRule, names_of_summaries
from pymc_kbr.selection.selection import NOT_NEEDED, Candidate, Selection, label, skip_fallbacks
from pymc_kbr.tables.reference_table import ReferenceTable
from pymc_kbr.tables.stored_table import StoredTable

WORK = 30.0
"""Of a choice, in the units of `pymc_kbr.selection.budget`: some 20 to 30 seconds of one core."""

HELD_OUT_SHARE, LEAST_HELD_OUT, MOST_HELD_OUT = 0.1, 20, 400
"""Share of the rows that are held out, and their smallest and largest number."""

LEAST_FOR_CHOICE = 100
"""Rows of a table below which nothing is chosen."""

NOT_MISSED = 0.01
"""Share of the rows below which those that are held out are not missed by the chosen candidate."""

IN_MEMORY = 20_000
"""Rows of a table on the disk on which the choice is made."""

NEAREST_SHARE = 0.25
"""Share of the table, nearest to the observation, from which rows are held out where there is one."""


@default_arithmetic
def select(
    table: ReferenceTable | StoredTable,
    *,
    candidates: Sequence[str | Estimator] | None = None,
    work: float = WORK,
    time_budget: float | None = None,
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
    work : float
        How much may be compared, in units of about a second that each candidate is charged with by a formula
        instead of a clock: the same seed gives the same choice on any machine, and beside any other work.
        Candidates for which none is left are not tried, and the result says so.
    time_budget : float, optional
        Seconds, about, as a further limit; where they end the comparison a warning says so, and the choice
        depends on the machine. Nothing looks at a clock where they are left out.
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
        If a candidate's name is unknown, one of its arguments is out of range, or a budget is not
        positive.

    Warns
    -----
    UserWarning
        If the time budget ended the comparison, the deviation of a statistic is that of a few rows, or a
        parameter is far from all others in a few.

    Notes
    -----
    A tenth of the rows, at most 400, is held out. What is returned is fitted to all rows, or where less than
    one in a hundred was held out to the others. Each candidate is fitted to the others and its posteriors are
    scored at the held-out parameters by `energy_score` with power one tenth, over the parameters' standard
    deviations: it sees a blurred mode sooner than power one does. Of the candidates within a fifth of a
    standard error a parameter of the lowest score the one with the largest effective sample size is taken,
    since a score does not see how often few atoms are repeated in many draws. A learned likelihood, which
    repeats none and is compared by a fit to a part of the rows, is taken where it is within two standard
    errors and 1% of the score, the best of several, unless held-out rows refute its form. It is scored on 40
    rows, and on 100 where it would not be taken by these, and of tables with fewer than 2,000. Where no
    candidates are named and one is not refuted after 20 rows, nor behind by three standard errors, those that
    come after it in `default_candidates` are not tried: choices among them all are no better
    (`tests.statistical.race_rules`). After 20, 40, 100 and 200 rows candidates that are behind the best one
    are dropped, by 3, 2.5, 2 and 2 standard errors, learned likelihoods that are not refuted after 100 at the
    earliest, and all others but 10, 5, 3 and 2.

    The comparison ends after these 40 or 100 rows where a learned likelihood is ahead on them and not
    refuted, and from 100 rows on as soon as none of the others can be ahead of the best one by a
    five-hundredth of its score, about a fiftieth of a CRPS, within two standard errors. The best one, if it
    is no learned likelihood, is then scored on all held-out rows for its coverage.

    The best candidate so far is scored first on further rows, then the cheaper ones: where the budget ends
    the comparison, the costly ones have been scored on fewer, and are compared on those. On processors of
    another kind, or with another BLAS library, results agree but for rounding.

    Examples
    --------
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"a": rng.normal(size=400)})
    >>> frame["x"] = frame["a"] + 0.3 * rng.normal(size=400)
    >>> table = ReferenceTable.from_dataframe(frame, parameters=["a"], statistics=["x"])
    >>> candidates = ["rejection", "adjusted"]
    >>> chosen = select(table, candidates=candidates, random_seed=1, progressbar=False)
    >>> chosen.selection_.chosen.label.split("(")[0]
    'Adjusted'
    """
    if not isinstance(table, ReferenceTable | StoredTable):
        raise TypeError(
            f"{of_type(table)} is given; select takes a ReferenceTable or a StoredTable: make one, "
            "as by `ReferenceTable.from_dataframe`"
        )
    refuse_sets(table)
    rng = generator_of(random_seed)
    loaded = table.load(IN_MEMORY) if isinstance(table, StoredTable) else table
    weighting = weighting_of(loaded)
    sides = loaded.parameters, loaded.statistics, loaded.support
    rows = CheckedRows.trusted(*sides, weighting.ratio, weighting.success, Names.of_table(loaded))
    limits: dict[str, Any] = {"work": work, "time_budget": time_budget, "progressbar": progressbar}
    with constants_named(loaded.statistics, loaded.statistic_names):
        chosen = choose(rows, candidates=candidates, rng=rng, **limits).named(loaded)
        if isinstance(table, StoredTable):
            return on_all_rows(chosen, table, rng)
        return chosen.noted_as_fitted(table)


def choose(
    rows: CheckedRows,
    *,
    rng: np.random.Generator,
    candidates: Sequence[str | Estimator] | None = None,
    work: float = WORK,
    time_budget: float | None = None,
    near: np.ndarray | None = None,
    progressbar: bool = True,
) -> Estimator:
    """What `select` does, on rows, whose weights may be those of another prior; near an observation (d,)."""
    check_budget(work, time_budget)
    flag("progressbar", progressbar)
    started = time.perf_counter()
    n = len(rows.carrying)
    if n < LEAST_FOR_CHOICE:
        return _not_chosen(rows, rng)
    count = number_held_out(n)
    given, whole = check_candidates(candidates, n - count), scaled(rows)
    estimators = _defaults(rows, n - count, near) if given is None else given
    tried = [Candidate(label(one), one) for one in estimators]
    if given is None:
        skip_fallbacks(tried)
    # Not the very nearest alone: these would be held out of the rows that the candidates need most.
    numbers = whole.some_rows(count, rng, near, min(max(2 * count, int(NEAREST_SHARE * n)), n))
    if rows.ratio is not None:
        numbers = numbers[weighted_order(rows.ratio[numbers], rng)]
    held_out, rest = rows.some(numbers), rows.some(np.setdiff1d(rows.carrying, numbers))
    refit = len(held_out) > NOT_MISSED * n
    budget = Budget(work, time_budget, refit)
    race = Race(rest, held_out, rng, budget, RaceRule.of_table(n))
    # Sums that BLAS divides among threads are rounded as it divides them: on one thread they are the same.
    with one_blas_thread():
        ranked = race.run(tried, progressbar)
        best, compared, fitting = ranked[0], time.perf_counter(), 0.0
        if refit or best.fitted is None or best.estimator.for_scores() is not best.estimator:
            chosen = after_comparison(best.estimator, best.fitted)
            scale: Any = chosen.scale_of_statistics()
            # Tested on all rows, more or fewer statistics might be kept than the form was settled for.
            if best.fitted is not None and isinstance(best.fitted.table_.scaler, Dependent):
                scale = best.fitted.table_.scaler.of_rows(rows.statistics, rows.parameters)
            chosen.fit_table(whole if scale is True else scaled(rows, scale), rng)
            fitting = time.perf_counter() - compared
        else:
            chosen = best.fitted.set_params(**names_of_summaries(best.estimator))
    if chosen.scale_of_statistics() is True:  # by other scales, such as curves, nothing hardly counts
        warn_of_outliers(whole)
    warn_of_strange(whole)
    warn_of_copies(whole)
    seconds = time.perf_counter() - started
    ended = race.ended_early, budget.late
    found = Selection(tuple(ranked), race.weights, seconds, budget.spent, *ended, fitting)
    if found.cut_short:
        _warn_of_time(found, time_budget)
    return chosen.chosen_by(found, len(chosen.table_))


def _defaults(rows: CheckedRows, fitted: int, near: np.ndarray | None) -> list[Estimator]:
    """What is tried where nothing is given, fitted to so many of the rows."""
    d = rows.statistics.shape[1]
    heavy = d <= MOST_FOR_CURVES and heavy_where_defined(rows.statistics, near)
    alike = seems_exchangeable(rows.statistics, rows.parameters)
    dependent = dependent_of_many(rows.statistics, rows.parameters)
    return default_candidates(fitted, d, heavy=heavy, alike=alike, dependent=dependent)


def _not_chosen(rows: CheckedRows, rng: np.random.Generator) -> Estimator:
    """The localised estimator, for tables of few rows."""
    sides = rows.parameters, rows.statistics, rows.support
    chosen = Localised().fit(*sides, ratio=rows.ratio, success=rows.success, random_seed=rng)
    note = f"{len(rows.carrying)} rows are too few to choose among estimators; {LEAST_FOR_CHOICE} are needed"
    only = Candidate(label(chosen), chosen, note=note)
    return chosen.chosen_by(Selection((only,), np.empty(0), 0.0), len(rows))


def check_candidates(
    candidates: Sequence[str | Estimator] | None, rows: int | None = None
) -> list[Estimator] | None:
    """The estimators that are named or given, checked for so many rows; None where none are."""
    if candidates is None:
        return None
    if isinstance(candidates, str) or not isinstance(candidates, Sequence):
        raise TypeError(f"candidates is {shown(candidates)}; give a list of names or estimators")
    given = [make_estimator(candidate) for candidate in candidates]
    if not given:
        raise ValueError("there are no candidates; give at least one, or leave them out")
    if rows is not None:
        for candidate in given:
            candidate.check(rows)
    return given


def _warn_of_time(found: Selection, time_budget: float | None) -> None:
    tried = sum(len(one.scores) > 0 for one in found.candidates)
    wanted = sum(not one.note.startswith(NOT_NEEDED) for one in found.candidates)
    rows = len(found.chosen.scores)
    warnings.warn(
        f"the time budget of {time_budget} seconds ended the choice of an estimator with {tried} of "
        f"{wanted} candidates tried, the chosen one on {rows} rows: another run with "
        "the same seed may choose differently; give more seconds, or leave `time_budget` out, and take less "
        "`work` where it lasts too long",
        UserWarning,
        stacklevel=users_line(),
    )


def number_held_out(n: int) -> int:
    """How many of n rows are held out."""
    share = np.clip(HELD_OUT_SHARE * n, LEAST_HELD_OUT, MOST_HELD_OUT)
    return min(int(share), n // 2)
