"""The estimator for a table and its observation: a given one or the best one, fitted."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np
from rich.console import Console

from pymc_kbr.arrays.checked_rows import CheckedRows
from pymc_kbr.arrays.names import Names
from pymc_kbr.arrays.rows import constants_named
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.estimators import Estimator
from pymc_kbr.estimators.likelihood.success import weighting_of
from pymc_kbr.estimators.prior_weights import ratio_of_draws
from pymc_kbr.selection.select import check_candidates, choose, chosen_before, number_held_out, on_all_rows
from pymc_kbr.simulation.model.known import LogDensity
from pymc_kbr.simulation.prior.new_prior import NewPrior
from pymc_kbr.simulation.progress import working
from pymc_kbr.tables.reference_table import ReferenceTable
from pymc_kbr.tables.stored_table import StoredTable

Candidates = Sequence[str | Estimator] | None
"""What `sample_abc` hands on to a choice."""


def check_choice(candidates: Candidates, estimator: Estimator | None) -> None:
    """Refuse candidates of a choice that is not made, or that are none, before any work."""
    if candidates is not None and estimator is not None:
        raise ValueError(
            f"the estimator {type(estimator).__name__} is given, and candidates, of which one would be "
            "chosen; leave one of the two out"
        )
    check_candidates(candidates)


def check_rows_for(estimator: Estimator | None, candidates: Candidates, rows: int) -> None:
    """Refuse so few rows that an estimator, or a candidate that is named, cannot be fitted: ValueError."""
    if estimator is not None:
        estimator.check(rows)
    else:
        check_candidates(candidates, rows - number_held_out(rows))


def fitted_for(
    table: ReferenceTable,
    estimator: Estimator | None,
    new: NewPrior | None,
    stored: StoredTable | None,
    rng: np.random.Generator,
    progressbar: bool,
    log_prior: LogDensity | None = None,
    candidates: Candidates = None,
    before: Estimator | None = None,
    does_not_do: Callable[[Estimator], bool] | None = None,
) -> Estimator:
    """An estimator that can be conditioned on the table's observation; the kind that was chosen `before`."""
    # The first candidate of which `does_not_do` is true is taken as it is.
    with constants_named(table.statistics, table.statistic_names):
        if estimator is not None:
            with working(progressbar, f"Fitting {type(estimator).__name__}"):
                return _given(table, estimator, new, stored, rng).under(log_prior)
        if before is None:
            found = _best(table, new, rng, progressbar, candidates, log_prior, does_not_do)
        else:
            with working(progressbar, f"Fitting {type(before).__name__}"):
                found = chosen_before(before, _rows_of(table), rng)
        if progressbar:
            Console().print(found.selection_.reason(), highlight=False, markup=False)
        chosen = found.named(table).under(log_prior)
        if stored is None:
            return chosen
        with working(progressbar, f"Fitting {type(chosen).__name__} to all rows"):
            return on_all_rows(chosen, stored, rng)


def _given(
    table: ReferenceTable,
    estimator: Estimator,
    new: NewPrior | None,
    stored: StoredTable | None,
    rng: np.random.Generator,
) -> Estimator:
    """The estimator that was given, fitted unless it is; what was given stays as it is."""
    if new is None and stored is None and estimator.is_fitted_to(table):
        return estimator.with_seed(rng)
    estimator = copy(estimator)
    if new is None:
        return estimator.fit(table if stored is None else stored, random_seed=rng)
    under = _under(new, table, estimator)
    if (success := weighting_of(table).success) is not None:
        under["success"] = success.under(new.draws)
    estimator.fit(table.parameters, table.statistics, new.support, **under, random_seed=rng)
    size = estimator.settings().get("ratio_effective_sample_size")
    if size is not None:
        warn_of_few(size, len(table.parameters))
    return estimator.named(table)


def _under(new: NewPrior, table: ReferenceTable, estimator: Estimator) -> dict[str, Any]:
    """What tells an estimator of another prior."""
    # What multiplies with the prior's density learns from all rows, however few are likely under it.
    by_draws = new.ratio is None or estimator.needs_draws or estimator.multiplies_prior
    return {"prior": new.draws} if by_draws else {"ratio": _over_rows(new.ratio, table)}


def _over_rows(ratio: np.ndarray | None, table: ReferenceTable) -> np.ndarray | None:
    """A prior's density ratio to the table's, made one to what the rows were drawn from."""
    own = weighting_of(table).ratio
    return ratio if ratio is None or own is None else ratio * own


def _best(
    table: ReferenceTable,
    new: NewPrior | None,
    rng: np.random.Generator,
    progressbar: bool,
    candidates: Candidates,
    log_prior: LogDensity | None,
    does_not_do: Callable[[Estimator], bool] | None = None,
) -> Estimator:
    """The best estimator near the table's observation."""
    weighting = weighting_of(table)
    ratio, support, success = weighting.ratio, table.support, weighting.success
    if new is not None:
        ratio, support = _over_rows(new.ratio, table), new.support
        success = None if success is None else success.under(new.draws)
        # Held-out rows are scored under the new prior: for these one needs the ratio, even of draws.
        if ratio is None:
            draws = new.draws if success is None else success.seen((new.draws, np.ones(len(new.draws))))
            ratio = ratio_of_draws(table.parameters, draws, support, rng)
    names = Names.of_table(table)
    rows = CheckedRows.trusted(table.parameters, table.statistics, support, ratio, success, names)
    if new is not None:
        warn_of_few(rows.effective_size, len(rows))
    known: dict[str, Any] = {"log_prior": log_prior, "near": table.observed, "progressbar": progressbar}
    return choose(rows, rng=rng, candidates=candidates, does_not_do=does_not_do, **known)


def _rows_of(table: ReferenceTable) -> CheckedRows:
    weighting = weighting_of(table)
    sides = table.parameters, table.statistics, table.support
    return CheckedRows.trusted(*sides, weighting.ratio, weighting.success, Names.of_table(table))


def warn_of_few(
    effective_sample_size: float,
    rows: int,
    *,
    # Effective sample size of the density ratio below which a warning is given.
    few: float = 100.0,
) -> None:
    """Warn where the new prior weights so few rows that its posterior rests on them alone."""
    if effective_sample_size < few:
        warnings.warn(
            f"the density ratio of the new prior to the table's has an effective sample size of "
            f"{effective_sample_size:.0f} among {rows} rows; the posterior rests on these: simulate a table "
            "from the new prior, or a larger one; where the ratio is that of two models, and the new prior "
            "not much narrower in any parameter, leave `model` out, for a ratio that is estimated and smooth",
            UserWarning,
            stacklevel=users_line(),
        )


def account(fitted: Estimator, stored: StoredTable | None) -> tuple[dict[str, Any], np.ndarray | None, int]:
    """What is kept of a fit."""
    selection = fitted.selection_
    notes: dict[str, Any] = {}
    if stored is not None:
        # Of a store the table in the result has some rows only.
        notes["simulations"] = len(stored) + len(stored.failures)
        notes["fitted_rows"] = len(stored) if selection is None else fitted.fitted_rows_
    if refused := fitted.refused_curves():
        notes["refused_curves"] = "; ".join(refused)
    if selection is None:
        return notes, None, 0
    notes |= {"chosen": selection.reason(), "selection": selection.table()}
    rows = selection.rows_covered()
    return notes, (selection.coverage() if rows else None), rows
