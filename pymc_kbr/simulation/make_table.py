"""`simulate`: a PyMC model becomes a reference table."""

from __future__ import annotations

import dataclasses
from concurrent.futures import Executor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from pymc_kbr.reference_table import ReferenceTable
from pymc_kbr.simulation.checks import TRIED_ROWS, Trial, trial_run
from pymc_kbr.simulation.destination import Destination, InMemory, Stored
from pymc_kbr.simulation.failures import check_failures, raise_failure, split_failures
from pymc_kbr.simulation.forward import Forward
from pymc_kbr.simulation.job import Chunk, Job
from pymc_kbr.simulation.model import ModelGraph
from pymc_kbr.simulation.plan import Plan
from pymc_kbr.simulation.prior import PriorRows
from pymc_kbr.simulation.progress import progress_bar
from pymc_kbr.simulation.provenance import Clock, versions
from pymc_kbr.simulation.resume import (
    IN_BATCHES,
    ROW_BY_ROW,
    check_goes_on,
    check_identity,
    identity,
    new_store,
)
from pymc_kbr.simulation.run import check_picklable, rows_a_chunk, rows_a_stored_chunk, run_chunks
from pymc_kbr.simulation.streams import entropy_of
from pymc_kbr.simulation.truncated import Within
from pymc_kbr.simulation.workers import Isolated
from pymc_kbr.stored_table import StoredTable
from pymc_kbr.table_store import TableStore, locked

if TYPE_CHECKING:
    import pymc as pm


def simulate(
    draws: int,
    *,
    model: pm.Model | None = None,
    random_seed: int | np.random.Generator | None = None,
    within: Within | None = None,
    cores: int = 1,
    executor: Executor | Any | None = None,
    store: str | Path | None = None,
    on_failure: str = "raise",
    batched: bool | None = None,
    timeout: float | None = None,
    progressbar: bool = True,
) -> ReferenceTable:
    """Simulate a reference table from a PyMC model.

    Parameters
    ----------
    draws : int
        Number n of draws from the prior, each simulated once.
    model : pymc.Model, optional
        The model; that of the surrounding ``with`` block where left out. Its observed variables may
        be `pm.Simulator`s, one or several, and ordinary distributions.
    random_seed : int or numpy.random.Generator, optional
        The same seed gives the same table, bit for bit, with any number of cores. A longer table of
        the same seed begins with the shorter one.
    within : dict of str to pair of array_like, optional
        Lower and upper bound of every parameter: the prior is drawn between them, and the table's support
        ends there. Where posteriors are much narrower than the prior this spends simulations where they
        count: see `zoom`.
    cores : int
        Workers: processes where simulations run row by row, threads where they run in batches.
    executor : concurrent.futures.Executor or dask.distributed.Client, optional
        Where to run instead.
    store : str or Path, optional
        A folder, by custom ``*.zarr``, into which each finished chunk is written as it goes. After a crash, a
        kill or a power cut the same call keeps what is finished and simulates the rest; a call with
        more `draws` extends. The table is the same, bit for bit, as without interruptions. See
        `simulate_to_store` for tables that memory does not hold.
    on_failure : {"raise", "drop"}
        What to do about a simulation that raises, returns NaN or infinity, exceeds `timeout` or ends its
        worker process: stop, or leave the row out and keep its parameters in `ReferenceTable.failures`.
        A store keeps failed rows; "raise" simulates them again, "drop" does not.
    batched : bool, optional
        Whether simulators are called for about a thousand rows at once. Found out where left out:
        by calling each once on a small batch, whose result must be that of its rows alone.
        ``False`` calls them row by row; ``True`` insists on batches and says why where there are none.
    timeout : float, optional
        Seconds that one simulation may take; one that takes longer has failed. Simulations then run row by
        row, in worker processes, which can be ended.
    progressbar : bool
        Whether to show a progress bar.

    Returns
    -------
    ReferenceTable
        With the rows that did not fail, in the order of the draws.

    Raises
    ------
    TypeError
        If no model is found, an argument is of the wrong type, a simulator has the wrong signature,
        or cannot be sent to worker processes.
    ValueError
        If an argument is out of range, the model cannot be simulated forward, or the store was made by
        another model, statistics, seed or format (see the message).
    OSError
        If the store's folder is missing, may not be written, or is written by another process, or the disk
        is full; what was finished stays readable.
    SimulationError
        If a simulation fails and `on_failure` is "raise", or if all of them fail.

    Notes
    -----
    Everything is checked on three trial rows before the work begins. Each row has a random stream of
    its own, made from the seed and the row's number; batches have one for each 1024 rows.

    A simulation that ends its process, as a segmentation fault does, fails alone where rows run in
    worker processes (``cores=2`` or `timeout`); with ``batched=False`` the trial rows do so, too.

    Examples
    --------
    >>> import pymc as pm
    >>> def fn(rng, mean, scale, size):
    ...     return rng.normal(mean, scale, size)
    >>> with pm.Model():
    ...     mean = pm.Normal("mean", 0, 1)
    ...     _ = pm.Simulator("y", fn, mean, 2.0, sum_stat="mean", observed=[1.2, 0.3, 2.1])
    ...     table = simulate(1000, random_seed=1, progressbar=False)
    >>> table
    ReferenceTable(1000 rows; parameters ['mean']; statistics ['y']; observed)
    """
    plan = Plan(draws, cores, executor, on_failure, batched, timeout, progressbar)
    made = make_table(plan, Forward.read(model), random_seed, within, store)
    return made.load() if isinstance(made, StoredTable) else made


def simulate_to_store(
    draws: int,
    store: str | Path,
    *,
    model: pm.Model | None = None,
    random_seed: int | np.random.Generator | None = None,
    within: Within | None = None,
    cores: int = 1,
    executor: Executor | Any | None = None,
    on_failure: str = "raise",
    batched: bool | None = None,
    timeout: float | None = None,
    progressbar: bool = True,
) -> StoredTable:
    """Simulate into a store and leave the table there: memory holds no more than the chunks under way.

    Parameters
    ----------
    draws : int
    store : str or Path
        As in `simulate`, with all other parameters.

    Returns
    -------
    StoredTable
        On which estimators fit a part at a time.

    Raises
    ------
    TypeError, ValueError, SimulationError, OSError
        As `simulate`.

    Examples
    --------
    >>> import pymc as pm, tempfile
    >>> def fn(rng, mean, scale, size):
    ...     return rng.normal(mean, scale, size)
    >>> with pm.Model() as model, tempfile.TemporaryDirectory() as folder:
    ...     mean = pm.Normal("mean", 0, 1)
    ...     _ = pm.Simulator("y", fn, mean, 2.0, sum_stat="mean", observed=[1.2, 0.3, 2.1])
    ...     simulate_to_store(1000, f"{folder}/table.zarr", random_seed=1, progressbar=False)
    StoredTable(1000 rows in table.zarr; parameters ['mean']; 1 statistics)
    """
    plan = Plan(draws, cores, executor, on_failure, batched, timeout, progressbar)
    made = make_table(plan, Forward.read(model), random_seed, within, store)
    assert isinstance(made, StoredTable)
    return made


def make_table(
    plan: Plan,
    forward: Forward,
    random_seed: int | np.random.Generator | None,
    within: Within | None = None,
    store: str | Path | None = None,
    *,
    to_be_extended: bool = True,
) -> ReferenceTable | StoredTable:
    """What `simulate` does, with a model that is compiled already, and with the lock of the store.

    Parameters
    ----------
    plan : Plan
    forward : Forward
    random_seed, within, store
        As in `simulate`.
    to_be_extended : bool
        Whether a longer table of the seed begins with this one: its last batch is then drawn as a whole, also
        where the table ends within it. Otherwise no batch has more rows than the table.

    Raises
    ------
    TypeError, ValueError, SimulationError, OSError
        As `simulate`.
    """
    entropy = entropy_of(random_seed)
    # BLAS sums in another order with more threads: one thread everywhere keeps the bits the same.
    with threadpool_limits(1, user_api="blas"), ExitStack() as stack:
        if store is None:
            return _simulate(plan, forward, entropy, within, None, None, to_be_extended, stack)
        path = _folder(store)
        with locked(path):
            opened = TableStore.open(path) if path.exists() else None
            if opened is not None and random_seed is None:
                entropy = int(opened.documents["seed"])  # the same call goes on with the seed it began with
            return _simulate(plan, forward, entropy, within, path, opened, to_be_extended, stack)


def _folder(store: str | Path) -> Path:
    if not isinstance(store, str | Path) or not str(store):
        raise TypeError(f"store is {store!r}; it must be the path of a folder, such as 'table.zarr'")
    return Path(store)


def _simulate(
    plan: Plan,
    forward: Forward,
    entropy: int,
    within: Within | None,
    path: Path | None,
    opened: TableStore | None,
    to_be_extended: bool,
    stack: ExitStack,
) -> ReferenceTable | StoredTable:
    clock = Clock({"compile": forward.take_seconds()})
    graph = forward.graph
    sampler, support = forward.sampler(entropy, within)
    same = identity(graph, support, entropy, None if to_be_extended else plan.draws)
    if opened is not None:
        check_identity(opened.path, opened.documents["identity"], same)
    clock.lap("compile")
    prior = PriorRows(sampler, support)
    first_rows = prior[:TRIED_ROWS]
    job = forward.job(entropy, plan.timeout)
    how = None if opened is None else str(opened.documents["provenance"]["simulated"])
    if plan.isolates_trial or plan.executor is not None:
        check_picklable(graph)
    isolated = stack.enter_context(Isolated(job, plan.cores))
    try_row = isolated.try_row if plan.isolates_trial else job.try_row
    trial = trial_run(job, first_rows, try_row, known=how == ROW_BY_ROW)
    if opened is not None:
        check_goes_on(opened, how, plan.batched, plan.timeout, first_rows, trial)
    reason = "as the store was begun"
    if how != ROW_BY_ROW:
        job, reason = forward.in_batches(job, first_rows, trial, plan.batched)
    if how == IN_BATCHES and job.batch is None:
        raise ValueError(
            f"the store {path} was simulated in batches, and this model now cannot be: {reason}; choose "
            "another store"
        )
    if not to_be_extended:
        job = dataclasses.replace(job, block_rows=min(job.block_rows, plan.draws))
    if plan.cores > 1 and job.batch is None:
        check_picklable(graph)
    clock.lap("check")

    provenance = {
        "simulated_by": "a PyMC model",
        "simulated": IN_BATCHES if job.batch else ROW_BY_ROW,
        "why": reason,
        "prior_drawn": "in batches" if sampler.batched else "row by row",
        "cores": str(plan.cores) if plan.executor is None else type(plan.executor).__name__,
        **sampler.provenance(),
        **versions(),
    }
    draws = plan.draws
    destination: InMemory | Stored
    if path is None:
        destination = InMemory(draws, rows_a_chunk(job, draws, trial.seconds, plan.cores), graph)
    else:
        if opened is None:
            chunk_rows = rows_a_stored_chunk(job, prior, draws, trial.seconds, plan.cores)
            opened = new_store(path, draws, chunk_rows, graph, support, same, provenance, first_rows, trial)
        elif opened.rows < draws:
            opened.extend(draws)
        destination = Stored(opened, draws, again=plan.on_failure == "raise")
    _run(plan, job, prior, destination, trial, graph, isolated)
    clock.lap("simulate")
    if opened is not None:
        noted = opened.documents["provenance"]
        if sampler.account().keys() - noted.keys():  # a later call that only reads has drawn little
            opened.note("provenance", {**noted, **sampler.account()})
        return _stored(plan, opened, graph, clock)
    assert isinstance(destination, InMemory)
    kept, failed = split_failures(draws, destination.failures, destination.parameters)
    return ReferenceTable(
        parameters=destination.parameters[kept],
        statistics=destination.statistics[kept],
        observed=graph.observed,
        parameter_columns=graph.parameters,
        statistic_columns=graph.statistics,
        support=support,
        failures=failed,
        seed=entropy,
        observed_data=graph.observed_data,
        provenance={**provenance, **sampler.account(), "prior_rejected": f"{prior.rejected_share:.4g}"},
        timings=clock.laps,
    )


def _run(
    plan: Plan,
    job: Job,
    prior: PriorRows,
    destination: Destination,
    trial: Trial,
    graph: ModelGraph,
    isolated: Isolated,
) -> None:
    """Simulate what the destination lacks; what the trial has simulated already is taken from there."""
    tried = 0 if job.batch else len(trial.chunk.statistics)
    pieces = destination.pieces()
    blocks = job.block_rows if job.batch else 1
    missing = sum(map(len, pieces))
    with progress_bar(plan.progressbar) as bar:
        task = bar.add_task(
            f"Simulating {'in batches' if job.batch else 'row by row'}",
            total=plan.draws,
            completed=plan.draws - missing,
        )

        def keep(chunk: Chunk, parameters: np.ndarray) -> None:
            count = min(len(parameters), plan.draws - chunk.start)
            parameters, chunk = parameters[:count], chunk.head(chunk.start + count)
            failures = dict(chunk.failures)
            destination.write(chunk.start, parameters, chunk.statistics, failures)
            bar.advance(task, count)
            if failures and plan.on_failure == "raise":
                raise_failure(min(failures), failures, plan.draws, parameters, chunk.start, graph)

        while pieces and pieces[0].stop <= tried:
            piece = pieces.pop(0)
            keep(trial.chunk.part(piece.start, piece.stop), prior[slice(piece.start, piece.stop)])
        # A batch is drawn as a whole, also where the table ends within it.
        whole = [range(piece.start, -(-piece.stop // blocks) * blocks) for piece in pieces]
        started = isolated.take_over() if whole else None
        for chunk, parameters in run_chunks(
            job, prior, whole, cores=plan.cores, executor=plan.executor, started=started
        ):
            keep(chunk, parameters)


def _stored(plan: Plan, store: TableStore, graph: ModelGraph, clock: Clock) -> StoredTable:
    """The table of a store that is complete, with the model's observation; its failures are looked at."""
    before = store.documents["timings"]
    store.note("timings", {stage: before.get(stage, 0.0) + laps for stage, laps in clock.laps.items()})
    table = StoredTable(store, plan.draws, graph.observed, graph.observed_data)
    rows = table.failures.rows.tolist()
    check_failures(plan.draws, dict(zip(rows, table.failures.messages, strict=True)))
    return table
