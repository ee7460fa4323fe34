"""The particles of all observations, from the prior to the posteriors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp

from pymc_kbr.estimators.likelihood.local_mixture import LocalMixture, fit_mixtures, parts
from pymc_kbr.estimators.likelihood.particle_moves import Gains, moved_squares, propose, usual_squares
from pymc_kbr.estimators.likelihood.streams import Streams
from pymc_kbr.estimators.likelihood.tempering import (
    Counted,
    effective_size,
    log_mean,
    next_step,
    resample,
    scaled,
)

EFFECTIVE_SHARE = 0.5
"""Effective share of the population that a step of the temperature leaves."""

BETWEEN, LAST = (0.5, 0.9, 0.0), (0.9, 0.9, 0.99)
"""Moves at a temperature are enough at these shares: of the usual squared distance between particles that the
moves have covered, of particles that have moved, and of different particles."""

SWEEPS = (8, 40)
"""Most sweeps at a temperature between, and of the whole population at the last one."""

POLISH = 200
"""Most sweeps that move duplicates alone, after all others have moved enough."""

SCOUTS = 2000
"""Particles that go through the temperatures; more are made of them at the last one."""

RELEARN = (3, 10, 20)
"""Sweeps at the last temperature after which proposals are adapted again."""

MOST_TEMPERATURES = 200
"""Most temperatures; the last step then goes all the way."""

FIT_ROWS = 1500
"""Most particles that a half's mixture is fitted to."""


class Population:
    """Particles of all observations on their way from the prior to the posteriors.

    Observations that are `duplicated` (k,) have particles that moved enough while some still equal others:
    only these are moved. Observations that are `impoverished` (k,) have so few different particles that
    proposals learnt from them are too narrow: particles spread, and proposals are learnt again, until the
    proposals' scale stays as it is.
    """

    def __init__(
        self,
        log_likelihood: Counted,
        log_prior: Callable[[np.ndarray], np.ndarray],
        start: np.ndarray,
        prior: np.ndarray,
        values: np.ndarray,
        base: np.ndarray,
        particles: int,
        streams: Streams,
    ) -> None:
        k, q = len(values), start.shape[1]
        self.log_likelihood, self.log_prior = log_likelihood, log_prior
        self.streams = streams
        self.active = np.arange(k)
        self.start = start[np.isfinite(start).all(axis=1)]
        self.spread = _spread(self.start)
        self.gains = Gains(k)
        self._begin(start, prior, values, base, min(particles, SCOUTS))
        self.final = particles == self.free.shape[1]
        self.origin = self.free.copy()
        self.moved = np.zeros(self.values.shape, dtype=bool)
        (self.sweeps_here, self.sweeps), self.accepted = np.zeros((2, k), dtype=int), np.zeros(k)
        self.duplicated, self.impoverished = np.zeros((2, k), dtype=bool)
        self.forgotten, self.capped = np.zeros(k), np.zeros(k, dtype=bool)
        self.mixtures: list[LocalMixture] = []
        self.scale, self.inverse, self.usual = np.tile(np.eye(q), (k, 1, 1)), np.empty((k, q, q)), np.ones(k)
        self.sizes = _sizes(min(self.free.shape[1] // 2, FIT_ROWS), q)
        self._learn(self.active)

    def _begin(
        self, start: np.ndarray, prior: np.ndarray, values: np.ndarray, base: np.ndarray, particles: int
    ) -> None:
        """The first temperature, by the starting rows' likelihoods: no evaluation is needed."""
        k = len(values)
        base = base - logsumexp(base)
        weights = np.where(np.isfinite(values), base, -np.inf)
        # More than there are particles is lost by resampling: the step may as well be longer.
        wanted = np.minimum(EFFECTIVE_SHARE * effective_size(weights), particles)
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

    def grow(self, particles: int) -> None:
        """More particles from those at the last temperature, copies at first."""
        k = len(self.values)
        picked = resample(np.zeros(self.values.shape), particles, self.streams.uniform(1)[:, 0])
        for name in ("free", "values", "prior", "label", "ancestor"):
            setattr(self, name, getattr(self, name)[np.arange(k)[:, None], picked])
        self.origin, self.moved = self.free.copy(), np.zeros(self.values.shape, dtype=bool)
        self.final, self.active = True, np.arange(k)
        self.sweeps_here[:] = 0
        self._learn(self.active)

    def sweep(self) -> None:
        """Propose a move to every particle, or to duplicates alone where only these are left to be moved."""
        m = self.free.shape[1]
        halves = np.arange(m // 2), np.arange(m // 2, m)
        rows = self.active[~self.duplicated[self.active]]
        for half in (0, 1) if rows.size else ():
            mine = np.broadcast_to(halves[half], (len(rows), len(halves[half])))
            self.accepted[rows] += self._move(rows, half, mine, halves[1 - half]).mean(axis=1) / 2
        self.sweeps[rows] += 1
        rows = self.active[self.duplicated[self.active]]
        # No more duplicates than these are left once the moves are enough.
        few = int(np.ceil((1 - LAST[2]) * m))
        for half in (0, 1) if rows.size else ():
            copies = ~self._first(rows)[:, halves[half]]
            mine = halves[half][np.argsort(~copies, axis=1, kind="stable")[:, :few]]
            self._move(rows, half, mine, halves[1 - half])
        self.sweeps_here[self.active] += 1

    def _move(self, rows: np.ndarray, half: int, mine: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Propose moves to the particles `mine` (b, w) of a half, and learn what they gained; which moved."""
        index, streams = rows[:, None], self.streams.rows(rows)
        points = self.free[index, mine]
        proposal = propose(
            points,
            self.free[index, others],
            self.start,
            self.mixtures[half].rows(rows),
            self.scale[rows],
            self.gains.shares(rows),
            self.gains.log_length[rows],
            streams,
        )
        accepted = self._accept(rows, mine, proposal.points, proposal.log_ratio, streams)
        gained = accepted * moved_squares(self.free[index, mine], points, self.inverse[rows])
        self.gains.learn(rows, proposal.kinds, gained, accepted)
        return accepted

    def _accept(
        self,
        rows: np.ndarray,
        mine: np.ndarray,
        proposed: np.ndarray,
        log_ratio: np.ndarray,
        streams: Streams,
    ) -> np.ndarray:
        """Metropolis' and Hastings' rule at each observation's temperature; which were accepted, (b, m)."""
        shape, here = proposed.shape[:2], (rows[:, None], mine)
        points = self.free[here]
        fine = np.isfinite(proposed).all(axis=2) & np.isfinite(log_ratio)
        proposed = np.where(fine[..., None], proposed, points)
        prior = self.log_prior(proposed.reshape(-1, proposed.shape[2])).reshape(shape)
        fine &= np.isfinite(prior)
        # The likelihood is never asked about points outside the prior's support.
        values = self.log_likelihood(np.where(fine[..., None], proposed, points), rows)
        fine &= np.isfinite(values)
        old = self.temperature[rows, None] * self.values[here] + self.prior[here]
        new = self.temperature[rows, None] * np.where(fine, values, 0) + np.where(fine, prior, 0)
        log_ratio = np.where(fine, new - old + log_ratio, -np.inf)
        accepted = -streams.exponential(shape[1]) < log_ratio
        # A step below rounding is none, and would pass for a particle that is like no other.
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
            part[here] = np.where(mask, fresh, part[here])
        return accepted

    def advance(self) -> None:
        """Raise the temperature where the moves were enough, and end where it is one."""
        rows = self.active
        left = moved_squares(self.free[rows], self.origin[rows], self.inverse[rows]).mean(axis=1)
        self.forgotten[rows] = left / self.usual[rows]
        last = self.temperature[rows] >= 1
        ending = last & self.final
        reached = np.stack([self.forgotten[rows], self.moved[rows].mean(axis=1), np.ones(len(rows))], axis=1)
        reached[ending, 2] = self.unique(rows[ending])
        enough = (reached >= np.where(ending[:, None], LAST, BETWEEN)).all(axis=1)
        enough &= ~self.impoverished[rows]
        out_of_sweeps = self.sweeps_here[rows] >= np.where(
            ending | self.impoverished[rows], SWEEPS[1], SWEEPS[0]
        )
        out_of_sweeps &= ~self.duplicated[rows] | (self.sweeps_here[rows] >= SWEEPS[1] + POLISH)
        self.capped[rows] = ending & out_of_sweeps & ~enough
        self.duplicated[rows] |= ending & enough & (reached[:, 2] < 1)
        done = np.where(self.duplicated[rows], reached[:, 2] == 1, enough) | out_of_sweeps
        self.active = rows[~(done & last)]
        going = rows[done & ~last]
        if going.size:
            self._raise(going)
        # What was learnt from copies is learnt again from what they became.
        again = rows[~done & ending & ~self.duplicated[rows] & np.isin(self.sweeps_here[rows], RELEARN)]
        spreading = rows[~done & self.impoverished[rows] & (self.sweeps_here[rows] % 3 == 0)]
        self.origin[spreading] = self.free[spreading]
        learning = np.unique(np.concatenate([going, again, spreading]))
        if learning.size:
            self._learn(learning)

    def _raise(self, rows: np.ndarray) -> None:
        """The next temperature and the particles that survive it."""
        m = self.free.shape[1]
        left = 1 - self.temperature[rows]
        step = next_step(self.values[rows], left, np.full(len(rows), EFFECTIVE_SHARE * m))
        late = np.array([len(self.steps[row]) >= MOST_TEMPERATURES for row in rows])
        step = np.where(late, left, step)
        weights = step[:, None] * self.values[rows]
        self.log_evidence[rows] += log_mean(weights)
        self.temperature[rows] = np.where(step >= left, 1.0, self.temperature[rows] + step)
        picked = resample(weights, m, self.streams.rows(rows).uniform(1)[:, 0])
        index = rows[:, None]
        for part in (self.free, self.values, self.prior, self.label, self.ancestor):
            part[rows] = part[index, picked]
        self.origin[rows] = self.free[rows]
        self.moved[rows], self.impoverished[rows] = False, False
        self.sweeps_here[rows] = 0
        for row in rows:
            self.steps[row].append(float(self.temperature[row]))

    def _learn(self, rows: np.ndarray) -> None:
        """Mixtures of both halves, each for the moves of the other, and the scale within their parts."""
        m = self.free.shape[1]
        streams = self.streams.rows(rows)
        # A proposal that was learnt from the points it moves would not leave the target as it is.
        halves = (slice(m // 2, m), slice(0, m // 2))
        within, clouds = np.zeros((len(rows), *self.scale.shape[1:])), []
        for half, other in enumerate(halves):
            points = self.free[rows, other]
            points = points[:, :: max(1, points.shape[1] // FIT_ROWS)]
            mixture = fit_mixtures(points, self.spread, self.sizes, streams)
            covariance, membership = parts(mixture, points)
            within += covariance / 2
            clouds.append((points, membership))
            if len(self.mixtures) <= half:
                self.mixtures.append(mixture)
            for kept, new in zip(self.mixtures[half], mixture, strict=True):
                kept[rows] = new
        q = within.shape[1]
        within += 1e-9 * within * np.eye(q)
        change = np.linalg.slogdet(within)[1] / 2 - np.linalg.slogdet(self.scale[rows])[1]
        # A few points only say little of the target's width: they spread until it stays what it is.
        few = self.unique(rows) * m < min(20 * (q + 1), m / 4)
        self.impoverished[rows] = few | (self.impoverished[rows] & (np.abs(change) > 0.2 * q))
        self.scale[rows] = np.linalg.cholesky(within)
        self.inverse[rows] = np.linalg.inv(self.scale[rows])
        usual = [usual_squares(points, members, self.inverse[rows]) for points, members in clouds]
        self.usual[rows] = np.maximum(np.mean(usual, axis=0), 1e-3)

    def unique(self, rows: np.ndarray) -> np.ndarray:
        """Share of different particles."""
        return self._first(rows).mean(axis=1)

    def _first(self, rows: np.ndarray) -> np.ndarray:
        """Which particles are unlike every one before them, (b, m)."""
        first = np.zeros((len(rows), self.label.shape[1]), dtype=bool)
        for mine, labels in zip(first, self.label[rows], strict=True):
            mine[np.unique(labels, return_index=True)[1]] = True
        return first


def _spread(start: np.ndarray) -> np.ndarray:
    """Deviations of the starting rows, and something positive for columns that are constant."""
    spread = start.std(axis=0)
    return np.where(spread > 0, spread, np.maximum(np.abs(start).max(axis=0), 1.0) * 1e-3)


def _sizes(rows: int, q: int) -> tuple[int, ...]:
    """Numbers of components that so many points may be described by."""
    most = int(np.clip(rows // (6 * (q + 2)), 1, 8))
    return tuple(sorted({1, max(1, most // 2), most}))
