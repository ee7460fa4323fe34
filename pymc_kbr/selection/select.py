"""The estimator with the best score on held-out rows of its own reference table."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.checked_rows import CheckedRows
from pymc_kbr.arrays.exchangeable import seems_exchangeable
from pymc_kbr.arrays.names import Names, refuse_sets
from pymc_kbr.arrays.refusals import flag, generator_of, of_type, shown
from pymc_kbr.arrays.rows import constants_named
from pymc_kbr.arrays.threads import one_blas_thread
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.estimators import Adjusted, Estimator, KernelLikelihood, Localised, Rejection, make_estimator
from pymc_kbr.estimators.checks import warn_of_copies, warn_of_outliers, warn_of_strange
from pymc_kbr.estimators.estimator import LogDensity
from pymc_kbr.estimators.fitted_table import FittedTable, scaled
from pymc_kbr.estimators.likelihood.autoregressive import MOST_SPARINGLY
from pymc_kbr.estimators.likelihood.choice import are_few, dependent_of_many
from pymc_kbr.estimators.likelihood.success import weighting_of
from pymc_kbr.selection.race import names_of_summaries, race
from pymc_kbr.selection.selection import Candidate, Selection, label
from pymc_kbr.tables.reference_table import ReferenceTable
from pymc_kbr.tables.stored_table import StoredTable

IN_MEMORY = 20_000
"""Rows of a table on the disk on which the choice is made."""

LEAST_FOR_CHOICE = 100
"""Rows of a table below which nothing is chosen."""


@default_arithmetic
def select(
    table: ReferenceTable | StoredTable,
    *,
    candidates: Sequence[str | Estimator] | None = None,
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
        If a candidate's name is unknown, or one of its arguments is out of range.

    Warns
    -----
    UserWarning
        If the deviation of a statistic is that of a few rows, or a parameter is far from all others in a few.

    Notes
    -----
    A hundred rows are held out, a tenth of a smaller table. Each candidate is fitted to the others and its
    posteriors are scored at the held-out parameters by `energy_score` with power one tenth, over the
    parameters' standard deviations: it sees a blurred mode sooner than power one does. After 40 rows
    candidates that are behind the best one by a paired t test at 5% are dropped, and unless a learned
    likelihood is the best, the others are scored on all. A learned likelihood that passes its own test on
    held-out rows is taken unless another one is ahead by that t test. Where no candidates are named and it
    is taken after 40 rows, the fallbacks of `default_candidates` are not tried. What is returned is what was
    compared, except that of fewer than 2,000 rows, or under another prior, it is fitted again to all. On
    processors of another kind, or with another BLAS library, results agree but for rounding.

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
    with constants_named(loaded.statistics, loaded.statistic_names):
        chosen = choose(rows, candidates=candidates, rng=rng, progressbar=progressbar).named(loaded)
        if chosen.selection_.interrupted:
            warnings.warn(chosen.selection_.interrupted, UserWarning, stacklevel=users_line())
        if isinstance(table, StoredTable):
            return on_all_rows(chosen, table, rng)
        return chosen.noted_as_fitted(table)


def choose(
    rows: CheckedRows,
    *,
    rng: np.random.Generator,
    candidates: Sequence[str | Estimator] | None = None,
    near: np.ndarray | None = None,
    log_prior: LogDensity | None = None,
    progressbar: bool = True,
    does_not_do: Callable[[Estimator], bool] | None = None,
    not_missed: float = 0.05,
    nearest: float = 0.25,
) -> Estimator:
    """What `select` does, on rows, whose weights may be those of another prior; near an observation (d,)."""
    # Held-out rows that are a share of at most `not_missed` of all are not missed; they are among the share
    # of the rows that are `nearest`. With `does_not_do`, a first candidate of which it is true is taken.
    flag("progressbar", progressbar)
    started = time.perf_counter()
    n = len(rows.carrying)
    if n < LEAST_FOR_CHOICE:
        return _not_chosen(rows, rng)
    count = number_held_out(n)
    given, whole, rows = check_candidates(candidates, n - count), scaled(rows), rows.reading(near)
    tried, fallbacks = _defaults(rows, n - count, near) if given is None else (given, [])
    # Not the very nearest alone: these would be held out of the rows that the candidates need most.
    numbers = whole.some_rows(count, rng, near, min(max(2 * count, int(nearest * n)), n))
    held_out, rest = rows.some(numbers), rows.some(np.setdiff1d(rows.carrying, numbers))
    first, others = ([Candidate(label(one), one) for one in some] for some in (tried, fallbacks))
    # Sums that BLAS divides among threads are rounded as it divides them: on one thread they are the same.
    with one_blas_thread():
        how: dict[str, Any] = {"log_prior": log_prior, "progressbar": progressbar}
        ranked = race(first, others, rest, held_out, rng, does_not_do=does_not_do, **how)
        compared, fitting = time.perf_counter(), 0.0
        chosen = ranked[0].fitted
        assert chosen is not None
        if count > not_missed * n or rows.ratio is not None:
            chosen = refitted(ranked[0].estimator, chosen, rows, rng)
            fitting = time.perf_counter() - compared
        else:
            chosen.set_params(**names_of_summaries(ranked[0].estimator))
    _warn_of_rows(chosen, whole)
    found = Selection(tuple(ranked), time.perf_counter() - started, fitting)
    return chosen.chosen_by(found, len(chosen.table_))


def refitted(
    estimator: Estimator, compared: Estimator, rows: CheckedRows, rng: np.random.Generator
) -> Estimator:
    """A candidate fitted to all rows, a learned likelihood in the form that was found before."""
    copied: Estimator = clone(estimator)
    if isinstance(compared, KernelLikelihood):
        copied.in_form_of(compared)
    return copied.fit_table(scaled(rows, copied.scale_of_statistics()), rng)


def chosen_before(compared: Estimator, rows: CheckedRows, rng: np.random.Generator) -> Estimator:
    """An estimator that was chosen on some of the simulations, fitted to all of them."""
    with one_blas_thread():
        fitted = refitted(compared.selection_.chosen.estimator, compared, rows, rng)
    _warn_of_rows(fitted, scaled(rows))
    return fitted.chosen_by(compared.selection_, len(fitted.table_))


def _warn_of_rows(chosen: Estimator, whole: FittedTable) -> None:
    if chosen.scale_of_statistics() is True:  # by other scales, such as curves, nothing hardly counts
        warn_of_outliers(whole)
    warn_of_strange(whole)
    warn_of_copies(whole)


def on_all_rows(chosen: Any, stored: StoredTable, rng: np.random.Generator) -> Any:
    """A fitted estimator that was chosen on some rows of a table, fitted to all of them if it picks rows."""
    # Rows that carry weights are fitted in memory.
    weighted = chosen.table_.ratio is not None or stored.prior_ratio is not None
    if not (chosen.streams and chosen.picks) or weighted:
        return chosen
    fitted = clone(chosen).fit(stored, random_seed=rng)
    return fitted.chosen_by(chosen.selection_, len(stored))


def _defaults(
    rows: CheckedRows, fitted: int, near: np.ndarray | None
) -> tuple[list[Estimator], list[Estimator]]:
    """What is tried where nothing is given, fitted to so many of the rows."""
    exchangeable = seems_exchangeable(rows.statistics, rows.parameters)
    dependent = dependent_of_many(rows.statistics, rows.parameters)
    heavy = heavy_where_defined(rows.statistics, near)
    return default_candidates(
        fitted, rows.statistics.shape[1], heavy=heavy, exchangeable=exchangeable, dependent=dependent
    )


def _not_chosen(rows: CheckedRows, rng: np.random.Generator) -> Estimator:
    """The localised estimator, for tables of few rows."""
    sides = rows.parameters, rows.statistics, rows.support
    chosen = Localised().fit(*sides, ratio=rows.ratio, success=rows.success, random_seed=rng)
    note = f"{len(rows.carrying)} rows are too few to choose among estimators; {LEAST_FOR_CHOICE} are needed"
    only = Candidate(label(chosen), chosen, note=note)
    return chosen.chosen_by(Selection((only,), 0.0), len(rows))


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


def number_held_out(n: int) -> int:
    """How many of n rows are held out: a hundred, or of few rows a tenth, and twenty at least."""
    return min(100, max(n // 10, 20), n // 2)


# --- what is tried where nothing is named ---


def default_candidates(
    n: int,
    d: int = 1,
    *,
    heavy: bool = False,
    exchangeable: bool = False,
    dependent: int | None = None,
    few: int = MOST_SPARINGLY,
    most_for_curves: int = 250,
    # As `Adjusted` accepts by default.
    accepted_share: float = 0.3,
    most_accepted: int = 10_000,
) -> tuple[list[Estimator], list[Estimator]]:
    """Those that are tried of n rows of d statistics, and fallbacks, by `curved_summaries` of the tests."""

    def accepted(rows: float, scale: Any) -> Rejection:
        count = int(np.clip(rows, 20, n))
        if count <= n // 2:
            return Rejection(count, kernel="epanechnikov", scale=scale)
        return Rejection(
            1.0, most=count, kernel="epanechnikov", scale=scale
        )  # may be fitted to fewer rows again

    own: Any = "transformed" if heavy else True
    estimates: Any = "joint_posterior_mean" if d <= most_for_curves else "linear_posterior_mean"
    exchangeable_form: list[Estimator] = [KernelLikelihood("exchangeable")] if exchangeable else []
    if d <= few:
        likelihoods = [*exchangeable_form, KernelLikelihood()]
    elif are_few(dependent, d):
        likelihoods = [*exchangeable_form, KernelLikelihood(scale="dependent")]
    elif d > most_for_curves and not exchangeable:
        # In one unit the density of held-out rows says which form it is.
        likelihoods = [KernelLikelihood(scale=False), KernelLikelihood("location_scale", scale=estimates)]
    else:
        likelihoods = [
            *(exchangeable_form or [KernelLikelihood("series", scale=False)]),
            KernelLikelihood("diagonal_scale", scale=d <= most_for_curves),
            KernelLikelihood("location_scale", scale=estimates),
        ]
    nearest = Adjusted(accepted(min(accepted_share * n, most_accepted), own), "kernel_ridge")
    of_estimates = Adjusted(accepted(0.1 * n, estimates), "heteroscedastic_local_linear")
    regression, other = (nearest, of_estimates) if d <= few else (of_estimates, nearest)
    fallbacks: list[Estimator] = [other, Rejection(1.0, most=100, kernel="top_hat", scale=own)]
    if 0.3 * n >= 2 * (d + 1) + 1:  # enough for a slope of each statistic: the farthest row has no weight
        fallbacks.insert(1, Adjusted(accepted(0.3 * n, own), "local_linear"))
    return [*likelihoods, regression], fallbacks


# --- heavy tails ---


def heavy_tailed(statistics: np.ndarray, beyond: float = 6.0) -> np.ndarray:
    """Which columns of rows (n, d) have a heavy tail on either side, bool of shape (d,)."""
    # The outermost half per cent is 2.6 halves of the central 68% away of a normal, 5.6 of an exponential
    # one.
    lowest, lower, middle, upper, highest = np.quantile(statistics, [0.005, 0.16, 0.5, 0.84, 0.995], axis=0)
    width = (upper - lower) / 2
    return (width > 0) & (np.maximum(highest - middle, middle - lowest) > beyond * width)


def heavy_where_defined(statistics: np.ndarray, near: np.ndarray | None = None, most: int = 100) -> bool:
    """Whether a column of rows (n, d) has a heavy tail, and an observation (d,) is not below all rows."""
    # Above `most` statistics, to choose a curve for each would take as long as all else.
    if statistics.shape[1] > most or (near is not None and np.any(near < statistics.min(axis=0))):
        return False
    return bool(np.any(heavy_tailed(statistics)))
