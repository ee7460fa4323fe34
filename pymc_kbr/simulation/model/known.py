"""Log densities that PyMC knows: of the prior, and of observed variables that are not simulated."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytensor
from pymc.logprob.basic import conditional_logp
from pymc.pytensorf import compile
from pytensor import tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.type import RandomType

from pymc_kbr.simulation.model.graphs import impossible_where_refused, substitute
from pymc_kbr.simulation.model.read import QUICK, ModelGraph, is_simulator

# --- the prior ---


LogDensity = Callable[[np.ndarray], np.ndarray]
"""From parameters (n, p), in the model's own space, to log densities (n,)."""


def log_density_of(graph: ModelGraph, without: Sequence[Variable] = ()) -> LogDensity:
    """From parameters (n, p), in the model's own space, to the log density of its prior (n,)."""
    unknown = [rv.name for rv in graph.free if is_simulator(rv) and rv not in without]
    if unknown:
        raise NotImplementedError(f"{unknown} are simulators, of whose draws no density is known")
    # The log density in the model's own space: of the values as they are, without transforms' Jacobians.
    values = {rv: rv.type(f"{rv.name}_value") for rv in graph.free}
    rest = [rv for rv in graph.free if rv not in without]
    placed = dict(zip(rest, substitute(rest, {rv: values[rv] for rv in without}), strict=True))
    try:
        terms = conditional_logp({placed[rv]: values[rv] for rv in rest}) if rest else {}
    except RuntimeError as error:  # PyMC's word for some of those that it cannot derive
        raise NotImplementedError(str(error)) from error
    total = pt.sum([pt.sum(terms[values[rv]]) for rv in rest]) if rest else pt.zeros(())
    batched = {
        value: pt.tensor(dtype=value.dtype, shape=(None, *value.type.shape)) for value in values.values()
    }
    density = vectorize_graph(impossible_where_refused(total), batched)
    function = pytensor.function(list(batched.values()), density, mode=QUICK, on_unused_input="ignore")

    def log_density(parameters: np.ndarray) -> np.ndarray:
        parts = graph.parameters.split(parameters).values()
        given = [np.asarray(part, dtype=rv.dtype) for part, rv in zip(parts, graph.free, strict=True)]
        return np.broadcast_to(function(*given), (len(parameters),)).astype(float)

    return log_density


def known_log_likelihood(
    graph: ModelGraph,
    *,
    # Densities of single values in memory at once.
    densities_at_once: int = 2**22,
) -> LogDensity | None:
    """The log-likelihood of what is known, with the model's Potentials; None where there is nothing."""
    potentials = list(graph.model.potentials)
    if not graph.known and not potentials:
        return None
    values = {rv: rv.type(f"{rv.name}_value") for rv in graph.free}
    data = {rv: rv.type(f"{rv.name}_data") for rv in graph.known}
    terms = conditional_logp({**values, **data}) if data else {}
    total = pt.sum([pt.sum(terms[value]) for value in data.values()]) if data else pt.zeros(())
    for potential in potentials:
        total = total + pt.sum(_at_values(potential, {**values, **data}))
    given = {value: pt.as_tensor(graph.observed_data[rv.name].astype(rv.dtype)) for rv, value in data.items()}
    (total,) = substitute([total], given)
    batched = {v: pt.tensor(dtype=v.dtype, shape=(None, *v.type.shape)) for v in values.values()}
    density = vectorize_graph(impossible_where_refused(total), batched)
    # PyMC's own, which keeps what it needs of a model's variables.
    function = compile(list(batched.values()), density, mode=QUICK, on_unused_input="ignore")
    step = max(1, densities_at_once // (1 + sum(graph.observed_data[rv.name].size for rv in graph.known)))

    def log_likelihood(parameters: np.ndarray) -> np.ndarray:
        parts = [
            _evaluated(function, graph, parameters[start : start + step])
            for start in range(0, len(parameters), step)
        ]
        return np.concatenate(parts)

    return log_likelihood


def _evaluated(function: Callable[..., np.ndarray], graph: ModelGraph, parameters: np.ndarray) -> np.ndarray:
    split = graph.parameters.split(parameters).values()
    given = [np.asarray(part, dtype=rv.dtype) for part, rv in zip(split, graph.free, strict=True)]
    found = np.broadcast_to(function(*given), (len(parameters),)).astype(float)
    bad = np.flatnonzero(np.isnan(found) | (found == np.inf))
    if len(bad):
        names = [rv.name for rv in [*graph.known, *graph.model.potentials]]
        raise ValueError(
            f"the log density of {names} is {found[bad[0]]} at the parameters "
            f"{dict(zip(graph.parameters.names, parameters[bad[0]].tolist(), strict=True))}; it must be a "
            "number or minus infinity wherever the prior has mass"
        )
    return found


def _at_values(potential: Variable, values: dict[Variable, Variable]) -> Variable:
    """A Potential as a function of values, refused where something random is left in it."""
    (replaced,) = substitute([potential], values)
    if any(isinstance(v.type, RandomType) for v in ancestors([replaced])):
        raise ValueError(
            f"the Potential {potential.name!r} depends on what is simulated, which has no density; write it "
            "in terms of the parameters, or leave it out"
        )
    return replaced
