"""Sampling of a density that PyMC cannot write: the stretch move of Goodman and Weare (2010)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def walk(
    log_density: Callable[[np.ndarray], np.ndarray], start: np.ndarray, steps: int, rng: np.random.Generator
) -> np.ndarray:
    """Draws of a density, by walkers that move along the lines to each other.

    Parameters
    ----------
    log_density : callable
        From (n, p) to (n,).
    start : ndarray of shape (k, p)
        Where the walkers, an even number, begin.
    steps : int
        Moves of each; the first quarter is left out.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (3 k steps / 4, p)
    """
    half, p = len(start) // 2, start.shape[1]
    groups = [start[:half].copy(), start[half:].copy()]
    logs = [log_density(group) for group in groups]
    kept = []
    for step in range(steps):
        for moving in (0, 1):
            stretch = (1 + rng.random(half)) ** 2 / 2  # density 1 / sqrt(z) between a half and two
            toward = groups[1 - moving][rng.integers(half, size=half)]
            proposed = toward + stretch[:, None] * (groups[moving] - toward)
            new = log_density(proposed)
            accepted = np.log(rng.random(half)) < (p - 1) * np.log(stretch) + new - logs[moving]
            groups[moving][accepted], logs[moving][accepted] = proposed[accepted], new[accepted]
        if step >= steps // 4:
            kept.append(np.concatenate(groups))
    return np.concatenate(kept)
