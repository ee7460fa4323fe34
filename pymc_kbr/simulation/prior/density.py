"""What PyMC knows of densities of a table's model."""

from __future__ import annotations

from dataclasses import dataclass

import pymc as pm
from pymc.logprob.basic import conditional_logp
from pytensor.graph.basic import Variable as GraphVariable

from pymc_kbr.simulation.model.graphs import substitute
from pymc_kbr.simulation.model.known import LogDensity, known_log_likelihood, log_density_of
from pymc_kbr.simulation.model.read import ModelGraph, is_simulator, read_model, read_prior
from pymc_kbr.simulation.prior.support import says_its_support
from pymc_kbr.tables.reference_table import ReferenceTable


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


@dataclass(frozen=True)
class KnownDensities:
    """What PyMC knows of a table's model."""

    prior: LogDensity | None = None
    likelihood: LogDensity | None = None
    log_prior: LogDensity | None = None


def known_densities(prior: object, table: ReferenceTable, model: pm.Model | None) -> KnownDensities:
    """Log densities at parameters (n, p) of a table, compiled once."""
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
