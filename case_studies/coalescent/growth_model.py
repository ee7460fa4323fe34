"""The coalescent of a population that grows, as a PyMC model: another simulator in five lines."""

from __future__ import annotations

import msprime
import numpy as np
import pymc as pm

import pymc_kbr as pk
from case_studies.coalescent.model import STATISTICS, simulate_statistics


def simulate_growth(
    rng: np.random.Generator, theta: float, rho: float, growth: float, size: tuple[int, ...] | None = None
) -> np.ndarray:
    """Statistics of a sample from a population that has grown exponentially, by a rate a coalescent unit."""
    demography = msprime.Demography()
    demography.add_population(initial_size=1, growth_rate=float(growth))
    return simulate_statistics(rng, theta, rho, size, demography)


def growth_model(observed: np.ndarray) -> pm.Model:
    """The model of a constant population, with growth ~ Uniform(0, 10)."""
    with pm.Model(coords={"statistic": STATISTICS}) as model:
        theta = pm.Uniform("theta", 2, 10)
        rho = pm.Uniform("rho", 0, 10)
        growth = pm.Uniform("growth", 0, 10)
        pk.vector_simulator(
            "sample", simulate_growth, theta, rho, growth, observed=observed, dims="statistic"
        )
    return model
