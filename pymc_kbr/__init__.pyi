# Types of the public names; at run time `__init__.py` imports each on first use.
from pymc_kbr import arrays as arrays
from pymc_kbr import checking as checking
from pymc_kbr import comparison as comparison
from pymc_kbr import embedding as embedding
from pymc_kbr import estimators as estimators
from pymc_kbr import filtering as filtering
from pymc_kbr import gram as gram
from pymc_kbr import hypothesis_tests as hypothesis_tests
from pymc_kbr import kernels as kernels
from pymc_kbr import popgen as popgen
from pymc_kbr import posterior as posterior
from pymc_kbr import regression as regression
from pymc_kbr import rounds as rounds
from pymc_kbr import selection as selection
from pymc_kbr import simulation as simulation
from pymc_kbr import tables as tables
from pymc_kbr.arrays.support import Support
from pymc_kbr.checking.calibrate import calibrate as calibrate
from pymc_kbr.checking.calibration import Calibration
from pymc_kbr.checking.local_classifier import LocalClassifierTest, local_classifier_test
from pymc_kbr.checking.misspecification import Misspecification, misspecification
from pymc_kbr.checking.observation_support import observation_support
from pymc_kbr.checking.plots import (
    plot_calibration,
    plot_joint_calibration,
    plot_observation_support,
    plot_posterior,
    plot_posterior_weights,
    plot_recovery,
)
from pymc_kbr.checking.predictive_check import PredictiveCheck, predictive_check
from pymc_kbr.checking.prior_sensitivity import prior_sensitivity
from pymc_kbr.checking.statistic_contributions import (
    StatisticContributions,
    StatisticRelevance,
    statistic_contributions,
    statistic_relevance,
)
from pymc_kbr.comparison.compare import SampleSMC, compare
from pymc_kbr.comparison.plots import plot_accuracy_runtime, plot_model_choice
from pymc_kbr.embedding.bayesian_embedding import BayesianKernelEmbedding
from pymc_kbr.embedding.chain_modes import chain_modes
from pymc_kbr.embedding.pymc_model import kernel_embedding_model
from pymc_kbr.estimators import (
    ESTIMATORS,
    Adjusted,
    ConditionalMean,
    Estimator,
    ImportanceWeightedKernelBayes,
    KernelBayes,
    KernelDensity,
    KernelLikelihood,
    Localised,
    NadarayaWatson,
    Rejection,
)
from pymc_kbr.estimators.saving import load, save
from pymc_kbr.estimators.sets import SetFeatures
from pymc_kbr.filtering import FilteredStates, KernelBayesFilter
from pymc_kbr.hypothesis_tests import (
    causal_learn_test,
    conditional_hsic_test,
    hsic_test,
    kci_test,
    mmd_test,
    power_curve,
    witness,
)
from pymc_kbr.posterior.arviz import to_arviz
from pymc_kbr.posterior.posterior import Posterior, PosteriorWarning
from pymc_kbr.rounds.emulate import emulate
from pymc_kbr.rounds.learn_simulators import learn_simulators
from pymc_kbr.rounds.refine import refine
from pymc_kbr.rounds.zoom import zoom
from pymc_kbr.sample import estimator_of, sample_abc
from pymc_kbr.selection.model_choice.compare_models import compare_models
from pymc_kbr.selection.model_choice.model_choice import ModelChoice
from pymc_kbr.selection.select import select
from pymc_kbr.selection.selection import Selection
from pymc_kbr.simulation import (
    LearnedSimulator,
    SimulationError,
    set_simulator,
    simulate,
    simulate_models,
    simulate_to_store,
    vector_simulator,
)
from pymc_kbr.tables.reference_table import ReferenceTable
from pymc_kbr.tables.stored_table import StoredTable

__all__ = [
    "Adjusted",
    "BayesianKernelEmbedding",
    "Calibration",
    "ConditionalMean",
    "ESTIMATORS",
    "Estimator",
    "FilteredStates",
    "ImportanceWeightedKernelBayes",
    "KernelBayes",
    "KernelBayesFilter",
    "KernelDensity",
    "KernelLikelihood",
    "LearnedSimulator",
    "LocalClassifierTest",
    "Localised",
    "Misspecification",
    "ModelChoice",
    "NadarayaWatson",
    "Posterior",
    "PosteriorWarning",
    "PredictiveCheck",
    "ReferenceTable",
    "Rejection",
    "SampleSMC",
    "Selection",
    "SetFeatures",
    "SimulationError",
    "StatisticContributions",
    "StatisticRelevance",
    "StoredTable",
    "Support",
    "calibrate",
    "causal_learn_test",
    "chain_modes",
    "compare",
    "compare_models",
    "conditional_hsic_test",
    "emulate",
    "estimator_of",
    "hsic_test",
    "kci_test",
    "kernel_embedding_model",
    "learn_simulators",
    "load",
    "local_classifier_test",
    "misspecification",
    "mmd_test",
    "observation_support",
    "plot_accuracy_runtime",
    "plot_calibration",
    "plot_joint_calibration",
    "plot_model_choice",
    "plot_observation_support",
    "plot_posterior",
    "plot_posterior_weights",
    "plot_recovery",
    "power_curve",
    "predictive_check",
    "prior_sensitivity",
    "refine",
    "sample_abc",
    "save",
    "select",
    "set_simulator",
    "simulate",
    "simulate_models",
    "simulate_to_store",
    "statistic_contributions",
    "statistic_relevance",
    "to_arviz",
    "vector_simulator",
    "witness",
    "zoom",
]
