"""The log density of a model's prior, from PyMC."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytensor
from pymc.logprob.basic import conditional_logp
from pytensor import tensor as pt
from pytensor.graph.replace import vectorize_graph

from pymc_kbr.simulation.model.read import QUICK, ModelGraph

LogDensity = Callable[[np.ndarray], np.ndarray]
"""From parameters (n, p), in the model's own space, to log densities (n,)."""


def log_density_of(graph: ModelGraph) -> LogDensity:
    """From parameters (n, p), in the model's own space, to the log density of its prior (n,)."""
    # The log density in the model's own space: of the values as they are, without transforms' Jacobians.
    values = {rv: rv.type(f"{rv.name}_value") for rv in graph.free}
    terms = conditional_logp(values)
    total = pt.sum([pt.sum(terms[value]) for value in values.values()])
    batched = {
        value: pt.tensor(dtype=value.dtype, shape=(None, *value.type.shape)) for value in values.values()
    }
    density = vectorize_graph(total, batched)
    function = pytensor.function(list(batched.values()), density, mode=QUICK, on_unused_input="ignore")

    def log_density(parameters: np.ndarray) -> np.ndarray:
        parts = graph.parameters.split(parameters).values()
        given = [np.asarray(part, dtype=rv.dtype) for part, rv in zip(parts, graph.free, strict=True)]
        return np.broadcast_to(function(*given), (len(parameters),)).astype(float)

    return log_density
