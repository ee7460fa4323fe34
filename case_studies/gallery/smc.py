"""What every problem of the gallery asks of `sample_smc`."""

from __future__ import annotations

import numpy as np
import pymc as pm

from pymc_kbr.simulation.sample_smc import run_smc

DRAWS = 500
"""Of each posterior, by every method."""


def smc_draws(model: pm.Model, seed: int, quick: bool) -> tuple[np.ndarray, int]:
    """Draws (m, p) of a run on a model, and its simulations, made in this process."""
    run = run_smc(model, draws=20 if quick else DRAWS, chains=2, cores=1, random_seed=seed)
    kept = np.random.default_rng(seed).permutation(len(run.draws))[:DRAWS]
    return run.draws[kept], run.simulations
