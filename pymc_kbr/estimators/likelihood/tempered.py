"""Tempered sequential Monte Carlo: draws of many posteriors at once, from a likelihood and a prior."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

MOST_PARTICLES, MOST_LIKELIHOODS = 60_000, 4_000_000
"""Of observations that run side by side: particles, and likelihoods of starting rows."""


@dataclass(frozen=True)
class Tempered:
    """Draws of k posteriors, and how they were made."""

    # Shapes: particles (k, m, q); log_likelihood (k, m); log_evidence (k,); effective_sample_size (k,);
    # ancestors (k,); acceptance (k,); unique (k,); sweeps (k,); evaluations (k,); undefined (k,); forgotten
    # (k,); capped (k,).

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

    P. Del Moral, A. Doucet and A. Jasra, Sequential Monte Carlo samplers, JRSS B 68 (2006); temperatures by
    the conditional effective sample size of Y. Zhou, A. M. Johansen and J. A. D. Aston (2016).
    """
    # Shapes: log_likelihood (a, m, q), observations (a,)) -> (a, m); log_prior (N, q)) -> (N,); start (n, q);
    # start_log_likelihood (k, n); start_log_weights (n,).
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


# --- the particles ---


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


# --- proposals and their gains ---


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
    """What each kind of proposal gained at each observation: the kinds are drawn in proportion."""

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
        """Account for proposals of kinds (b, m) that gained (b, m), and tune the length of differences."""
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

    C. J. F. ter Braak, A Markov chain Monte Carlo version of the genetic algorithm differential evolution,
    Statistics and Computing 16 (2006); in halves as by D. Foreman-Mackey et al., emcee (2013).
    """
    # Shapes: points (b, m, q); others (b, r, q); start (n, q); scale (b, q, q); shares (b, kinds); length
    # (b,).
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
    """Squared distances (b, m) of points (b, m, q) from where they were, about one for normals."""
    white = inverse @ np.swapaxes(points - origin, 1, 2)
    return np.minimum((white**2).sum(axis=1) / (2 * points.shape[2]), 2.0)


def usual_squares(points: np.ndarray, membership: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """Mean of `moved_squares` between different points of the same part, (b,)."""
    n = points.shape[1]
    total, count = np.full(len(points), 1e-300), np.full(len(points), 1e-300)
    for shift in (n // 2, n // 3):
        same = membership == np.roll(membership, shift, axis=1)
        total += (same * moved_squares(points, np.roll(points, shift, axis=1), inverse)).sum(axis=1)
        count += same.sum(axis=1)
    return total / count


# --- temperatures, weights and resampling ---


SMALLEST_STEP = 1e-20
"""Smallest step of a temperature."""


def effective_size(log_weights: np.ndarray) -> np.ndarray:
    """(sum w)^2 / sum w^2 along the last axis; zero where no weight is positive."""
    top = log_weights.max(axis=-1, keepdims=True)
    # Likelihoods of many trials lie far below the smallest float: over the largest they do not.
    weights = np.exp(log_weights - np.where(np.isfinite(top), top, 0))
    square = (weights**2).sum(axis=-1)
    return np.where(square > 0, weights.sum(axis=-1) ** 2 / np.where(square > 0, square, 1), 0.0)


def next_step(
    log_likelihood: np.ndarray, largest: np.ndarray, size: np.ndarray, log_weights: np.ndarray | float = 0.0
) -> np.ndarray:
    """The largest step of temperature after which the effective size is still `size`."""
    # Shapes: log_likelihood (b, m); largest (b,); size (b,); log_weights (m,) or (b, m); returned: (b,).

    def size_after(step: np.ndarray) -> np.ndarray:
        return effective_size(log_weights + scaled(log_likelihood, step))

    step = largest.copy()
    short = size_after(step) < size
    low, high = np.full(len(step), np.log(SMALLEST_STEP)), np.log(largest)
    # Thirty halvings of the logarithm's range leave a relative error below 1e-7.
    for _ in range(30 if short.any() else 0):
        middle = (low + high) / 2
        enough = size_after(np.exp(middle)) >= size
        low, high = np.where(enough, middle, low), np.where(enough, high, middle)
    return np.where(short, np.minimum(np.exp(low), largest), step)


def scaled(log_likelihood: np.ndarray, step: np.ndarray) -> np.ndarray:
    """The step times the log-likelihood, minus infinity staying what it is."""
    possible = np.isfinite(log_likelihood)
    return np.where(possible, step[:, None] * np.where(possible, log_likelihood, 0.0), -np.inf)


def log_mean(log_weights: np.ndarray) -> np.ndarray:
    """Log of the mean weight along the last axis."""
    return logsumexp(log_weights, axis=-1) - np.log(log_weights.shape[-1])


def resample(log_weights: np.ndarray, size: int, uniform: np.ndarray) -> np.ndarray:
    """Systematic resampling of each row of weights."""
    # Shapes: log_weights (b, m); uniform (b,); returned: (b, size).
    top = log_weights.max(axis=1, keepdims=True)
    ends = np.cumsum(np.exp(log_weights - top), axis=1)
    ends /= ends[:, -1:]
    picks = (uniform[:, None] + np.arange(size)) / size
    # Sums round: a pick just below one must not fall on a particle that is impossible.
    last = [int(np.flatnonzero(np.isfinite(row))[-1]) for row in log_weights]
    found = np.stack([np.searchsorted(e, p, side="right") for e, p in zip(ends, picks, strict=True)])
    return np.minimum(found, np.array(last)[:, None])


class Counted:
    """A log-likelihood whose impossible answers are minus infinity, and counted."""

    # Shapes: log_likelihood (b, m, q), observations (b,)) -> (b, m); numbers (k,).

    def __init__(
        self, log_likelihood: Callable[[np.ndarray, np.ndarray], np.ndarray], numbers: np.ndarray
    ) -> None:
        self.log_likelihood, self.numbers = log_likelihood, numbers
        self.undefined, self.evaluations = np.zeros((2, len(numbers)), dtype=int)

    def __call__(self, free: np.ndarray, observations: np.ndarray) -> np.ndarray:
        """Log-likelihoods (b, m) of points (b, m, q) for some of the observations."""
        values = np.asarray(self.log_likelihood(free, self.numbers[observations]), dtype=float)
        if values.shape != free.shape[:2]:
            raise ValueError(
                f"the log-likelihood of points of shape {free.shape} has shape {values.shape}; it must be "
                f"{free.shape[:2]}: one value a particle of each observation"
            )
        self.evaluations[observations] += free.shape[1]
        return self.cleaned(values, observations)

    def cleaned(self, values: np.ndarray, observations: np.ndarray | slice = slice(None)) -> np.ndarray:
        """NaN and plus infinity are no likelihoods: such points are refused, and counted."""
        wrong = np.isnan(values) | (values == np.inf)
        self.undefined[observations] += wrong.sum(axis=1)
        return np.where(wrong, -np.inf, values)


# --- random streams ---


class Streams:
    """Generators side by side: each call draws the same shape from every one of them."""

    def __init__(self, generators: Sequence[np.random.Generator]) -> None:
        self.generators = list(generators)

    def rows(self, which: Sequence[int] | np.ndarray) -> Streams:
        """The streams of some observations; they go on where these are."""
        return Streams([self.generators[i] for i in which])

    def uniform(self, *shape: int) -> np.ndarray:
        """Shape (b, *shape), from zero to one."""
        return np.stack([g.random(shape) for g in self.generators])

    def normal(self, *shape: int) -> np.ndarray:
        """Shape (b, *shape), standard normal."""
        return np.stack([g.standard_normal(shape) for g in self.generators])

    def exponential(self, *shape: int) -> np.ndarray:
        """Shape (b, *shape), exponential of mean one."""
        return np.stack([g.standard_exponential(shape) for g in self.generators])

    def gamma(self, shapes: np.ndarray) -> np.ndarray:
        """One draw for each entry of shapes (b, ...), of scale one."""
        return np.stack([g.standard_gamma(s) for g, s in zip(self.generators, shapes, strict=True)])


# --- normal mixtures of the particles ---


FREEDOM = 15.0
"""Degrees of freedom of the components that moves are proposed from: tails above those of most targets."""

SEPARATE = 4.0
"""Deviations between the means of components that share a part of the target."""


class LocalMixture(NamedTuple):
    """One mixture of C components for each of b clouds in q dimensions."""

    # Shapes: log_weights (b, C); means (b, C, q); factors (b, C, q, q); inverses (b, C, q, q).

    log_weights: np.ndarray
    means: np.ndarray
    factors: np.ndarray
    inverses: np.ndarray

    def replaced(self, other: LocalMixture, which: np.ndarray) -> LocalMixture:
        """The other's mixtures for some clouds."""
        return LocalMixture(
            *(
                np.where(which.reshape(-1, *[1] * (mine.ndim - 1)), theirs, mine)
                for mine, theirs in zip(self, other, strict=True)
            )
        )

    def rows(self, which: np.ndarray) -> LocalMixture:
        """The mixtures of some clouds."""
        return LocalMixture(*(part[which] for part in self))


def fit_mixtures(
    points: np.ndarray, spread: np.ndarray, sizes: tuple[int, ...], streams: Streams, rounds: int = 10
) -> LocalMixture:
    """Penalised expectation-maximisation for all clouds at the same time, of the size that fits each best."""
    # Shapes: points (b, n, q); spread (q,).
    n, q = points.shape[1:]
    centre = points.mean(axis=1, keepdims=True)
    pooled = np.swapaxes(points - centre, 1, 2) @ (points - centre) / n
    pooled += 1e-12 * np.diag(spread**2) + 1e-9 * pooled * np.eye(q)
    unwhiten = np.linalg.cholesky(pooled)
    inverse = np.linalg.inv(unwhiten)
    white = (points - centre) @ np.swapaxes(inverse, 1, 2)
    best, score = None, np.full(len(points), -np.inf)
    for size in sizes:
        mixture = _padded(_maximise(white, size, streams, rounds), sizes[-1])
        # Points repeat after resampling and count less than they are: the penalty is doubled.
        penalty = 2 * size * (1 + q * (q + 3) / 2)
        found = log_normal_mixture(mixture, white).sum(axis=1) - penalty if len(sizes) > 1 else score
        better = found > score
        score = np.where(better, found, score)
        best = mixture if best is None else best.replaced(mixture, better)
    assert best is not None
    return LocalMixture(
        best.log_weights,
        centre + best.means @ np.swapaxes(unwhiten, 1, 2),
        unwhiten[:, None] @ best.factors,
        best.inverses @ inverse[:, None],
    )


def _maximise(white: np.ndarray, size: int, streams: Streams, rounds: int) -> LocalMixture:
    b, n, q = white.shape
    products = (white[..., :, None] * white[..., None, :]).reshape(b, n, q * q)
    shares = _start(white, size, streams)
    identity, prior = np.eye(q), q + 2.0
    for _ in range(rounds if size > 1 else 1):
        counts = shares.sum(axis=2)
        means = shares @ white / np.maximum(counts, 1e-300)[..., None]
        scatter = (shares @ products).reshape(b, size, q, q)
        scatter -= counts[..., None, None] * means[..., :, None] * means[..., None, :]
        # Each component borrows a few points' worth of the mean within-component covariance.
        within = scatter.sum(axis=1) / n + 1e-9 * identity
        covariances = (scatter + prior * within[:, None]) / (counts + prior)[..., None, None]
        factors = np.linalg.cholesky(covariances)
        mixture = LocalMixture(np.log((counts + 1) / (n + size)), means, factors, np.linalg.inv(factors))
        parts = _normal_parts(mixture, white)
        shares = np.exp(parts - parts.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
    return mixture


def _padded(mixture: LocalMixture, size: int) -> LocalMixture:
    """Copies of the first component, of weight zero, up to a number of components."""
    more = size - mixture.means.shape[1]
    parts = [np.concatenate([part, np.repeat(part[:, :1], more, axis=1)], axis=1) for part in mixture]
    parts[0][:, size - more :] = -np.inf
    return LocalMixture(*parts)


def parts(mixture: LocalMixture, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The separate parts of each mixture."""
    # Shapes: points (b, n, q); returned: (b, q, q).
    covariances = mixture.factors @ np.swapaxes(mixture.factors, 2, 3)
    gaps = mixture.means[:, :, None] - mixture.means[:, None]
    white = np.swapaxes(mixture.inverses, 2, 3)
    squares = ((gaps @ white) ** 2).sum(axis=3)
    # Near in the metric of either: a narrow component may lie within a wide one.
    joined = (np.minimum(squares, np.swapaxes(squares, 1, 2)) < SEPARATE**2).astype(float)
    # Each product doubles the length of the chains that are followed: eight components have no longer one.
    for _ in range(3):
        joined = (joined @ joined > 0).astype(float)
    weights = np.exp(mixture.log_weights)
    shares = joined * weights[:, None]
    shares /= shares.sum(axis=2, keepdims=True)
    between = mixture.means - shares @ mixture.means
    around = covariances + between[..., None] * between[..., None, :]
    within = (weights[..., None, None] * around).sum(axis=1) / weights.sum(axis=1)[:, None, None]
    closest = _normal_parts(mixture, points).argmax(axis=1)
    return within, np.take_along_axis(joined.argmax(axis=2), closest, axis=1)


def _start(white: np.ndarray, components: int, streams: Streams) -> np.ndarray:
    """Shares (b, C, n) of points by the nearest of centres that are far apart (k-means++)."""
    n = white.shape[1]
    rows = np.arange(len(white))
    first = (streams.uniform(1)[:, 0] * n).astype(int)
    centres = white[rows, first][:, None]
    nearest = ((white - centres) ** 2).sum(axis=2)
    for _ in range(1, components):
        # The first of clocks with these rates is a draw in proportion to squared distances.
        race = streams.exponential(n) / np.maximum(nearest, 1e-300)
        centres = np.concatenate([centres, white[rows, race.argmin(axis=1)][:, None]], axis=1)
        nearest = np.minimum(nearest, ((white - centres[:, -1:]) ** 2).sum(axis=2))
    shares = np.empty(0)
    for _ in range(4):
        cross = centres @ np.swapaxes(white, 1, 2)
        closest = ((centres**2).sum(axis=2)[..., None] - 2 * cross).argmin(axis=1)
        shares = (closest[:, None] == np.arange(components)[:, None]).astype(float)
        counts = shares.sum(axis=2)[..., None]
        moved = shares @ white / np.maximum(counts, 1)
        centres = np.where(counts > 0, moved, centres)
    return shares


def _distances(mixture: LocalMixture, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squared Mahalanobis distances (b, C, m) and log determinants of the factors (b, C)."""
    b, size, q = mixture.means.shape
    white = mixture.inverses.reshape(b, size * q, q) @ np.swapaxes(points, 1, 2)
    white -= (mixture.inverses @ mixture.means[..., None]).reshape(b, size * q, 1)
    white *= white
    # Sums over coordinates as a product: reductions along short axes are slow.
    squares = np.repeat(np.eye(size), q, axis=1) @ white
    return squares, np.log(np.diagonal(mixture.factors, axis1=2, axis2=3)).sum(axis=2)


def log_normal_mixture(mixture: LocalMixture, points: np.ndarray) -> np.ndarray:
    """Log densities (b, m) of points (b, m, q) under the mixtures of normals."""
    return log_sum(_normal_parts(mixture, points)) - points.shape[2] / 2 * np.log(2 * np.pi)


def _normal_parts(mixture: LocalMixture, points: np.ndarray) -> np.ndarray:
    squares, log_det = _distances(mixture, points)
    return (mixture.log_weights - log_det)[..., None] - squares / 2


def _student_parts(mixture: LocalMixture, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log of each component's share of the density (b, C, m), and the squared distances."""
    q = points.shape[2]
    squares, log_det = _distances(mixture, points)
    constant = gammaln((FREEDOM + q) / 2) - gammaln(FREEDOM / 2) - q / 2 * np.log(FREEDOM * np.pi)
    parts = (mixture.log_weights - log_det)[..., None] + constant
    return parts - (FREEDOM + q) / 2 * np.log1p(squares / FREEDOM), squares


def log_sum(parts: np.ndarray) -> np.ndarray:
    """Log of the sum of exponentials along the middle axis, of which one at least is finite."""
    top = parts.max(axis=1)
    return top + np.log(np.exp(parts - top[:, None]).sum(axis=1))


def propose_within(
    mixture: LocalMixture, points: np.ndarray, fresh: np.ndarray, step: np.ndarray, streams: Streams
) -> tuple[np.ndarray, np.ndarray]:
    """Moves that leave the mixture (with Student components) as it is.

    Preconditioned Crank-Nicolson steps for Student targets (R. D. P. Grumitt, M. Karamanis and U. Seljak,
    2024), one component at a time: reversible with respect to the mixture, as component and scale are
    auxiliary draws.
    """
    # Shapes: points (b, m, q); fresh (b, m); step (b, m); returned: (b, m, q).
    b, m, q = points.shape
    parts, squares = _student_parts(mixture, points)
    density = log_sum(parts)
    logs = np.where(fresh[:, None], mixture.log_weights[..., None], parts - density[:, None])
    shares = np.cumsum(np.exp(logs), axis=1)
    picked = np.minimum((shares < streams.uniform(1, m) * shares[:, -1:]).sum(axis=1), logs.shape[1] - 1)
    rows = np.arange(b)[:, None]
    square = np.where(fresh, 0.0, np.take_along_axis(squares, picked[:, None], axis=1)[:, 0])
    # Given the point, the precision of Student's law is gamma distributed with q degrees of freedom more.
    shape = np.where(fresh, FREEDOM / 2, (FREEDOM + q) / 2)
    precision = streams.gamma(shape) / ((FREEDOM + square) / 2)
    noise = np.matmul(mixture.factors[rows, picked], streams.normal(m, q)[..., None])[..., 0]
    centre = mixture.means[rows, picked]
    keep = np.where(fresh, 0.0, np.sqrt(1 - step**2))[..., None]
    size = np.where(fresh, 1.0, step) / np.sqrt(precision)
    proposed = centre + keep * (points - centre) + size[..., None] * noise
    return proposed, density - log_sum(_student_parts(mixture, proposed)[0])
