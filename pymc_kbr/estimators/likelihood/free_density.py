"""Densities of parameters, carried to the space without edges."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from pymc_kbr.arrays.support import Support
from pymc_kbr.estimators.likelihood.prior_density import PriorDensity


def free_log_density(
    support: Support, log_prior: Callable[[np.ndarray], np.ndarray]
) -> Callable[[np.ndarray], np.ndarray]:
    """The log density in the unconstrained space, log_prior(backward(free)) + log |d backward / d free|."""
    # Shapes: log_prior (n, p) -> (n,).
    fitted = getattr(log_prior, "__self__", None)
    if not (isinstance(fitted, PriorDensity) and fitted.support == support):
        density: Callable[[np.ndarray], np.ndarray] = partial(_carried, support, log_prior)
        return partial(_allowed, support, density) if support.constraints else density
    # What was fitted to draws has mass beside them, too.
    density = fitted.free_log_density
    return partial(_allowed, support, density) if support.restricted else density


def _allowed(
    support: Support, log_density: Callable[[np.ndarray], np.ndarray], free: np.ndarray
) -> np.ndarray:
    logs = log_density(free)
    fine = np.isfinite(logs)
    fine[fine] = support.allows(support.backward(free[fine]))
    return np.where(fine, logs, -np.inf)


def _carried(support: Support, log_prior: Callable[[np.ndarray], np.ndarray], free: np.ndarray) -> np.ndarray:
    jacobian = support.log_jacobian(free)
    parameters = support.backward(free)
    return np.where(np.isfinite(jacobian), log_prior(parameters) + jacobian, -np.inf)
