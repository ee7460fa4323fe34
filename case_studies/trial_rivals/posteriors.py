"""Posteriors under a uniform prior, computed from log-likelihoods in the same way whatever they are from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from case_studies.walkers import walk

Function = Callable[[np.ndarray], np.ndarray]
"""From parameters (k, p) to log-likelihoods (k,) of a data set."""


def moments(
    log_likelihood: Function,
    lower: np.ndarray,
    upper: np.ndarray,
    near: np.ndarray,
    rng: np.random.Generator,
    *,
    effort: float = 1.0,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean and standard deviations of the posterior, and the share of proposals that were taken.

    Parameters
    ----------
    log_likelihood : callable
    lower, upper : ndarray of shape (p,)
        Of the uniform prior.
    near : ndarray of shape (p,)
        Walkers begin near it.
    rng : numpy.random.Generator
    effort : float
        A smaller one has fewer steps.

    Returns
    -------
    mean, deviations : ndarray of shape (p,)
    taken : float
        1 for one or two parameters, which have a grid.
    """

    def log_posterior(theta: np.ndarray) -> np.ndarray:
        inside = np.all((theta > lower) & (theta < upper), axis=1)
        found = np.full(len(theta), -np.inf)
        if inside.any():
            found[inside] = log_likelihood(theta[inside])
        return np.where(np.isnan(found), -np.inf, found)

    if len(lower) <= 2:
        return (*on_grid(log_posterior, lower, upper), 1.0)
    return _by_proposals(log_posterior, lower, upper, near, rng, effort)


def on_grid(log_posterior: Function, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """On the midpoints of cells, four times, each time nearer to where the density is."""
    side = 101 if len(lower) == 1 else 21
    low, high = lower, upper
    for _ in range(4):
        places = (np.arange(side) + 0.5) / side
        axes = [a + (b - a) * places for a, b in zip(low, high, strict=True)]
        points = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
        logs = log_posterior(points)
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        mean = weights @ points
        deviations = np.sqrt(weights @ (points - mean) ** 2)
        half = np.maximum(6 * deviations, 1.5 * (high - low) / side)
        low, high = np.maximum(lower, mean - half), np.minimum(upper, mean + half)
    return mean, deviations


def _by_proposals(
    log_posterior: Function,
    lower: np.ndarray,
    upper: np.ndarray,
    near: np.ndarray,
    rng: np.random.Generator,
    effort: float,
) -> tuple[np.ndarray, np.ndarray, float]:
    """By Metropolis chains with t proposals, whose moments walkers and then earlier chains find."""
    walkers, steps = 32, int(160 * effort)
    place = near + 0.02 * (upper - lower) * rng.standard_normal((walkers, len(lower)))
    place = np.clip(place, lower + 1e-3, upper - 1e-3)
    draws = walk(log_posterior, place, rng, steps, first=2 * steps // 3, every=2)
    for length in (48, 48, 128):
        draws, taken = _chains(log_posterior, draws, rng, max(int(length * effort), 8))
    return draws.mean(axis=0), draws.std(axis=0), taken


def _chains(
    log_posterior: Function, before: np.ndarray, rng: np.random.Generator, length: int
) -> tuple[np.ndarray, float]:
    """Draws (m, p) of 32 chains whose proposals have the moments of draws before, and the share taken."""
    chains, p, freedom, wider = 32, before.shape[1], 5, 1.2
    root = np.linalg.cholesky(wider * np.cov(before.T) + 1e-12 * np.eye(p))
    noise = rng.standard_normal((chains * length, p))
    noise /= np.sqrt(rng.chisquare(freedom, (len(noise), 1)) / freedom)
    tried = before.mean(axis=0) + noise @ root.T
    proposal = -(freedom + p) / 2 * np.log1p(np.sum(noise**2, axis=1) / freedom)
    ratios = (log_posterior(tried) - proposal).reshape(length, chains)
    tried, now, kept, taken = tried.reshape(length, chains, p), np.zeros(chains, dtype=int), [], []
    for step in range(1, length):
        with np.errstate(invalid="ignore"):  # the first one may be outside
            moves = np.log(rng.random(chains)) < ratios[step] - ratios[now, np.arange(chains)]
        now = np.where(moves, step, now)
        if step >= length // 8:
            kept.append(tried[now, np.arange(chains)])
            taken.append(moves.mean())
    return np.concatenate(kept), float(np.mean(taken))
