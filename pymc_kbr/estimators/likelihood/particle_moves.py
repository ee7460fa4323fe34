"""Proposals for one half of a population from the other, and which of them pay."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pymc_kbr.estimators.likelihood.local_mixture import LocalMixture, propose_within
from pymc_kbr.estimators.likelihood.streams import Streams

DIFFERENCE, JUMP, WIDE_JUMP = 0, 1, 2
NOISE_SHARES = (0.0, 0.0, 0.0, 1.0, 1.0, 0.6, 0.25)
"""Of each kind of proposal the share of noise in a step within the mixture; zero: along differences."""

FRESH = 3
"""The kind that draws component and scale anew: whole jumps from one part of the target to another."""

LEAST_SHARES = np.array([0.1, 0.04, 0.02, 0.06, 0.03, 0.03, 0.03])
"""Share of each kind, whatever it gained so far."""

ACCEPTED_SHARE = 0.27
"""Accepted share that the length of difference steps is tuned to."""


class Gains:
    """What each kind of proposal gained at each observation: the kinds are drawn in proportion.

    Parameters
    ----------
    observations : int
    """

    def __init__(self, observations: int) -> None:
        kinds = len(NOISE_SHARES)
        self.gained = np.full((observations, kinds), 0.3)
        self.tried = np.ones((observations, kinds))
        self.log_length = np.zeros(observations)

    def shares(self, rows: np.ndarray) -> np.ndarray:
        """Probabilities (b, kinds)."""
        gains = self.gained[rows] / self.tried[rows]
        gains /= gains.sum(axis=1, keepdims=True)
        return LEAST_SHARES + (1 - LEAST_SHARES.sum()) * gains

    def learn(self, rows: np.ndarray, kinds: np.ndarray, gained: np.ndarray, accepted: np.ndarray) -> None:
        """Account for proposals of kinds (b, m) that gained (b, m), and tune the length of differences.

        What was learnt before fades with a half-life of a few sweeps, as the target changes.
        """
        member = kinds[..., None] == np.arange(len(NOISE_SHARES))
        m = kinds.shape[1]
        self.gained[rows] = 0.8 * self.gained[rows] + (member * gained[..., None]).sum(axis=1) / m
        self.tried[rows] = 0.8 * self.tried[rows] + member.sum(axis=1) / m
        tries = member[..., DIFFERENCE].sum(axis=1)
        rate = (member[..., DIFFERENCE] * accepted).sum(axis=1) / np.maximum(tries, 1)
        # A rate of few tries is mostly chance, and moves the length by less.
        step = np.where(tries > 0, np.minimum(1.0, tries / 30) * (rate - ACCEPTED_SHARE), 0.0)
        self.log_length[rows] = np.clip(self.log_length[rows] + step, -4, 2)


class ProposedMoves(NamedTuple):
    """Proposed points (b, m, q), the log ratio (b, m) of the proposals' densities, and their kinds (b, m)."""

    points: np.ndarray
    log_ratio: np.ndarray
    kinds: np.ndarray


def propose(
    points: np.ndarray,
    others: np.ndarray,
    start: np.ndarray,
    mixture: LocalMixture,
    scale: np.ndarray,
    shares: np.ndarray,
    length: np.ndarray,
    streams: Streams,
) -> ProposedMoves:
    """One proposal for each point, of a kind drawn without looking at the point.

    Parameters
    ----------
    points : ndarray of shape (b, m, q)
    others : ndarray of shape (b, r, q)
        The half that stands still; differences are taken between two of its points.
    start : ndarray of shape (n, q)
        Draws of the prior, whose shortened differences serve where the population is a single point.
    mixture : LocalMixture of b mixtures, fitted to the half that stands still
    scale : ndarray of shape (b, q, q)
        Factor of the covariance within parts of the target.
    shares : ndarray of shape (b, kinds)
    length : ndarray of shape (b,)
    streams : Streams

    Notes
    -----
    C. J. F. ter Braak, A Markov chain Monte Carlo version of the genetic algorithm differential evolution,
    Statistics and Computing 16 (2006); in halves as by D. Foreman-Mackey et al., emcee (2013).
    """
    b, m, q = points.shape
    kinds = (np.cumsum(shares, axis=1)[:, None, :-1] < streams.uniform(m)[..., None]).sum(axis=2)
    steps = np.asarray(NOISE_SHARES)[kinds]
    within, log_ratio = propose_within(mixture, points, kinds == FRESH, steps, streams)
    rows = np.arange(b)[:, None]
    first, second = _pairs(others.shape[1], m, streams)
    difference = others[rows, first] - others[rows, second]
    first, second = _pairs(len(start), m, streams)
    # How far a single point may move is not known: lengths over four orders of magnitude.
    wide = (start[first] - start[second]) * 10 ** (-4 * streams.uniform(m))[..., None]
    # 2.38 / sqrt(q) is the best length for normal targets of many dimensions (ter Braak 2006); a difference
    # of two points has twice their covariance, hence the 2.
    usual = 2.38 / np.sqrt(2 * q) * np.exp(length)[:, None]
    factor = np.where(kinds == JUMP, 1.0, usual * np.exp(0.3 * streams.normal(m)))[..., None]
    # Without it the points reach no more than a lattice of their own differences.
    tremor = 1e-3 * streams.normal(m, q) @ np.swapaxes(scale, 1, 2)
    along = points + np.where((kinds == WIDE_JUMP)[..., None], wide, factor * difference) + tremor
    symmetric = steps == 0
    proposed = np.where(symmetric[..., None], along, within)
    return ProposedMoves(proposed, np.where(symmetric, 0.0, log_ratio), kinds)


def _pairs(size: int, m: int, streams: Streams) -> tuple[np.ndarray, np.ndarray]:
    """Two different indices below `size`, m times for each stream."""
    u = streams.uniform(2, m)
    first = (u[:, 0] * size).astype(int)
    return first, (first + 1 + (u[:, 1] * (size - 1)).astype(int)) % size


def moved_squares(points: np.ndarray, origin: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """Squared distances (b, m) of points (b, m, q) from where they were, about one for independent normals.

    In units of the covariance with inverse factor (b, q, q), and capped, so that a jump between parts of the
    target counts little more than a step across one.
    """
    white = inverse @ np.swapaxes(points - origin, 1, 2)
    return np.minimum((white**2).sum(axis=1) / (2 * points.shape[2]), 2.0)


def usual_squares(points: np.ndarray, membership: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """Mean of `moved_squares` between different points of the same part, (b,).

    Points lie in an order that puts copies next to one another, so pairs are far apart in it.
    """
    n = points.shape[1]
    total, count = np.full(len(points), 1e-300), np.full(len(points), 1e-300)
    for shift in (n // 2, n // 3):
        same = membership == np.roll(membership, shift, axis=1)
        total += (same * moved_squares(points, np.roll(points, shift, axis=1), inverse)).sum(axis=1)
        count += same.sum(axis=1)
    return total / count
