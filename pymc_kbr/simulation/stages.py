"""The stages of a simulation, one after the other: the prior, the first rows, the way, the other rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from pymc_kbr.arrays.support import Support
from pymc_kbr.simulation.failures import raise_failure
from pymc_kbr.simulation.forward_model import (
    ForwardModel,
    PilotRun,
    enough_first_rows,
    simulate_first_rows,
)
from pymc_kbr.simulation.model.read import inputs_of
from pymc_kbr.simulation.options import Clock, Destination, SimulationOptions, versions
from pymc_kbr.simulation.prior.draws import DrawnPrior, PriorSampler
from pymc_kbr.simulation.prior.proposal import ProposalSampler
from pymc_kbr.simulation.prior.truncated import TruncatedSampler
from pymc_kbr.simulation.progress import progress_bar
from pymc_kbr.simulation.workers.executors import Isolated, check_picklable, simulate_chunks
from pymc_kbr.simulation.workers.row_simulator import Chunk, RowSimulator
from pymc_kbr.tables.checks import check_support
from pymc_kbr.tables.origin import Origin

ROW_BY_ROW, IN_BATCHES = "row by row", "in batches"
"""The ways to simulate, in words: they have different random streams."""


@dataclass(frozen=True, eq=False)
class Simulation:
    """A table that has been asked for, before its first row: see `open_simulation`."""

    options: SimulationOptions
    forward: ForwardModel
    entropy: int
    sampler: PriorSampler | TruncatedSampler | ProposalSampler
    support: Support
    prior: DrawnPrior
    simulator: RowSimulator
    isolated: Isolated
    clock: Clock

    @property
    def origin(self) -> Origin:
        """What tables ask of their history."""
        return Origin(
            between_bounds=self.options.within is not None,
            from_proposal=self.options.proposal is not None,
            known=self.forward.graph.known_names,
            prior_mass=1.0 if self.options.within is None else None,
            on_failure="condition" if self.options.on_failure == "condition" else "drop",
            inputs=inputs_of(self.forward.graph.model),
        )

    @property
    def weighted(self) -> bool:
        """Whether rows are no draws of the prior, or a known likelihood weights them."""
        return self.origin.weighted

    def prior_ratio(self, parameters: np.ndarray) -> np.ndarray | None:
        """What weights rows at parameters (n, p), shape (n,); None where these are draws of the prior."""
        if not self.weighted:
            return None
        proposal, log_known = self.options.proposal, self.forward.log_known
        log_weights = np.zeros(len(parameters))
        if proposal is not None:
            log_prior = self.forward.log_prior(parameters)
            log_weights -= proposal.log_ratio(parameters, log_prior, self.options.draws)
        # Without a likelihood weights are at most one over the prior's share: no constant need be taken out.
        return np.exp(log_weights) if log_known is None else weights_of(log_weights + log_known(parameters))


def weights_of(log_weights: np.ndarray) -> np.ndarray:
    """Weights (n,) from their logarithms, the largest one.

    Raises
    ------
    ValueError
        If all are zero.
    """
    highest = log_weights.max()
    if highest == -np.inf:
        raise ValueError(
            "the observed variables whose density is known are impossible at the parameters of every "
            "simulation; look at the prior and the data, or leave these variables out"
        )
    return np.exp(log_weights - highest)


@dataclass(frozen=True, eq=False)
class ExecutionPlan:
    """How the rows after the first ones are simulated."""

    simulator: RowSimulator
    reason: str

    @property
    def batched(self) -> bool:
        """Whether in batches."""
        return self.simulator.batch is not None


@contextmanager
def open_simulation(options: SimulationOptions, forward: ForwardModel, entropy: int) -> Iterator[Simulation]:
    """A simulation whose prior can be drawn; what it starts ends with the block."""
    clock = Clock({"compile": forward.take_seconds()})
    sampler, support = forward.sampler(entropy, options.within, proposal=options.proposal)
    clock.lap("compile")
    simulator = forward.row_simulator(entropy, options.timeout)
    with Isolated(simulator, options.cores) as isolated:
        prior = DrawnPrior(sampler, support)
        yield Simulation(options, forward, entropy, sampler, support, prior, simulator, isolated, clock)


def try_first_rows(
    simulation: Simulation,
    known: bool,
    *,
    # More rows that are tried, where some fail.
    spare: int = 7,
) -> PilotRun:
    """Simulate the first rows, where they can do no harm; a single one where the way is `known`."""
    options, graph = simulation.options, simulation.forward.graph
    enough = enough_first_rows(graph)
    parameters = simulation.prior[: enough + spare]
    check_support(simulation.support, parameters, graph.parameters.names)
    if options.isolates_first_rows or options.executor is not None:
        check_picklable(graph)
    try_row = simulation.isolated.try_row if options.isolates_first_rows else simulation.simulator.try_row
    return simulate_first_rows(simulation.simulator, parameters, try_row, 1 if known else enough)


def choose_execution(simulation: Simulation, first_rows: PilotRun, row_by_row: bool = False) -> ExecutionPlan:
    """In batches where these give what single rows gave; `row_by_row` where that is decided."""
    options, forward = simulation.options, simulation.forward
    simulator, reason = simulation.simulator, "as the store was begun"
    if not row_by_row:
        simulator, reason = forward.in_batches(simulator, first_rows, options.batched, options.progressbar)
    # A table of its own needs no more of its last batch than it has rows.
    if not options.to_be_extended:
        simulator = dataclasses.replace(simulator, block_rows=min(simulator.block_rows, options.draws))
    if options.cores > 1 and simulator.batch is None:
        check_picklable(forward.graph)
    simulation.clock.lap("check")
    return ExecutionPlan(simulator, reason)


def simulate_rows(
    simulation: Simulation, way: ExecutionPlan, first_rows: PilotRun, destination: Destination
) -> None:
    """Simulate what the destination lacks; what the first rows have is taken from there."""
    options, prior = simulation.options, simulation.prior
    pieces = destination.pieces()
    # First rows were simulated one by one: they are rows of the table only where the others are, too.
    tried = 0 if way.batched else len(first_rows.chunk.statistics)
    missing = sum(map(len, pieces))
    with progress_bar(options.progressbar) as bar:
        task = bar.add_task(
            f"Simulating {IN_BATCHES if way.batched else ROW_BY_ROW}",
            total=options.draws,
            completed=options.draws - missing,
        )
        # A piece of which only some rows were tried is simulated as a whole.
        while pieces and pieces[0].stop <= tried:
            piece = pieces.pop(0)
            parameters = prior[slice(piece.start, piece.stop)]
            chunk = first_rows.chunk.part(piece.start, piece.stop)
            bar.advance(task, _keep(simulation, destination, chunk, parameters))
        # A batch is drawn as a whole, also where the table ends within it.
        block = way.simulator.block_rows if way.batched else 1
        whole = [range(piece.start, -(-piece.stop // block) * block) for piece in pieces]
        # The process that has tried the first rows has compiled the model already.
        started = simulation.isolated.take_over() if whole else None
        for chunk, parameters in simulate_chunks(
            way.simulator,
            prior,
            whole,
            cores=options.cores,
            executor=options.executor,
            started=started,
            store=options.store,
        ):
            bar.advance(task, _keep(simulation, destination, chunk, parameters))
    simulation.clock.lap("simulate")


def _keep(simulation: Simulation, destination: Destination, chunk: Chunk, parameters: np.ndarray) -> int:
    """Write those rows of a chunk that were asked for, and how many they are."""
    options = simulation.options
    # A batch is drawn as a whole and may end after the table.
    count = min(len(parameters), options.draws - chunk.start)
    parameters, chunk = parameters[:count], chunk.head(chunk.start + count)
    failures = dict(chunk.failures)
    # Failed rows are written before the error is raised: the same call need not simulate the others again.
    destination.write(chunk.start, parameters, chunk.statistics, failures)
    if failures and options.on_failure == "raise":
        raise_failure(
            min(failures), failures, options.draws, parameters, chunk.start, simulation.forward.graph
        )
    return count


def provenance_of(simulation: Simulation, way: ExecutionPlan) -> dict[str, str]:
    """What is shown of how a table is made."""
    options, sampler = simulation.options, simulation.sampler
    return {
        "simulated_by": "a PyMC model",
        "simulated": IN_BATCHES if way.batched else ROW_BY_ROW,
        "why": way.reason,
        "prior_drawn": IN_BATCHES if sampler.batched else ROW_BY_ROW,
        "cores": str(options.cores) if options.executor is None else type(options.executor).__name__,
        **sampler.provenance(),
        **simulation.origin.words,
        **versions(),
    }
