"""What is learned of a model's simulators: for each kind of them a model to simulate, and its inputs."""

from __future__ import annotations

import inspect
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor
from pymc.distributions.simulator import SimulatorRV, identity
from pymc.model.core import Model
from pymc.model.fgraph import ModelFreeRV, ModelNamed, model_from_fgraph
from pytensor import tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.scalar import basic
from pytensor.scalar import math as scalar_math
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.type_other import NoneTypeT

from pymc_kbr.arrays.bijections import Interval
from pymc_kbr.arrays.support import Support
from pymc_kbr.simulation.model.graphs import IN_PYTHON
from pymc_kbr.simulation.model.learned_simulator import register_learned
from pymc_kbr.simulation.model.learned_variable import Likelihood
from pymc_kbr.simulation.model.read import QUICK, copied, is_simulator
from pymc_kbr.simulation.model.simulators import function_of
from pymc_kbr.tables.reference_table import ReferenceTable

ROW_VARIABLE = "row_of_the_simulator"
"""Name of the variable that says which row of the inputs is simulated."""


@dataclass(frozen=True, eq=False)
class Learnable:
    """Simulators that one likelihood is learned for: the same function of the same kinds of inputs."""

    names: list[str]
    model: pm.Model
    theta: Variable
    inputs: tuple[int, ...]
    widths: list[int]
    original: tuple[pm.Model, list[SimulatorRows]]

    def input_names(self, asked: Collection[Any] = ()) -> list[str]:
        """Of the columns of the inputs: names of variables, or of the function's arguments."""
        op = self.original[1][0].op
        arguments = [
            each.name
            for each in inspect.signature(function_of(op)).parameters.values()
            if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
        ][1:]  # the first is the generator of random numbers
        found: list[str] = []
        for place in self.inputs:
            variables = {_name_of(rows.inputs[place]) for rows in self.original[1]}
            name = variables.pop() if len(variables) == 1 else None
            argument = arguments[place] if place < len(arguments) else f"input_{place}"
            if name is None or (argument in asked and name not in asked):
                name = argument
            width = self.widths[place]
            found += [name] if width == 1 else [f"{name}[{entry}]" for entry in range(width)]
        return found

    def statistic_names(self, table: ReferenceTable) -> list[str]:
        """Of the columns of a table of `model`: by the coordinates of the original, where it has these."""
        model, members = self.original
        name = members[0].name
        coordinates = model.coords.get((model.named_vars_to_dims.get(name) or [None])[-1])
        if coordinates is None or len(coordinates) != len(table.statistic_names):
            return table.statistic_names
        return [f"{name}[{label}]" for label in coordinates]

    def theta_of_rows(
        self,
        table: ReferenceTable,
        parameters: np.ndarray | None = None,
        *,
        # Rows of a table whose inputs are computed together.
        input_rows_at_once: int = 1000,
    ) -> np.ndarray:
        """The inputs (n, q) at parameters (n, p) of a table of `model`; of its rows where left out."""
        parameters = table.parameters[0 : len(table)] if parameters is None else parameters
        free = [rv for rv in self.model.free_RVs if rv.name != ROW_VARIABLE]
        values = table.parameter_columns.split(parameters)
        batches = [pt.tensor(dtype=rv.dtype, shape=(None, *values[rv.name].shape[1:])) for rv in free]
        given = dict(zip(free, batches, strict=True))
        theta = vectorize_graph(self.theta, given) if given else self.theta
        function = pytensor.function(batches, theta, mode=IN_PYTHON, on_unused_input="ignore")
        rows = values.get(ROW_VARIABLE, np.zeros(len(parameters), dtype=int))
        parts = []
        for start in range(0, len(parameters), input_rows_at_once):
            part = slice(start, start + input_rows_at_once)
            of_all = np.asarray(function(*(values[rv.name][part] for rv in free)), dtype=float)
            of_all = np.broadcast_to(of_all, (len(rows[part]), *of_all.shape[-2:]))
            parts.append(np.take_along_axis(of_all, rows[part][:, None, None], axis=1)[:, 0])
        return np.concatenate(parts)

    def support(self, table: ReferenceTable, columns: np.ndarray) -> Support:
        """Support of some columns of the inputs, from a table of `model`."""
        model, members = self.original
        ends: list[tuple[float, float]] = []
        for place in self.inputs:
            bounds = input_bounds([rows.inputs[place] for rows in members], model, table)
            ends += [bounds] * self.widths[place]
        names = [f"input_{column}" for column in columns]
        return Support.from_bounds({n: ends[c] for n, c in zip(names, columns, strict=True)}, names)


def _name_of(variable: Variable) -> str | None:
    """Of a variable, or of the one whose dimensions it has in another order or number."""
    while variable.name is None and isinstance(getattr(variable.owner, "op", None), DimShuffle):
        variable = variable.owner.inputs[0]
    return variable.name


def learnables(model: pm.Model, simulators: list[SimulatorRows]) -> list[Learnable]:
    """A model to simulate for each kind of simulator."""
    kinds: dict[Any, list[SimulatorRows]] = {}
    for rows in simulators:
        kinds.setdefault(_kind(model, rows), []).append(rows)
    return [_learnable(model, members) for members in kinds.values()]


def _kind(model: pm.Model, rows: SimulatorRows) -> Any:
    """What simulators have in common that may share a likelihood: all but the values of random inputs."""
    shapes = pytensor.function([], [rows.rv.shape, *(each.shape for each in rows.inputs)], mode=QUICK)()
    inner = tuple(
        tuple(int(length) for length in shape[len(shape) - core :])
        for shape, core in zip(shapes[1:], rows.cores, strict=True)
    )
    value = tuple(int(length) for length in shapes[0][rows.batch :])
    fixed = tuple(
        None if random else np.asarray(each.eval(mode=QUICK)).tobytes()
        for each, random in zip(rows.inputs, _random(model, rows), strict=True)
    )
    op = rows.op
    statistic = type(op).__dict__["_sum_stat"]
    return id(function_of(op)), id(statistic), op.signature, rows.batch, inner, value, fixed


def _random(model: pm.Model, rows: SimulatorRows) -> list[bool]:
    free = set(model.free_RVs)
    return [not free.isdisjoint(ancestors([each])) for each in rows.inputs]


def _learnable(model: pm.Model, members: list[SimulatorRows]) -> Learnable:
    random = [any(each) for each in zip(*(_random(model, rows) for rows in members), strict=True)]
    if getattr(function_of(members[0].op), "set_columns", 0):
        raise ValueError(
            f"the simulator {members[0].name!r} returns data sets, which have no columns to learn a density "
            "of; return statistics (`vector_simulator`), or take `sample_abc`, which makes columns"
        )
    if not any(random):
        raise ValueError(
            f"the inputs of the simulator {members[0].name!r} are all constant; there is nothing to learn"
        )
    fgraph, memo = copied(model)
    here = [rows.copied_to(memo[rows.rv].owner.inputs[0]) for rows in members]
    # From the last one, as the places of those after it change.
    for place in reversed(range(len(fgraph.outputs))):
        if not isinstance(fgraph.outputs[place].owner.op, ModelFreeRV | ModelNamed):
            fgraph.remove_output(place)
    kept = len(fgraph.outputs)
    for inputs in zip(*(stacked_inputs(rows) for rows in here), strict=True):
        fgraph.add_output(pt.concatenate(inputs, axis=0) if len(inputs) > 1 else inputs[0])
    made = model_from_fgraph(fgraph, mutate_fgraph=True)
    stacked = fgraph.outputs[kept:]
    shapes = pytensor.function([], [each.shape for each in stacked], mode=QUICK)()
    lengths = [int(shape[0]) for shape in shapes]
    with made:
        row = pm.DiscreteUniform(ROW_VARIABLE, 0, max(lengths) - 1) if max(lengths) > 1 else 0
        simulated = one_row(
            members[0], [each[row] for each in stacked], pytensor.shared(np.random.default_rng())
        )
        made.register_rv(simulated, members[0].name, observed=_first_row(model, members[0]))
    varying = tuple(
        place for place, varies in enumerate(random) if varies or any(rows.differs(place) for rows in members)
    )
    return Learnable(
        [rows.name for rows in members],
        made,
        theta_of([stacked[place] for place in varying]),
        varying,
        [math.prod(int(length) for length in shape[1:]) for shape in shapes],
        (model, members),
    )


def _first_row(model: pm.Model, rows: SimulatorRows) -> np.ndarray:
    value = model.rvs_to_values[rows.rv].eval(mode=QUICK)
    return np.asarray(value)[(slice(0, 1),) * rows.batch]


# --- simulators as functions of their inputs ---


@dataclass(frozen=True, eq=False)
class SimulatorRows:
    """One `pm.Simulator`, taken apart into rows that are simulated independently of each other."""

    rv: Variable
    inputs: list[Variable]
    batch: int

    @property
    def name(self) -> str:
        """Name of the variable."""
        return self.rv.name

    @property
    def op(self) -> Any:
        """The simulator itself."""
        return self.rv.owner.op

    @property
    def cores(self) -> list[int]:
        """How many of each input's dimensions belong to one row."""
        if not self.batch:
            return [i.type.ndim for i in self.inputs]
        return list(self.op.ndims_params)

    @property
    def summarised(self) -> bool:
        """Whether a `sum_stat` is taken of all of its values together."""
        return type(self.op).__dict__["_sum_stat"] is not identity

    @property
    def separate(self) -> bool:
        """Whether each row has inputs of its own."""
        return bool(self.batch) and _differs_along(self.inputs, self.cores)

    def differs(self, place: int) -> bool:
        """Whether an input has more than one value among the rows."""
        return bool(self.batch) and _differs_along([self.inputs[place]], [self.cores[place]])

    def copied_to(self, rv: Variable) -> SimulatorRows:
        """The same of a copy of the variable."""
        return SimulatorRows(rv, list(rv.owner.inputs[2:]), self.batch)


def read_simulators(model: pm.Model, trials: Collection[str] = ()) -> list[SimulatorRows]:
    """The simulators of a model, in its order."""
    found = [rv for rv in dict.fromkeys(model.observed_RVs) if rv.owner is not None and is_simulator(rv)]
    names = [rv.name for rv in found]
    if not found:
        raise ValueError(
            "the model has no pm.Simulator; there is nothing to learn; its observed variables are "
            f"{[rv.name for rv in model.observed_RVs]}"
        )
    if set(trials) - set(names):
        raise ValueError(
            f"trials names {sorted(set(trials) - set(names))}; the model's simulators are {names}"
        )
    gaps = [rv.name for rv in found if np.any(np.isnan(model.rvs_to_values[rv].eval(mode=QUICK)))]
    if gaps:
        raise ValueError(
            f"the data of {gaps} have missing values (NaN), and a simulator is learned as one of whole data; "
            "give it without them, or take `sample_abc(estimator='kernel_likelihood')`"
        )
    _refuse_dependents(model, found)
    for rv in found:
        _refuse_random_inputs(model, rv)
    return [_rows_of(rv, rv.name in trials) for rv in found]


def _refuse_dependents(model: pm.Model, found: list[Variable]) -> None:
    simulated = set(found)
    others = [*model.basic_RVs, *model.deterministics, *model.potentials]
    for variable in dict.fromkeys(others):
        above = set(ancestors([variable])) - {variable}
        used = [rv.name for rv in found if rv in above and rv in simulated]
        if used:
            raise ValueError(
                f"the variable {variable.name!r} depends on the values of the simulator {used[0]!r}, which "
                "would no longer be simulated; leave it out of the model"
            )


def _refuse_random_inputs(model: pm.Model, rv: Variable) -> None:
    free = set(model.free_RVs)
    for above in ancestors(rv.owner.inputs[2:], blockers=free):
        if above not in free and above.owner is not None and isinstance(above.owner.op, RandomVariable):
            raise ValueError(
                f"an input of the simulator {rv.name!r} depends on {above.name or above.owner.op.name!r}, "
                "which is random and no free variable of the model; a simulator is learned as a function "
                "of free variables"
            )


def _rows_of(rv: Variable, trials: bool) -> SimulatorRows:
    op: SimulatorRV = rv.owner.op
    inputs = rv.owner.inputs[2:]
    batch = rv.type.ndim - op.ndim_supp
    whole = type(op).__dict__["_sum_stat"] is not identity
    if whole and trials:
        raise ValueError(
            f"trials names {rv.name!r}, whose sum_stat summarises all of its entries at once; leave the "
            "summaries to the simulator, or leave it out of `trials`"
        )
    # A value whose entries share scalar parameters may be a series as well as independent draws: PyMC's
    # default signature says the latter, and most simulators that are written with it return the former.
    separate = trials or op.ndim_supp > 0 or _differs_along(inputs, op.ndims_params)
    return SimulatorRows(rv, inputs, batch if batch and separate and not whole else 0)


def _differs_along(inputs: list[Variable], cores: Sequence[int]) -> bool:
    return any(
        not all(each.type.broadcastable[: each.type.ndim - core])
        for each, core in zip(inputs, cores, strict=True)
        if each.type.ndim > core
    )


def stacked_inputs(rows: SimulatorRows) -> list[Variable]:
    """Each input as an array (R, *core): one entry for each row; R = 1 where all rows share their inputs."""
    if not rows.batch:
        return [each[None] for each in rows.inputs]
    # Not the shape of the value, which would have to be simulated.
    lengths = rows.op._infer_shape(rows.rv.owner.inputs[1], rows.inputs)[: rows.batch]
    shape = lengths if rows.separate else [1] * rows.batch
    stacked = []
    for each, core in zip(rows.inputs, rows.cores, strict=True):
        inner = [each.shape[axis] for axis in range(each.type.ndim - core, each.type.ndim)]
        stacked.append(pt.broadcast_to(each, (*shape, *inner)).reshape((-1, *inner)))
    return stacked


def theta_of(stacked: list[Variable]) -> Variable:
    """Inputs (R, *core) side by side: shape (R, q)."""
    return pt.concatenate([each.reshape((each.shape[0], -1)) for each in stacked], axis=1)


def one_row(rows: SimulatorRows, inputs: list[Variable], rng: Variable) -> Variable:
    """The simulator at the inputs of one row, in the dimensions that it is used to, of length one."""
    if not rows.batch:
        size = rows.rv.owner.inputs[1]
        given = inputs
    else:
        has_size = not isinstance(rows.rv.owner.inputs[1].type, NoneTypeT)
        size = pt.ones((rows.batch,), dtype="int64") if has_size else None
        given = [each[(None,) * rows.batch] for each in inputs]
    return rows.op.make_node(rng, size, *given).outputs[1]


# --- bounds of inputs, as far as the graph shows them ---


VIEWS = {"ViewOp", "DimShuffle", "Reshape", "Subtensor", "AdvancedSubtensor", "AdvancedSubtensor1"}
"""Classes, by name since versions differ in which they have, that take entries and change none of them."""

RANGES: dict[type, tuple[float, float]] = {
    basic.Exp: (0.0, np.inf),
    basic.Sqr: (0.0, np.inf),
    scalar_math.Softplus: (0.0, np.inf),
    scalar_math.Sigmoid: (0.0, 1.0),
}
"""Functions whose values have bounds."""

Bounds = tuple[float, float]


def input_bounds(inputs: Sequence[Variable], model: Model, table: ReferenceTable) -> Bounds:
    """Lower and upper bound that hold for every entry of all of these; infinite where none is known."""
    free = set(model.free_RVs)
    bounds = [_bounds(each, free, table) for each in inputs]
    return min(lower for lower, _ in bounds), max(upper for _, upper in bounds)


def _bounds(variable: Variable, free: set[Variable], table: ReferenceTable) -> Bounds:
    while variable not in free and variable.owner is not None:
        op = variable.owner.op
        scalar = type(op.scalar_op) if isinstance(op, Elemwise) else None
        if scalar in RANGES:
            return RANGES[scalar]
        if type(op).__name__ not in VIEWS and scalar not in (basic.Identity, basic.Cast):
            return -np.inf, np.inf
        variable = variable.owner.inputs[0]
    return (
        _bounds_of_columns(table, table.parameter_columns.slices()[variable.name])
        if variable in free
        else (-np.inf, np.inf)
    )


def _bounds_of_columns(table: ReferenceTable, columns: slice) -> Bounds:
    lower, upper = np.full(table.support.size, -np.inf), np.full(table.support.size, np.inf)
    for block in table.support.blocks:
        step = block.steps[0] if len(block.steps) == 1 else None
        if isinstance(step, Interval) and step.lower_slopes is None and step.upper_slopes is None:
            lower[list(block.columns)], upper[list(block.columns)] = step.lower, step.upper
    return float(lower[columns].min()), float(upper[columns].max())


# --- a model whose simulators are learned likelihoods ---


@dataclass(frozen=True, eq=False)
class Learned:
    """What was learned of a simulator."""

    likelihood: Likelihood
    inputs: tuple[int, ...]
    columns: np.ndarray


def replace_simulators(
    model: pm.Model, simulators: list[SimulatorRows], learned: Mapping[str, Learned], outside: str
) -> pm.Model:
    """A copy of the model with what was learned of each simulator in its place."""
    fgraph, memo = copied(model)
    nodes = [memo[rows.rv].owner for rows in simulators]
    here = [rows.copied_to(node.inputs[0]) for rows, node in zip(simulators, nodes, strict=True)]
    for node in nodes:
        fgraph.remove_output(fgraph.outputs.index(node.outputs[0]))
    kept = len(fgraph.outputs)
    for rows, node in zip(here, nodes, strict=True):
        stacked = stacked_inputs(rows)
        # As outputs, by which they come along when the graph becomes a model.
        fgraph.add_output(theta_of([stacked[place] for place in learned[rows.name].inputs]))
        fgraph.add_output(pt.as_tensor(_statistics(rows, node.inputs[1])))
    made = model_from_fgraph(fgraph, mutate_fgraph=True)
    added = fgraph.outputs[kept:]
    for rows, theta, value in zip(simulators, added[::2], added[1::2], strict=True):
        known = learned[rows.name]
        each = theta[:, known.columns] if rows.separate else theta[0, known.columns]
        may_change = any(isinstance(above, SharedVariable) for above in ancestors([value]))
        observed = value if may_change else value.eval(mode=QUICK)
        dims = model.named_vars_to_dims.get(rows.name) if _keeps_shape(rows) else None
        register_learned(made, rows.name, known.likelihood, [each], observed, dims, outside=outside)
    return made


def _keeps_shape(rows: SimulatorRows) -> bool:
    """Whether a simulator's value is in the shape of observations already: (d,), (n, d), or numbers (n,)."""
    core = rows.rv.type.ndim - rows.batch
    return not rows.summarised and (rows.batch, core) in [(0, 1), (1, 0), (1, 1)]


def _statistics(rows: SimulatorRows, value: Variable) -> Variable:
    """The statistics of a simulator's value, in the shape of observations."""
    if _keeps_shape(rows):
        return value
    if not rows.batch:
        return pt.as_tensor(rows.op.sum_stat(value)).flatten()
    core = value.type.ndim - rows.batch
    count = pt.prod([value.shape[axis] for axis in range(rows.batch)])
    return value.reshape((count, -1) if core else (count,))
