"""The prior of a model over the parameters of a table: its draws, its density, its support."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pymc as pm

from pymc_kbr.arrays.support import Support
from pymc_kbr.simulation.model.known import known_log_likelihood, log_density_of
from pymc_kbr.simulation.model.read import ModelGraph, read_model, read_prior
from pymc_kbr.simulation.prior.draws import DrawnPrior, PriorSampler
from pymc_kbr.simulation.prior.mass import support_of_model
from pymc_kbr.simulation.prior.support import says_its_support
from pymc_kbr.simulation.streams import entropy_of
from pymc_kbr.tables.columns import Columns
from pymc_kbr.tables.reference_table import ReferenceTable


@dataclass(frozen=True, eq=False)
class ModelPrior:
    """A model's prior: draws of it, where it lives, and its density."""

    # Shapes: draws (l, p).
    # draws: In the order of the parameters that was asked for.
    draws: np.ndarray
    support: Support
    _graph: ModelGraph

    def log_density(self, parameters: np.ndarray) -> np.ndarray:
        """Log density at parameters (n, p), in the model's own space: shape (n,)."""
        return log_density_of(self._graph)(parameters)


def model_prior(
    model: pm.Model, columns: Columns, draws: int, random_seed: int | np.random.Generator | None
) -> ModelPrior:
    """The prior of a model over the parameters of a table."""
    # model: With free variables of the names and shapes in `columns`; observed variables are not looked at.
    graph = read_prior(model, [variable.name for variable in columns.variables])
    shapes = {v.name: v.shape for v in graph.parameters.variables}
    for variable in columns.variables:
        if shapes[variable.name] != variable.shape:
            raise ValueError(
                f"{variable.name!r} has shape {shapes[variable.name]} in the prior's model and "
                f"{variable.shape} in the reference table; they must be equal"
            )
    graph = replace(graph, parameters=columns)  # entries that vary there may be constant here
    sampler = PriorSampler(graph, entropy_of(random_seed))
    support = support_of_model(graph, sampler.block(0), known_log_likelihood(graph))
    rows = DrawnPrior(sampler, support)[slice(0, draws)]
    return ModelPrior(rows, support, graph)


def with_its_support(table: ReferenceTable, model: pm.Model | None) -> ReferenceTable:
    """A table that was kept in a file, with what only its model says of the prior's support."""
    if model is None or table.support.inside is not None:
        return table
    plain = not model.potentials and not table.origin.known
    if plain and all(says_its_support(rv) for rv in model.free_RVs if rv.dtype.startswith("float")):
        return table
    graph = read_model(model) if model.observed_RVs else read_prior(model, _names(table))
    graph = replace(graph, parameters=table.parameter_columns)
    if [rv.name for rv in graph.free] != _names(table):
        return table
    whole = support_of_model(graph, PriorSampler(graph, 0).block(0), known_log_likelihood(graph))
    if whole.inside is None:
        return table
    # Rows of rounds have a support of their own, to which the density is added.
    support = whole if whole.plain() == table.support else replace(table.support, inside=whole.inside)
    return replace(table, support=support)


def _names(table: ReferenceTable) -> list[str]:
    return [variable.name for variable in table.parameter_columns.variables]
