"""A copy of a model whose simulators are learned likelihoods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pymc as pm
from pymc.model.fgraph import model_from_fgraph
from pytensor import tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors

from pymc_kbr.simulation.model.copied import copied
from pymc_kbr.simulation.model.learnable import SimulatorRows, stacked_inputs, theta_of
from pymc_kbr.simulation.model.learned_simulator import register_learned
from pymc_kbr.simulation.model.learned_variable import Likelihood
from pymc_kbr.simulation.model.read import QUICK


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
        observed = value if _may_change(value) else value.eval(mode=QUICK)
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


def _may_change(value: Variable) -> bool:
    return any(isinstance(above, SharedVariable) for above in ancestors([value]))
