"""A model's simulators, learned from tables that are simulated on the spot."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Collection
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.refusals import check_seed, names_of, one_of, path_of, shown, whole
from pymc_kbr.arrays.support import Support
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.estimators.kernel_likelihood import KernelLikelihood
from pymc_kbr.estimators.likelihood.checks import FunctionOfParameters
from pymc_kbr.estimators.likelihood.success import Success
from pymc_kbr.posterior.posterior import PosteriorWarning
from pymc_kbr.simulation import entropy_of, simulate
from pymc_kbr.simulation.model.learnable import (
    Learnable,
    Learned,
    learnables,
    read_simulators,
    replace_simulators,
)
from pymc_kbr.simulation.model.learned_variable import OUTSIDE
from pymc_kbr.simulation.model.read import model_in_context
from pymc_kbr.simulation.resume_store import refuse_a_part
from pymc_kbr.tables.layout import folder_of_stores

if TYPE_CHECKING:
    import pymc as pm


@default_arithmetic
def learn_simulators(
    model: pm.Model | None = None,
    simulations: int = 10_000,
    *,
    likelihood: Any = None,
    trials: Collection[str] = (),
    outside: str = "-inf",
    random_seed: int | np.random.Generator | None = None,
    cores: int | None = 1,
    executor: Executor | Any | None = None,
    store: str | Path | None = None,
    on_failure: str = "raise",
    batched: bool | None = None,
    timeout: float | None = None,
    progressbar: bool = True,
) -> pm.Model:
    """Replace every `pm.Simulator` of a model by a likelihood that is learned from simulations.

    The result is the same model with gradients: `pm.sample` (NUTS) works on it.

    Parameters
    ----------
    model : pymc.Model, optional
        That of the surrounding ``with`` block where left out. It stays as it is.
    simulations : int
        Rows of the table that each simulator is learned from. Simulators of the same function and shapes,
        such as one for each region, share a table and a likelihood.
    likelihood : KernelLikelihood, optional
        One that is not fitted, with settings of your own. What it declares of statistics (`shift`, `scale`,
        `lower`, `upper`) names parameters as the model names a simulator's inputs, or as its function names
        its arguments.
    trials : str or collection of str
        Names of simulators of PyMC's default signature whose entries are independent trials of the same
        parameters. Without it they are learned as one vector: they may be a series.
    outside : {"-inf", "extrapolate"}
        As in `LearnedSimulator`.
    random_seed : int or numpy.random.Generator, optional
    cores, executor, on_failure, batched, timeout, progressbar
        As in `simulate`.
    store : str or Path, optional
        A folder, made if it is missing, in which each table has a store of its own, ``<simulator>.zarr``:
        see `simulate`.

    Returns
    -------
    pymc.Model
        A copy, with its coords, dims, data, deterministic variables, potentials and ordinary likelihood
        terms. The fitted likelihood of the variable "y" is ``made["y"].owner.op.likelihood``.

    Raises
    ------
    TypeError, ValueError
        If `likelihood` cannot be one, the model has no simulators, something depends on their values, their
        inputs are constant or random in themselves, or as `simulate` and the likelihood's `fit`, which
        refuses statistics without noise.
    SimulationError
        As `simulate`.

    Warns
    -----
    PosteriorWarning
        If a likelihood does not hold in rows that it was not fitted to, or is not good for as many trials of
        one parameter set as are observed: see `KernelLikelihood.bias_for`.

    Notes
    -----
    A simulator is learned as a function of its own inputs: the arguments of the `pm.Simulator` that vary,
    be they free variables, functions of them, or entries of them, over the range that the prior gives
    them. Constants, and `pm.Data` that are the same for all rows, are taken as they are now. Where inputs
    come in batches, one row for each group, one row at a time is simulated, chosen at random: all groups
    share one likelihood.

    The statistics that are learned are those of the simulator's `sum_stat`. A shift or scale that simulations
    show is found, as `KernelLikelihood` says; the text of the variable's distribution names it.

    Examples
    --------
    >>> import pymc as pm
    >>> def fn(rng, mean, size):
    ...     return rng.normal(mean, 1.0, size)
    >>> with pm.Model() as model:
    ...     mean = pm.Normal("mean", 0, 1)
    ...     _ = pm.Simulator("y", fn, mean, sum_stat="mean", observed=[1.2, 0.3, 2.1])
    >>> learned = learn_simulators(model, 500, random_seed=1, progressbar=False)
    >>> learned.observed_RVs
    [y]
    """
    whole("simulations", simulations)
    check_seed(random_seed)
    likelihood = KernelLikelihood() if likelihood is None else likelihood
    _check(likelihood, outside)
    model = model_in_context(model)
    simulators = read_simulators(model, [trials] if isinstance(trials, str) else names_of("trials", trials))
    if store is not None:
        folder_of_stores(path_of("store", store))
    rng = np.random.default_rng(entropy_of(random_seed))
    learned: dict[str, Learned] = {}
    kinds = learnables(model, simulators)
    for number, kind in enumerate(kinds, 1):
        table = simulate(
            simulations,
            model=kind.model,
            random_seed=int(rng.integers(2**63)),
            cores=cores,
            executor=executor,
            store=None if store is None else Path(store) / f"{kind.names[0]}.zarr",
            on_failure=on_failure,
            batched=batched,
            timeout=timeout,
            progressbar=progressbar,
        )
        if number < len(kinds):  # of the others nothing would be learnt
            refuse_a_part(table, ", ".join(map(repr, kind.names)))
        # A copy for each: a likelihood holds what it was fitted to.
        found = _fitted(kind, table, copy.deepcopy(likelihood), int(rng.integers(2**63)))
        learned |= dict.fromkeys(kind.names, found)
    return replace_simulators(model, simulators, learned, outside)


def _check(likelihood: Any, outside: str) -> None:
    """Refuse what would else be refused after the simulations."""
    needed = ("fit", "prepare", "describe", "log_density", "draw_statistics")
    if isinstance(likelihood, type) or not all(callable(getattr(likelihood, m, None)) for m in needed):
        raise TypeError(
            f"likelihood is {shown(likelihood)}; it must be a KernelLikelihood with settings of your own, "
            "such as `pk.KernelLikelihood(form='location_scale')`, or be left out"
        )
    one_of("outside", outside, OUTSIDE)


def _fitted(kind: Learnable, table: Any, likelihood: Any, seed: int) -> Learned:
    theta = kind.theta_of_rows(table)
    # Of an input that never moves nothing is learnt; whoever evaluates the likelihood leaves it out, too.
    columns = np.flatnonzero(np.ptp(theta, axis=0) > 0)
    support = kind.support(table, columns)
    further: dict[str, Any] = {}
    if len(table.failures):
        success = _success(kind, table, theta[:, columns], columns, support)
        if not isinstance(likelihood, KernelLikelihood):
            if not (success.constant or success.condition):
                _warn_of_likelihood(likelihood, kind.names)
        else:
            further["success"] = success
            if success.condition and not success.constant:
                further["ratio"] = 1 / success(theta[:, columns])
    try:
        sides: tuple[Any, Any] = (theta[:, columns], table.statistics)
        if isinstance(likelihood, KernelLikelihood) and likelihood.declares:
            names = kind.input_names(likelihood.declared_parameters)
            sides = (
                {names[column]: theta[:, column] for column in columns},
                dict(zip(kind.statistic_names(table), np.asarray(table.statistics).T, strict=True)),
            )
        likelihood.fit(*sides, support, random_seed=seed, **further)
    except FunctionOfParameters as error:
        names = table.statistic_names
        raise FunctionOfParameters(error.column, names[error.column], kind.names[0]) from None
    if hasattr(likelihood, "warn_if_refuted"):
        likelihood.warn_if_refuted(", ".join(map(repr, kind.names)))
    return Learned(likelihood, kind.inputs, columns)


def _warn_of_likelihood(likelihood: Any, names: list[str]) -> None:
    warnings.warn(
        f"simulations of {', '.join(map(repr, names))} fail more often at some parameters than at others, "
        f"and the likelihood, a {type(likelihood).__name__}, does not include the probability of success: it "
        "describes successful simulations only; take a KernelLikelihood, or on_failure='condition'",
        PosteriorWarning,
        stacklevel=users_line(),
    )


def _success(
    kind: Learnable, table: Any, succeeded: np.ndarray, columns: np.ndarray, support: Support
) -> Success:
    """The probability that a simulation succeeds, given its inputs."""
    failed = kind.theta_of_rows(table, table.failures.parameters)[:, columns]
    condition = table.origin.on_failure == "condition"
    return Success.fit(succeeded, failed, support, condition=condition)
