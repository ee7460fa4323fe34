"""A table's rows as they go to a store, and whether a simulation may go on in one."""

from __future__ import annotations

import errno
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.simulation.destination import pieces_of
from pymc_kbr.simulation.failures import check_failures
from pymc_kbr.simulation.first_rows import FirstRows
from pymc_kbr.simulation.forward_model import Forward
from pymc_kbr.simulation.options import SimulationOptions
from pymc_kbr.simulation.provenance import versions
from pymc_kbr.simulation.same_simulator import Code, check_rows, code_of, compare_rows, unchanged
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
from pymc_kbr.tables.layout import ARRAYS, DONE, FAILED
from pymc_kbr.tables.lock import locked, real_path
from pymc_kbr.tables.origin import Origin
from pymc_kbr.tables.saved import OBSERVED_DATA, PRIOR_RATIO
from pymc_kbr.tables.store import TableStore
from pymc_kbr.tables.stored_table import StoredTable, has_prior_ratio

KNOWN = "known densities and Potentials"
"""Of a model's identity: the names of those that weight its rows."""

FIRST_LOG_KNOWN = "first_log_known"
"""The array of their values at the parameters of the first rows."""


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

    def pieces(self, tell: bool = True) -> list[range]:
        """The chunks that are not finished; those that are damaged are told of once.

        Warns
        -----
        UserWarning
            If some were finished once and are damaged.
        """
        wanted = {"unfinished", "damaged", *(("failed",) if self._again else ())}
        pieces = pieces_of(self._draws, self._store.chunk_rows)
        states = [self._store.state(piece.start, piece.stop) for piece in pieces]
        damaged = states.count("damaged")
        if damaged and tell:
            warnings.warn(
                f"{damaged} of {len(pieces)} chunks of the store {self._store.path} are damaged, as a power "
                "cut can leave them; they are simulated again",
                UserWarning,
                stacklevel=users_line(),
            )
        # A kill leaves a single chunk without checksums; where more lack them, or all, the rows are kept.
        left = self._store.unverified
        one = self._store.digested and len(left) == 1
        again = {int(left[0]) * self._store.chunk_rows} if one else set()
        return [
            piece
            for piece, state in zip(pieces, states, strict=True)
            if state in wanted or piece.start in again
        ]

    def write(
        self, start: int, parameters: np.ndarray, statistics: np.ndarray, failures: dict[int, str]
    ) -> None:
        """Write a chunk."""
        self._store.write(start, parameters, statistics, failures)


def simulate_in_store(options: SimulationOptions, forward: Forward) -> StoredTable:
    """Simulate what a store lacks, which is made where there is none; nobody else writes to it meanwhile.

    Where it lacks nothing it is only read.

    Raises
    ------
    TypeError, ValueError, SimulationError, OSError
        As `simulate`.
    """
    assert options.store is not None
    # Before anything is locked, made or removed: what is there must be a store.
    path = real_path(Path(options.store))
    held = TableStore.open(path) if path.exists() else None
    if held is not None and _lacks_nothing(held, options, forward):
        with _simulation_of(options, forward, held) as simulation:
            _check_is_that_of(held, simulation, _identity(simulation))
            return _result(held, simulation)
    with locked(path):
        held = TableStore.open(path) if path.exists() else None
        with _simulation_of(options, forward, held) as simulation:
            return _simulate_into(path, held, simulation)


def _simulation_of(
    options: SimulationOptions, forward: Forward, held: TableStore | None
) -> AbstractContextManager[Simulation]:
    # Without a seed, the same call goes on with the one that it began with.
    goes_on = held is not None and options.random_seed is None
    entropy = int(held.documents["seed"]) if held and goes_on else entropy_of(options.random_seed)
    return begun(options, forward, entropy)


def _lacks_nothing(held: TableStore, options: SimulationOptions, forward: Forward) -> bool:
    """Whether all that is asked for is in a store, whole."""
    wanted = (DONE,) if options.on_failure == "raise" else (DONE, FAILED)
    if held.rows < options.draws or not np.isin(held.status()[: options.draws], wanted).all():
        return False
    weighted = options.proposal is not None or forward.log_known is not None
    if weighted and not has_prior_ratio(held, options.draws):
        return False
    return not Stored(held, options.draws, options.on_failure == "raise").pieces(tell=False)


def _simulate_into(path: Path, held: TableStore | None, simulation: Simulation) -> StoredTable:
    options = simulation.options
    identity = _identity(simulation)
    if held is None:
        before = code_of(simulation.forward.graph)
        first_rows = try_first_rows(simulation, known=False)
        code = unchanged(before, code_of(simulation.forward.graph))
        way = choose_way(simulation, first_rows)
        held = _new_store(path, simulation, way, first_rows, identity, code)
    else:
        first_rows, way, code = _check_is_that_of(held, simulation, identity)
        if held.rows < options.draws:
            held.extend(options.draws)
    simulate_rows(simulation, way, first_rows, Stored(held, options.draws, options.on_failure == "raise"))
    _check_all_are_there(held, options.draws)
    if held.documents.get("simulators", code) != code:
        held.note("simulators", code)
    return _result(held, simulation, write=True)


def _result(held: TableStore, simulation: Simulation, write: bool = False) -> StoredTable:
    """The table of a store that lacks nothing; notes of a call that only reads stay in memory."""
    options, graph = simulation.options, simulation.forward.graph
    keep = held.note if write else held.remember
    if simulation.weighted:
        ratio = simulation.prior_ratio(held.parameters(0, options.draws))
        assert ratio is not None
        # A store has the ratio of the data that it has, for all of its rows.
        of_store = options.draws == held.rows and _has_data_of(held, graph.known, graph.observed_data)
        before = held.array(PRIOR_RATIO)
        if write and of_store and (before is None or not np.array_equal(before, ratio)):
            held.keep(PRIOR_RATIO, ("row",), ratio)
        held.remember(PRIOR_RATIO, ratio)
    noted, account = held.documents["provenance"], simulation.sampler.account()
    if account.keys() - noted.keys():  # a later call that only reads has drawn little
        keep("provenance", {**noted, **account})
    origin, meaning = held.documents.get("origin", {}), simulation.origin.on_failure
    if origin and options.on_failure != "raise" and origin.get("on_failure", "drop") != meaning:
        keep("origin", {**origin, "on_failure": meaning})
    before_, laps = held.documents["timings"], simulation.clock.laps
    keep("timings", {**before_, **{name: before_.get(name, 0.0) + lap for name, lap in laps.items()}})
    table = StoredTable(held, options.draws, graph.observed, graph.observed_data)
    rows = table.failures.rows.tolist()
    failures = dict(zip(rows, table.failures.messages, strict=True))
    check_failures(options.draws, failures, table.origin.on_failure, told=options.failures_told)
    return table


def _check_all_are_there(held: TableStore, draws: int) -> None:
    """Refuse to call a table finished of which files were removed while it was written.

    Raises
    ------
    OSError
        That says how many rows are left, and where.
    """
    there = TableStore.open(held.path).there()[:draws]
    lost = draws - int(np.sum(there))
    if lost:
        raise OSError(
            errno.EIO,
            f"{lost} of {draws} rows that were written to the store {held.path} are gone: something else "
            f"removes or changes its files; {draws - lost} rows are finished in it, and safe; the same call "
            "makes the others anew",
        )


def _new_store(
    path: Path,
    simulation: Simulation,
    way: Way,
    first_rows: FirstRows,
    identity: dict[str, Any],
    code: Code,
) -> TableStore:
    """A store without rows, with all by which a later call is recognised as the same."""
    options, graph = simulation.options, simulation.forward.graph
    arrays: dict[str, tuple[tuple[str, ...], np.ndarray]] = {
        "observed": (("statistic",), graph.observed),
        "first_parameters": (("first", "parameter"), first_rows.parameters),
        "first_statistics": (("tried", "statistic"), first_rows.chunk.statistics),
    }
    if simulation.forward.log_known is not None:
        arrays[FIRST_LOG_KNOWN] = ("first",), simulation.forward.log_known(first_rows.parameters)
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
            "simulators": code,
        },
    )


def _is_batched(store: TableStore) -> bool:
    """How the rows of a store were simulated; stores of earlier versions say so in words alone."""
    documents = store.documents
    return bool(documents.get("batched", documents["provenance"]["simulated"] == IN_BATCHES))


def _check_is_that_of(
    held: TableStore, simulation: Simulation, identity: dict[str, Any]
) -> tuple[FirstRows, Way, Code]:
    """Refuse to go on with the store of another model, or in another way; how to go on otherwise.

    Raises
    ------
    ValueError
        That names the first difference.
    """
    options, graph = simulation.options, simulation.forward.graph
    documents = held.documents
    known = documents["identity"].get(KNOWN, sorted(Origin.from_documents(documents).known))
    check_identity(held.path, {**documents["identity"], KNOWN: known}, identity)
    batched = _is_batched(held)
    _check_way(held, options, batched)
    for name in documents.get(ARRAYS, {}):
        held.needed(name)
    software = documents["provenance"], versions()
    parameters = held.needed("first_parameters")
    statistics = held.needed("first_statistics")
    log_known = held.array(FIRST_LOG_KNOWN)
    before = code_of(graph)
    # Even where all rows are there, one is simulated: another simulator must not pass for the store's.
    first_rows = try_first_rows(simulation, known=not batched)
    code = unchanged(before, code_of(graph))
    check_rows(held.path, "prior", range(len(parameters)), parameters, first_rows.parameters, software)
    if log_known is not None and _has_data_of(held, graph.known, graph.observed_data):
        now = _log_known_at(simulation, parameters)
        check_rows(
            held.path,
            f"density of {list(graph.known_names)}",
            range(len(now)),
            log_known[:, None],
            now,
            software,
        )
    if documents["repeatable"]:
        rows = range(len(first_rows.chunk.statistics))
        check_rows(held.path, "simulator", rows, statistics, first_rows.chunk.statistics, software)
    way = choose_way(simulation, first_rows, row_by_row=not batched)
    if batched and not way.batched:
        raise ValueError(
            f"the store {held.path} was simulated in batches, and this model now cannot be: {way.reason}; "
            "choose another store"
        )
    compare_rows(held, simulation, way, first_rows, (documents.get("simulators", {}), code), software)
    return first_rows, way, code


def _log_known_at(simulation: Simulation, parameters: np.ndarray) -> np.ndarray:
    assert simulation.forward.log_known is not None
    return simulation.forward.log_known(parameters)[:, None]


def _has_data_of(held: TableStore, variables: Sequence[Any], data: Mapping[str, np.ndarray]) -> bool:
    """Whether the data of some variables are those that a store was made with."""
    of_store = [held.array(f"{OBSERVED_DATA}{rv.name}") for rv in variables]
    return all(
        one is not None and np.array_equal(one, data[rv.name], equal_nan=True)
        for one, rv in zip(of_store, variables, strict=True)
    )


def _check_way(store: TableStore, options: SimulationOptions, batched: bool) -> None:
    """Refuse to go on in another way."""
    way = IN_BATCHES if batched else ROW_BY_ROW
    if options.batched is not None and options.batched != batched:
        raise ValueError(
            f"the store {store.path} was simulated {way}, and batched is {options.batched}; leave `batched` "
            "out, or choose another store"
        )
    if options.timeout is not None and batched:
        raise ValueError(
            f"the store {store.path} was simulated in batches, and timeout is that of one simulation; leave "
            "`timeout` out, or choose another store"
        )


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
        KNOWN: sorted(graph.known_names),
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


def _shown(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict) and "name" in value[0]:
        value = {column["name"]: tuple(column["shape"]) for column in value}
    return shortened(str(value), 200)
