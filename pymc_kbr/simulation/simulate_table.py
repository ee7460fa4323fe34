"""What `simulate` does with a model that is read already: a table in memory, or in a store."""

from __future__ import annotations

from pymc_kbr.arrays.threads import one_blas_thread
from pymc_kbr.simulation.failures import check_failures, split_failures
from pymc_kbr.simulation.forward_model import ForwardModel
from pymc_kbr.simulation.options import InMemory, SimulationOptions
from pymc_kbr.simulation.resume_store import simulate_in_store
from pymc_kbr.simulation.stages import (
    choose_execution,
    open_simulation,
    provenance_of,
    simulate_rows,
    try_first_rows,
)
from pymc_kbr.simulation.streams import entropy_of
from pymc_kbr.simulation.workers.executors import rows_a_chunk
from pymc_kbr.tables.reference_table import ReferenceTable
from pymc_kbr.tables.stored_table import StoredTable


def simulate_table(
    options: SimulationOptions, forward: ForwardModel, head: ReferenceTable | None = None
) -> ReferenceTable | StoredTable:
    """Simulate a table: a `StoredTable` where the options name a store.

    Parameters
    ----------
    options : SimulationOptions
    forward : ForwardModel
        The model, which may have made other tables before.
    head : ReferenceTable, optional
        The first rows, simulated in memory with the same options but for their number, and to be extended:
        only the others are simulated, and the table is what it would be without.

    Raises
    ------
    TypeError, ValueError, SimulationError, OSError
        As `simulate`.
    """
    # BLAS sums in another order with more threads: one thread everywhere keeps the bits the same.
    with one_blas_thread():
        if options.store is not None:
            return simulate_in_store(options, forward)
        return _simulate_in_memory(options, forward, head)


def _simulate_in_memory(
    options: SimulationOptions, forward: ForwardModel, head: ReferenceTable | None
) -> ReferenceTable:
    graph, draws = forward.graph, options.draws
    with open_simulation(options, forward, entropy_of(options.random_seed)) as simulation:
        first_rows = try_first_rows(simulation, known=False)
        way = choose_execution(simulation, first_rows)
        chunk_rows = rows_a_chunk(way.simulator, draws, first_rows.seconds, options.cores)
        arrays = InMemory(draws, chunk_rows, graph)
        if head is not None:
            arrays.begin_with(head, way.simulator.block_rows if way.batched else 1)
        simulate_rows(simulation, way, first_rows, arrays)
    check_failures(draws, arrays.failures, options.on_failure, told=options.failures_told)
    ratio = simulation.prior_ratio(arrays.parameters)
    kept, failed = split_failures(draws, arrays.failures, arrays.parameters, ratio)
    return ReferenceTable(
        parameters=arrays.parameters[kept],
        statistics=arrays.statistics[kept],
        observed=graph.observed,
        parameter_columns=graph.parameters,
        statistic_columns=graph.statistics,
        support=simulation.support,
        failures=failed,
        seed=simulation.entropy,
        observed_data=graph.observed_data,
        provenance={
            **provenance_of(simulation, way),
            **simulation.sampler.account(),
            "prior_rejected": f"{simulation.prior.rejected_share:.4g}",
        },
        timings=simulation.clock.laps,
        origin=simulation.origin,
        prior_ratio=None if ratio is None else ratio[kept],
    )
