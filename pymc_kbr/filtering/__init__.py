"""The kernel Bayes filter: hidden states from examples of states with their observations."""

from pymc_kbr.filtering.filter import KernelBayesFilter
from pymc_kbr.filtering.filtered_states import FilteredStates
from pymc_kbr.filtering.predicted_observations import PredictedObservations
from pymc_kbr.filtering.recursion import Belief
from pymc_kbr.filtering.settings import FilterSettings
from pymc_kbr.filtering.transition_parameters import TransitionParameters

__all__ = [
    "Belief",
    "FilterSettings",
    "FilteredStates",
    "KernelBayesFilter",
    "PredictedObservations",
    "TransitionParameters",
]
