"""A model as a graph of its own, to be changed."""

from __future__ import annotations

import pymc as pm
from pymc.model.fgraph import fgraph_from_model
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph


def copied(model: pm.Model) -> tuple[FunctionGraph, dict[Variable, Variable]]:
    """A copy of a model as a graph, and where its variables are there."""
    try:
        return fgraph_from_model(model)
    except (NotImplementedError, ValueError) as error:
        raise ValueError(
            f"PyMC cannot copy the model: {error}; give initial values to the sampler "
            "(`pm.sample(initvals=...)`) "
            "instead of the variables, and pass the outermost model"
        ) from error
