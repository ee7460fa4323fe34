"""Draws of the prior times the likelihood of what is known, before anything is learnt."""

from __future__ import annotations

import numpy as np

from pymc_kbr.arrays.weighted import effective_sample_size
from pymc_kbr.estimators.likelihood.prior_density import free_log_density
from pymc_kbr.estimators.likelihood.tempered import tempered
from pymc_kbr.simulation import ForwardModel
from pymc_kbr.tables.reference_table import ReferenceTable

FEWEST_EFFECTIVE = 100
"""Effective number of the first round's rows below which the second is drawn by what is known alone."""


def few_effective(table: ReferenceTable) -> int:
    """The effective number of rows, rounded up, where known densities leave too few of them; else zero."""
    if not table.origin.known or table.prior_ratio is None:
        return 0
    size = effective_sample_size(table.prior_ratio)
    return int(np.ceil(size)) if size < FEWEST_EFFECTIVE else 0


def draws_of_known(forward: ForwardModel, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draws (count, p) of the prior times the known likelihood, by tempered sequential Monte Carlo."""
    support, log_known = forward.support, forward.log_known
    assert log_known is not None

    def log_likelihood(free: np.ndarray, observations: np.ndarray) -> np.ndarray:
        rows = support.backward(free.reshape(-1, free.shape[2]))
        return log_known(rows).reshape(free.shape[:2])

    start = forward.prior.block(0)
    start = start[support.contains(start)]
    found = tempered(
        log_likelihood,
        free_log_density(support, forward.log_prior),
        support.forward(start),
        log_known(start)[None],
        count,
        rng,
    )
    return support.backward(found.particles[0])
