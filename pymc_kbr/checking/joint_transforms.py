"""Where a truth lies among the draws of all parameters together: uniform where posteriors are calibrated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

FLAT_SHARE = 1e-10
"""Share of the largest variance below which draws lie in fewer dimensions than they have columns."""


@dataclass(frozen=True, eq=False)
class JointTransforms:
    """Transforms in [0, 1] of k held-out rows, uniform where the joint posteriors are calibrated.

    Parameters
    ----------
    highest_density : ndarray of shape (k,)
        Probability of the region where the posterior is denser than at the truth: see `density_transform`.
    tarp : ndarray of shape (k,)
        Probability of the ball about a reference point that reaches to the truth: see `ball_transform`. The
        reference is the parameters of the nearest row, which tells a posterior from the prior.
    """

    REGIONS: ClassVar[tuple[str, str]] = ("highest_density", "tarp")

    highest_density: np.ndarray
    tarp: np.ndarray

    def together(self) -> np.ndarray:
        """Both, as columns in the order of `REGIONS`, shape (k, 2)."""
        return np.column_stack([self.highest_density, self.tarp])


@dataclass(frozen=True, eq=False)
class Recovery:
    """True values of k held-out rows beside quantiles of their posteriors.

    Parameters
    ----------
    truths : ndarray of shape (k, p)
    quantiles : ndarray of shape (k, 3, p)
        At 5%, 50% and 95%.
    """

    LEVELS: ClassVar[tuple[float, float, float]] = (0.05, 0.5, 0.95)

    truths: np.ndarray
    quantiles: np.ndarray


def density_transform(draws: np.ndarray, truth: np.ndarray, rng: np.random.Generator) -> float:
    """Share of draws (m, p) where the posterior is denser than at the truth (p,).

    Notes
    -----
    The density is a normal kernel's, with Scott's factor, over one half of the draws; the truth is compared
    with the other half. No draw meets its own kernel, so that the transform of a calibrated posterior is
    uniform however rough the density is: it only is a function of the point.
    """
    half = len(draws) // 2
    among, others = draws[:half], draws[half:]
    values = _log_density(among, np.vstack([truth[None], others]))
    return _place(-values[0], -values[1:], rng)


def ball_transform(
    draws: np.ndarray, truth: np.ndarray, reference: np.ndarray, rng: np.random.Generator
) -> float:
    """Share of draws (m, p) nearer than the truth (p,) to a reference point (p,), all in the same units.

    The transform of tests of accuracy with random points (TARP; Lemos et al. 2023, algorithm 2).
    """
    distances = cdist(reference[None], np.vstack([truth[None], draws]))[0]
    return _place(distances[0], distances[1:], rng)


def _place(value: float, others: np.ndarray, rng: np.random.Generator) -> float:
    """Where a value is among m others, in [0, 1]: it is one more of them, and ties are broken at random."""
    below, equal = np.sum(others < value), np.sum(others == value)
    return float((below + rng.random() * (equal + 1)) / (len(others) + 1))


def _log_density(among: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Log density, up to a constant, of a normal kernel over rows (m, p), at points (k, p)."""
    centre = among.mean(axis=0)
    values, directions = np.linalg.eigh(np.atleast_2d(np.cov(among.T)))
    kept = values > FLAT_SHARE * max(values.max(), np.finfo(float).tiny)
    whiten = directions[:, kept] / np.sqrt(values[kept])
    width = len(among) ** (-1 / (kept.sum() + 4))
    squares = cdist((points - centre) @ whiten, (among - centre) @ whiten, "sqeuclidean")
    found: np.ndarray = logsumexp(-squares / (2 * width**2), axis=1)
    return found
