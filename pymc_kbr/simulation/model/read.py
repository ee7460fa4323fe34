"""Reading a PyMC model: what is free, what is simulated, and whether it can be simulated at all."""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import joblib
import numpy as np
import pymc as pm
import pytensor
from pymc.data import MinibatchOp
from pymc.distributions.continuous import FlatRV, HalfFlatRV
from pymc.distributions.distribution import PartialObservedRV
from pymc.distributions.simulator import SimulatorRV, identity
from pymc.logprob.basic import conditional_logp
from pymc.model.fgraph import fgraph_from_model, model_from_fgraph
from pytensor import tensor as pt
from pytensor.graph.basic import Variable as GraphVariable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.type_other import NoneTypeT

from pymc_kbr.arrays.refusals import named
from pymc_kbr.arrays.rows import as_rows
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.simulation.model.simulators import function_of
from pymc_kbr.simulation.model.user_functions import OnCopies, compiled
from pymc_kbr.tables.checks import check_variable_names, describe, usual_dims
from pymc_kbr.tables.columns import Columns, Variable
from pymc_kbr.tables.reference_table import ReferenceTable

QUICK = "FAST_COMPILE"
"""PyTensor mode for graphs that are compiled once and run a few times."""


@dataclass(frozen=True, eq=False)
class ModelGraph:
    """A PyMC model as a forward simulator."""

    # Shapes: observed (d,).
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


def inputs_of(model: pm.Model) -> tuple[tuple[str, str], ...]:
    """Names and hashes of the `pm.Data` that a model's variables are made from, but not of observed data."""
    used = set(ancestors([*model.free_RVs, *model.observed_RVs]))
    used -= set(ancestors([model.rvs_to_values[rv] for rv in model.observed_RVs]))  # may be their shape
    given = [data for data in model.data_vars if data in used and hasattr(data, "get_value")]
    return tuple(sorted((str(data.name), joblib.hash(np.asarray(data.get_value()))) for data in given))


def read_model(model: pm.Model | None, simulate_known: bool = False) -> ModelGraph:
    """Read a model, or say why it cannot be simulated forward."""
    model = model_in_context(model)
    # After `pm.sample_posterior_predictive` a model may list a variable twice.
    observed_rvs = list(dict.fromkeys(model.observed_RVs))
    if not observed_rvs:
        raise ValueError("the model has no observed variables; pass the data as `observed` to a pm.Simulator")
    _refuse_minibatches(model, observed_rvs)
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
    parameters = _free_columns(model, list(model.free_RVs))
    statistics = Columns(
        tuple(_variable(model, rv, values.shape) for rv, values in zip(simulated, observed, strict=True))
    )
    _check_names(model, parameters, statistics)
    return ModelGraph(
        model=model,
        free=list(model.free_RVs),
        simulated=simulated,
        known=known,
        summaries=summaries,
        parameters=parameters,
        statistics=statistics,
        observed_data=observed_data,
        observed=np.concatenate([values.ravel() for values in observed]),
    )


def read_prior(model: pm.Model, names: list[str]) -> ModelGraph:
    """Read a model's prior alone, with its free variables in the order of `names`."""
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
    variables = [
        _variable(model, rv, tuple(int(s) for s in shape)) for rv, shape in zip(free, shapes, strict=True)
    ]
    tied = [
        rv
        for rv, variable in zip(free, variables, strict=True)
        if getattr(rv.owner.op, "ndim_supp", 0) and not variable.discrete and variable.size > 1
    ]
    drawn = _few_draws(tied) if tied else {}
    return Columns(
        tuple(
            _without_repeats(variable, drawn[rv]) if rv in drawn else variable
            for rv, variable in zip(free, variables, strict=True)
        )
    )


def _check_names(model: pm.Model, parameters: Columns, statistics: Columns) -> None:
    """Refuse names that no result can hold, before anything is simulated."""
    own = {name: tuple(map(str, dims)) for name, dims in model.named_vars_to_dims.items() if all(dims)}
    others = {rv.name: own.get(rv.name, ()) for rv in (*model.deterministics, *model.observed_RVs)}
    of_parameters, of_statistics = (
        {v.name: own.get(v.name, usual_dims(v)) for v in side.variables} for side in (parameters, statistics)
    )
    check_variable_names(of_parameters, others | of_statistics)


def _few_draws(
    rvs: list[GraphVariable],
    *,
    # Draws that show which entries of a vector or matrix never vary or equal others.
    draws_for_repeats: int = 256,
) -> dict[GraphVariable, np.ndarray]:
    """Some draws (n, entries) of each; none where they cannot be drawn, of which other errors speak."""
    sources = [v for v in ancestors(rvs) if v.owner is None and isinstance(v.type, RandomType)]
    generators = [source.type() for source in sources]
    (*outputs,) = clone_replace(rvs, dict(zip(sources, generators, strict=True)))
    try:
        function = pytensor.function(generators, outputs, mode=QUICK, on_unused_input="ignore")
        # Of numbers of their own: all tables of a model have the same columns.
        seeds = [np.random.SeedSequence([i, len(sources)]) for i in range(draws_for_repeats)]
        rows = [function(*map(np.random.default_rng, seed.spawn(len(sources)))) for seed in seeds]
    except Exception:
        return {}
    return {rv: np.stack([row[i].ravel() for row in rows]) for i, rv in enumerate(rvs)}


def _without_repeats(variable: Variable, drawn: np.ndarray) -> Variable:
    """A variable whose columns are the entries (n, entries) that vary, each once."""
    varies = np.any(drawn != drawn[0], axis=0)
    first = {column.tobytes(): place for place, column in reversed(list(enumerate(drawn.T)))}
    own = [first[column.tobytes()] for column in drawn.T]
    kept = [place for place in range(len(own)) if varies[place] and own[place] == place]
    if not kept or len(kept) == len(own):
        return variable
    number = {place: column for column, place in enumerate(kept)}
    still = np.flatnonzero(~varies).tolist()
    sources = [number[own[i]] if varies[i] else -1 - still.index(i) for i in range(len(own))]
    return replace(variable, sources=tuple(sources), constants=tuple(drawn[0, still].tolist()))


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
    """Refuse a posterior by simulations of a model whose likelihood is known."""
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


def _refuse_minibatches(model: pm.Model, observed: Sequence[GraphVariable]) -> None:
    """Refuse random parts of data, of which another one would be drawn each time."""
    for rv in observed:
        reached = ancestors([rv, model.rvs_to_values[rv]])
        if any(v.owner is not None and isinstance(v.owner.op, MinibatchOp) for v in reached):
            raise ValueError(
                f"the observed variable {rv.name!r} has a pm.Minibatch for its data or its inputs, which is "
                "a random part of them; statistics are those of all data: give the whole array"
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
        summary = compiled([value], _summary(rv, value), mode=QUICK)(data.astype(rv.dtype))
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
    """Statistics of what is simulated, which `sum_stat` makes as it makes those of data with gaps."""
    whole = _summary(rv, rv)
    if not np.any(gaps) or not is_simulator(rv) or type(rv.owner.op).__dict__["_sum_stat"] is identity:
        return whole
    of_gaps = _summary(rv, pt.switch(pt.constant(gaps), np.nan, rv))
    return pt.switch(pt.constant(missing), whole, of_gaps) if np.any(missing) else of_gaps


def _summary(rv: GraphVariable, value: Any) -> GraphVariable:
    if not is_simulator(rv):
        return value
    summary = type(rv.owner.op)._sum_stat  # of the class: of an operation a function would be its method
    return pt.as_tensor((OnCopies(summary, _refuse_mask) if isinstance(summary, Op) else summary)(value))


def _refuse_mask(result: Any) -> None:
    """Masked entries, of which PyTensor would take what is under the mask."""
    if np.ma.is_masked(result):
        raise ValueError("masked entries in what `sum_stat` returned; fill them: a mask is not kept")


def _variable(model: pm.Model, rv: GraphVariable, shape: tuple[int, ...]) -> Variable:
    labels = None
    dims = model.named_vars_to_dims.get(rv.name)
    if shape and dims is not None:
        coords = [model.coords.get(dim) for dim in dims]
        if all(c is not None for c in coords) and tuple(len(c) for c in coords if c) == shape:
            labels = tuple(", ".join(map(str, index)) for index in itertools.product(*coords))
    columns = getattr(function_of(rv.owner.op), "set_columns", 0) if is_simulator(rv) else 0
    return Variable(rv.name, shape, np.dtype(rv.dtype).kind in "iub", labels, columns)


# --- the model of a table ---


def check_model(name: str, model: Any) -> None:
    """Refuse what is no model."""
    if not isinstance(model, pm.Model):
        raise TypeError(f"{name} is {named(model)}; give a pymc.Model")


def model_in_context(model: pm.Model | None) -> pm.Model:
    """A model, that of the surrounding ``with`` block where it is None; gaps in its data are NaN."""
    if model is not None:
        check_model("model", model)
    try:
        found = pm.modelcontext(model)
    except TypeError:
        raise TypeError(
            "no PyMC model was given and none is on the context stack; pass model=..., "
            "or call this inside `with model:`"
        ) from None
    return without_imputation(found)


def model_of_table(table: ReferenceTable, model: pm.Model | None) -> pm.Model | None:
    """The model that the table's parameters belong to; None where there is none."""
    given = model is not None
    if given:
        check_model("model", model)
    model = pm.modelcontext(model) if given else pm.Model.get_context(error_if_none=False)
    if model is None:
        return None
    model = without_imputation(model)
    mine = {v.name: v.shape for v in table.parameter_columns.variables}
    theirs = {rv.name for rv in model.free_RVs}
    if set(mine) == theirs:
        return model
    if given:
        raise ValueError(
            f"the reference table has the parameters {sorted(mine)}; the model has {sorted(theirs)}; "
            "simulate a table from this model, or leave the model out"
        )
    return None


def copied(model: pm.Model) -> tuple[FunctionGraph, dict[GraphVariable, GraphVariable]]:
    """A copy of a model as a graph, and where its variables are there."""
    try:
        return fgraph_from_model(model)
    except (NotImplementedError, ValueError) as error:
        raise ValueError(
            f"PyMC cannot copy the model: {error}; give initial values to the sampler "
            "(`pm.sample(initvals=...)`) instead of the variables, and pass the outermost model"
        ) from error


# --- missing values in the data ---


OBSERVED_PART, UNOBSERVED_PART = "_observed", "_unobserved"
"""What PyMC adds to the name of a variable with gaps, for its two parts."""


def without_imputation(model: pm.Model) -> pm.Model:
    """A model whose data have their gaps as NaN, and no variables in their place."""
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


def _whole(observed: GraphVariable, unobserved: GraphVariable, gaps: np.ndarray) -> GraphVariable | None:
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
    return op.make_node(rng, whole, *inputs).outputs[1]


def _joined(here: GraphVariable, there: GraphVariable, core: int, gaps: np.ndarray) -> GraphVariable:
    """A simulator's parameter at all entries, from those at the entries that are there and at the others."""
    if here.type.ndim == core:
        return here
    if here.type.broadcastable[0] and there.type.broadcastable[0]:
        return here[(0, *(None,) * gaps.ndim)]
    inner = [here.shape[axis] for axis in range(1, here.type.ndim)]
    found = pt.empty((*gaps.shape, *inner), dtype=here.dtype)
    return pt.set_subtensor(pt.set_subtensor(found[~gaps], here)[gaps], there)


def _drop(fgraph: FunctionGraph, *variables: GraphVariable) -> None:
    for variable in variables:
        fgraph.remove_output(fgraph.outputs.index(variable))


def _refuse_dependents(fgraph: FunctionGraph, name: str, entries: GraphVariable) -> None:
    if entries in set(ancestors(fgraph.outputs)):
        raise ValueError(
            f"the observed values of {name!r} have gaps, and other variables depend on {name!r}; give it "
            "without the missing entries, or make it a simulator"
        )


# --- data that were changed after a table was simulated ---


def with_data_of(table: ReferenceTable, model: pm.Model | None) -> ReferenceTable:
    """A table with its model's data as they are now, where they were others when it was simulated."""
    if model is None or not table.observed_data or not model.observed_RVs:
        return table
    _refuse_other_inputs(table, model)
    now = {rv.name: model.rvs_to_values[rv] for rv in model.observed_RVs}
    now = {name: np.asarray(value.eval(mode=QUICK)) for name, value in now.items()}
    before = table.observed_data
    changed = sorted(
        name
        for name in {*now, *before}
        if not (name in now and name in before and np.array_equal(now[name], before[name], equal_nan=True))
    )
    if not changed:
        return table
    graph = read_model(model)
    mine, theirs = table.statistic_columns, graph.statistics
    sets = set(mine.set_names)
    # A statistic of more data, or of data with other gaps, is another one.
    unchanged = all(
        name in sets or _gaps_of(now, name) == _gaps_of(before, name) for name in changed if name in before
    )
    if not unchanged or [(v.name, v.shape) for v in mine.variables] != [
        (v.name, v.shape) for v in theirs.variables
    ]:
        raise ValueError(
            f"the data of {changed} were changed in the model since the reference table was simulated, and "
            f"are of another size, or have other gaps: {_sizes(now, changed)} for {_sizes(before, changed)}; "
            "what was simulated is not comparable with them: simulate a table from the model as it is now, "
            "or leave the model out"
        )
    known = [name for name in changed if name in graph.known_names]
    if known:
        raise ValueError(
            f"the rows of the reference table are weighted by the density of the data of {known}, and these "
            "data were changed since; simulate a table from the model as it is now, or leave the model out"
        )
    warnings.warn(
        f"the data of {changed} were changed in the model since the reference table was simulated; the "
        "posterior is that of the model's present data. For the table's data leave the model out, or pass "
        "`table.with_observed(table.observed)`",
        UserWarning,
        stacklevel=users_line(),
    )
    return dataclasses.replace(table, observed=graph.observed, observed_data=graph.observed_data)


def _refuse_other_inputs(table: ReferenceTable, model: pm.Model) -> None:
    """Refuse a model whose simulators or priors have other data now than when the table was simulated."""
    before, now = dict(table.origin.inputs), dict(inputs_of(model))
    if changed := sorted(name for name in before if name in now and now[name] != before[name]):
        raise ValueError(
            f"the data of {changed}, which the model is simulated with, were changed since the reference "
            "table was simulated: its rows are those of another model. Simulate a table from the model as it "
            "is now, set the data back, or leave the model out"
        )


def _gaps_of(data: dict[str, np.ndarray], name: str) -> tuple[tuple[int, ...], bytes] | None:
    """Shape of a variable's data, and where they are missing; None where there are none."""
    if name not in data:
        return None
    values = np.asarray(data[name], dtype=float)
    return values.shape, np.isnan(values).tobytes()


def _sizes(data: dict[str, np.ndarray], names: list[str]) -> dict[str, tuple[int, ...]]:
    return {name: np.shape(data[name]) for name in names if name in data}
