"""Three histories of a population, as PyMC models with the same statistics."""

from __future__ import annotations

from collections.abc import Callable

import msprime
import numpy as np
import pymc as pm

import pymc_kbr as pk
from case_studies.coalescent.richer_statistics import RICHER, simulate_richer

BOTTLENECK_LASTED = 0.1
"""Time units of a bottleneck, each of as many generations as the population has members."""


def simulate_growth(
    rng: np.random.Generator, theta: float, rho: float, growth: float, size: tuple[int, ...] | None = None
) -> np.ndarray:
    """A population that has grown exponentially, by a rate a time unit."""
    demography = msprime.Demography()
    demography.add_population(initial_size=1, growth_rate=float(growth))
    return simulate_richer(rng, theta, rho, size, demography)


def simulate_bottleneck(
    rng: np.random.Generator,
    theta: float,
    rho: float,
    ended: float,
    log_share: float,
    size: tuple[int, ...] | None = None,
) -> np.ndarray:
    """A population that was small until some time units ago: a share of its size, by its logarithm."""
    demography = msprime.Demography()
    demography.add_population(initial_size=1)
    demography.add_population_parameters_change(time=float(ended), initial_size=float(np.exp(log_share)))
    demography.add_population_parameters_change(time=float(ended) + BOTTLENECK_LASTED, initial_size=1)
    return simulate_richer(rng, theta, rho, size, demography)


def constant(observed: np.ndarray) -> pm.Model:
    """A population that has always been of its size of today."""
    return _model(observed, simulate_richer, {})


def growth(observed: np.ndarray) -> pm.Model:
    """Growth ~ Uniform(1, 10)."""
    return _model(observed, simulate_growth, {"growth": (1, 10)})


def bottleneck(observed: np.ndarray) -> pm.Model:
    """The bottleneck ended ~ Uniform(.02, .5) ago, at a share with logarithm ~ Uniform(log .01, log .2)."""
    limits = {"ended": (0.02, 0.5), "log_share": (np.log(0.01), np.log(0.2))}
    return _model(observed, simulate_bottleneck, limits)


DEMOGRAPHIES = {"constant": constant, "growth": growth, "bottleneck": bottleneck}


def _model(
    observed: np.ndarray, simulator: Callable[..., np.ndarray], limits: dict[str, tuple[float, float]]
) -> pm.Model:
    """Theta ~ Uniform(2, 10), rho ~ Uniform(0, 10), what a history has beside them, and the statistics."""
    with pm.Model(coords={"statistic": RICHER}) as model:
        rates = [pm.Uniform("theta", 2, 10), pm.Uniform("rho", 0, 10)]
        own = [pm.Uniform(name, *ends) for name, ends in limits.items()]
        pk.vector_simulator("sample", simulator, *rates, *own, observed=observed, dims="statistic")
    return model
