"""Posterior estimators, and the table of their names."""

from pymc_kbr.arrays.refusals import shown
from pymc_kbr.estimators.abc import KernelDensity, NadarayaWatson, Rejection
from pymc_kbr.estimators.adjusted import Adjusted
from pymc_kbr.estimators.embedding import (
    ConditionalMean,
    ImportanceWeightedKernelBayes,
    KernelBayes,
    Localised,
)
from pymc_kbr.estimators.estimator import Estimator
from pymc_kbr.estimators.kernel_likelihood import KernelLikelihood

ESTIMATORS: dict[str, type[Estimator]] = {
    "rejection": Rejection,
    "nadaraya_watson": NadarayaWatson,
    "conditional_mean": ConditionalMean,
    "localised": Localised,
    "kbr": KernelBayes,
    "iw_kbr": ImportanceWeightedKernelBayes,
    "kde": KernelDensity,
    "kernel_likelihood": KernelLikelihood,
    "adjusted": Adjusted,
}
"""The name of each estimator."""


def make_estimator(estimator: str | Estimator) -> Estimator:
    """An estimator from its name, with its defaults, or the given one."""
    if isinstance(estimator, Estimator):
        return estimator
    if not isinstance(estimator, str):
        raise TypeError(
            f"estimator is {shown(estimator)}; give an estimator, or one of the names {', '.join(ESTIMATORS)}"
        )
    if estimator not in ESTIMATORS:
        raise ValueError(
            f"there is no estimator {estimator!r}; the names are {', '.join(ESTIMATORS)}, and for "
            "`sample_abc` auto; `select` gives the estimator that auto would choose"
        )
    return ESTIMATORS[estimator]()


__all__ = [
    "ESTIMATORS",
    "Adjusted",
    "ConditionalMean",
    "Estimator",
    "ImportanceWeightedKernelBayes",
    "KernelBayes",
    "KernelDensity",
    "KernelLikelihood",
    "Localised",
    "NadarayaWatson",
    "Rejection",
    "make_estimator",
]
