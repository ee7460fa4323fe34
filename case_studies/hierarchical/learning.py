"""A likelihood learnt from a table, with the seconds of both."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import pymc_kbr as pk


class Learned(NamedTuple):
    """A fitted likelihood and what it cost.

    Attributes
    ----------
    likelihood : KernelLikelihood
    cost : dict
        Simulations, and the seconds of simulating and of fitting.
    """

    likelihood: pk.KernelLikelihood
    cost: dict[str, Any]


def learn(
    parameters: Callable[[int, np.random.Generator], np.ndarray],
    simulate: Callable[[np.ndarray, np.random.Generator], np.ndarray],
    simulations: int,
    random_seed: int,
    form: str = "auto",
    log_prior: Callable[[np.ndarray], np.ndarray] | None = None,
    particles: int = 1000,
) -> Learned:
    """Simulate a table of (n, p) parameters and (n, d) statistics, and fit a `KernelLikelihood` to it.

    `log_prior`, the log density of `parameters`, and `particles` are for conditioning without PyMC.
    """
    rng = np.random.default_rng(random_seed)
    started = time.perf_counter()
    theta = parameters(simulations, rng)
    statistics = simulate(theta, rng)
    simulated = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        likelihood = pk.KernelLikelihood(form, particles).fit(
            theta, statistics, log_prior=log_prior, random_seed=random_seed
        )
    return Learned(
        likelihood,
        {
            "simulations": simulations,
            "seconds_simulating": simulated - started,
            "seconds_fit": time.perf_counter() - simulated,
            "form": likelihood.choice_.name,
        },
    )
