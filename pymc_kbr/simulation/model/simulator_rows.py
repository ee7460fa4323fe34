"""The simulators of a model, each as a function of its own inputs: what there is to learn."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from pymc.distributions.simulator import SimulatorRV, identity
from pytensor import tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.type_other import NoneTypeT

from pymc_kbr.simulation.model.read import QUICK, is_simulator


@dataclass(frozen=True, eq=False)
class SimulatorRows:
    """One `pm.Simulator`, taken apart into rows that are simulated independently of each other.

    Parameters
    ----------
    rv : Variable
        The simulator.
    inputs : list of Variable
        Its parameters, without its random generator and size.
    batch : int
        Number of leading dimensions of its value whose entries are independent simulations: the rows. Zero
        where its value, or the `sum_stat` of it, is learned as a whole.
    """

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
    """The simulators of a model, in its order.

    Parameters
    ----------
    model : pymc.Model
    trials : collection of str
        Names of simulators whose entries are independent trials of the same parameters.

    Raises
    ------
    ValueError
        If there are none, their data have gaps, `trials` names another variable, or a variable of the model
        depends on the values of a simulator.
    """
    found = [rv for rv in dict.fromkeys(model.observed_RVs) if _simulates(rv)]
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


def _simulates(rv: Variable) -> bool:
    return rv.owner is not None and is_simulator(rv)


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
