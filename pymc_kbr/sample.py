"""`sample_abc`: all stages in one call."""

from __future__ import annotations

import time
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_kbr.estimators import Estimator, make_estimator
from pymc_kbr.reference_table import ReferenceTable
from pymc_kbr.simulation import simulate
from pymc_kbr.to_arviz import to_arviz

if TYPE_CHECKING:
    import pymc as pm


def sample_abc(
    draws: int = 1000,
    *,
    estimator: str | Estimator = "localised",
    simulations: int = 10_000,
    reference_table: ReferenceTable | None = None,
    model: pm.Model | None = None,
    random_seed: int | np.random.Generator | None = None,
    cores: int = 1,
    executor: Executor | None = None,
    on_failure: str = "raise",
    progressbar: bool = True,
) -> Any:
    """Sample the posterior of a model whose likelihood is only known as a simulator.

    Parameters
    ----------
    draws : int
        Number of posterior draws.
    estimator : str or Estimator
        A name, with its defaults, or an estimator with settings of your own.
    simulations : int
        Size of the reference table, where none is given.
    reference_table : ReferenceTable, optional
        Simulations made before, with `simulate` or elsewhere; then nothing is simulated. Its
        observation is conditioned on.
    model : pymc.Model, optional
        The model; that of the surrounding ``with`` block where left out. With a reference table it
        is only needed for dims, coords and deterministic variables.
    random_seed : int or numpy.random.Generator, optional
    cores, executor, on_failure, progressbar
        As in `simulate`.

    Returns
    -------
    arviz.InferenceData (ArviZ 0.x) or xarray.DataTree (ArviZ 1.x)
        See `pymc_kbr.to_arviz.to_arviz`.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, the estimator's name is unknown, the table has no
        observation or other parameters than the model, or the model cannot be simulated.

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
    chosen = make_estimator(estimator)
    rng = np.random.default_rng(random_seed)
    table = reference_table
    if table is None:
        if isinstance(simulations, int) and simulations > 1:  # anything else `simulate` refuses
            chosen.check(simulations)
        table = simulate(
            simulations,
            model=model,
            random_seed=random_seed,
            cores=cores,
            executor=executor,
            on_failure=on_failure,
            progressbar=progressbar,
        )
    if table.observed is None:
        raise ValueError("the reference table has no observation; set one with `with_observed`")
    model = _model_of(table, model)

    started = time.perf_counter()
    chosen.fit(table.parameters, table.statistics, table.support)
    fitted = time.perf_counter()
    posterior = chosen.condition(table.observed)
    conditioned = time.perf_counter()
    drawn = posterior.draw(draws, rng)
    finished = time.perf_counter()
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
    )


def _model_of(table: ReferenceTable, model: pm.Model | None) -> pm.Model | None:
    """The model that the table's parameters belong to; None where there is none."""
    import pymc as pm

    given = model is not None
    model = pm.modelcontext(model) if given else pm.Model.get_context(error_if_none=False)
    if model is None:
        return None
    mine = {v.name: v.shape for v in table.parameter_columns.variables}
    theirs = {rv.name for rv in model.free_RVs}
    if set(mine) == theirs:
        return model
    if given:
        raise ValueError(
            f"the reference table has the parameters {sorted(mine)}; the model has {sorted(theirs)}; "
            "simulate a table from this model, or leave the model out"
        )
    return None
