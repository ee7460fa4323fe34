"""All stages of a simulation: trial rows, then the rest, in memory or into a store."""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from pymc_kbr.arrays.threads import one_blas_thread
from pymc_kbr.simulation.destination import Destination, InMemory
from pymc_kbr.simulation.failures import check_failures, raise_failure, split_failures
from pymc_kbr.simulation.first_rows import TRIED_ROWS, Trial, trial_run
from pymc_kbr.simulation.forward_model import Forward
from pymc_kbr.simulation.in_store import (
    IN_BATCHES,
    ROW_BY_ROW,
    Stored,
    check_goes_on,
    check_identity,
    identity,
    new_store,
)
from pymc_kbr.simulation.model.read import ModelGraph
from pymc_kbr.simulation.options import Plan
from pymc_kbr.simulation.prior.draws import PriorRows
from pymc_kbr.simulation.prior.truncated import Within
from pymc_kbr.simulation.progress import progress_bar
from pymc_kbr.simulation.provenance import Clock, versions
from pymc_kbr.simulation.streams import entropy_of
from pymc_kbr.simulation.workers.executors import (
    check_picklable,
    rows_a_chunk,
    rows_a_stored_chunk,
    run_chunks,
)
from pymc_kbr.simulation.workers.isolated import Isolated
from pymc_kbr.simulation.workers.row_simulator import Chunk, Job
from pymc_kbr.tables.lock import locked
from pymc_kbr.tables.reference_table import ReferenceTable
from pymc_kbr.tables.store import TableStore
from pymc_kbr.tables.stored_table import StoredTable


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
    with one_blas_thread(), ExitStack() as stack:
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
