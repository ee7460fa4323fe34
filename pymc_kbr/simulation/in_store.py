"""A table's rows as they go to a store, and whether a simulation may go on in one."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pymc_kbr.simulation.destination import pieces_of
from pymc_kbr.simulation.failures import check_failures
from pymc_kbr.simulation.first_rows import FirstRows
from pymc_kbr.simulation.forward_model import Forward
from pymc_kbr.simulation.options import SimulationOptions
from pymc_kbr.simulation.provenance import versions
from pymc_kbr.simulation.stages import (
    IN_BATCHES,
    ROW_BY_ROW,
    Simulation,
    Way,
    begun,
    choose_way,
    provenance_of,
    simulate_rows,
    try_first_rows,
)
from pymc_kbr.simulation.streams import entropy_of
from pymc_kbr.simulation.workers.executors import rows_a_stored_chunk
from pymc_kbr.tables.errors import shortened
from pymc_kbr.tables.lock import locked
from pymc_kbr.tables.saved import PRIOR_RATIO
from pymc_kbr.tables.store import TableStore
from pymc_kbr.tables.stored_table import StoredTable, has_prior_ratio


class Stored:
    """A store, of which finished chunks are kept.

    Parameters
    ----------
    store : TableStore
    draws : int
    again : bool
        Whether rows that failed before are simulated again.
    """

    def __init__(self, store: TableStore, draws: int, again: bool) -> None:
        self._store, self._draws, self._again = store, draws, again

    def pieces(self) -> list[range]:
        """The chunks that are not finished.

        Warns
        -----
        UserWarning
            If some were finished once and are damaged.
        """
        wanted = {"unfinished", "damaged", *(("failed",) if self._again else ())}
        pieces = pieces_of(self._draws, self._store.chunk_rows)
        states = [self._store.state(piece.start, piece.stop) for piece in pieces]
        damaged = states.count("damaged")
        if damaged:
            warnings.warn(
                f"{damaged} of {len(pieces)} chunks of the store {self._store.path} are damaged, as a power "
                "cut can leave them; they are simulated again",
                UserWarning,
                stacklevel=6,
            )
        return [piece for piece, state in zip(pieces, states, strict=True) if state in wanted]

    def write(
        self, start: int, parameters: np.ndarray, statistics: np.ndarray, failures: dict[int, str]
    ) -> None:
        """Write a chunk."""
        self._store.write(start, parameters, statistics, failures)


def simulate_in_store(options: SimulationOptions, forward: Forward) -> StoredTable:
    """Simulate what a store lacks, which is made where there is none; nobody else writes to it meanwhile.

    Raises
    ------
    TypeError, ValueError, SimulationError, OSError
        As `simulate`.
    """
    assert options.store is not None
    path = Path(options.store)
    with locked(path):
        held = TableStore.open(path) if path.exists() else None
        # Without a seed, the same call goes on with the one that it began with.
        goes_on = held is not None and options.random_seed is None
        entropy = int(held.documents["seed"]) if held and goes_on else entropy_of(options.random_seed)
        with begun(options, forward, entropy) as simulation:
            return _simulate_into(path, held, simulation)


def _simulate_into(path: Path, held: TableStore | None, simulation: Simulation) -> StoredTable:
    options, graph = simulation.options, simulation.forward.graph
    identity = _identity(simulation)
    batched = None
    if held is not None:
        check_identity(path, held.documents["identity"], identity)
        batched = _is_batched(held)
    # Even where all rows are there, one is simulated: another simulator must not pass for the store's.
    first_rows = try_first_rows(simulation, known=batched is False)
    if held is not None:
        _check_goes_on(held, options, first_rows)
    way = choose_way(simulation, first_rows, row_by_row=batched is False)
    if batched and not way.batched:
        raise ValueError(
            f"the store {path} was simulated in batches, and this model now cannot be: {way.reason}; choose "
            "another store"
        )
    if held is None:
        held = _new_store(path, simulation, way, first_rows, identity)
    elif held.rows < options.draws:
        held.extend(options.draws)
    simulate_rows(simulation, way, first_rows, Stored(held, options.draws, options.on_failure == "raise"))
    # Known likelihoods are those of the data, which may have changed where their shapes have not.
    stale = simulation.forward.log_known is not None or not has_prior_ratio(held)
    if simulation.weighted and stale:
        ratio = simulation.prior_ratio(held.parameters(0, options.draws))
        assert ratio is not None
        held.keep(PRIOR_RATIO, ("row",), ratio)
    noted, account = held.documents["provenance"], simulation.sampler.account()
    if account.keys() - noted.keys():  # a later call that only reads has drawn little
        held.note("provenance", {**noted, **account})
    origin, meaning = held.documents.get("origin", {}), simulation.origin.on_failure
    if origin and options.on_failure != "raise" and origin.get("on_failure", "drop") != meaning:
        held.note("origin", {**origin, "on_failure": meaning})
    before, laps = held.documents["timings"], simulation.clock.laps
    held.note("timings", {**before, **{name: before.get(name, 0.0) + lap for name, lap in laps.items()}})
    table = StoredTable(held, options.draws, graph.observed, graph.observed_data)
    rows = table.failures.rows.tolist()
    failures = dict(zip(rows, table.failures.messages, strict=True))
    check_failures(options.draws, failures, table.origin.on_failure, told=options.failures_told)
    return table


def _new_store(
    path: Path, simulation: Simulation, way: Way, first_rows: FirstRows, identity: dict[str, Any]
) -> TableStore:
    """A store without rows, with all by which a later call is recognised as the same."""
    options, graph = simulation.options, simulation.forward.graph
    arrays: dict[str, tuple[tuple[str, ...], np.ndarray]] = {
        "observed": (("statistic",), graph.observed),
        "first_parameters": (("first", "parameter"), first_rows.parameters),
        "first_statistics": (("tried", "statistic"), first_rows.chunk.statistics),
    }
    for name, values in graph.observed_data.items():
        dims = tuple(f"observed_data_{name}_{i}" for i in range(values.ndim))
        arrays[f"observed_data_{name}"] = dims, values
    return TableStore.create(
        path,
        rows=options.draws,
        chunk_rows=rows_a_stored_chunk(
            way.simulator, simulation.prior, options.draws, first_rows.seconds, options.cores
        ),
        parameters=graph.parameters.names,
        statistics=graph.statistics.names,
        arrays=arrays,
        documents={
            "identity": identity,
            "parameter_columns": graph.parameters.to_json(),
            "statistic_columns": graph.statistics.to_json(),
            "support": simulation.support.to_json(),
            "seed": identity["random_seed"],
            "repeatable": first_rows.repeatable,
            "batched": way.batched,
            "origin": simulation.origin.to_json(),
            "provenance": provenance_of(simulation, way),
            "timings": {},
            "proposal": None if options.proposal is None else options.proposal.to_json(),
        },
    )


def _is_batched(store: TableStore) -> bool:
    """How the rows of a store were simulated; stores of earlier versions say so in words alone."""
    documents = store.documents
    return bool(documents.get("batched", documents["provenance"]["simulated"] == IN_BATCHES))


def _check_goes_on(store: TableStore, options: SimulationOptions, first_rows: FirstRows) -> None:
    """Refuse to go on with the store of another prior or simulator, or in another way."""
    way = IN_BATCHES if _is_batched(store) else ROW_BY_ROW
    if options.batched is not None and options.batched != (way == IN_BATCHES):
        raise ValueError(
            f"the store {store.path} was simulated {way}, and batched is {options.batched}; leave `batched` "
            "out, or choose another store"
        )
    if options.timeout is not None and way == IN_BATCHES:
        raise ValueError(
            f"the store {store.path} was simulated in batches, and timeout is that of one simulation; leave "
            "`timeout` out, or choose another store"
        )
    software = store.documents["provenance"], versions()
    parameters, statistics = store.array("first_parameters"), store.array("first_statistics")
    assert parameters is not None
    assert statistics is not None
    check_first_rows(store.path, "prior", parameters, first_rows.parameters, software)
    if store.documents["repeatable"]:
        check_first_rows(store.path, "simulator", statistics, first_rows.chunk.statistics, software)


def _identity(simulation: Simulation) -> dict[str, Any]:
    """What two simulations have in common if one may go on where the other has ended."""
    options, graph = simulation.options, simulation.forward.graph
    return {
        "parameters": graph.parameters.to_json(),
        "statistics": graph.statistics.to_json(),
        "shapes of the data": {name: list(data.shape) for name, data in graph.observed_data.items()},
        "support of the prior": simulation.support.to_json(),
        "random_seed": str(simulation.entropy),
        # Of a table that is not to be extended: its batches have streams of their own.
        "fixed number of rows": None if options.to_be_extended else options.draws,
        "proposal": None if options.proposal is None else options.proposal.to_json(),
    }


def check_identity(path: Path, held: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to go on with the store of another simulation.

    Raises
    ------
    ValueError
        That names the first difference.
    """
    for what, value in now.items():
        if held.get(what) != value:
            raise ValueError(
                f"the store {path} was made with other {what}: {_shown(held.get(what))}, and now "
                f"{_shown(value)}; give what it was made with, or choose another store"
            )


def check_first_rows(
    path: Path,
    what: str,
    held: np.ndarray,
    now: np.ndarray,
    software: tuple[Mapping[str, str], Mapping[str, str]],
) -> None:
    """Refuse to go on with a store whose first rows came out otherwise.

    Parameters
    ----------
    path : Path
    what : str
        "prior" or "simulator".
    held, now : ndarray of shape (t, k)
        The first rows then, and now; rows that are NaN are not compared.
    software : pair of mappings
        Of the software, then and now.

    Raises
    ------
    ValueError
        That shows the first difference.
    """
    rows = min(len(held), len(now))
    # Rows that failed then or now have nothing to compare.
    both = np.isfinite(held[:rows]).all(axis=1) & np.isfinite(now[:rows]).all(axis=1)
    # Another processor may round the last digits otherwise.
    for row in np.flatnonzero(both):
        if not np.allclose(held[row], now[row], rtol=1e-9, atol=0):
            then, today = software
            changed = [
                f"{name} {then[name]} then and {today[name]} now"
                for name in today
                if then.get(name) != today[name]
            ]
            noted = f" ({', '.join(changed)})" if changed else ""
            raise ValueError(
                f"the store {path} was made with another {what}: row {row} was {_shown(held[row].tolist())} "
                f"and is now {_shown(now[row].tolist())}{noted}; give the model it was made with, or "
                "choose another store"
            )


def _shown(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict) and "name" in value[0]:
        value = {column["name"]: tuple(column["shape"]) for column in value}
    return shortened(str(value), 200)
