"""Kernel Bayesian inference without a likelihood, for PyMC models."""

from pymc_kbr.estimators import (
    ESTIMATORS,
    ConditionalMean,
    Estimator,
    ImportanceWeightedKernelBayes,
    KernelBayes,
    KernelDensity,
    Localised,
    NadarayaWatson,
    Rejection,
)
from pymc_kbr.posterior import Posterior
from pymc_kbr.reference_table import ReferenceTable
from pymc_kbr.sample import sample_abc
from pymc_kbr.simulation import SimulationError, simulate, vector_simulator
from pymc_kbr.support import Support
from pymc_kbr.to_arviz import to_arviz

# A posterior knows arrays only; its way to ArviZ is joined to it here, above both.
setattr(Posterior, "to_arviz", to_arviz)  # noqa: B010

__all__ = [
    "ESTIMATORS",
    "ConditionalMean",
    "Estimator",
    "ImportanceWeightedKernelBayes",
    "KernelBayes",
    "KernelDensity",
    "Localised",
    "NadarayaWatson",
    "Posterior",
    "ReferenceTable",
    "Rejection",
    "SimulationError",
    "Support",
    "sample_abc",
    "simulate",
    "to_arviz",
    "vector_simulator",
]
