"""The prior density of a PyMC model, and draws of its prior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pymc as pm

from pymc_kbr.arrays.support import Support
from pymc_kbr.simulation.model.known import known_log_likelihood
from pymc_kbr.simulation.model.read import ModelGraph, read_model, read_prior
from pymc_kbr.simulation.prior.draws import DrawnPrior, PriorSampler
from pymc_kbr.simulation.prior.log_density import LogDensity, log_density_of
from pymc_kbr.simulation.prior.support import prior_support
from pymc_kbr.simulation.streams import entropy_of
from pymc_kbr.tables.columns import Columns
from pymc_kbr.tables.reference_table import ReferenceTable


@dataclass(frozen=True, eq=False)
class ModelPrior:
    """A model's prior: draws of it, where it lives, and its density.

    Attributes
    ----------
    draws : ndarray of shape (l, p)
        In the order of the parameters that was asked for.
    support : Support
    """

    draws: np.ndarray
    support: Support
    _graph: ModelGraph

    def log_density(self, parameters: np.ndarray) -> np.ndarray:
        """Log density at parameters (n, p), in the model's own space: shape (n,)."""
        return log_density_of(self._graph)(parameters)


def model_prior(
    model: pm.Model, columns: Columns, draws: int, random_seed: int | np.random.Generator | None
) -> ModelPrior:
    """The prior of a model over the parameters of a table.

    Parameters
    ----------
    model : pymc.Model
        With free variables of the names and shapes in `columns`; observed variables are not looked at.
    columns : Columns
    draws : int
    random_seed : int, numpy.random.Generator or None

    Raises
    ------
    ValueError
        If names or shapes differ, or the prior cannot be drawn.
    """
    graph = read_prior(model, [variable.name for variable in columns.variables])
    shapes = {v.name: v.shape for v in graph.parameters.variables}
    for variable in columns.variables:
        if shapes[variable.name] != variable.shape:
            raise ValueError(
                f"{variable.name!r} has shape {shapes[variable.name]} in the prior's model and "
                f"{variable.shape} in the reference table; they must be equal"
            )
    sampler = PriorSampler(graph, entropy_of(random_seed))
    support = prior_support(graph, sampler.block(0)[:256])
    rows = DrawnPrior(sampler, support)[slice(0, draws)]
    return ModelPrior(rows, support, graph)


@dataclass(frozen=True)
class KnownDensities:
    """What PyMC knows of a table's model.

    Attributes
    ----------
    prior : callable, optional
        Log density of the prior.
    likelihood : callable, optional
        Log-likelihood of the observed variables whose density is known, and of Potentials.
    log_prior : callable, optional
        What a learned likelihood is multiplied with: both together, the first where there are no such
        variables, None where something of it is not known.
    """

    prior: LogDensity | None = None
    likelihood: LogDensity | None = None
    log_prior: LogDensity | None = None


def known_densities(prior: object, table: ReferenceTable, model: pm.Model | None) -> KnownDensities:
    """Log densities at parameters (n, p) of a table, compiled once.

    Parameters
    ----------
    prior : pymc.Model or anything else
        Nothing is known of anything else, nor of a model that PyMC has no density of.
    table : ReferenceTable
    model : pymc.Model, optional
        The table's.
    """
    if not isinstance(prior, pm.Model):
        return KnownDensities()
    try:
        density = log_density_of(read_prior(prior, [v.name for v in table.parameter_columns.variables]))
    except (NotImplementedError, ValueError):
        return KnownDensities()
    if not table.origin.known:
        return KnownDensities(density, None, density)
    if model is None:
        return KnownDensities(density)
    likelihood = known_log_likelihood(read_model(model))
    if likelihood is None:
        return KnownDensities(density)
    return KnownDensities(density, likelihood, lambda theta: density(theta) + likelihood(theta))
