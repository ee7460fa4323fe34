"""What is learned of a model's simulators: for each kind of them a model to simulate, and its inputs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor
from pymc.model.fgraph import ModelFreeRV, ModelNamed, model_from_fgraph
from pytensor import tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors

from pymc_kbr.arrays.support import Support
from pymc_kbr.simulation.model.copied import copied
from pymc_kbr.simulation.model.graphs import IN_PYTHON
from pymc_kbr.simulation.model.input_bounds import input_bounds
from pymc_kbr.simulation.model.read import QUICK
from pymc_kbr.simulation.model.simulator_rows import (
    SimulatorRows,
    one_row,
    stacked_inputs,
    theta_of,
)
from pymc_kbr.simulation.model.vector_simulator import function_of
from pymc_kbr.tables.reference_table import ReferenceTable

ROW_VARIABLE = "row_of_the_simulator"
"""Name of the variable that says which row of the inputs is simulated."""

INPUT_ROWS_AT_ONCE = 1000
"""Rows of a table whose inputs are computed together: all rows of the inputs are, and one is taken."""


@dataclass(frozen=True, eq=False)
class Learnable:
    """Simulators that one likelihood is learned for: the same function of the same kinds of inputs.

    Parameters
    ----------
    names : list of str
        Of the simulators.
    model : pymc.Model
        Prior and one simulation, of a row of the inputs that is drawn at random.
    theta : Variable
        All rows of the inputs, shape (R, q), as functions of the free variables of `model`.
    inputs : tuple of int
        Which inputs of the simulators these are: those that vary.
    widths : list of int
        Number of columns of each input of a simulator.
    original : tuple of Model and list of SimulatorRows
        The model that is learned from, and the simulators in it.
    """

    names: list[str]
    model: pm.Model
    theta: Variable
    inputs: tuple[int, ...]
    widths: list[int]
    original: tuple[pm.Model, list[SimulatorRows]]

    def theta_of_rows(self, table: ReferenceTable, parameters: np.ndarray | None = None) -> np.ndarray:
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
        for start in range(0, len(parameters), INPUT_ROWS_AT_ONCE):
            part = slice(start, start + INPUT_ROWS_AT_ONCE)
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


def learnables(model: pm.Model, simulators: list[SimulatorRows]) -> list[Learnable]:
    """A model to simulate for each kind of simulator.

    Parameters
    ----------
    model : pymc.Model
    simulators : list of SimulatorRows
        Those of `model`.
    """
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
