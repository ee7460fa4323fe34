"""From a fitted form, a prior and observations to draws or weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from pymc_kbr.arrays.row_parts import row_parts
from pymc_kbr.arrays.support import Support
from pymc_kbr.arrays.threads import side_by_side
from pymc_kbr.arrays.weighted import effective_sample_size
from pymc_kbr.estimators.likelihood.autoregressive import Autoregressive
from pymc_kbr.estimators.likelihood.evaluation import Evaluation
from pymc_kbr.estimators.likelihood.form import Prepared
from pymc_kbr.estimators.likelihood.tempered import ImpossibleObservation, tempered

MOST_PARTICLES_IN_PART, MOST_IN_PART_OF_CONDITIONALS = 500, 2000
"""That a thread evaluates together: each step of theirs is then worth another thread. Where one statistic is
evaluated after another, steps are smaller.
"""

STARTED_TOGETHER = 10
"""Observations that are evaluated together at the rows of the start: what depends on a row alone is computed
once for these.
"""


class Start(NamedTuple):
    """Rows that stand for the prior.

    Attributes
    ----------
    rows : ndarray of shape (n, p)
    described : ndarray of shape (n, w)
        What of the likelihood depends on them alone.
    log_weights : ndarray of shape (n,), optional
        That make them draws of the prior, up to a constant.
    seed : int
    log_mass : float
        Log share of the prior's mass that they stand for.
    """

    rows: np.ndarray
    described: np.ndarray
    log_weights: np.ndarray | None
    seed: int
    log_mass: float = 0.0


def drawn_posteriors(
    evaluation: Evaluation,
    start: Start,
    prepared: Sequence[Prepared],
    support: Support,
    free_log_prior: Callable[[np.ndarray], np.ndarray],
    particles: int,
) -> list[tuple[np.ndarray, dict[str, float]]]:
    """Draws (particles, p) for each observation, by tempered sequential Monte Carlo, and what is noted.

    Where the model cannot make an observation they are what the statistics say that it can.
    """
    lost = [data.impossible for data in prepared]
    prepared = [data.of_the_rest() if off else data for data, off in zip(prepared, lost, strict=True)]
    in_part = MOST_PARTICLES_IN_PART
    if isinstance(evaluation.form, Autoregressive):
        in_part = MOST_IN_PART_OF_CONDITIONALS
    with side_by_side(len(prepared) * particles) as map_:

        def log_likelihood(free: np.ndarray, numbers: np.ndarray) -> np.ndarray:
            found = np.empty(free.shape[:2])

            def fill(part: tuple[slice, slice]) -> None:
                some = free[part]
                described = evaluation.describe(support.backward(some.reshape(-1, some.shape[2])))
                data = [prepared[number] for number in numbers[part[0]]]
                found[part] = evaluation.log_likelihoods(described.reshape(*some.shape[:2], -1), data)

            map_(fill, _parts(len(free), free.shape[1], in_part))
            return found

        found = tempered(
            log_likelihood,
            free_log_prior,
            support.forward(start.rows, np.random.default_rng(start.seed)),
            np.concatenate(map_(partial(evaluation.at_rows, start.described), _alike(prepared))),
            particles,
            np.random.default_rng(start.seed),
            start_log_weights=start.log_weights,
        )
    evidence = np.where(lost, -np.inf, found.log_evidence + start.log_mass)
    found = replace(found, log_evidence=evidence)
    notes = ("log_evidence", "ancestors", "acceptance", "capped")
    return [
        (support.backward(free), {name: float(getattr(found, name)[i]) for name in notes})
        for i, free in enumerate(found.particles)
    ]


def _parts(observations: int, particles: int, most: int) -> Iterator[tuple[slice, slice]]:
    """Some observations with all their particles each, or some particles of one, at most so many."""
    together = max(1, most // particles)
    pieces = row_parts(particles, most)
    for first in range(0, observations, together):
        for rows in pieces:
            yield slice(first, first + together), rows


def _alike(prepared: Sequence[Prepared]) -> list[Sequence[Prepared]]:
    """Data sets in groups that are evaluated together at the rows of the start."""
    if len({data.points.shape for data in prepared}) > 1:
        return [[data] for data in prepared]
    return [prepared[i : i + STARTED_TOGETHER] for i in range(0, len(prepared), STARTED_TOGETHER)]


def weighted_rows(
    evaluation: Evaluation, start: Start, prepared: Sequence[Prepared]
) -> list[tuple[np.ndarray, dict[str, float]]]:
    """Weights (n,) of the rows for each observation, and what is noted: where parameters are discrete."""
    base = np.zeros(len(start.rows)) if start.log_weights is None else start.log_weights
    found = []
    for number, data in enumerate(prepared):
        logs = evaluation.log_likelihood(start.described, data.of_the_rest()) + base
        if not np.any(np.isfinite(logs)):
            raise ImpossibleObservation(np.array([number]))
        weights = np.exp(logs - logsumexp(logs))
        noted = {
            # Weights of the rows need not have sum one: the evidence is a mean under them.
            "log_evidence": -np.inf if data.impossible else _evidence(logs, base) + start.log_mass,
            "ancestors": effective_sample_size(weights),
        }
        found.append((weights, noted))
    return found


def share_beyond(simulated_range: np.ndarray, atoms: np.ndarray, weights: np.ndarray) -> float:
    """Share of a posterior beyond what was simulated (2, p), where the likelihood is extrapolated."""
    lowest, highest = simulated_range
    return float(weights @ np.any((atoms < lowest) | (atoms > highest), axis=1))


def _evidence(logs: np.ndarray, base: np.ndarray) -> float:
    return float(logsumexp(logs) - logsumexp(base))
