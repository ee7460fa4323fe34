"""Rounds of simulations that close in on an observation."""

from __future__ import annotations

import dataclasses
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.refusals import path_of
from pymc_kbr.estimators.sets import columns_of_sets
from pymc_kbr.estimators.summaries import check_scale
from pymc_kbr.rounds.bounds import ROWS_IN_BOUNDS, narrower, narrower_with_noise
from pymc_kbr.rounds.emulator import noise_kept, noise_of
from pymc_kbr.rounds.sequence import check_arguments, joined
from pymc_kbr.simulation import (
    ForwardModel,
    Interrupted,
    SimulationOptions,
    Within,
    entropy_of,
    simulate_table,
    warn_of_failures,
    warn_of_interrupt,
    weights_of,
)
from pymc_kbr.simulation.model.read import refuse_without_simulator
from pymc_kbr.tables.layout import folder_of_stores
from pymc_kbr.tables.reference_table import ReferenceTable
from pymc_kbr.tables.stored_table import StoredTable

if TYPE_CHECKING:
    import pymc as pm


MOST_IDLE_ROUNDS = 2
"""Rounds one after the other that narrow nothing, after which there is no further one."""


@default_arithmetic
def zoom(
    draws: int,
    *,
    model: pm.Model | None = None,
    rounds: int = 5,
    scale: bool | str | None = None,
    noise: Any = None,
    random_seed: int | np.random.Generator | None = None,
    cores: int | None = 1,
    executor: Executor | Any | None = None,
    store: str | Path | None = None,
    on_failure: str = "raise",
    batched: bool | None = None,
    timeout: float | None = None,
    progressbar: bool = True,
) -> ReferenceTable:
    """Simulate a reference table near the observation, for posteriors much narrower than the prior.

    Small tables close in on the observation: each is drawn from the prior between bounds, which are the range
    of the rows that were nearest in the one before, as they are or moved to the observation by a local
    regression, made wider on both sides. The last one takes half of the simulations; with `noise`, where rows
    serve to predict others and near ones are seldom scarce, as many as each of the others, or what these
    have left. All rows between the last bounds are returned, and are draws of the prior between them, so that
    any estimator may be put on them.

    Parameters
    ----------
    draws : int
        Number of simulations, over all rounds.
    model : pymc.Model, optional
        As in `simulate`. Each free variable must be free between constant bounds, or unbounded.
    rounds : int
        Of narrowing, at most: they end when two in a row narrow no parameter, with `noise` when the first
        one does that goes by predictions whose errors are within the noise.
    scale : bool or str, optional
        In which metric rows are near, as the `scale` of estimators. Where left out, each round tries the
        statistics' own units, standard deviations and linear estimates of the parameters on simulated rows
        near the observation, with and without regression, and takes that of the narrowest bounds among those
        whose bounds hold for 95% of these rows.
    noise : float or array_like of shape (d,), optional
        Standard deviations of normal noise on the observation that the simulator leaves out, which
        solves equations for instance: what `epsilon` is to `pm.Simulator` with its Gaussian distance. Bounds
        then are those of a simulator with this noise; the table is without it, see `emulate`.
    random_seed : int or numpy.random.Generator, optional
    cores, executor, on_failure, batched, timeout, progressbar
        As in `simulate`.
    store : str or Path, optional
        A folder for one store a round, made if it is missing. The same call goes on after a crash.

    Returns
    -------
    ReferenceTable
        Fewer rows than `draws`; ``provenance["zoomed"]`` says how many come from each round.

    Raises
    ------
    TypeError, ValueError, SimulationError, OSError
        As `simulate`; and if a round has too few rows, there is no seed for a store, or noise with data
        sets.

    Notes
    -----
    A table like this serves the one observation. What lies outside of its bounds is lost: where draws reach
    them, `sample_abc` warns (`edge`). The rounds are those of truncated proposals, with a box for the
    support of the posterior. With `noise` rounds go by statistics that `emulate` predicts as soon as
    these are good, and before that by simulated ones with noise added. Of data sets, which take no `noise`,
    each round makes columns by `SetFeatures`, fitted to all rows between the bounds so far.

    References
    ----------
    .. [1] B. K. Miller, A. Cole, P. Forre, G. Louppe, C. Weniger, Truncated marginal neural ratio
       estimation, NeurIPS 34 (2021).

    Examples
    --------
    >>> import pymc as pm
    >>> def fn(rng, mean, size):
    ...     return rng.normal(mean, 0.001, size)
    >>> with pm.Model():
    ...     mean = pm.Normal("mean", 0, 1)
    ...     _ = pm.Simulator("y", fn, mean, sum_stat="mean", observed=[0.3001, 0.3002])
    ...     table = zoom(2000, random_seed=1, progressbar=False)
    >>> low, high = table.parameters.min(), table.parameters.max()
    >>> bool(0.25 < low < 0.3001 < high < 0.35)
    True
    """
    check_arguments(draws, rounds, random_seed, store)
    if scale is not None:
        check_scale(scale)
    seeds = np.random.default_rng(entropy_of(random_seed)).integers(2**63, size=2 * rounds + 1)
    refuse_without_simulator(model)
    forward = ForwardModel.read(model) if noise is None else ForwardModel.of_columns(model)
    deviations = None if noise is None else noise_of(noise, forward.graph.statistics.names)
    forward.check_can_be_truncated()
    size = draws // (2 * rounds if noise is None else rounds + 1)
    _check_rounds(draws, rounds, size, forward.graph.parameters.size)
    options = SimulationOptions(
        draws=size,
        cores=cores,
        executor=executor,
        on_failure=on_failure,
        batched=batched,
        timeout=timeout,
        progressbar=progressbar,
        to_be_extended=False,
        warns_of_failures=False,
    )
    if store is not None:
        folder_of_stores(path_of("store", store))
    tables: list[ReferenceTable] = []

    def add(size: int, bounds: Within | None) -> ReferenceTable:
        number = len(tables)
        path = None if store is None else Path(store) / f"round_{number}.zarr"
        of_round = dataclasses.replace(
            options, draws=size, random_seed=int(seeds[number]), within=bounds, store=path
        )
        try:
            made = simulate_table(of_round, forward)
        except Interrupted as error:
            tables.append(error.table)
            raise
        tables.append(made.load() if isinstance(made, StoredTable) else made)
        return together()

    def together() -> ReferenceTable:
        if forward.log_known is None:  # no ordinary observed variable weights the rows
            return joined(tables)
        every = [table.parameters for table in tables]
        failed = [table.failures.parameters for table in tables]
        ratio = weights_of(forward.log_known(np.vstack([*every, *failed])))
        rows = sum(map(len, every))
        failed_ratio = ratio[rows:] if len(ratio) > rows else None
        return joined(tables, prior_ratio=ratio[:rows], failed_ratio=failed_ratio)

    spent, idle, bounds = 0, 0, None
    try:
        while len(tables) < rounds and idle < MOST_IDLE_ROUNDS:
            table = add(size, bounds)
            spent += size
            # From the second half of the seeds: a round's draws and its pilot's must not be the same.
            seed = int(seeds[rounds + len(tables)])
            narrowed, bounds, last = (
                (*narrower(columns_of_sets(table), bounds, scale), False)
                if deviations is None
                else narrower_with_noise(table, bounds, scale, forward, deviations, seed)
            )
            idle = 0 if narrowed else MOST_IDLE_ROUNDS if last else idle + 1
        table = add(draws - spent, bounds)
    except KeyboardInterrupt:
        if not tables:
            raise
        made = sum(len(one) + len(one.failures) for one in tables)
        words = f"interrupted after {made:,} of {draws:,} simulations"
        warn_of_interrupt(words, store)
        table = together()
        table = dataclasses.replace(table, provenance={**table.provenance, "interrupted": words})
    table = _without_noise(table, noise_kept(deviations))
    warn_of_failures(len(table.failures), draws, on_failure)
    return table


def _without_noise(table: ReferenceTable, noise: Any) -> ReferenceTable:
    """A table whose origin says what noise there is on the observation and not on its rows."""
    origin = dataclasses.replace(table.origin, noise=noise)
    return dataclasses.replace(table, provenance={**table.provenance, **origin.words}, origin=origin)


def _check_rounds(
    draws: int,
    rounds: int,
    size: int,
    parameters: int,
    *,
    # Times as many rows as bounds are drawn around are simulated in a round at least. On the
    # Lotka-Volterra model of `case_studies.simulators` bounds from 100 rows, seven times as many, cut
    # the posterior off once in 16 runs, those of 200 rows never in 12.
    rows_factor: int = 10,
) -> None:
    """Refuse rounds of so few rows that there are no near ones."""
    least = rows_factor * (ROWS_IN_BOUNDS + 2 * parameters)
    if size < least:
        raise ValueError(
            f"draws is {draws}, of which each of {rounds} rounds simulates {size}; give each at least "
            f"{least}, to have near rows to go by: more draws, or fewer rounds"
        )
