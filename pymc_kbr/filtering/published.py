"""Settings chosen as in the papers' experiments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pymc_kbr.filtering.candidates import predictions, prior_ridge
from pymc_kbr.filtering.choice import LAST_STEPS, Chosen, Search, finished
from pymc_kbr.filtering.given import GivenSettings, of_family
from pymc_kbr.filtering.recursion import How
from pymc_kbr.filtering.settings import FilterSettings
from pymc_kbr.filtering.training import Training

BETAS = (0.5, 1.0, 2.0)
"""Bandwidths that are tried, in medians of the distances; one number for states and observations."""

PUBLISHED_REGULARISATIONS = (1e-1, 1e-2, 1e-3, 1e-4)
"""lambda of the importance-weighted rule, or epsilon of the original one."""


def choose_as_published(training: Training, how: How, given: GivenSettings) -> Chosen:
    """Settings by the papers' procedures: Fukumizu 2013, section 5.3, for "kbr", Xu 2022, 5.2, for "iw_kbr".

    Raises
    ------
    ValueError
        If there are no training sequences, the transition is known or has controls, or settings are given:
        the papers have none of these.

    Notes
    -----
    Both take Gaussian kernels whose bandwidths are one number beta times the median distances on either side.

    - "kbr": the first half of the training estimates, the second validates beta and epsilon; the ridges of
      both regressions are epsilon, and delta = 2 epsilon.
    - "iw_kbr": eta by KuLSIF's leave-one-out score, the transition's ridge equal to it; the last 200 steps
      validate beta and lambda.

    The papers do not print their grids; these are ours. Everything is in the scale of weights of sum one.
    """
    _check(training, how, given)
    # Fukumizu 2013 validates on the second half, Xu 2022 on the last steps.
    steps = sum(training.lengths) // 2
    if given.rule == "iw_kbr":
        steps = min(LAST_STEPS, steps)
    search = Search(training, how, given, steps)
    best: tuple[float, tuple[float, float]] = (np.inf, (1.0, 1e-2))
    for beta in BETAS:
        base = _of_beta(search.part, how, given, beta)
        for ridge in PUBLISHED_REGULARISATIONS:
            error = search.error(_with(base, given.rule, ridge))
            if error < best[0]:
                best = error, (beta, ridge)
    beta, ridge = best[1]
    settings = _with(_of_beta(training, how, given, beta), given.rule, ridge)
    return Chosen(finished(settings, search), best[0], search.tried)


def _of_beta(data: Training, how: How, given: GivenSettings, beta: float) -> FilterSettings:
    """Kernels of one beta, and for "iw_kbr" eta and lambda'."""
    kernel = of_family("gaussian", None, beta, data.states)
    observed = of_family("gaussian", None, beta, data.observations)
    if given.rule == "kbr":
        return FilterSettings(kernel, observed, np.nan, np.nan, np.nan)
    before, after = data.states[data.previous], data.states[data.following]
    # lambda' is to be eta, which is chosen on predictions made with it: one step of a fixed point.
    eta = 1e-2
    for _ in range(2):
        eta = prior_ridge(
            data.states[data.pairs], predictions(before, after, kernel, eta, how.centred), kernel, how.centred
        )
    return FilterSettings(kernel, observed, np.nan, eta, eta)


def _with(settings: FilterSettings, rule: str, ridge: float) -> FilterSettings:
    if rule == "iw_kbr":
        return replace(settings, regularisation=ridge)
    return replace(
        settings, regularisation=2 * ridge, prior_regularisation=ridge, transition_regularisation=ridge
    )


def _check(training: Training, how: How, given: GivenSettings) -> None:
    fixed = [
        name
        for name in (
            "state_bandwidth",
            "observation_bandwidth",
            "regularisation",
            "prior_regularisation",
            "transition_regularisation",
        )
        if getattr(given, name) is not None
    ]
    if fixed or given.state_kernel != "gaussian" or given.observation_kernel != "gaussian":
        raise ValueError(
            "tuning is 'published', which chooses Gaussian kernels and all settings, and "
            f"{fixed or 'kernels'} are "
            "given; leave them out, or take tuning='held_out'"
        )
    if not training.lengths or training.controls is not None or how.draw is not None:
        raise ValueError(
            "tuning is 'published', which is for training sequences without controls and with a learnt "
            "transition; take tuning='held_out'"
        )
    if min(training.lengths) < 8:
        raise ValueError(
            f"a training sequence has {min(training.lengths)} steps; 'published' needs 8 of each"
        )
