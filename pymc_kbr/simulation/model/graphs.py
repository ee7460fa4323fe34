"""From a model's graph to functions of parameters: one row at a time, or a batch of rows at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pymc.distributions.shape_utils import change_dist_size
from pymc.logprob.utils import CheckParameterValue
from pytensor import tensor as pt
from pytensor.compile.io import In, Out
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import clone_replace, vectorize_graph
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.link.vm import VMLinker
from pytensor.scan.op import Scan
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.type import RandomType

from pymc_kbr.simulation.model.read import ModelGraph
from pymc_kbr.simulation.model.user_functions import compiled, guarded

IN_PYTHON = Mode(linker=VMLinker(use_cloop=False, c_thunks=False), optimizer="fast_run")
"""Graphs are simplified as for sampling, but run by NumPy: nothing is compiled to machine code."""


class CannotBatch(Exception):
    """A graph cannot be evaluated for many rows at once; the message says why."""


@dataclass(frozen=True, eq=False)
class Program:
    """A piece of graph with its random generators as explicit inputs."""

    sources: list[Variable]
    generators: list[Variable]
    inputs: list[Variable]
    outputs: list[Variable]

    @classmethod
    def make(cls, inputs: Sequence[Variable], outputs: Sequence[Variable]) -> Program:
        """A program from a piece of graph, whose generators are found."""
        sources = [v for v in _leaves(outputs) if isinstance(v.type, RandomType)]
        generators = [source.type() for source in sources]
        given = dict(zip(sources, generators, strict=True))
        return cls(sources, generators, list(inputs), _guarded(substitute(outputs, given)))

    def compile(self) -> Callable[..., list[np.ndarray]]:
        """The function ``outputs = f(*generators, *inputs)``; it advances the generators in place."""
        # PyTensor would copy an output that occurs twice.
        distinct = list(dict.fromkeys(self.outputs))
        places = [distinct.index(output) for output in self.outputs]
        # The virtual machine in Python does not run the inner loops of a Scan.
        scans = any(isinstance(node.op, Scan) for node in io_toposort([], self.outputs))
        function = compiled(
            [*(In(generator, mutable=True) for generator in self.generators), *self.inputs],
            [Out(output, borrow=True) for output in distinct],
            mode=None if scans else IN_PYTHON,
            on_unused_input="ignore",
        )

        def call(*arguments: Any) -> list[np.ndarray]:
            results = function(*arguments)
            return [results[place] for place in places]

        return call


def prior_rows(graph: ModelGraph) -> Program:
    """One draw of every free variable."""
    return Program.make([], graph.free)


def prior_batch(graph: ModelGraph) -> Program:
    """Many draws of every free variable; the input is their number."""
    rows = pt.lscalar("rows")
    outputs = _batched(graph.free, {}, rows)
    return Program.make([rows], outputs)


def forward_rows(graph: ModelGraph) -> Program:
    """What is simulated, then its summaries, from one value of every free variable."""
    values = [rv.type() for rv in graph.free]
    outputs = substitute([*graph.simulated, *graph.summaries], dict(zip(graph.free, values, strict=True)))
    return Program.make(values, outputs)


def forward_batch(graph: ModelGraph) -> Program:
    """The same from a batch of values of every free variable."""
    values = [
        pt.tensor(dtype=rv.dtype, shape=(None, *v.shape))
        for rv, v in zip(graph.free, graph.parameters.variables, strict=True)
    ]
    outputs = _batched(
        [*graph.simulated, *graph.summaries], dict(zip(graph.free, values, strict=True)), values[0].shape[0]
    )
    return Program.make(values, outputs)


def rows_given(outputs: Sequence[Variable], given: Sequence[Any], batched: bool) -> Program:
    """Outputs, random ones drawn again, from values of some variables: one row of each, or a batch."""
    lead = (None,) if batched else ()
    # Lengths are fixed, so that a single column may be broadcast over others.
    shapes = [v.get_value().shape if hasattr(v, "get_value") else v.type.shape for v in given]
    values = [pt.tensor(dtype=v.dtype, shape=(*lead, *s)) for v, s in zip(given, shapes, strict=True)]
    replacements: dict[Variable, Variable] = dict(zip(given, values, strict=True))
    if not batched:
        return Program.make(values, substitute(outputs, replacements))
    return Program.make(values, _batched(outputs, replacements, values[0].shape[0]))


def substitute(outputs: Sequence[Variable], replacements: dict[Variable, Variable]) -> list[Variable]:
    """Outputs with some variables replaced; those that the outputs do not depend on are left out."""
    reached = set(ancestors(outputs, blockers=set(replacements)))
    used = {old: new for old, new in replacements.items() if old in reached}
    return clone_replace(list(outputs), used)


def impossible_where_refused(output: Variable) -> Variable:
    """A log density that is minus infinity where a distribution refuses its parameters or its value."""
    fgraph = FunctionGraph(outputs=[output], clone=True, copy_inputs=False)
    for node in list(fgraph.toposort()):
        if isinstance(node.op, CheckParameterValue):
            value, *conditions = node.inputs
            fine = pt.all([pt.all(condition) for condition in conditions])
            fgraph.replace(node.outputs[0], pt.switch(fine, value, -np.inf), import_missing=True)
    return fgraph.outputs[0]


def _guarded(outputs: list[Variable]) -> list[Variable]:
    """Outputs, of a graph of their own, whose functions of the user are called on copies, for copies."""
    for node in io_toposort([], outputs):
        node.op = guarded(node)
    return outputs


def _batched(outputs: Sequence[Variable], given: dict[Variable, Variable], rows: Variable) -> list[Variable]:
    """Give every random variable between `given` and `outputs` a leading dimension of rows."""
    replacements = dict(given)
    for node in io_toposort(list(given), outputs):
        if not any(isinstance(i.type, RandomType) for i in node.inputs):
            continue
        if not isinstance(node.op, RandomVariable):
            raise CannotBatch(f"{node.op} cannot be drawn in batches")
        rv = node.outputs[1]
        try:
            batch = vectorize_graph(rv, replacements) if replacements else rv
            if batch.type.ndim == rv.type.ndim:  # nothing that it depends on has rows
                batch = change_dist_size(rv, (rows,), expand=True)
        except Exception as error:
            raise CannotBatch(f"{rv.name or node.op} cannot be drawn in batches ({error})") from error
        batch.name = rv.name  # by which errors of its function name it
        replacements[rv] = batch
    try:
        return list(vectorize_graph(list(outputs), replacements))
    except Exception as error:
        raise CannotBatch(f"the model's graph cannot be evaluated in batches ({error})") from error


def _leaves(outputs: Sequence[Variable]) -> list[Variable]:
    seen: dict[Variable, None] = {}
    for node in io_toposort([], list(outputs)):
        for variable in node.inputs:
            if variable.owner is None:
                seen.setdefault(variable)
    return list(seen)
