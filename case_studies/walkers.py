"""Draws of a density by an ensemble of walkers: J. Goodman and J. Weare, Ensemble samplers (2010)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def walk(
    log_density: Callable[[np.ndarray], np.ndarray],
    place: np.ndarray,
    rng: np.random.Generator,
    steps: int,
    *,
    first: int,
    every: int = 10,
) -> np.ndarray:
    """Where walkers are at some of the steps.

    Parameters
    ----------
    log_density : callable
        From points (k, p) to k numbers, minus infinity outside of the support.
    place : ndarray of shape (walkers, p)
        Where they begin; an even number of them.
    rng : numpy.random.Generator
    steps : int
    first : int
        The first step that is kept.
    every : int
        Steps from one that is kept to the next.

    Returns
    -------
    ndarray of shape (kept * walkers, p)
    """
    place = place.copy()
    walkers, p = place.shape
    value, half, kept = log_density(place), walkers // 2, []
    for step in range(steps):
        for mine, other in ((slice(0, half), slice(half, None)), (slice(half, None), slice(0, half))):
            stretch = (1 + rng.random(half)) ** 2 / 2
            partner = place[other][rng.integers(half, size=half)]
            tried = partner + stretch[:, None] * (place[mine] - partner)
            new = log_density(tried)
            with np.errstate(invalid="ignore"):  # a walker that begins outside
                taken = np.log(rng.random(half)) < (p - 1) * np.log(stretch) + new - value[mine]
            place[mine] = np.where(taken[:, None], tried, place[mine])
            value[mine] = np.where(taken, new, value[mine])
        if step >= first and step % every == 0:
            kept.append(place.copy())
    return np.concatenate(kept)
