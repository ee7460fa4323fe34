"""`sample_abc`: all stages in one call."""

from __future__ import annotations

import json
import time
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console

from pymc_kbr.checking.calibration import Calibration
from pymc_kbr.checking.diagnostics import diagnose, warn
from pymc_kbr.estimators import Estimator, make_estimator
from pymc_kbr.estimators.prior_weights import ratio_of_draws
from pymc_kbr.posterior.arviz import to_arviz
from pymc_kbr.selection.select import IN_MEMORY, choose, fitted_to_all
from pymc_kbr.simulation import simulate
from pymc_kbr.simulation.model.context import _model_of
from pymc_kbr.simulation.prior.new_prior import NewPrior, warn_of_few
from pymc_kbr.tables.reference_table import ReferenceTable
from pymc_kbr.tables.stored_table import StoredTable

if TYPE_CHECKING:
    import pymc as pm


def sample_abc(
    draws: int = 1000,
    *,
    estimator: str | Estimator = "auto",
    simulations: int = 10_000,
    reference_table: ReferenceTable | StoredTable | None = None,
    model: pm.Model | None = None,
    prior: Any = None,
    calibration: Calibration | None = None,
    random_seed: int | np.random.Generator | None = None,
    cores: int = 1,
    executor: Executor | Any | None = None,
    store: str | Path | None = None,
    on_failure: str = "raise",
    timeout: float | None = None,
    progressbar: bool = True,
) -> Any:
    """Sample the posterior of a model whose likelihood is only known as a simulator.

    Parameters
    ----------
    draws : int
        Number of posterior draws.
    estimator : str or Estimator
        A name, with its defaults, or an estimator with settings of your own. "auto" tries estimators and
        settings on held-out rows near the observation and keeps the best, in about 20 seconds: see
        `pymc_kbr.select`. The attributes of the result say what was chosen and why.
    simulations : int
        Size of the reference table, where none is given.
    reference_table : ReferenceTable or StoredTable, optional
        Simulations made before, with `simulate` or elsewhere; then nothing is simulated. Its
        observation is conditioned on. Of a `StoredTable` the estimator reads all rows, a part at a time;
        warnings, and the choice of "auto", look at 20,000.
    model : pymc.Model, optional
        The model; that of the surrounding ``with`` block where left out. With a reference table it
        is only needed for dims, coords and deterministic variables.
    prior : pymc.Model or array_like of shape (l, p), optional
        Another prior than the one that the table was simulated from: a model with the same free
        variables, or draws of them. Nothing is simulated again. Where this is a model and `model` is
        the one of the table, rows are weighted with the ratio of both densities; otherwise the ratio is
        estimated from the draws.
    calibration : Calibration, optional
        What `calibrate` found for this estimator: marginal quantiles of the draws are corrected by it, and
        the attribute ``recalibrated`` of the result says so.
    random_seed : int or numpy.random.Generator, optional
    cores, executor, store, on_failure, timeout, progressbar
        As in `simulate`.

    Returns
    -------
    arviz.InferenceData (ArviZ 0.x) or xarray.DataTree (ArviZ 1.x)
        See `pymc_kbr.posterior.arviz.to_arviz`.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, the estimator's name is unknown, the table has no
        observation or other parameters than the model, the model cannot be simulated, or some of the
        new prior's mass lies outside the table's support.

    Warns
    -----
    UserWarning
        If the density ratio of a new prior has an effective sample size below 100.
    PosteriorWarning
        For each reason to doubt the posterior: see `pymc_kbr.checking.diagnostics`. They are in the attribute
        ``warnings`` of the result, too.

    Examples
    --------
    >>> import pymc as pm
    >>> def fn(rng, mean, scale, size):
    ...     return rng.normal(mean, scale, size)
    >>> with pm.Model():
    ...     mean = pm.Normal("mean", 0, 1)
    ...     _ = pm.Simulator("y", fn, mean, 2.0, sum_stat="mean", observed=[1.2, 0.3, 2.1])
    ...     idata = sample_abc(500, simulations=2000, random_seed=1, progressbar=False)
    >>> dict(idata["posterior"].sizes)
    {'chain': 1, 'draw': 500}
    """
    if isinstance(draws, bool) or not isinstance(draws, int | np.integer):
        raise TypeError(f"draws is {draws!r}; it must be a whole number")
    if draws < 1:
        raise ValueError(f"draws is {draws}; it must be at least 1")
    automatic = isinstance(estimator, str) and estimator == "auto"
    chosen = None if automatic else make_estimator(estimator)
    if prior is not None and getattr(chosen, "prior", None) is not None:
        raise ValueError("both the estimator and `prior` give a prior; leave one of them out")
    rng = np.random.default_rng(random_seed)
    stored = reference_table if isinstance(reference_table, StoredTable) else None
    if stored is not None:
        if prior is not None or calibration is not None:
            raise ValueError(
                f"the reference table stays on the disk, with {len(stored)} rows, and `prior` and "
                "`calibration` need it in memory; leave them out, or load the table or some of its rows: "
                "`stored.load(20_000)`"
            )
        table: ReferenceTable | None = stored.load(IN_MEMORY)
    else:
        table = reference_table  # type: ignore[assignment]
    if table is None:
        if (
            chosen is not None and isinstance(simulations, int) and simulations > 1
        ):  # anything else `simulate` refuses
            chosen.check(simulations)
        table = simulate(
            simulations,
            model=model,
            random_seed=random_seed,
            cores=cores,
            executor=executor,
            store=store,
            on_failure=on_failure,
            timeout=timeout,
            progressbar=progressbar,
        )
    elif store is not None:
        raise ValueError("both a reference table and a store are given; leave one of them out")
    if table.observed is None:
        raise ValueError("the reference table has no observation; set one with `with_observed`")
    model = _model_of(table, model)

    started = time.perf_counter()
    new = None if prior is None else NewPrior.of(prior, table, model, rng)
    if chosen is None:
        chosen = _choose(table, new, rng, progressbar)
        if stored is not None:
            chosen = fitted_to_all(chosen, stored, rng)
    elif new is None:
        rows: Any = stored or table
        chosen.fit(rows.parameters, rows.statistics, rows.support, random_seed=rng)
    else:
        chosen = _fit_with_prior(chosen, table, new, rng)
    if new is not None:
        model = prior if model is None and hasattr(prior, "free_RVs") else model
    fitted = time.perf_counter()
    posterior = chosen.condition(table.observed)
    conditioned = time.perf_counter()
    drawn = posterior.draw(draws, rng)
    finished = time.perf_counter()
    notes, coverage, held_out = _account(chosen)
    if calibration is not None:
        drawn, coverage = _recalibrated(drawn, calibration, table), None
        notes["recalibrated"] = f"marginal quantiles, on {len(calibration.pit)} held-out rows"
    if stored is not None:
        notes["simulations"] = len(stored) + len(stored.failures)
        notes["fitted_rows"] = chosen.fitted_rows_ if chosen.selection_ is not None else len(stored)
    concerns = diagnose(posterior, drawn, table, coverage=coverage, held_out=held_out)
    warn(concerns)
    notes["warnings"] = json.dumps([{"name": c.name, "message": c.message} for c in concerns])
    return to_arviz(
        posterior,
        drawn,
        table=table,
        model=model,
        estimator=type(chosen).__name__,
        timings={
            "fit": fitted - started,
            "condition": conditioned - fitted,
            "draw": finished - conditioned,
        },
        notes=notes,
    )


def _choose(
    table: ReferenceTable, new: NewPrior | None, rng: np.random.Generator, progressbar: bool
) -> Estimator:
    """The best estimator near the table's observation, and a line on the screen that says so."""
    ratio, support = None, table.support
    if new is not None:
        ratio, support = new.ratio, new.support
        if ratio is None:
            ratio = ratio_of_draws(table.parameters, new.draws, support, rng)
        warn_of_few(ratio.sum() ** 2 / np.sum(ratio**2), len(ratio))
    chosen = choose(
        table.parameters,
        table.statistics,
        support,
        rng=rng,
        ratio=ratio,
        near=table.observed,
        progressbar=progressbar,
    )
    if progressbar:
        Console().print(chosen.selection_.reason(), highlight=False, markup=False)
    return chosen


def _recalibrated(draws: np.ndarray, calibration: Calibration, table: ReferenceTable) -> np.ndarray:
    """Recalibrated draws, if the support lets each parameter be moved by itself."""
    if calibration.names != table.parameter_names:
        raise ValueError(
            f"the calibration is of the parameters {calibration.names}; the table has {table.parameter_names}"
        )
    moved = calibration.recalibrated(draws)
    outside = ~table.support.contains(moved)
    if np.any(outside):
        raise ValueError(
            f"{outside.mean():.1%} of the recalibrated draws lie outside the prior's support, which ties "
            "parameters to each other; recalibration moves each by itself: leave `calibration` out"
        )
    return moved


def _account(estimator: Estimator) -> tuple[dict[str, Any], np.ndarray | None, int]:
    """What is kept of a choice: attributes of the result, and the coverage on held-out rows."""
    selection = estimator.selection_
    if selection is None:
        return {}, None, 0
    notes = {"chosen": selection.reason(), "selection": json.dumps(selection.table())}
    rows = len(selection.chosen.covered)
    return notes, (selection.coverage() if rows else None), rows


def _fit_with_prior(
    estimator: Estimator, table: ReferenceTable, new: NewPrior, rng: np.random.Generator
) -> Estimator:
    """The estimator fitted for another prior: by density ratios, or by its own use of the prior's draws."""
    draws = new.draws if new.ratio is None else None
    estimator.fit(
        table.parameters, table.statistics, new.support, ratio=new.ratio, prior=draws, random_seed=rng
    )
    size = estimator.settings().get("ratio_effective_sample_size")
    if size is not None:
        warn_of_few(size, len(table.parameters))
    return estimator
