"""Whether few of many statistics depend on the parameters, so that the likelihood of these is learnt."""

from __future__ import annotations

import numpy as np

from pymc_kbr.arrays.dependence import depend_on
from pymc_kbr.estimators.likelihood.autoregressive import MOST_SPARINGLY

MOST_FOR_DEPENDENCE = 250
"""Statistics above which it is not tested which of them depend on the parameters."""


def dependent_of_many(statistics: np.ndarray, parameters: np.ndarray) -> int | None:
    """How many of the statistics (n, d) depend on the parameters (n, p); None where d is not tested."""
    if not MOST_SPARINGLY < statistics.shape[1] <= MOST_FOR_DEPENDENCE:
        return None
    return int(np.sum(depend_on(statistics, parameters)))


def are_few(dependent: int | None, d: int) -> bool:
    """Whether so many of d statistics are few enough to leave the others out."""
    return dependent is not None and 0 < dependent <= min(d // 2, MOST_SPARINGLY)


def scale_of_many(statistics: np.ndarray, parameters: np.ndarray) -> str | bool:
    """The `scale` of a learned likelihood: "dependent" where few of many statistics are, else True."""
    return "dependent" if are_few(dependent_of_many(statistics, parameters), statistics.shape[1]) else True
