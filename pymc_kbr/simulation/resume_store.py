"""A table's rows as they go to a store, and whether a simulation may go on in one."""

from __future__ import annotations

import ast
import dataclasses
import errno
import functools
import inspect
import os
import sys
import textwrap
import time
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.op import Op

from pymc_kbr.arrays.support import Support
from pymc_kbr.arrays.threads import one_blas_thread
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.simulation.forward_model import ForwardModel, PilotRun, enough_first_rows, simulate_first_rows
from pymc_kbr.simulation.model.read import ModelGraph, inputs_of, is_simulator
from pymc_kbr.simulation.model.simulators import function_of
from pymc_kbr.simulation.options import Clock, Destination, InMemory, SimulationOptions, pieces_of, versions
from pymc_kbr.simulation.prior.draws import DrawnPrior, PriorSampler
from pymc_kbr.simulation.prior.proposal import ProposalSampler
from pymc_kbr.simulation.prior.truncated import TruncatedSampler
from pymc_kbr.simulation.progress import progress_bar
from pymc_kbr.simulation.streams import entropy_of
from pymc_kbr.simulation.workers.executors import (
    Isolated,
    check_picklable,
    rows_a_chunk,
    rows_a_stored_chunk,
    simulate_chunks,
)
from pymc_kbr.simulation.workers.row_simulator import Chunk, RowSimulator
from pymc_kbr.tables.checks import check_support, shortened
from pymc_kbr.tables.file import OBSERVED_DATA, PRIOR_RATIO
from pymc_kbr.tables.layout import ARRAYS, DONE, FAILED
from pymc_kbr.tables.origin import Failures, Origin
from pymc_kbr.tables.reference_table import ReferenceTable
from pymc_kbr.tables.store import TableStore, locked, real_path
from pymc_kbr.tables.stored_table import StoredTable, has_prior_ratio

KNOWN = "known densities and Potentials"
"""Of a model's identity: the names of those that weight its rows."""

FIRST_LOG_KNOWN = "first_log_known"
"""The array of their values at the parameters of the first rows."""


class Stored:
    """A store, of which finished chunks are kept."""

    def __init__(self, store: TableStore, draws: int, again: bool) -> None:
        self._store, self._draws, self._again = store, draws, again

    def pieces(self, tell: bool = True) -> list[range]:
        """The chunks that are not finished; a warning names damaged ones once."""
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


def simulate_in_store(options: SimulationOptions, forward: ForwardModel) -> StoredTable:
    """Simulate what a store lacks, which is made where there is none; nobody else writes to it meanwhile."""
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
    options: SimulationOptions, forward: ForwardModel, held: TableStore | None
) -> AbstractContextManager[Simulation]:
    # Without a seed, the same call goes on with the one that it began with.
    keeps_seed = held is not None and options.random_seed is None
    entropy = int(held.documents["seed"]) if held and keeps_seed else entropy_of(options.random_seed)
    return open_simulation(options, forward, entropy)


def _lacks_nothing(held: TableStore, options: SimulationOptions, forward: ForwardModel) -> bool:
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
        way = choose_execution(simulation, first_rows)
        held = _new_store(path, simulation, way, first_rows, identity, code)
    else:
        first_rows, way, code = _check_is_that_of(held, simulation, identity)
        if held.rows < options.draws:
            held.extend(options.draws)
    again = options.on_failure == "raise"
    try:
        simulate_rows(simulation, way, first_rows, Stored(held, options.draws, again))
    except KeyboardInterrupt:
        wanted = (DONE,) if again else (DONE, FAILED)
        finished = int(np.argmin(np.append(np.isin(held.status()[: options.draws], wanted), False)))
        if finished < 2:
            raise
        raise Interrupted(_result(held, _shorter(simulation, finished)), options.draws) from None
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
    check_failures(options.draws, failures, table.origin.on_failure, warn=options.warns_of_failures)
    return table


def _check_all_are_there(held: TableStore, draws: int) -> None:
    """Refuse to call a table finished of which files were removed while it was written."""
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
    way: ExecutionPlan,
    first_rows: PilotRun,
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
            way.simulator, simulation.prior, options.draws, first_rows.seconds, options.workers
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
) -> tuple[PilotRun, ExecutionPlan, Code]:
    """Refuse to go on with the store of another model, or in another way; how to go on otherwise."""
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
        assert simulation.forward.log_known is not None
        now = simulation.forward.log_known(parameters)[:, None]
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
    way = choose_execution(simulation, first_rows, row_by_row=not batched)
    if batched and not way.batched:
        raise ValueError(
            f"the store {held.path} was simulated in batches, and this model now cannot be: {way.reason}; "
            "choose another store"
        )
    compare_rows(held, simulation, way, first_rows, (documents.get("simulators", {}), code), software)
    return first_rows, way, code


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
    """Refuse to go on with the store of another simulation."""
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


# --- comparison of a store with a model ---


Software = tuple[Mapping[str, str], Mapping[str, str]]
"""Versions of it, then and now."""

Code = dict[str, dict[str, str]]
"""Of each simulator what it consists of, by names: see `code_of`."""

# --- some rows simulated again ---


def compare_rows(
    held: TableStore,
    simulation: Simulation,
    way: ExecutionPlan,
    first_rows: PilotRun,
    code: tuple[Code, Code],
    software: Software,
) -> None:
    """Simulate some rows of a store again, draw some of its parameters, and refuse where they differ."""
    draws = min(simulation.options.draws, held.rows)
    done = held.done(draws)
    drawn = np.flatnonzero(done[: simulation.prior.made])
    if len(drawn):
        now = simulation.prior[0 : int(drawn[-1]) + 1][drawn]
        check_rows(held.path, "prior", drawn, held.at("parameters", drawn), now, software)
    changed = changes(*code)
    same = failed = 0
    if held.documents["repeatable"]:
        some = _some_blocks if way.batched else _some_rows
        for rows, now in some(held, simulation, way, first_rows, done, bool(changed)):
            check_rows(held.path, "simulator", rows, held.at("statistics", rows), now, software)
            failed += int(np.sum(np.isnan(now).any(axis=1)))
            same += int(np.sum(~np.isnan(now).any(axis=1)))
    if failed:
        warnings.warn(
            f"{same + failed} rows of the store {held.path} were simulated again, and {failed} of them fail "
            "now; the stored rows stay as they are, but new rows may fail, too",
            UserWarning,
            stacklevel=users_line(),
        )
    if changed and np.any(done):
        found = (
            f"{same} of its rows were simulated again and are the same, so the call continues this store"
            if same
            else "the call continues this store, and none of its rows could be compared"
        )
        warnings.warn(
            f"the code of the simulators has changed since the store {held.path} was made "
            f"({shortened('; '.join(changed), 300)}); {found}; choose another one if other rows would differ",
            UserWarning,
            stacklevel=users_line(),
        )


def _some_rows(
    held: TableStore,
    simulation: Simulation,
    way: ExecutionPlan,
    first_rows: PilotRun,
    done: np.ndarray,
    changed: bool,
    *,
    # Of changed code, at least: as many as the first rows of a table that are tried.
    fewest: int = 10,
) -> Any:
    options, simulator = simulation.options, simulation.simulator
    most = rows_a_chunk(way.simulator, options.draws, first_rows.seconds, options.workers)
    most = max(most, fewest) if changed else most
    good = np.flatnonzero(done)
    if not len(good):
        return
    ends = held.extreme_rows(len(done))
    ends = ends[done[ends]]
    evenly = good[np.unique(np.linspace(0, len(good) - 1, min(most, len(good))).astype(int))]
    rows = np.sort(list(dict.fromkeys([*ends.tolist(), *evenly.tolist()]))[:most])
    parameters = held.at("parameters", rows)
    try_row = simulation.isolated.try_row if options.isolates_first_rows else simulator.try_row
    for row, values in zip(rows.tolist(), parameters, strict=True):
        yield np.array([row]), simulator.chunk(row, [try_row(row, values)]).statistics


def _some_blocks(
    held: TableStore,
    simulation: Simulation,
    way: ExecutionPlan,
    first_rows: PilotRun,
    done: np.ndarray,
    changed: bool,
    *,
    # Of comparing: then no further block is simulated again.
    enough_seconds: float = 0.25,
) -> Any:
    block = way.simulator.block_rows
    rows = np.flatnonzero(done[:block])
    began = time.perf_counter()
    if len(rows):
        # Drawn as a whole, also where the table ends within it.
        found = way.simulator.simulate(0, simulation.prior[0:block])
        yield rows, found.statistics[rows]
    if time.perf_counter() - began > enough_seconds and not changed:
        return
    whole = held.whole_rows(len(done))
    for number in range(len(done) // block - 1, 0, -1):
        rows = np.arange(number * block, (number + 1) * block)
        if whole[rows].all() and done[rows].any():
            found = way.simulator.simulate(int(rows[0]), held.parameters(int(rows[0]), int(rows[-1]) + 1))
            yield rows[done[rows]], found.statistics[done[rows]]
            return


def check_rows(
    path: Path,
    what: str,
    rows: Sequence[int] | np.ndarray,
    held: np.ndarray,
    now: np.ndarray,
    software: Software,
) -> None:
    """Refuse to go on with a store of which some rows come out otherwise."""
    # Shapes: held, now (t, k).
    count = min(len(held), len(now))
    held, now = held[:count], now[:count]
    both = ~(np.isnan(held).any(axis=1) | np.isnan(now).any(axis=1))
    # Another processor may round the last digits otherwise: of a sum that cancels, those of its terms.
    finite = np.where(np.isfinite(held) & both[:, None], np.abs(held), 0.0)
    near = np.isclose(held, now, rtol=1e-9, atol=1e-12 * finite.max(axis=0, initial=0.0)).all(axis=1)
    different = np.flatnonzero(both & ~near)
    if len(different):
        i = int(different[0])
        then, today = software
        changed = [
            f"{name} {then[name]} then and {today[name]} now"
            for name in today
            if name in then and then[name] != today[name]
        ]
        noted = f" ({', '.join(changed)})" if changed else ""
        raise ValueError(
            f"the store {path} was made with another {what}: row {rows[i]} was "
            f"{shortened(str(held[i].tolist()), 200)} and is now {shortened(str(now[i].tolist()), 200)}"
            f"{noted}; give the model it was made with, or choose another store"
        )


# --- the simulators' code ---


def code_of(graph: ModelGraph) -> Code:
    """The code of each simulator, and the values that it takes from around it, as far as Python shows."""
    found: Code = {}
    for rv in graph.simulated:
        if is_simulator(rv):
            function = function_of(rv.owner.op)
            parts: dict[str, str] = {}
            _add(function, "", _package(function), parts, set())
            summary = _summary_of(rv.owner.op)
            if _package(summary) == _package(function):
                _add(summary, "sum_stat/", _package(function), parts, set())
            _add_values(_fixed_inputs(rv), "value of ", "", parts, set())
            found[str(rv.name)] = parts
    return found


def _summary_of(op: Any) -> Any:
    """A simulator's `sum_stat`; where it takes arrays alone PyMC keeps it in an operation's closure."""
    summary = type(op).__dict__["_sum_stat"]
    if not isinstance(summary, Op):
        return summary
    return inspect.getclosurevars(type(summary).perform).nonlocals.get("fn", summary)


def _fixed_inputs(rv: Any) -> dict[str, Any]:
    """What a simulator is called with beside parameters: constants and data, by their names or places."""
    fixed: dict[str, Any] = {}
    for number, given in enumerate(rv.owner.op.dist_params(rv.owner)):
        while given.owner is not None and len(given.owner.inputs) == 1:  # of another type or shape
            given = given.owner.inputs[0]
        if isinstance(given, Constant | SharedVariable):
            value = np.asarray(given.data if isinstance(given, Constant) else given.get_value())
            fixed[str(given.name or f"input {number}")] = value if value.ndim else value.item()
    return fixed


def unchanged(before: Code, after: Code) -> Code:
    """What simulating has left as it was: a buffer or a counter is no part of a simulator's code."""
    return {
        name: {part: value for part, value in parts.items() if after[name].get(part) == value}
        for name, parts in before.items()
    }


def changes(then: Code, now: Code) -> list[str]:
    """What is known of both and differs, in words."""
    found = []
    for name in then:
        old, new = then[name], now.get(name, {})
        for part in old:
            if part not in new or old[part] == new[part]:
                continue
            where, _, kind = part.rpartition("/")
            if kind in ("code", "source"):
                if _same_code(where, old, new):
                    continue
                found.append(f"the code of {where.strip('/') or repr(name)} is another")
            else:
                found.append(f"{part.strip('/')} was {old[part]} and is {new[part]}")
    return list(dict.fromkeys(found))


def _same_code(where: str, old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    """Whether source or compiled code is the same; that of another version of Python is not compared."""
    source, code = f"{where}/source", f"{where}/code"
    if source in old and old[source] == new.get(source):
        return True
    if code not in old or code not in new:
        return source not in old or source not in new
    if old[code].split(":")[0] != new[code].split(":")[0]:
        return source not in old or source not in new
    return old[code] == new[code]


def _package(function: Any) -> str:
    return str(getattr(function, "__module__", None) or "").split(".")[0]


def _add(function: Any, where: str, package: str, parts: dict[str, str], seen: set[int]) -> None:
    """Add what a callable consists of to `parts`."""
    if id(function) in seen:
        return
    seen.add(id(function))
    if isinstance(function, functools.partial):
        given = {**{str(i): value for i, value in enumerate(function.args)}, **function.keywords}
        _add_values(given, f"{where}argument ", package, parts, seen)
        _add(function.func, where, package, parts, seen)
        return
    function = inspect.unwrap(getattr(function, "py_func", function))  # of Numba
    if isinstance(function, types.MethodType):
        _add_values(_attributes(function.__self__), f"{where}attribute ", package, parts, seen)
        function = function.__func__
    elif not isinstance(function, types.FunctionType):
        call = vars(type(function)).get("__call__")
        if not isinstance(call, types.FunctionType):
            return
        _add_values(_attributes(function), f"{where}attribute ", package, parts, seen)
        function = call
    if not isinstance(function, types.FunctionType):
        return
    code = function.__code__
    parts[f"{where}/code"] = f"{sys.version_info[0]}.{sys.version_info[1]}:{crc32(_bytes_of(code)):08x}"
    source = _source_of(function)
    if source is not None:
        parts[f"{where}/source"] = f"{crc32(source.encode()):08x}"
    arguments = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    given = dict(zip(arguments[len(arguments) - len(defaults) :], defaults, strict=True))
    _add_values({**given, **(function.__kwdefaults__ or {})}, f"{where}default of ", package, parts, seen)
    around: dict[str, Any] = {
        name: function.__globals__[name] for name in sorted(_names_of(code)) if name in function.__globals__
    }
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            around[name] = cell.cell_contents
        except ValueError:  # not given yet
            continue
    _add_values(around, f"{where}value of ", package, parts, seen)


def _attributes(one: Any) -> dict[str, Any]:
    return dict(getattr(one, "__dict__", {}))


def _add_values(
    values: Mapping[str, Any], where: str, package: str, parts: dict[str, str], seen: set[int]
) -> None:
    for name, value in values.items():
        if isinstance(value, functools.partial | types.FunctionType | types.MethodType):
            if _package(getattr(value, "func", value)) == package:
                _add(value, f"{where[: where.rfind('/') + 1]}{name}/", package, parts, seen)
            continue
        shown = _value_shown(value)
        if shown is not None:
            parts[f"{where}{name}"] = shown


def _value_shown(value: Any) -> str | None:
    """A value as a text that is another one for another value; None for what is no value of its own."""
    if value is None or isinstance(value, bool | int | float | complex | bytes | str | np.generic):
        if isinstance(value, str) and os.sep in value:
            return None
        text = repr(value)
        return text if len(text) < 60 else f"{text[:40]}... {crc32(text.encode()):08x}"
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufcSU":
        return f"{value.dtype} {value.shape} {crc32(np.ascontiguousarray(value).data):08x}"
    if isinstance(value, tuple | list | dict | set | frozenset):
        try:
            items = (
                [each for pair in value.items() for each in pair] if isinstance(value, dict) else list(value)
            )
            found = [_value_shown(each) for each in items]
        except RecursionError:
            return None
        if None in found:
            return None
        texts = [str(each) for each in found]
        if isinstance(value, set | frozenset):
            texts.sort()
        text = f"{type(value).__name__}({', '.join(texts)})"
        return text if len(text) < 60 else f"{text[:40]}... {crc32(text.encode()):08x}"
    return None


def _bytes_of(
    code: types.CodeType,
    *,
    # The flag of compiled code that `inspect` calls CO_HAS_DOCSTRING since Python 3.14.
    has_docstring_flag: int = 0x4000000,
) -> bytes:
    """Compiled code without the places where it stands and its docstring."""
    constants = list(code.co_consts)
    # Before Python 3.14 the first constant is the docstring, or None; since then a flag says so.
    if isinstance(constants[0] if constants else None, str) and (
        sys.version_info < (3, 14) or code.co_flags & has_docstring_flag
    ):
        constants = constants[1:]
    shown = [
        _bytes_of(each)
        if isinstance(each, types.CodeType)
        else repr(sorted(map(repr, each)) if isinstance(each, frozenset) else each).encode()
        for each in constants
    ]
    names = repr(
        (
            code.co_names,
            code.co_varnames,
            code.co_freevars,
            code.co_cellvars,
            code.co_flags & ~has_docstring_flag,
        )
    )
    return b"\0".join([code.co_code, names.encode(), *shown])


def _names_of(code: types.CodeType) -> set[str]:
    """Names that a function, or one inside it, may take from its module."""
    inside = [_names_of(each) for each in code.co_consts if isinstance(each, types.CodeType)]
    return set(code.co_names).union(*inside)


def _source_of(function: Callable[..., Any]) -> str | None:
    """Its source without comments, layout and docstring; None where there is none, or it is a lambda's."""
    if function.__name__ == "<lambda>":
        return None
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


# --- simulate into memory or into a store ---


def simulate_table(
    options: SimulationOptions, forward: ForwardModel, head: ReferenceTable | None = None
) -> ReferenceTable | StoredTable:
    """Simulate a table: a `StoredTable` where the options name a store."""
    # forward: The model, which may have made other tables before.
    # head: The first rows, simulated in memory with the same options but for their number, and to be
    # extended: only the others are simulated, and the table is what it would be without.
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
        chunk_rows = rows_a_chunk(way.simulator, draws, first_rows.seconds, options.workers)
        arrays = InMemory(draws, chunk_rows, graph)
        if head is not None:
            arrays.begin_with(head, way.simulator.block_rows if way.batched else 1)
        try:
            simulate_rows(simulation, way, first_rows, arrays)
        except KeyboardInterrupt:
            draws = arrays.finished()
            if draws < 2:
                raise
            simulation = _shorter(simulation, draws)
    failures = {row: why for row, why in arrays.failures.items() if row < draws}
    check_failures(draws, failures, options.on_failure, warn=options.warns_of_failures)
    ratio = simulation.prior_ratio(arrays.parameters[:draws])
    kept, failed = split_failures(draws, failures, arrays.parameters[:draws], ratio)
    table = ReferenceTable(
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
    if draws < options.draws:
        raise Interrupted(table, options.draws) from None
    return table


# --- simulations that are interrupted ---


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a simulation, with the table of the rows before the first one that is missing."""

    def __init__(self, table: ReferenceTable | StoredTable, asked: int) -> None:
        super().__init__()
        made = len(table) + len(table.failures)
        self.stored, self.words = table, f"interrupted after {made:,} of {asked:,} simulations"

    @property
    def table(self) -> ReferenceTable:
        """In memory, with what happened in its provenance."""
        made = self.stored.load() if isinstance(self.stored, StoredTable) else self.stored
        return dataclasses.replace(made, provenance={**made.provenance, "interrupted": self.words})

    @property
    def noted(self) -> ReferenceTable | StoredTable:
        """In its store, whose documents on disk do not have what happened."""
        if isinstance(self.stored, StoredTable):
            store = self.stored.store
            store.remember("provenance", {**store.documents["provenance"], "interrupted": self.words})
        return self.stored


def simulate_until_interrupted(
    options: SimulationOptions, forward: ForwardModel
) -> ReferenceTable | StoredTable:
    """What `simulate_table` makes, or has made when it is interrupted, with a warning."""
    try:
        return simulate_table(options, forward)
    except Interrupted as error:
        warn_of_interrupt(error.words, options.store)
        return error.table if options.store is None else error.noted


def refuse_a_part(table: ReferenceTable, name: str) -> None:
    """End a call, of which a table is one of several, whose simulations were interrupted."""
    if "interrupted" in table.provenance:
        raise KeyboardInterrupt(f"the simulations of {name} were {table.provenance['interrupted']}")


def warn_of_interrupt(words: str, store: str | Path | None) -> None:
    """Say at the user's line that there are fewer simulations than were asked for."""
    more = "given a `store`, the same call would go on where it ended"
    if store is not None:
        more = "the same call goes on where it ended"
    warnings.warn(f"{words}: the table has these; {more}", UserWarning, stacklevel=users_line())


def _shorter(simulation: Simulation, draws: int) -> Simulation:
    return dataclasses.replace(simulation, options=dataclasses.replace(simulation.options, draws=draws))


# --- stages of a simulation ---


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
    """Weights (n,) from their logarithms, the largest one."""
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
    with Isolated(simulator, options.workers) as isolated:
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
    if options.workers > 1 and simulator.batch is None:
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
            cores=options.workers,
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
        "cores": str(options.workers) if options.executor is None else type(options.executor).__name__,
        **sampler.provenance(),
        **simulation.origin.words,
        **versions(),
    }


# --- simulations that fail ---


class SimulationError(RuntimeError):
    """A simulation failed.

    Parameters
    ----------
    message : str
    row : int
        The draw that failed.
    parameters : dict of str to float
        Its parameters, by column name.
    """

    def __init__(self, message: str, row: int, parameters: dict[str, float]) -> None:
        super().__init__(message)
        self.row = row
        self.parameters = parameters


def raise_failure(
    row: int, failures: dict[int, str], draws: int, parameters: np.ndarray, start: int, graph: ModelGraph
) -> None:
    """Stop at a failed row of a chunk that begins with row `start`, and name its parameters."""
    named = dict(zip(graph.parameters.names, parameters[row - start].tolist(), strict=True))
    shown = ", ".join(f"{name} = {value:.6g}" for name, value in named.items())
    raise SimulationError(
        f"simulation {row} of {draws} failed at {shown}: {failures[row]}. Correct the simulator there, or "
        "pass on_failure='drop' to leave such rows out and keep their parameters (or 'condition', where a "
        "failure is not informative about the parameters)",
        row,
        named,
    )


def split_failures(
    draws: int, failures: dict[int, str], parameters: np.ndarray, ratio: np.ndarray | None
) -> tuple[slice | np.ndarray, Failures]:
    """The rows of the table, and the failed ones with their parameters and density ratio."""
    if not failures:
        return slice(draws), Failures.none(parameters.shape[1])
    rows = np.array(sorted(failures))
    kept = np.ones(draws, dtype=bool)
    kept[rows] = False
    messages = tuple(failures[r] for r in rows.tolist())
    of_failed = None if ratio is None else ratio[rows]
    return np.flatnonzero(kept), Failures(rows, parameters[rows], messages, of_failed)


def check_failures(draws: int, failures: dict[int, str], on_failure: str, *, warn: bool) -> None:
    """Refuse a table of failures; warn where they are many, and `warn` says so."""
    if failures and draws - len(failures) < 2:
        first = min(failures)
        raise SimulationError(
            f"{len(failures)} of {draws} simulations failed, the first with {failures[first]}; "
            "a table needs two that succeed",
            first,
            {},
        )
    if warn:
        warn_of_failures(len(failures), draws, on_failure)


def warn_of_failures(
    failed: int,
    draws: int,
    on_failure: str,
    *,
    # Share of failed simulations above which there is a warning.
    many_failures: float = 0.01,
) -> None:
    """Warn where more than `many_failures` of the simulations failed, and say what that means."""
    if failed > many_failures * draws:
        meaning = (
            "failures say nothing about the parameters (on_failure='condition'): the likelihood is that of "
            "the data given success, and the prior stays as it is"
            if on_failure == "condition"
            else "the data were observed, so parameters at which simulations fail more often become less "
            "probable (on_failure='drop'); if a failure says nothing about the parameters, pass "
            "on_failure='condition', or take `table.with_on_failure('condition')`"
        )
        warnings.warn(
            f"{failed} of {draws} simulations ({failed / draws:.1%}) failed and were dropped, and their "
            f"parameters are in `table.failures`: {meaning}",
            UserWarning,
            stacklevel=users_line(),
        )
