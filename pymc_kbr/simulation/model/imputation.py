"""Gaps in a model's data: PyMC makes hidden variables of them, and here they stay gaps."""

from __future__ import annotations

import numpy as np
import pymc as pm
from pymc.distributions.distribution import PartialObservedRV
from pymc.distributions.simulator import SimulatorRV
from pymc.model.fgraph import model_from_fgraph
from pytensor import tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.type_other import NoneTypeT

from pymc_kbr.simulation.model.copied import copied

OBSERVED_PART, UNOBSERVED_PART = "_observed", "_unobserved"
"""What PyMC adds to the name of a variable with gaps, for its two parts."""


def without_imputation(model: pm.Model) -> pm.Model:
    """A model whose data have their gaps as NaN, and no variables that stand for them."""
    names = [rv.name.removesuffix(OBSERVED_PART) for rv in dict.fromkeys(model.observed_RVs)]
    parts = [name for name in names if {name, f"{name}{UNOBSERVED_PART}"} <= set(model.named_vars)]
    if not parts:
        return model
    fgraph, memo = copied(model)
    values = {}
    for name in parts:
        joined, observed = memo[model[name]], memo[model[name + OBSERVED_PART]]
        unobserved = memo[model[name + UNOBSERVED_PART]]
        whole = _whole(observed.owner.inputs[0], unobserved.owner.inputs[0], _gaps(model, name))
        entries = joined.owner.inputs[0]  # what other variables depend on
        _drop(fgraph, joined, unobserved)
        if whole is None:
            _refuse_dependents(fgraph, name, entries)
            continue
        _drop(fgraph, observed)
        if entries in fgraph.variables:
            fgraph.replace(entries, whole, import_missing=True)
        fgraph.add_output(whole)
        values[name] = _with_gaps(model, name)
    count = len(values)
    made = model_from_fgraph(fgraph, mutate_fgraph=True)
    for (name, value), rv in zip(values.items(), fgraph.outputs[len(fgraph.outputs) - count :], strict=True):
        rv.name = name
        made.observed_RVs.append(rv)
        # `register_rv` would take the data apart again.
        made.create_value_var(rv, transform=None, default_transform=None, value_var=pt.constant(value))
        made.add_named_variable(rv, dims=model.named_vars_to_dims.get(name))
    made.observed_RVs.sort(key=lambda rv: names.index(rv.name.removesuffix(OBSERVED_PART)))
    return made


def _gaps(model: pm.Model, name: str) -> np.ndarray:
    """Which entries of a variable's data are missing, by what PyMC joins."""
    data = model.rvs_to_values[model[name + OBSERVED_PART]].eval()
    joined, parts = model[name], [model[name + part] for part in (OBSERVED_PART, UNOBSERVED_PART)]
    rest = int(np.prod(joined.shape.eval())) - len(data)
    marks = [np.zeros(len(data), parts[0].dtype), np.ones(rest, parts[1].dtype)]
    given = {rv: pt.constant(mark) for rv, mark in zip(parts, marks, strict=True)}
    return np.asarray(clone_replace([joined], given)[0].eval() == 1)


def _with_gaps(model: pm.Model, name: str) -> np.ndarray:
    """The data, NaN where they are missing."""
    rv, gaps = model[name + OBSERVED_PART], _gaps(model, name)
    if np.dtype(rv.dtype).kind != "f":
        raise ValueError(
            f"the observed values of {name!r} have gaps and are whole numbers ({rv.dtype}), which cannot be "
            "NaN; leave `dtype` out of the simulator"
        )
    value = np.full(gaps.shape, np.nan, rv.dtype)
    value[~gaps] = model.rvs_to_values[rv].eval()
    return value


def _whole(observed: Variable, unobserved: Variable, gaps: np.ndarray) -> Variable | None:
    """The variable that PyMC split; None where its entries are independent and of a distribution."""
    if isinstance(observed.owner.op, PartialObservedRV):
        return observed.owner.inputs[0]
    op = observed.owner.op
    if not isinstance(op, SimulatorRV):
        return None
    rng, size, *here = observed.owner.inputs
    there = unobserved.owner.inputs[2:]
    inputs = [
        _joined(one, other, core, gaps) for one, other, core in zip(here, there, op.ndims_params, strict=True)
    ]
    whole = size if isinstance(size.type, NoneTypeT) else pt.constant(np.array(gaps.shape))
    found: Variable = op.make_node(rng, whole, *inputs).outputs[1]
    return found


def _joined(here: Variable, there: Variable, core: int, gaps: np.ndarray) -> Variable:
    """A simulator's parameter at all entries, from those at the entries that are there and at the others."""
    if here.type.ndim == core:
        return here
    if here.type.broadcastable[0] and there.type.broadcastable[0]:
        return here[(0, *(None,) * gaps.ndim)]
    inner = [here.shape[axis] for axis in range(1, here.type.ndim)]
    found = pt.empty((*gaps.shape, *inner), dtype=here.dtype)
    return pt.set_subtensor(pt.set_subtensor(found[~gaps], here)[gaps], there)


def _drop(fgraph: FunctionGraph, *variables: Variable) -> None:
    for variable in variables:
        fgraph.remove_output(fgraph.outputs.index(variable))


def _refuse_dependents(fgraph: FunctionGraph, name: str, entries: Variable) -> None:
    if entries in set(ancestors(fgraph.outputs)):
        raise ValueError(
            f"the observed values of {name!r} have gaps, and other variables depend on {name!r}; give it "
            "without the missing entries, or make it a simulator"
        )
