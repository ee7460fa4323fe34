"""Whether a store was made with the simulators of a model: by rows that come out the same, and by code."""

from __future__ import annotations

import ast
import functools
import inspect
import os
import sys
import textwrap
import time
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.op import Op

from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.simulation.first_rows import FEWEST_FIRST_ROWS, SPARE_FIRST_ROWS, FirstRows
from pymc_kbr.simulation.model.read import ModelGraph, is_simulator
from pymc_kbr.simulation.model.vector_simulator import function_of
from pymc_kbr.simulation.stages import Simulation, Way
from pymc_kbr.simulation.workers.executors import SECONDS_A_CHUNK, rows_a_chunk
from pymc_kbr.tables.errors import shortened
from pymc_kbr.tables.store import TableStore

Software = tuple[Mapping[str, str], Mapping[str, str]]
"""Versions of it, then and now."""

Code = dict[str, dict[str, str]]
"""Of each simulator what it consists of, by names: see `code_of`."""

HAS_DOCSTRING = 0x4000000
"""The flag of compiled code that `inspect` calls CO_HAS_DOCSTRING since Python 3.14."""


# --- rows ---


def compare_rows(
    held: TableStore,
    simulation: Simulation,
    way: Way,
    first_rows: FirstRows,
    code: tuple[Code, Code],
    software: Software,
) -> None:
    """Simulate some of a store's rows again, and draw some of its parameters, and refuse where they differ.

    Row by row: those with the smallest and the largest value of each parameter, and others spread evenly, as
    many as are written together, for which a quarter of a second is allowed. In batches: the first one, and
    the last one where a batch takes no longer. Where the code has changed: at least ten rows, or both.

    Raises
    ------
    ValueError
        That shows the first difference.

    Warns
    -----
    UserWarning
        If the code has changed and the rows have not, or rows of the store fail now.
    """
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
            f"{same} of its rows were simulated again and are the same, so the call goes on with this store"
            if same
            else "the call goes on with this store, and none of its rows could be compared"
        )
        warnings.warn(
            f"the code of the simulators has changed since the store {held.path} was made "
            f"({shortened('; '.join(changed), 300)}); {found}; choose another one if other rows would differ",
            UserWarning,
            stacklevel=users_line(),
        )


def _some_rows(
    held: TableStore, simulation: Simulation, way: Way, first_rows: FirstRows, done: np.ndarray, changed: bool
) -> Any:
    options, simulator = simulation.options, simulation.simulator
    most = rows_a_chunk(way.simulator, options.draws, first_rows.seconds, options.cores)
    most = max(most, FEWEST_FIRST_ROWS + SPARE_FIRST_ROWS) if changed else most
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
    held: TableStore, simulation: Simulation, way: Way, first_rows: FirstRows, done: np.ndarray, changed: bool
) -> Any:
    block = way.simulator.block_rows
    rows = np.flatnonzero(done[:block])
    began = time.perf_counter()
    if len(rows):
        # Drawn as a whole, also where the table ends within it.
        found = way.simulator.simulate(0, simulation.prior[0:block])
        yield rows, found.statistics[rows]
    if time.perf_counter() - began > SECONDS_A_CHUNK and not changed:
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
    """Refuse to go on with a store of which some rows come out otherwise.

    Parameters
    ----------
    path : Path
    what : str
        "prior" or "simulator".
    rows : sequence of int
        Their numbers.
    held, now : ndarray of shape (t, k)
        What they were, and are now; rows that are NaN are not compared: they failed.
    software : pair of mappings
        Of the software, then and now.

    Raises
    ------
    ValueError
        That shows the first difference.
    """
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


# --- code ---


def code_of(graph: ModelGraph) -> Code:
    """Of each simulator its code, and the values that it takes from around it, as far as Python shows them.

    Where it stands, how it is laid out and what its comments say is no part of it. Values are those of its
    inputs that are no parameters, of defaults, of names of enclosing functions and of the module: numbers,
    texts, arrays and collections of these. The code of its `sum_stat` is part of it. Functions of the same
    package are followed; what was imported from elsewhere is not, and places of files are left out.
    """
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
        shown = _shown(value)
        if shown is not None:
            parts[f"{where}{name}"] = shown


def _shown(value: Any) -> str | None:
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
            found = [_shown(each) for each in items]
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


def _bytes_of(code: types.CodeType) -> bytes:
    """Compiled code without the places where it stands and its docstring."""
    constants = list(code.co_consts)
    # Before Python 3.14 the first constant is the docstring, or None; since then a flag says so.
    if isinstance(constants[0] if constants else None, str) and (
        sys.version_info < (3, 14) or code.co_flags & HAS_DOCSTRING
    ):
        constants = constants[1:]
    shown = [
        _bytes_of(each) if isinstance(each, types.CodeType) else repr(_ordered(each)).encode()
        for each in constants
    ]
    names = repr(
        (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_flags & ~HAS_DOCSTRING)
    )
    return b"\0".join([code.co_code, names.encode(), *shown])


def _ordered(constant: Any) -> Any:
    return sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant


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
