"""Reading a PyMC model: what is free, what is simulated, and whether it can be simulated at all."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor
from pymc.distributions.continuous import FlatRV, HalfFlatRV
from pymc.distributions.simulator import SimulatorRV, identity
from pymc.logprob.basic import conditional_logp
from pytensor import tensor as pt
from pytensor.graph.basic import Variable as GraphVariable
from pytensor.graph.op import Op
from pytensor.graph.traversal import ancestors

from pymc_kbr.arrays.rows import as_rows
from pymc_kbr.simulation.model.context import model_in_context
from pymc_kbr.simulation.model.imputation import without_imputation
from pymc_kbr.simulation.model.vector_simulator import function_of
from pymc_kbr.tables.columns import Columns, Variable
from pymc_kbr.tables.errors import describe

QUICK = "FAST_COMPILE"
"""PyTensor mode for graphs that are compiled once and run a few times."""


@dataclass(frozen=True, eq=False)
class ModelGraph:
    """A PyMC model as a forward simulator.

    Parameters
    ----------
    free : list of variables
        The free random variables, in the space of the user's model.
    simulated : list of variables
        The observed random variables that are simulated: simulators, and ordinary distributions where there
        is no simulator, or they hang together with one.
    known : list of variables
        The observed random variables whose densities enter as they are.
    summaries : list of variables
        The statistics of each: `sum_stat` of a simulator, the value itself of a distribution. Where data have
        gaps `sum_stat` is taken of simulations with the same gaps.
    parameters, statistics : Columns
        How the free variables and the summaries become columns.
    observed_data : dict of str to ndarray
        The data, before `sum_stat`.
    observed : ndarray of shape (d,)
        The data's statistics; NaN where they are missing.
    """

    model: pm.Model
    free: list[GraphVariable]
    simulated: list[GraphVariable]
    known: list[GraphVariable]
    summaries: list[GraphVariable]
    parameters: Columns
    statistics: Columns
    observed_data: dict[str, np.ndarray]
    observed: np.ndarray

    @property
    def known_names(self) -> tuple[str, ...]:
        """Of the variables and Potentials whose densities enter as they are."""
        return tuple(str(one.name) for one in [*self.known, *self.model.potentials])


def read_model(model: pm.Model | None, simulate_known: bool = False) -> ModelGraph:
    """Read a model, or say why it cannot be simulated forward.

    Parameters
    ----------
    model : pymc.Model or None
        That of the surrounding ``with`` block where None.
    simulate_known : bool
        Whether observed variables whose density is known are simulated, too.

    Raises
    ------
    TypeError
        If no model is given and none is on the context stack.
    ValueError
        If the model has no free or no observed variables, its data are infinite or all missing, or all that a
        `sum_stat` makes of data with gaps is NaN.
    """
    model = model_in_context(model)
    # After `pm.sample_posterior_predictive` a model may list a variable twice.
    observed_rvs = list(dict.fromkeys(model.observed_RVs))
    if not observed_rvs:
        raise ValueError("the model has no observed variables; pass the data as `observed` to a pm.Simulator")
    observed_data = {rv.name: _value(model, rv) for rv in observed_rvs}
    for name, value in observed_data.items():
        _refuse_without_data(name, value)
    if not model.free_RVs:
        raise ValueError(
            "the model has no free variables; there is nothing to infer; give it a prior, such as pm.Uniform"
        )
    _refuse_flat(model.free_RVs)
    simulated: list[GraphVariable] = observed_rvs
    known: list[GraphVariable] = []
    if not simulate_known:
        with_gaps = {name for name, value in observed_data.items() if np.any(np.isnan(value))}
        simulated, known = _told_apart(observed_rvs, list(model.free_RVs), with_gaps)
    observed = [_summary_of_data(rv, observed_data[rv.name]) for rv in simulated]
    summaries = [
        _summary_with_gaps(rv, np.isnan(observed_data[rv.name]), np.isnan(values))
        for rv, values in zip(simulated, observed, strict=True)
    ]
    return ModelGraph(
        model=model,
        free=list(model.free_RVs),
        simulated=simulated,
        known=known,
        summaries=summaries,
        parameters=_free_columns(model, list(model.free_RVs)),
        statistics=Columns(
            tuple(_variable(model, rv, values.shape) for rv, values in zip(simulated, observed, strict=True))
        ),
        observed_data=observed_data,
        observed=np.concatenate([values.ravel() for values in observed]),
    )


def read_prior(model: pm.Model, names: list[str]) -> ModelGraph:
    """Read a model's prior alone, with its free variables in the order of `names`.

    Raises
    ------
    ValueError
        If the model has other free variables.
    """
    model = without_imputation(model)
    free = {rv.name: rv for rv in model.free_RVs}
    if set(free) != set(names):
        raise ValueError(
            f"the prior's model has the free variables {sorted(free)}; the reference table has the "
            f"parameters {sorted(names)}; a new prior must be one of the same parameters"
        )
    ordered = [free[name] for name in names]
    _refuse_flat(ordered)
    return ModelGraph(model, ordered, [], [], [], _free_columns(model, ordered), Columns(()), {}, np.empty(0))


def _free_columns(model: pm.Model, free: list[GraphVariable]) -> Columns:
    shapes = pytensor.function([], [rv.shape for rv in free], mode=QUICK)()
    return Columns(
        tuple(
            _variable(model, rv, tuple(int(s) for s in shape)) for rv, shape in zip(free, shapes, strict=True)
        )
    )


def is_simulator(rv: GraphVariable) -> bool:
    """Whether a variable is a `pm.Simulator`."""
    return rv.owner is not None and isinstance(rv.owner.op, SimulatorRV)


def _told_apart(
    observed: list[GraphVariable], free: list[GraphVariable], with_gaps: set[str]
) -> tuple[list[GraphVariable], list[GraphVariable]]:
    """What is simulated, and what has a density of the parameters alone, which is that of whole data."""
    simulators = [rv for rv in observed if is_simulator(rv)]
    before = set(ancestors(simulators))
    known = [
        rv
        for rv in observed
        if simulators
        and rv not in before
        and rv.name not in with_gaps
        and not any(simulator in set(ancestors([rv])) for simulator in simulators)
        and _has_density(rv, free)
    ]
    return [rv for rv in observed if rv not in known], known


def refuse_without_simulator(model: pm.Model | None) -> None:
    """Refuse a posterior by simulations of a model whose likelihood is known.

    Raises
    ------
    TypeError, ValueError
        If there is no model, or PyMC knows the densities of all that is observed.
    """
    model = model_in_context(model)
    observed = list(dict.fromkeys(model.observed_RVs))
    if not observed or any(map(is_simulator, ancestors(observed))):
        return
    gaps = any(np.any(np.isnan(_value(model, rv))) for rv in observed)
    if gaps or not all(_has_density(rv, list(model.free_RVs)) for rv in observed):
        return
    raise ValueError(
        f"the model has no simulator: PyMC knows the densities of {[str(rv.name) for rv in observed]}, so "
        "`pm.sample` gives its posterior without comparing simulations; where there is a simulator, put it "
        "into the model by `pm.Simulator` or `pk.vector_simulator`"
    )


def _has_density(rv: GraphVariable, free: list[GraphVariable]) -> bool:
    values = {variable: variable.type() for variable in [*free, rv]}
    try:
        return values[rv] in conditional_logp(values)
    except (NotImplementedError, ValueError):
        return False


def _refuse_without_data(name: str, value: np.ndarray) -> None:
    if np.any(np.isinf(value)):
        raise ValueError(
            f"the observed values of {name!r} contain infinity; take NaN for what is missing, and leave out "
            "what the model cannot make"
        )
    if value.size and np.all(np.isnan(value)):
        raise ValueError(
            f"all observed values of {name!r} are missing; leave the variable out of the model: it says "
            "nothing about the parameters"
        )


def _refuse_flat(free: Sequence[GraphVariable]) -> None:
    for rv in free:
        if isinstance(rv.owner.op, FlatRV | HalfFlatRV):
            kind = "HalfFlat" if isinstance(rv.owner.op, HalfFlatRV) else "Flat"
            raise ValueError(
                f"the prior of {rv.name!r} is pm.{kind}, which has no mass that could be drawn from; give a "
                "proper one, such as pm.Uniform between wide bounds or pm.Normal with a large sigma"
            )


def _value(model: pm.Model, rv: GraphVariable) -> np.ndarray:
    return np.asarray(model.rvs_to_values[rv].eval(mode=QUICK))


def _summary_of_data(rv: GraphVariable, data: np.ndarray) -> np.ndarray:
    """The statistics of the data, by the graph that simulations go through too."""
    # An input, and no constant: PyTensor evaluates constants as it compiles, and prints what they raise.
    value = pt.tensor(dtype=rv.dtype, shape=data.shape)
    gaps = bool(np.any(np.isnan(data)))
    try:
        summary = pytensor.function([value], _summary(rv, value), mode=QUICK)(data.astype(rv.dtype))
    except Exception as error:
        raise ValueError(
            f"the sum_stat of {rv.name!r} failed on the observed data of shape {data.shape}"
            f"{', some of which are NaN' if gaps else ''}: "
            f"{describe(error)}; it must take an array of this shape"
        ) from error
    found = as_rows(f"the statistics of {rv.name!r}", summary)
    if gaps and np.all(np.isnan(found)):
        raise ValueError(
            f"the sum_stat of {rv.name!r} makes NaN of data of which {np.isnan(data).sum()} of {data.size} "
            "values are missing; take one that leaves these out, such as "
            "`lambda y: np.array([np.nanmean(y)])`: it is given simulations with the same gaps"
        )
    if not gaps and np.any(np.isnan(found)):
        raise ValueError(
            f"the sum_stat of {rv.name!r} makes NaN of data that have no gaps, in entries "
            f"{np.flatnonzero(np.isnan(found)).tolist()}; leave these out of what it returns"
        )
    return found


def _summary_with_gaps(rv: GraphVariable, gaps: np.ndarray, missing: np.ndarray) -> GraphVariable:
    """Statistics of what is simulated, which `sum_stat` makes as it makes those of data with gaps.

    Those that are missing of the data are made of whole simulations, so that they are numbers.
    """
    whole = _summary(rv, rv)
    if not np.any(gaps) or not is_simulator(rv) or type(rv.owner.op).__dict__["_sum_stat"] is identity:
        return whole
    of_gaps = _summary(rv, pt.switch(pt.constant(gaps), np.nan, rv))
    return pt.switch(pt.constant(missing), whole, of_gaps) if np.any(missing) else of_gaps


def _summary(rv: GraphVariable, value: Any) -> GraphVariable:
    if not is_simulator(rv):
        return value
    summary = type(rv.owner.op)._sum_stat  # of the class: of an operation a function would be its method
    return pt.as_tensor((_refusing(summary) if isinstance(summary, Op) else summary)(value))


def _refusing(summary: Op) -> Op:
    """A summary in Python that may return no masked entries: PyTensor would take what is under a mask."""
    refusing = copy.copy(summary)

    def perform(node: Any, inputs: Any, outputs: Any) -> None:
        summary.perform(node, inputs, outputs)
        if np.ma.is_masked(outputs[0][0]):
            raise ValueError("masked entries in what `sum_stat` returned; fill them: a mask is not kept")

    refusing.perform = perform
    return refusing


def _variable(model: pm.Model, rv: GraphVariable, shape: tuple[int, ...]) -> Variable:
    labels = None
    dims = model.named_vars_to_dims.get(rv.name)
    if shape and dims is not None:
        coords = [model.coords.get(dim) for dim in dims]
        if all(c is not None for c in coords) and tuple(len(c) for c in coords if c) == shape:
            labels = tuple(", ".join(map(str, index)) for index in itertools.product(*coords))
    columns = getattr(function_of(rv.owner.op), "set_columns", 0) if is_simulator(rv) else 0
    return Variable(rv.name, shape, np.dtype(rv.dtype).kind in "iub", labels, columns)
