"""The particles of all observations, from the prior to the posteriors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp

from pymc_kbr.estimators.likelihood.local_mixture import LocalMixture, fit_mixtures, within_parts
from pymc_kbr.estimators.likelihood.particle_moves import Gains, forgotten, propose
from pymc_kbr.estimators.likelihood.streams import Streams
from pymc_kbr.estimators.likelihood.tempering import (
    Counted,
    effective_size,
    log_mean,
    next_step,
    resample,
    scaled,
)

SHARE = 0.5
"""Effective share of the population that a step of the temperature leaves."""

BETWEEN, LAST = (0.5, 0.9), (0.9, 0.97)
"""How much of where they were, and how many of them, particles leave behind at a temperature."""

SWEEPS = (8, 40)
"""Most sweeps at a temperature between, and at the last one."""

STEPS = 200
"""Most temperatures; the last step then goes all the way."""

FIT_ROWS = 1500
"""Most particles that a half's mixture is fitted to."""


class Population:
    """Particles of all observations on their way from the prior to the posteriors."""

    def __init__(
        self,
        log_likelihood: Counted,
        log_prior: Callable[[np.ndarray], np.ndarray],
        start: np.ndarray,
        prior: np.ndarray,
        values: np.ndarray,
        base: np.ndarray,
        particles: int,
        rng: np.random.Generator,
    ) -> None:
        k, q = len(values), start.shape[1]
        self.log_likelihood, self.log_prior = log_likelihood, log_prior
        self.streams = Streams(rng.spawn(k))
        self.active = np.arange(k)
        possible = np.isfinite(values).any(axis=0)
        self.start = start[possible] if possible.sum() > 1 else start[np.isfinite(start).all(axis=1)]
        self.spread = _spread(self.start)
        self.gains = Gains(k)
        self._begin(start, prior, values, base, particles)
        self.origin = self.free.copy()
        self.moved = np.zeros((k, particles), dtype=bool)
        self.here, self.sweeps, self.accepted = np.zeros(k, dtype=int), np.zeros(k, dtype=int), np.zeros(k)
        self.forgotten, self.capped = np.zeros(k), np.zeros(k, dtype=bool)
        self.mixtures: list[LocalMixture] = []
        self.scale, self.inverse = np.empty((k, q, q)), np.empty((k, q, q))
        self.sizes = _sizes(min(particles // 2, FIT_ROWS), q)
        self._learn(self.active)

    def _begin(
        self, start: np.ndarray, prior: np.ndarray, values: np.ndarray, base: np.ndarray, particles: int
    ) -> None:
        """The first temperature, by the starting rows' likelihoods: no evaluation is needed."""
        k = len(values)
        base = base - logsumexp(base)
        weights = np.where(np.isfinite(values), base, -np.inf)
        wanted = np.minimum(SHARE * effective_size(weights), particles)
        self.temperature = next_step(values, np.ones(k), wanted, weights)
        weights = weights + scaled(values, self.temperature)
        self.log_evidence = logsumexp(weights, axis=1)
        self.first_size = effective_size(weights)
        self.steps = [[float(t)] for t in self.temperature]
        # Rows in random order, so that the two halves of the resampled particles are alike.
        order = np.argsort(self.streams.uniform(len(start)), axis=1)
        weights = np.take_along_axis(weights, order, axis=1)
        picked = resample(weights, particles, self.streams.uniform(1)[:, 0])
        rows = np.take_along_axis(order, picked, axis=1)
        self.free, self.prior = start[rows], prior[rows]
        self.values = np.take_along_axis(values, rows, axis=1)
        self.ancestor = rows
        same = np.unique(start, axis=0, return_inverse=True)[1].reshape(-1)
        self.label = same[rows]
        self.labels = len(start)

    def sweep(self, rows: np.ndarray) -> None:
        """Propose a move to every particle of some observations, one half after the other."""
        m = self.free.shape[1]
        streams = self.streams.rows(rows)
        halves = (slice(0, m // 2), slice(m // 2, m))
        for half, (mine, other) in enumerate([halves, halves[::-1]]):
            points = self.free[rows, mine]
            proposal = propose(
                points,
                self.free[rows, other],
                self.start,
                self.mixtures[half].rows(rows),
                self.scale[rows],
                self.gains.shares(rows),
                self.gains.log_length[rows],
                streams,
            )
            accepted = self._accept(rows, mine, proposal.points, proposal.log_ratio, streams)
            gained = accepted * forgotten(self.free[rows, mine], points, self.inverse[rows])
            self.gains.learn(rows, proposal.kinds, gained, accepted)
            self.accepted[rows] += accepted.mean(axis=1) / 2
        self.here[rows] += 1
        self.sweeps[rows] += 1

    def _accept(
        self, rows: np.ndarray, half: slice, proposed: np.ndarray, log_ratio: np.ndarray, streams: Streams
    ) -> np.ndarray:
        """Metropolis' and Hastings' rule at each observation's temperature; which were accepted, (b, m)."""
        shape, points = proposed.shape[:2], self.free[rows, half]
        fine = np.isfinite(proposed).all(axis=2) & np.isfinite(log_ratio)
        proposed = np.where(fine[..., None], proposed, points)
        prior = self.log_prior(proposed.reshape(-1, proposed.shape[2])).reshape(shape)
        fine &= np.isfinite(prior)
        # The likelihood is never asked about points outside the prior's support.
        values = self.log_likelihood(np.where(fine[..., None], proposed, points), rows)
        fine &= np.isfinite(values)
        old = self.temperature[rows, None] * self.values[rows, half] + self.prior[rows, half]
        new = self.temperature[rows, None] * np.where(fine, values, 0) + np.where(fine, prior, 0)
        log_ratio = np.where(fine, new - old + log_ratio, -np.inf)
        accepted = -streams.exponential(shape[1]) < log_ratio
        accepted &= np.any(proposed != points, axis=2)
        labels = self.labels + np.arange(shape[1])
        self.labels += shape[1]
        for part, fresh in (
            (self.free, proposed),
            (self.values, values),
            (self.prior, prior),
            (self.label, np.broadcast_to(labels, shape)),
            (self.moved, np.ones(shape, dtype=bool)),
        ):
            mask = accepted[..., None] if part.ndim == 3 else accepted
            part[rows, half] = np.where(mask, fresh, part[rows, half])
        return accepted

    def advance(self, rows: np.ndarray) -> None:
        """Raise the temperature where the moves were enough, and end where it is one."""
        left = forgotten(self.free[rows], self.origin[rows], self.inverse[rows]).mean(axis=1)
        self.forgotten[rows] = left
        moved = self.moved[rows].mean(axis=1)
        last = self.temperature[rows] >= 1
        enough = np.where(
            last,
            (left >= LAST[0]) & (moved >= LAST[1]) & (self.unique(rows) == 1),
            (left >= BETWEEN[0]) & (moved >= BETWEEN[1]),
        )
        tired = self.here[rows] >= np.where(last, SWEEPS[1], SWEEPS[0])
        self.capped[rows] = last & tired & ~enough
        done = enough | tired
        self.active = self.active[~np.isin(self.active, rows[done & last])]
        going = rows[done & ~last]
        if going.size:
            self._raise(going)
            self._learn(going)

    def _raise(self, rows: np.ndarray) -> None:
        """The next temperature and the particles that survive it."""
        m = self.free.shape[1]
        left = 1 - self.temperature[rows]
        step = next_step(self.values[rows], left, np.full(len(rows), SHARE * m))
        late = np.array([len(self.steps[row]) >= STEPS for row in rows])
        step = np.where(late, left, step)
        weights = step[:, None] * self.values[rows]
        self.log_evidence[rows] += log_mean(weights)
        self.temperature[rows] = np.where(step >= left, 1.0, self.temperature[rows] + step)
        picked = resample(weights, m, self.streams.rows(rows).uniform(1)[:, 0])
        index = rows[:, None]
        for part in (self.free, self.values, self.prior, self.label, self.ancestor):
            part[rows] = part[index, picked]
        self.origin[rows] = self.free[rows]
        self.moved[rows] = False
        self.here[rows] = 0
        for row in rows:
            self.steps[row].append(float(self.temperature[row]))

    def _learn(self, rows: np.ndarray) -> None:
        """Mixtures of both halves, each for the moves of the other, and the scale within their parts."""
        m = self.free.shape[1]
        streams = self.streams.rows(rows)
        halves = (slice(m // 2, m), slice(0, m // 2))
        within = np.zeros((len(rows), *self.scale.shape[1:]))
        for half, other in enumerate(halves):
            points = self.free[rows, other]
            points = points[:, :: max(1, points.shape[1] // FIT_ROWS)]
            mixture = fit_mixtures(points, self.spread, self.sizes, streams)
            within += within_parts(mixture) / 2
            if len(self.mixtures) <= half:
                self.mixtures.append(mixture)
            for kept, new in zip(self.mixtures[half], mixture, strict=True):
                kept[rows] = new
        self.scale[rows] = np.linalg.cholesky(within)
        self.inverse[rows] = np.linalg.inv(self.scale[rows])

    def unique(self, rows: np.ndarray) -> np.ndarray:
        """Share of different particles."""
        return np.array([len(np.unique(self.label[row])) for row in rows]) / self.label.shape[1]


def _spread(start: np.ndarray) -> np.ndarray:
    """Deviations of the starting rows, and something positive for columns that are constant."""
    spread = start.std(axis=0)
    return np.where(spread > 0, spread, np.maximum(np.abs(start).max(axis=0), 1.0) * 1e-3)


def _sizes(rows: int, q: int) -> tuple[int, ...]:
    """Numbers of components that so many points may be described by."""
    most = int(np.clip(rows // (6 * (q + 2)), 1, 8))
    return tuple(sorted({1, max(1, most // 2), most}))
