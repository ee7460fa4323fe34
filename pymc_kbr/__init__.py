"""Kernel Bayesian inference without a likelihood, for PyMC models."""

from pymc_kbr.calibration import Calibration, calibrate
from pymc_kbr.comparison import compare
from pymc_kbr.comparison_line import SampleSMC
from pymc_kbr.diagnostics import PosteriorWarning, observation_support
from pymc_kbr.emulate import emulate
from pymc_kbr.estimators import (
    ESTIMATORS,
    Adjusted,
    ConditionalMean,
    Estimator,
    ImportanceWeightedKernelBayes,
    KernelBayes,
    KernelDensity,
    Localised,
    NadarayaWatson,
    Rejection,
)
from pymc_kbr.plots import (
    plot_accuracy_runtime,
    plot_calibration,
    plot_observation_support,
    plot_posterior_weights,
)
from pymc_kbr.posterior import Posterior
from pymc_kbr.predictive_check import PredictiveCheck, predictive_check
from pymc_kbr.reference_table import ReferenceTable
from pymc_kbr.sample import sample_abc
from pymc_kbr.selection import Selection, select
from pymc_kbr.simulation import SimulationError, simulate, simulate_to_store, vector_simulator
from pymc_kbr.stored_table import StoredTable
from pymc_kbr.support import Support
from pymc_kbr.to_arviz import to_arviz
from pymc_kbr.zoom import zoom

# A posterior knows arrays only; its way to ArviZ is joined to it here, above both.
setattr(Posterior, "to_arviz", to_arviz)  # noqa: B010

__all__ = [
    "ESTIMATORS",
    "Adjusted",
    "Calibration",
    "ConditionalMean",
    "Estimator",
    "ImportanceWeightedKernelBayes",
    "KernelBayes",
    "KernelDensity",
    "Localised",
    "NadarayaWatson",
    "Posterior",
    "PosteriorWarning",
    "PredictiveCheck",
    "ReferenceTable",
    "Rejection",
    "SampleSMC",
    "Selection",
    "SimulationError",
    "StoredTable",
    "Support",
    "calibrate",
    "compare",
    "emulate",
    "observation_support",
    "plot_accuracy_runtime",
    "plot_calibration",
    "plot_observation_support",
    "plot_posterior_weights",
    "predictive_check",
    "sample_abc",
    "select",
    "simulate",
    "simulate_to_store",
    "to_arviz",
    "vector_simulator",
    "zoom",
]
