"""The drift diffusion model: simulated trials, their exact density, and exact posteriors.

A decision starts at the share z of the way from 0 to a, drifts by v with noise of unit variance, and ends at
0 (choice 0) or at a (choice 1); the time t0 goes by before. The density is the series of D. J. Navarro and
I. G. Fuss, Fast and accurate calculations for first-passage times in Wiener diffusion models, Journal of
Mathematical Psychology 53 (2009).
"""

from __future__ import annotations

import numpy as np

from case_studies.walkers import walk

NAMES = ("v", "a", "z", "t0")
LOWER, UPPER = np.array([-3.0, 0.3, 0.1, 0.0]), np.array([3.0, 2.5, 0.9, 2.0])
"""Of the uniform prior."""


def draw_prior(rng: np.random.Generator, count: int) -> np.ndarray:
    """Parameters (count, 4)."""
    return rng.uniform(LOWER, UPPER, (count, 4))


def simulate(rng: np.random.Generator, theta: np.ndarray, step: float = 5e-4) -> np.ndarray:
    """One trial (n, 2), time and choice, for each of the parameters (n, 4), in steps of a share of a^2.

    Between steps a path is a Brownian bridge, whose crossing of a boundary has a probability in closed form.
    """
    v, a, z, t0 = theta.T
    place, steps, trials = z * a, step * a**2, np.empty((len(theta), 2))
    active, passed = np.arange(len(theta)), 0
    while len(active):
        now, edge, length = place[active], a[active], steps[active]
        then = now + v[active] * length + np.sqrt(length) * rng.standard_normal(len(active))
        down, up = np.maximum(now * then, 0), np.maximum((edge - now) * (edge - then), 0)
        below = rng.random(len(active)) < np.exp(-2 * down / length)
        above = rng.random(len(active)) < np.exp(-2 * up / length)
        over, place[active] = below | above, then
        done = active[over]
        trials[done, 0] = (passed + rng.random(len(done))) * length[over] + t0[done]
        trials[done, 1] = np.where(below[over] & above[over], rng.random(len(done)) < 0.5, above[over])
        active, passed = active[~over], passed + 1
    return trials


def log_density(theta: np.ndarray, trials: np.ndarray) -> np.ndarray:
    """Log densities (k, r) of trials (r, 2) at parameters (k, 4)."""
    v, a, z, t0 = (column[:, None] for column in theta.T)
    sign = np.where(trials[:, 1] > 0, -1.0, 1.0)
    v, w = v * sign, np.where(sign > 0, z, 1 - z)
    time = trials[:, 0] - t0
    inside = time > 0
    time = np.where(inside, time, 1.0)
    with np.errstate(divide="ignore"):
        found = _log_standard(time / a**2, w) - 2 * np.log(a) - v * a * w - v**2 * time / 2
    return np.where(inside, found, -np.inf)


def _log_standard(time: np.ndarray, w: np.ndarray, terms: int = 8) -> np.ndarray:
    """Log density of the first passage at 0 between 0 and 1, from w on, without drift.

    Below a time of 0.2 the series of images, above that of sines: with eight terms both are exact.
    """
    short, long = np.minimum(time, 0.2), np.maximum(time, 0.2)
    images = sum(
        (w + 2 * k) * np.exp(-((w + 2 * k) ** 2 - w**2) / (2 * short)) for k in range(-terms, terms + 1)
    )
    early = np.log(np.maximum(images, 1e-300)) - w**2 / (2 * short) - 0.5 * np.log(2 * np.pi * short**3)
    sines = sum(
        k * np.exp(-(k**2 - 1) * np.pi**2 * long / 2) * np.sin(k * np.pi * w) for k in range(1, terms + 1)
    )
    late = np.log(np.maximum(np.pi * sines, 1e-300)) - np.pi**2 * long / 2
    return np.where(time < 0.2, early, late)


def exact_posterior(
    trials: np.ndarray, near: np.ndarray, rng: np.random.Generator, steps: int = 3000, walkers: int = 64
) -> np.ndarray:
    """Draws (m, 4) of the posterior of trials (r, 2), by walkers that begin near a point (4,)."""

    def log_posterior(theta: np.ndarray) -> np.ndarray:
        inside = np.all((theta > LOWER) & (theta < UPPER), axis=1)
        found = np.full(len(theta), -np.inf)
        found[inside] = log_density(theta[inside], trials).sum(axis=1)
        return found

    spread = 0.01 * rng.standard_normal((walkers, 4))
    place = np.clip(near + spread, LOWER + 1e-3, UPPER - 1e-3)
    place[:, 3] = np.minimum(place[:, 3], trials[:, 0].min() - 1e-3 * (1 + rng.random(walkers)))
    return walk(log_posterior, place, rng, steps, first=steps // 3)
