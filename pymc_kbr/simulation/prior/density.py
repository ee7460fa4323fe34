"""The prior density of a PyMC model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytensor
from pymc.logprob.basic import conditional_logp
from pytensor import tensor as pt
from pytensor.graph.basic import Variable as GraphVariable
from pytensor.graph.replace import vectorize_graph

from pymc_kbr.simulation.model.graphs import impossible_where_refused, substitute
from pymc_kbr.simulation.model.known import known_log_likelihood
from pymc_kbr.simulation.model.read import QUICK, ModelGraph, is_simulator, read_model, read_prior
from pymc_kbr.simulation.prior.support import says_its_support
from pymc_kbr.tables.reference_table import ReferenceTable

LogDensity = Callable[[np.ndarray], np.ndarray]
"""From parameters (n, p), in the model's own space, to log densities (n,)."""


def without_density(graph: ModelGraph) -> list[GraphVariable]:
    """The free variables that PyMC knows no density of: simulators, and functions it cannot invert."""
    return [rv for rv in graph.free if not _has_density(rv, graph)]


def _has_density(rv: GraphVariable, graph: ModelGraph) -> bool:
    if is_simulator(rv):  # PyMC's is a kernel about one more simulation, and not that of what it draws
        return False
    if says_its_support(rv):
        return True
    try:
        # Given the others: a function of two random variables may be none that PyMC inverts.
        (alone,) = substitute([rv], {other: other.type() for other in graph.free if other is not rv})
        value = rv.type()
        return value in conditional_logp({alone: value})
    except (NotImplementedError, RuntimeError, TypeError, ValueError):
        return False


def log_density_of(graph: ModelGraph, without: Sequence[GraphVariable] = ()) -> LogDensity:
    """From parameters (n, p), in the model's own space, to the log density of its prior (n,).

    Parameters
    ----------
    graph : ModelGraph
    without : sequence of variables
        Free ones whose densities are left out.

    Raises
    ------
    NotImplementedError
        If PyMC knows no density of one of the others.
    """
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
