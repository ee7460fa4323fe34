"""Tempered sequential Monte Carlo: draws of many posteriors at once, from a likelihood and a prior."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from pymc_kbr.estimators.likelihood.population import Population
from pymc_kbr.estimators.likelihood.streams import Streams
from pymc_kbr.estimators.likelihood.tempering import Counted, effective_size

MOST_PARTICLES, MOST_LIKELIHOODS = 60_000, 4_000_000
"""Of observations that run side by side: particles, and likelihoods of starting rows."""


@dataclass(frozen=True)
class Tempered:
    """Draws of k posteriors, and how they were made.

    Attributes
    ----------
    particles : ndarray of shape (k, m, q)
        Draws in the unconstrained space, equally weighted.
    log_likelihood : ndarray of shape (k, m)
    log_evidence : ndarray of shape (k,)
    temperatures : tuple of k tuples of float
        Rising from the first above zero to one.
    effective_sample_size : ndarray of shape (k,)
        Of the starting rows at the first temperature.
    ancestors : ndarray of shape (k,)
        Effective number of starting rows that the particles descend from: moves make draws of the same
        ancestor independent within a part of the posterior; the parts' shares are as certain as so many
        draws.
    acceptance : ndarray of shape (k,)
        Accepted share of all proposals.
    unique : ndarray of shape (k,)
        Share of the particles that are like no other.
    sweeps : ndarray of shape (k,)
        How often every particle was proposed a move.
    evaluations : ndarray of shape (k,)
        Evaluations of the likelihood, without those of the start.
    undefined : ndarray of shape (k,)
        How many likelihoods were NaN or plus infinity, and counted as zero.
    forgotten : ndarray of shape (k,)
        Squared distance of particles from their places before the last temperature's moves, as a share of
        that of independent draws.
    capped : ndarray of bool, shape (k,)
        Where sweeps ended by their number, at the last temperature.
    """

    particles: np.ndarray
    log_likelihood: np.ndarray
    log_evidence: np.ndarray
    temperatures: tuple[tuple[float, ...], ...]
    effective_sample_size: np.ndarray
    ancestors: np.ndarray
    acceptance: np.ndarray
    unique: np.ndarray
    sweeps: np.ndarray
    evaluations: np.ndarray
    undefined: np.ndarray
    forgotten: np.ndarray
    capped: np.ndarray


def tempered(
    log_likelihood: Callable[[np.ndarray, np.ndarray], np.ndarray],
    log_prior: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    start_log_likelihood: np.ndarray,
    particles: int,
    rng: np.random.Generator,
    *,
    start_log_weights: np.ndarray | None = None,
) -> Tempered:
    """Draws of the posteriors of k observations, each with temperatures of its own.

    Parameters
    ----------
    log_likelihood : callable (free (a, m, q), observations (a,)) -> (a, m)
        Log-likelihood of m points for each of a observations, which `observations` says the numbers of.
    log_prior : callable (free (N, q)) -> (N,)
        Log density of the prior in the unconstrained space, minus infinity outside its support.
    start : ndarray of shape (n, q)
        Draws of the prior.
    start_log_likelihood : ndarray of shape (k, n)
        Their log-likelihoods for each observation.
    particles : int
        Number m of particles of each observation, at least 10.
    rng : numpy.random.Generator
        Each observation gets a stream of its own from it, so its draws do not depend on the others.
    start_log_weights : ndarray of shape (n,), optional
        Log weights that make the starting rows draws of the prior, up to a constant.

    Returns
    -------
    Tempered

    Raises
    ------
    ValueError
        If shapes do not agree, there are fewer than 10 particles or 2 rows, or no row is possible for an
        observation.

    Notes
    -----
    P. Del Moral, A. Doucet and A. Jasra, Sequential Monte Carlo samplers, JRSS B 68 (2006); temperatures by
    the conditional effective sample size of Y. Zhou, A. M. Johansen and J. A. D. Aston (2016).
    """
    start, values = np.asarray(start, dtype=float), np.asarray(start_log_likelihood, dtype=float)
    _check(start, values, particles, start_log_weights)
    base = np.zeros(len(start)) if start_log_weights is None else np.asarray(start_log_weights, dtype=float)
    inside = np.isfinite(start).all(axis=1)  # rows on an edge of the support have no density here
    prior = np.full(len(start), -np.inf)
    prior[inside] = log_prior(start[inside])
    generators = rng.spawn(len(values))
    together = max(1, min(MOST_LIKELIHOODS // len(start), MOST_PARTICLES // particles))
    done = []
    for first in range(0, len(values), together):
        group = slice(first, first + together)
        counted = Counted(log_likelihood, np.arange(len(values))[group])
        likelihoods = np.where(
            np.isfinite(prior) & np.isfinite(base), counted.cleaned(values[group]), -np.inf
        )
        _check_possible(likelihoods, first)
        population = Population(
            counted, log_prior, start, prior, likelihoods, base, particles, Streams(generators[group])
        )
        _run(population)
        # Few have found the way: as many as are wanted are made of them where the temperature is one.
        if not population.final:
            population.grow(particles)
            _run(population)
        done.append(_result(population))
    return done[0] if len(done) == 1 else _joined(done)


def _run(population: Population) -> None:
    while population.active.size:
        population.sweep()
        population.advance()


def _joined(groups: Sequence[Tempered]) -> Tempered:
    parts = {f.name: [getattr(group, f.name) for group in groups] for f in fields(Tempered)}
    temperatures = tuple(steps for group in parts.pop("temperatures") for steps in group)
    return Tempered(temperatures=temperatures, **{n: np.concatenate(part) for n, part in parts.items()})


def _result(population: Population) -> Tempered:
    k = len(population.values)
    families = [np.unique(row, return_counts=True)[1] for row in population.ancestor]
    return Tempered(
        particles=population.free,
        log_likelihood=population.values,
        log_evidence=population.log_evidence,
        temperatures=tuple(tuple(steps) for steps in population.steps),
        effective_sample_size=population.first_size,
        ancestors=np.array([effective_size(np.log(counts)) for counts in families]),
        acceptance=population.accepted / np.maximum(population.sweeps, 1),
        unique=population.unique(np.arange(k)),
        sweeps=population.sweeps,
        evaluations=population.log_likelihood.evaluations,
        undefined=population.log_likelihood.undefined,
        forgotten=population.forgotten,
        capped=population.capped,
    )


def _check(
    start: np.ndarray, values: np.ndarray, particles: int, start_log_weights: np.ndarray | None
) -> None:
    if start.ndim != 2 or len(start) < 2 or start.shape[1] < 1:
        raise ValueError(f"start has shape {start.shape}; it must be (n, q), of 2 rows or more")
    if values.ndim != 2 or values.shape[1] != len(start):
        raise ValueError(
            f"start_log_likelihood has shape {values.shape}; it must be (k, {len(start)}): one value a row "
            "of start for each observation"
        )
    if start_log_weights is not None and np.shape(start_log_weights) != (len(start),):
        raise ValueError(
            f"start_log_weights has shape {np.shape(start_log_weights)}; it must be ({len(start)},)"
        )
    if particles < 10:
        raise ValueError(f"particles is {particles}; at least 10 are needed")


class ImpossibleObservation(ValueError):
    """Observations that have no likelihood at any row, by their numbers (m,), and why where that is known."""

    def __init__(self, observations: np.ndarray, why: str | None = None) -> None:
        self.observations = observations
        super().__init__(
            why
            or f"no starting row is possible for observation {', '.join(map(str, observations[:10]))}: "
            "every log-likelihood is minus infinity or NaN. The observation lies outside what was simulated, "
            "or the prior's density is zero at all rows"
        )


def _check_possible(values: np.ndarray, first: int) -> None:
    lost = first + np.flatnonzero(~np.isfinite(values).any(axis=1))
    if lost.size:
        raise ImpossibleObservation(lost)
