"""The log density of a model's prior, from PyMC."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytensor
from pymc.logprob.basic import conditional_logp
from pytensor import tensor as pt
from pytensor.graph.basic import Variable as GraphVariable
from pytensor.graph.replace import vectorize_graph

from pymc_kbr.simulation.model.graphs import impossible_where_refused, substitute
from pymc_kbr.simulation.model.read import QUICK, ModelGraph, is_simulator

LogDensity = Callable[[np.ndarray], np.ndarray]
"""From parameters (n, p), in the model's own space, to log densities (n,)."""


def log_density_of(graph: ModelGraph, without: Sequence[GraphVariable] = ()) -> LogDensity:
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
