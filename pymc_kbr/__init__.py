"""Kernel Bayesian inference without a likelihood, for PyMC models.

Begin with `sample_abc`, inside a PyMC model that has a `pm.Simulator`: ``help(pk.sample_abc)``. Its stages:
`simulate` (a `ReferenceTable`), `select` (an estimator), ``estimator.condition(observed)`` (a `Posterior`),
``posterior.draw(1000)``. Tables from elsewhere: `ReferenceTable.from_dataframe`. Raw data: `set_simulator`.
Several models: `compare_models`. Checks: `calibrate`, `predictive_check`. Public names are imported when they
are first used: arrays alone never wait for PyMC.
"""

import sys as _sys
from importlib import import_module as _import_module

# Read by people and at run time; `__init__.pyi` says the same to type checkers, and a test compares them.
_HOMES = {
    "Adjusted": "estimators",
    "BayesianKernelEmbedding": "embedding.bayesian_embedding",
    "Calibration": "checking.calibration",
    "ConditionalMean": "estimators",
    "ESTIMATORS": "estimators",
    "Estimator": "estimators",
    "FilteredStates": "filtering",
    "ImportanceWeightedKernelBayes": "estimators",
    "KernelBayes": "estimators",
    "KernelBayesFilter": "filtering",
    "KernelDensity": "estimators",
    "KernelLikelihood": "estimators",
    "LearnedSimulator": "simulation",
    "LocalClassifierTest": "checking.local_classifier",
    "Localised": "estimators",
    "Misspecification": "checking.misspecification",
    "ModelChoice": "selection.model_choice.model_choice",
    "NadarayaWatson": "estimators",
    "Posterior": "posterior.posterior",
    "PosteriorWarning": "posterior.posterior",
    "PredictiveCheck": "checking.predictive_check",
    "ReferenceTable": "tables.reference_table",
    "Rejection": "estimators",
    "SampleSMC": "comparison.compare",
    "Selection": "selection.selection",
    "SetFeatures": "estimators.sets",
    "SimulationError": "simulation",
    "StatisticContributions": "checking.statistic_contributions",
    "StatisticRelevance": "checking.statistic_contributions",
    "StoredTable": "tables.stored_table",
    "Support": "arrays.support",
    "calibrate": "checking.calibrate",
    "causal_learn_test": "hypothesis_tests",
    "chain_modes": "embedding.chain_modes",
    "compare": "comparison.compare",
    "compare_models": "selection.model_choice.compare_models",
    "conditional_hsic_test": "hypothesis_tests",
    "emulate": "rounds.emulate",
    "estimator_of": "sample",
    "hsic_test": "hypothesis_tests",
    "kci_test": "hypothesis_tests",
    "kernel_embedding_model": "embedding.pymc_model",
    "learn_simulators": "rounds.learn_simulators",
    "load": "estimators.saving",
    "local_classifier_test": "checking.local_classifier",
    "misspecification": "checking.misspecification",
    "mmd_test": "hypothesis_tests",
    "observation_support": "checking.observation_support",
    "plot_accuracy_runtime": "comparison.plots",
    "plot_calibration": "checking.plots",
    "plot_joint_calibration": "checking.plots",
    "plot_model_choice": "comparison.plots",
    "plot_observation_support": "checking.plots",
    "plot_posterior": "checking.plots",
    "plot_posterior_weights": "checking.plots",
    "plot_recovery": "checking.plots",
    "power_curve": "hypothesis_tests",
    "predictive_check": "checking.predictive_check",
    "prior_sensitivity": "checking.prior_sensitivity",
    "refine": "rounds.refine",
    "sample_abc": "sample",
    "save": "estimators.saving",
    "select": "selection.select",
    "set_simulator": "simulation",
    "simulate": "simulation",
    "simulate_models": "simulation",
    "simulate_to_store": "simulation",
    "statistic_contributions": "checking.statistic_contributions",
    "statistic_relevance": "checking.statistic_contributions",
    "to_arviz": "posterior.arviz",
    "vector_simulator": "simulation",
    "witness": "hypothesis_tests",
    "zoom": "rounds.zoom",
}
_FOLDERS = {
    "arrays",
    "checking",
    "comparison",
    "embedding",
    "estimators",
    "filtering",
    "gram",
    "hypothesis_tests",
    "kernels",
    "popgen",
    "posterior",
    "regression",
    "rounds",
    "selection",
    "simulation",
    "tables",
}

_RULES = "embedding.rules"
"""Of Song et al.: `pk.rules.sum_rule` and the others."""


def __getattr__(name: str) -> object:
    """Import a public name, or a subpackage, on first use (PEP 562)."""
    # Of every class that `__all__` names `help` prints all there is, thousands of lines: it is told of none.
    if name == "__all__" and _sys._getframe(1).f_globals.get("__name__") != "pydoc":
        return sorted(_HOMES)
    if name in _FOLDERS:
        return _import_module(f"{__name__}.{name}")
    if name == "rules":
        return _import_module(f"{__name__}.{_RULES}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(_import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found  # the next use is an ordinary look-up
    return found


def __dir__() -> list[str]:
    """Public names and subpackages, imported or not."""
    return sorted({*_HOMES, *_FOLDERS, "rules", *(name for name in globals() if name.startswith("__"))})
