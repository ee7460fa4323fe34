"""Draws of many posteriors at once, from a likelihood and a prior: weighted, or by sequential Monte Carlo."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp


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
    clouds: np.ndarray | None = None,
    # Of observations that run side by side: particles, and likelihoods of starting rows.
    most_particles: int = 60_000,
    most_likelihoods: int = 4_000_000,
) -> Tempered:
    """Draws of the posteriors of k observations, each by weights or with temperatures of its own."""
    # P. Del Moral, A. Doucet and A. Jasra, Sequential Monte Carlo samplers, JRSS B 68 (2006); temperatures by
    # the conditional effective sample size of Y. Zhou, A. M. Johansen and J. A. D. Aston (2016). `clouds` are
    # points about where each posterior may be.
    # Shapes: log_likelihood (a, m, q), observations (a,)) -> (a, m); log_prior (N, q)) -> (N,); start (n, q);
    # start_log_likelihood (k, n); start_log_weights (n,); clouds (k, c, q), NaN where there is none.
    start, values = np.asarray(start, dtype=float), np.asarray(start_log_likelihood, dtype=float)
    _check(start, values, particles, start_log_weights)
    prior, base = log_at_start(log_prior, start, start_log_weights)
    generators = rng.spawn(len(values))
    together = max(1, min(most_likelihoods // len(start), most_particles // particles))
    done, numbers = [], []
    for first in range(0, len(values), together):
        group = slice(first, first + together)
        counted = Counted(log_likelihood, np.arange(len(values))[group])
        likelihoods = np.where(
            np.isfinite(prior) & np.isfinite(base), counted.cleaned(values[group]), -np.inf
        )
        _check_possible(likelihoods, first)
        rows = start_sample(start, prior, likelihoods, base)
        streams = Streams(generators[group])
        near = None if clouds is None else clouds[group]
        found = list(beginnings(counted, log_prior, rows, particles, streams, near))
        # A sweep takes about as long for one observation as for many.
        for which, beginning in Beginning.joined(found):
            population = Population(
                counted.rows(which), log_prior, start, beginning, particles, streams.rows(which)
            )
            _run(population)
            # Few have found the way: as many as are wanted are made of them where the temperature is one.
            if not population.final:
                population.grow(particles)
                _run(population)
            done.append(_result(population))
            numbers.append(first + which)
    return _joined(done, np.concatenate(numbers))


def log_at_start(
    log_prior: Callable[[np.ndarray], np.ndarray], start: np.ndarray, log_weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """The prior's log density and log weights (n,) of rows; rows on an edge of the support have none here."""
    prior, inside = np.full(len(start), -np.inf), np.isfinite(start).all(axis=1)
    prior[inside] = log_prior(start[inside])
    return prior, np.zeros(len(start)) if log_weights is None else np.asarray(log_weights, dtype=float)


def log_integral(
    log_prior: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    rng: np.random.Generator,
    *,
    start_log_weights: np.ndarray | None = None,
    draws: int = 2000,
    iterations: int = 30,
) -> float:
    """Log integral of a prior that is known up to a factor, by weighted rows of it and draws of a mixture."""
    # X.-L. Meng and W. H. Wong, Statistica Sinica 6 (1996), equation 4.1.
    # Shapes: start (n, q); start_log_weights (n,).
    prior, base = log_at_start(log_prior, start, start_log_weights)
    fine = np.isfinite(prior) & np.isfinite(base)
    if np.count_nonzero(fine) < 2 * (start.shape[1] + 1):
        return 0.0
    rows, logs, streams = start[fine], base[fine], Streams([rng])
    # A mixture is nearer to the rows that it was fitted to than the prior is: each half serves the other.
    halves = np.array_split(rng.permutation(len(rows)), 2)
    found = []
    for one, other in (halves, halves[::-1]):
        cloud = rows[one][resample(logs[one][None], draws, streams.uniform(1)[:, 0])]
        mixture = fit_mixtures(cloud, _spread(rows), _sizes(draws, start.shape[1]), streams)
        drawn = mixture_draws(mixture, draws, streams)
        # Log ratios of the prior to the mixture, at rows and at draws.
        at_rows = prior[fine][other] - log_student_mixture(mixture, rows[other][None])[0]
        at_draws = log_prior(drawn[0]) - log_student_mixture(mixture, drawn)[0]
        at_draws[np.isnan(at_draws)] = -np.inf
        weights = logs[other] - logsumexp(logs[other])
        found.append(_log_ratio(weights, at_rows, at_draws, iterations))
    return float(np.mean(found))


def _log_ratio(log_weights: np.ndarray, at_rows: np.ndarray, at_draws: np.ndarray, iterations: int) -> float:
    """Log of the ratio of two densities' integrals, by their log ratios at draws of the first and second."""
    sizes = np.log([float(effective_size(log_weights)), len(at_draws)])
    first, second = sizes - logsumexp(sizes)
    found = float(np.median(at_rows))
    for _ in range(iterations):
        above = logsumexp(at_draws - np.logaddexp(first + at_draws, second + found)) - np.log(len(at_draws))
        below = logsumexp(log_weights - np.logaddexp(first + at_rows, second + found))
        found = float(above - below)
    return found


def _run(population: Population) -> None:
    while population.active.size:
        population.sweep()
        population.advance()


def _joined(groups: Sequence[Tempered], numbers: np.ndarray) -> Tempered:
    """In the order of the observations' numbers."""
    parts = {f.name: [getattr(group, f.name) for group in groups] for f in fields(Tempered)}
    order = np.argsort(numbers)
    steps = [steps for group in parts.pop("temperatures") for steps in group]
    return Tempered(
        temperatures=tuple(steps[i] for i in order),
        **{name: np.concatenate(part)[order] for name, part in parts.items()},
    )


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
        acceptance=population.share_accepted(),
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


# --- where particles begin: draws of mixtures where their weights are good, or rows of the start ---


class Sample(NamedTuple):
    """Weighted points of b observations."""

    # Shapes: free (b, n, q); values, prior, log_weights (b, n), at temperature zero; labels (n,), equal where
    # points of all observations are.
    free: np.ndarray
    values: np.ndarray
    prior: np.ndarray
    log_weights: np.ndarray
    labels: np.ndarray

    def rows(self, which: np.ndarray) -> Sample:
        """Those of some observations."""
        kept = {name: getattr(self, name)[which] for name in self._fields[:-1]}
        return self._replace(**kept)

    def tempered(self, temperature: np.ndarray) -> np.ndarray:
        """Log weights (b, n) at temperatures (b,)."""
        return self.log_weights + scaled(self.values, temperature)

    def temperature(
        self, size: float | np.ndarray, highest: float = 1.0, lowest: np.ndarray | float = 0.0
    ) -> np.ndarray:
        """The highest (b,) at which the effective size is this, from the lowest (b,) on."""
        # Weights of a mixture are even near the temperature that it was fitted at, and uneven on both sides.
        b = len(self.free)
        weights = self.tempered(np.zeros(b))
        return next_step(self.values, np.full(b, highest), np.broadcast_to(size, b), weights, lowest)

    def extended(self, other: Sample) -> Sample:
        """With more draws of the same mixtures, each sample weighted by its size."""
        sizes = np.array([self.free.shape[1], other.free.shape[1]])
        logs = np.log(sizes / sizes.sum())
        return Sample(
            np.concatenate([self.free, other.free], axis=1),
            np.concatenate([self.values, other.values], axis=1),
            np.concatenate([self.prior, other.prior], axis=1),
            np.concatenate([self.log_weights + logs[0], other.log_weights + logs[1]], axis=1),
            np.arange(sizes.sum()),
        )

    def picked(self, temperature: np.ndarray, size: int, streams: Streams) -> np.ndarray:
        """Numbers (b, size) by the weights, in random order, so that the two halves of them are alike."""
        weights = self.tempered(temperature)
        order = np.argsort(streams.uniform(weights.shape[1]), axis=1)
        found = resample(np.take_along_axis(weights, order, axis=1), size, streams.uniform(1)[:, 0])
        return np.take_along_axis(order, found, axis=1)

    def beginning(
        self, temperature: np.ndarray, particles: int, streams: Streams, *, independent: bool
    ) -> Beginning:
        """Particles by the weights at temperatures (b,)."""
        drawn, weights = self.picked(temperature, particles, streams), self.tempered(temperature)
        return Beginning(
            np.take_along_axis(self.free, drawn[..., None], axis=1),
            np.take_along_axis(self.values, drawn, axis=1),
            np.take_along_axis(self.prior, drawn, axis=1),
            drawn,
            self.labels[drawn],
            temperature,
            logsumexp(weights, axis=1),
            effective_size(weights),
            np.full(len(weights), self.free.shape[1]),
            independent,
        )


class Beginning(NamedTuple):
    """Particles of k observations at their first temperatures."""

    # Shapes: free (k, m, q); values, prior, ancestor, label (k, m); temperature, log_evidence, size (k,).
    free: np.ndarray
    values: np.ndarray
    prior: np.ndarray
    ancestor: np.ndarray
    label: np.ndarray
    temperature: np.ndarray
    log_evidence: np.ndarray
    size: np.ndarray
    points: np.ndarray
    """Of which they were picked, (k,)."""
    independent: bool

    @classmethod
    def joined(cls, each: Sequence[tuple[np.ndarray, Beginning]]) -> Iterator[tuple[np.ndarray, Beginning]]:
        """Some observations each, those together that begin with independent draws."""
        together = [one for one in each if one[1].independent]
        if together:
            which = np.concatenate([at for at, _ in together])
            *arrays, _ = zip(*(beginning for _, beginning in together), strict=True)
            yield which, cls._make([*map(np.concatenate, arrays), True])
        yield from (one for one in each if not one[1].independent)


def start_sample(start: np.ndarray, prior: np.ndarray, values: np.ndarray, base: np.ndarray) -> Sample:
    """Rows of the start (n, q) with log weights (n,), and their log-likelihoods (b, n)."""
    shape = values.shape
    return Sample(
        np.broadcast_to(start, (*shape, start.shape[1])),
        values,
        np.broadcast_to(prior, shape),
        np.broadcast_to(base - logsumexp(base), shape),
        np.unique(start, axis=0, return_inverse=True)[1].reshape(-1),
    )


def beginnings(
    log_likelihood: Counted,
    log_prior: Callable[[np.ndarray], np.ndarray],
    rows: Sample,
    particles: int,
    streams: Streams,
    clouds: np.ndarray | None = None,
    *,
    learnt_from: int = 200,
    mixtures: int = 4,
    effective_if_normal: float = 0.75,
    # Share of a mixture's draws from which more draws replace further mixtures and temperatures;
    # tests/statistical/effective_share.csv.
    least_effective: float = 0.25,
    # Particles that go through the temperatures; more are made of them at the last one.
    scouts: int = 2000,
    # Of the rows that are possible, which the first step of a temperature leaves.
    effective_share: float = 0.5,
) -> Iterator[tuple[np.ndarray, Beginning]]:
    """First particles of some observations each: mixtures fitted in turn until enough are effective."""
    # Mixtures are fitted at a temperature below one, so that they are wider than the posterior and weights
    # are bounded: by as much as leaves this share of the draws effective where the posterior is normal.
    k, q = rows.free.shape[0], rows.free.shape[2]
    # Normal draws of v times the variance have the effective share (sqrt(2 v - 1) / v) ** q.
    ratio = effective_if_normal ** (-2 / q)
    highest = 1 / (ratio + np.sqrt(ratio * (ratio - 1)))
    spread = _spread(rows.free[0][np.isfinite(rows.free[0]).all(axis=1)])
    # Mixtures are fitted to as many draws as scouts need; where their weights are good, more are made.
    m = min(particles, scouts)
    count, sizes = 2 * max(m, 2 * learnt_from), _sizes(2 * learnt_from, q)
    # What a mixture says of few different rows, its own draws would only confirm.
    enough = learnt_from * len(rows.labels) / len(np.unique(rows.labels))
    # Observations, their last sample, and whether it holds rows of the start.
    missed: list[tuple[np.ndarray, Sample, bool]] = []

    def climb(
        at: np.ndarray, sample: Sample, wanted: float, of_cloud: Sample | None = None
    ) -> Iterator[tuple[np.ndarray, Beginning]]:
        """Observations whose draws have good weights; of the others the last sample is kept in `missed`."""
        # A sample may be draws `of_cloud` and likely rows: where both are good, the draws alone are taken.
        lowest: np.ndarray | float = 0.0
        mixture: LocalMixture | None = None
        for stage in range(mixtures + 1):
            whole = sample if mixture or of_cloud is None else of_cloud
            size = np.minimum(*(effective_size(s.tempered(np.ones(len(at)))) for s in (sample, whole)))
            share = size / count if mixture else np.where(size >= 2 * particles, 1.0, 0.0)
            good = share >= least_effective
            # At least as many draws are then effective as there are particles.
            doublings = np.maximum(np.ceil(-np.log2(np.maximum(share, least_effective))), 1).astype(int)
            for times in np.unique(2 ** doublings[good]).tolist():
                mine = good & (2**doublings == times)
                which, own = whole.rows(mine), streams.rows(at[mine])
                further = times * particles - count
                if mixture is not None and further > 0:
                    of_same = log_likelihood, log_prior, mixture.rows(mine), further
                    which = which.extended(weighted_draws(*of_same, at[mine], own))
                one = np.ones(np.count_nonzero(mine))
                yield at[mine], which.beginning(one, particles, own, independent=True)
            temperature = sample.temperature(wanted, highest, lowest)
            going = ~good & (effective_size(sample.tempered(temperature)) >= wanted)
            if mixture is not None:  # as many times higher by each mixture that is left as by this one
                going &= temperature * (temperature / lowest) ** (mixtures - 1 - stage) >= highest
            going &= stage < mixtures
            if np.any(lost := ~good & ~going):
                missed.append((at[lost], sample.rows(lost), mixture is None))
            if not going.any():
                break
            at, sample, wanted = at[going], sample.rows(going), learnt_from
            lowest = temperature = temperature[going]
            own = streams.rows(at)
            drawn = sample.picked(temperature, 2 * learnt_from, own)
            mixture = fit_mixtures(
                np.take_along_axis(sample.free, drawn[..., None], axis=1), spread, sizes, own
            )
            sample = weighted_draws(log_likelihood, log_prior, mixture, count, at, own)

    at = np.arange(k)
    if clouds is not None and np.any(there := np.isfinite(clouds).all(axis=(1, 2))):
        some = at[there]
        own, of_rows = streams.rows(some), rows.rows(some)
        mixture = fit_mixtures(clouds[there], spread, sizes, own)
        drawn = weighted_draws(log_likelihood, log_prior, mixture, 4 * learnt_from, some, own)
        sample = with_likely_rows(drawn, mixture, of_rows, 2 * learnt_from)
        further = sample.temperature(learnt_from, highest) > of_rows.temperature(enough, highest)
        if further.any():
            yield from climb(some[further], sample.rows(further), learnt_from, drawn.rows(further))
            at = np.setdiff1d(at, some[further])
    if at.size:
        yield from climb(at, rows.rows(at), enough)
    for at, sample, by_rows in missed:
        of_rows = rows.rows(at)
        # More than there are particles is lost by resampling: the step may as well be longer.
        possible = effective_size(of_rows.tempered(np.zeros(len(at))))
        temperature = of_rows.temperature(np.minimum(effective_share * possible, m))
        if not by_rows:
            reached = sample.temperature(wanted := effective_share * m)
            # Where even the lowest temperature leaves too few, the search for one has ended there.
            further = (reached > temperature) & (effective_size(sample.tempered(reached)) > 0.99 * wanted)
            if further.any():
                own = streams.rows(at[further])
                yield at[further], sample.rows(further).beginning(reached[further], m, own, independent=False)
            at, of_rows, temperature = at[~further], of_rows.rows(~further), temperature[~further]
        if at.size:
            yield at, of_rows.beginning(temperature, m, streams.rows(at), independent=False)


def with_likely_rows(drawn: Sample, mixture: LocalMixture, rows: Sample, most: int) -> Sample:
    """Draws of mixtures and the rows of the start that are likeliest, weighted as draws of both together."""
    # The balance heuristic (Veach and Guibas 1995): rows that a mixture misses keep their weights.
    most = min(most, rows.free.shape[1])
    weights = rows.tempered(np.ones(len(rows.free)))
    best = np.sort(np.argpartition(-weights, most - 1, axis=1)[:, :most], axis=1)
    free, base = np.take_along_axis(rows.free, best[..., None], axis=1), rows.log_weights
    values, prior, kept = (np.take_along_axis(each, best, axis=1) for each in (rows.values, rows.prior, base))
    fine = np.isfinite(kept) & np.isfinite(values) & np.isfinite(prior)
    free = np.where(fine[..., None], free, drawn.free[:, :1])
    # Log densities times the sizes of the two samples.
    size = np.log(effective_size(base))[:, None]
    of_mixture = log_student_mixture(mixture, free) + np.log(drawn.free.shape[1])
    with np.errstate(invalid="ignore"):
        of_rows = np.where(fine, kept + size + prior - np.logaddexp(size + prior, of_mixture), -np.inf)
        some = np.isfinite(drawn.log_weights)
        of_draws = np.where(
            some, drawn.prior - np.logaddexp(size + drawn.prior, drawn.prior - drawn.log_weights), -np.inf
        )
    return Sample(
        np.concatenate([drawn.free, free], axis=1),
        np.concatenate([drawn.values, np.where(fine, values, -np.inf)], axis=1),
        np.concatenate([drawn.prior, prior], axis=1),
        np.concatenate([of_draws, of_rows], axis=1),
        np.arange(drawn.free.shape[1] + most),
    )


def weighted_draws(
    log_likelihood: Counted,
    log_prior: Callable[[np.ndarray], np.ndarray],
    mixture: LocalMixture,
    count: int,
    observations: np.ndarray,
    streams: Streams,
) -> Sample:
    """Draws of the mixtures of some observations, weighted to be draws of the prior."""
    free = mixture_draws(mixture, count, streams)
    b = len(free)
    fine = np.isfinite(free).all(axis=2)
    prior = np.full((b, count), -np.inf)
    prior[fine] = log_prior(free[fine])
    fine &= np.isfinite(prior)
    # The likelihood is never asked about points outside the prior's support.
    inside = fine.any(axis=1)
    some = np.take_along_axis(free, fine.argmax(axis=1)[:, None, None], axis=1)
    free = np.where(fine[..., None], free, some)
    values = np.full((b, count), -np.inf)
    if inside.any():
        values[inside] = log_likelihood(free[inside], observations[inside])
    fine &= np.isfinite(values)
    weights = np.where(fine, prior - log_student_mixture(mixture, free) - np.log(count), -np.inf)
    return Sample(free, np.where(fine, values, -np.inf), prior, weights, np.arange(count))


# --- the particles ---


class Population:
    """Particles of all observations on their way from the prior to the posteriors."""

    def __init__(
        self,
        log_likelihood: Counted,
        log_prior: Callable[[np.ndarray], np.ndarray],
        start: np.ndarray,
        beginning: Beginning,
        particles: int,
        streams: Streams,
        *,
        # Most particles that a half's mixture is fitted to.
        fit_rows: int = 1500,
        # Share of different particles at which the posterior's are enough.
        enough_unique: float = 0.99,
    ) -> None:
        k, q = len(beginning.free), start.shape[1]
        self.log_likelihood, self.log_prior = log_likelihood, log_prior
        self.streams, self.fit_rows, self.enough_unique = streams, fit_rows, enough_unique
        self.active = np.arange(k)
        self.start = start[np.isfinite(start).all(axis=1)]
        self.spread = _spread(self.start)
        self.gains = Gains(k)
        self.free, self.values, self.prior = beginning.free, beginning.values, beginning.prior
        self.ancestor, self.label, self.labels = (
            beginning.ancestor,
            beginning.label,
            1 + int(beginning.label.max()),
        )
        self.temperature, self.log_evidence = beginning.temperature, beginning.log_evidence
        self.first_size, self.independent = beginning.size, beginning.independent
        self.points = beginning.points
        self.steps = [[float(t)] for t in self.temperature]
        self.final = particles == self.free.shape[1]
        self.origin = self.free.copy()
        self.moved = np.zeros(self.values.shape, dtype=bool)
        (self.sweeps_here, self.sweeps), self.accepted = np.zeros((2, k), dtype=int), np.zeros(k)
        self.duplicated, self.impoverished = np.zeros((2, k), dtype=bool)
        # Independent draws have nothing to forget, and as many are effective as there are: copies alone move.
        self.duplicated[:] = self.independent
        self.forgotten, self.capped = np.zeros(k), np.zeros(k, dtype=bool)
        self.mixtures: list[LocalMixture] = []
        self.scale, self.inverse, self.usual = np.tile(np.eye(q), (k, 1, 1)), np.empty((k, q, q)), np.ones(k)
        self.sizes = _sizes(min(self.free.shape[1] // 2, fit_rows), q)
        self._learn(self.active)

    def share_accepted(self) -> np.ndarray:
        """Of the moves of all particles; of draws that were weighted, the share that is effective."""
        if self.independent:
            return self.first_size / self.points
        return self.accepted / np.maximum(self.sweeps, 1)

    def grow(self, particles: int) -> None:
        """More particles from those at the last temperature, copies at first."""
        k = len(self.values)
        picked = resample(np.zeros(self.values.shape), particles, self.streams.uniform(1)[:, 0])
        for name in ("free", "values", "prior", "label", "ancestor"):
            setattr(self, name, getattr(self, name)[np.arange(k)[:, None], picked])
        self.origin, self.moved = self.free.copy(), np.zeros(self.values.shape, dtype=bool)
        self.final, self.independent, self.active = True, False, np.arange(k)
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
        few = self._most_copies()
        for half in (0, 1) if rows.size else ():
            copies = ~self._first(rows)[:, halves[half]]
            mine = halves[half][np.argsort(~copies, axis=1, kind="stable")[:, :few]]
            self._move(rows, half, mine, halves[1 - half], local=True)
        self.sweeps_here[self.active] += 1

    def _most_copies(self) -> int:
        """How many copies of each half are moved at once, whatever other observations have."""
        m = self.free.shape[1]
        if self.independent:
            # Of as many effective draws one in eight is a copy at most, and each try moves a third of them.
            return max(int(0.008 * m), 1, int(0.06 * m * 0.7 ** self.sweeps_here[self.active[0]]))
        # No more than these are left once the moves are enough.
        return int(np.ceil((1 - self.enough_unique) * m))

    def _move(
        self, rows: np.ndarray, half: int, mine: np.ndarray, others: np.ndarray, *, local: bool = False
    ) -> np.ndarray:
        """Propose moves to the particles `mine` (b, w) of a half, and learn what they gained; which moved."""
        index, streams = rows[:, None], self.streams.rows(rows)
        points = self.free[index, mine]
        proposal = propose(
            points,
            self.free[index, others],
            self.start,
            self.mixtures[half].rows(rows),
            self.scale[rows],
            self.gains.local(rows) if local else self.gains.shares(rows),
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

    def advance(
        self,
        *,
        # Moves are enough where they have covered this share of the usual squared distance of particles,
        covered: tuple[float, float] = (0.5, 0.9),
        # and this share of particles has moved: at a temperature between, and at the last one.
        moved: float = 0.9,
        # Most sweeps at a temperature between, and of the whole population at the last one.
        sweeps: tuple[int, int] = (8, 40),
        # Most sweeps that move duplicates alone, after all others have moved enough.
        polish: int = 200,
        # Sweeps at the last temperature after which proposals are adapted again.
        relearn: tuple[int, ...] = (3, 10, 20),
    ) -> None:
        """Raise the temperature where the moves were enough, and end where it is one."""
        rows = self.active
        left = moved_squares(self.free[rows], self.origin[rows], self.inverse[rows]).mean(axis=1)
        self.forgotten[rows] = left / self.usual[rows]
        last = self.temperature[rows] >= 1
        ending = last & self.final
        reached = np.stack([self.forgotten[rows], self.moved[rows].mean(axis=1), np.ones(len(rows))], axis=1)
        reached[ending, 2] = self.unique(rows[ending])
        enough = (
            reached
            >= np.where(ending[:, None], (covered[1], moved, self.enough_unique), (covered[0], moved, 0.0))
        ).all(axis=1)
        enough &= ~self.impoverished[rows]
        enough |= self.independent
        out_of_sweeps = self.sweeps_here[rows] >= np.where(
            ending | self.impoverished[rows], sweeps[1], sweeps[0]
        )
        out_of_sweeps &= ~self.duplicated[rows] | (self.sweeps_here[rows] >= sweeps[1] + polish)
        self.capped[rows] = ending & out_of_sweeps & ~enough
        self.duplicated[rows] |= ending & enough & (reached[:, 2] < 1)
        done = np.where(self.duplicated[rows], reached[:, 2] == 1, enough) | out_of_sweeps
        self.active = rows[~(done & last)]
        going = rows[done & ~last]
        if going.size:
            self._raise(going)
        # What was learnt from copies is learnt again from what they became.
        again = rows[~done & ending & ~self.duplicated[rows] & np.isin(self.sweeps_here[rows], relearn)]
        spreading = rows[~done & self.impoverished[rows] & (self.sweeps_here[rows] % 3 == 0)]
        self.origin[spreading] = self.free[spreading]
        learning = np.unique(np.concatenate([going, again, spreading]))
        if learning.size:
            self._learn(learning)

    def _raise(
        self,
        rows: np.ndarray,
        *,
        # Of the population, which a step of the temperature leaves.
        effective_share: float = 0.5,
        # The last step then goes all the way.
        most_temperatures: int = 200,
    ) -> None:
        """The next temperature and the particles that survive it."""
        m = self.free.shape[1]
        left = 1 - self.temperature[rows]
        step = next_step(self.values[rows], left, np.full(len(rows), effective_share * m))
        late = np.array([len(self.steps[row]) >= most_temperatures for row in rows])
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
            points = points[:, :: max(1, points.shape[1] // self.fit_rows)]
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


DIFFERENCE, JUMP, WIDE_JUMP, FRESH = range(4)
"""Kinds of proposals: differences of particles, whole or wide jumps, and afresh; others are within a part."""


class Gains:
    """What each kind of proposal gained at each observation: the kinds are drawn in proportion."""

    def __init__(
        self,
        observations: int,
        *,
        # Of each kind, whatever it gained so far.
        least_shares: tuple[float, ...] = (0.1, 0.04, 0.02, 0.06, 0.03, 0.03, 0.03),
    ) -> None:
        kinds, self.least_shares = len(least_shares), np.array(least_shares)
        self.gained = np.full((observations, kinds), 0.3)
        self.tried = np.ones((observations, kinds))
        self.log_length = np.zeros(observations)

    def shares(self, rows: np.ndarray) -> np.ndarray:
        """Probabilities (b, kinds)."""
        gains = self.gained[rows] / self.tried[rows]
        gains /= gains.sum(axis=1, keepdims=True)
        return self.least_shares + (1 - self.least_shares.sum()) * gains

    def local(self, rows: np.ndarray) -> np.ndarray:
        """The same for copies, which are where others refuse to go: far moves would leave too few there."""
        shares = np.zeros((len(rows), len(self.least_shares)))
        shares[:, DIFFERENCE] = 1.0
        return shares

    def learn(
        self,
        rows: np.ndarray,
        kinds: np.ndarray,
        gained: np.ndarray,
        accepted: np.ndarray,
        *,
        # To which the length of difference steps is tuned.
        accepted_share: float = 0.27,
    ) -> None:
        """Account for proposals of kinds (b, m) that gained (b, m), and tune the length of differences."""
        member = kinds[..., None] == np.arange(len(self.least_shares))
        m = kinds.shape[1]
        self.gained[rows] = 0.8 * self.gained[rows] + (member * gained[..., None]).sum(axis=1) / m
        self.tried[rows] = 0.8 * self.tried[rows] + member.sum(axis=1) / m
        tries = member[..., DIFFERENCE].sum(axis=1)
        rate = (member[..., DIFFERENCE] * accepted).sum(axis=1) / np.maximum(tries, 1)
        # A rate of few tries is mostly chance, and moves the length by less.
        step = np.where(tries > 0, np.minimum(1.0, tries / 30) * (rate - accepted_share), 0.0)
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
    *,
    # Of each kind, in a step within the mixture; zero: along differences.
    noise_shares: tuple[float, ...] = (0.0, 0.0, 0.0, 1.0, 1.0, 0.6, 0.25),
) -> ProposedMoves:
    """One proposal for each point, of a kind drawn without looking at the point."""
    # ter Braak, Statistics and Computing 16 (2006); in halves as by Foreman-Mackey et al., emcee (2013).
    # Shapes: points (b, m, q); others (b, r, q); start (n, q); scale (b, q, q); shares (b, kinds); length
    # (b,).
    b, m, q = points.shape
    kinds = (np.cumsum(shares, axis=1)[:, None, :-1] < streams.uniform(m)[..., None]).sum(axis=2)
    steps = np.asarray(noise_shares)[kinds]
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


def effective_size(log_weights: np.ndarray) -> np.ndarray:
    """(sum w)^2 / sum w^2 along the last axis; zero where no weight is positive."""
    top = log_weights.max(axis=-1, keepdims=True)
    # Likelihoods of many trials lie far below the smallest float: over the largest they do not.
    weights = np.exp(log_weights - np.where(np.isfinite(top), top, 0))
    square = (weights**2).sum(axis=-1)
    return np.where(square > 0, weights.sum(axis=-1) ** 2 / np.where(square > 0, square, 1), 0.0)


def next_step(
    log_likelihood: np.ndarray,
    largest: np.ndarray,
    size: np.ndarray,
    log_weights: np.ndarray | float = 0.0,
    smallest: np.ndarray | float = 0.0,
    *,
    smallest_step: float = 1e-20,
) -> np.ndarray:
    """The largest step of temperature after which the effective size is still `size`."""

    # Shapes: log_likelihood (b, m); largest, size, smallest (b,); log_weights (m,) or (b, m); returned: (b,).
    def size_after(step: np.ndarray) -> np.ndarray:
        return effective_size(log_weights + scaled(log_likelihood, step))

    step = largest.copy()
    short = size_after(step) < size
    low, high = np.log(np.maximum(np.broadcast_to(smallest, len(step)), smallest_step)), np.log(largest)
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

    def rows(self, which: np.ndarray) -> Counted:
        """The same of some observations, which goes on counting from where these are."""
        some = Counted(self.log_likelihood, self.numbers[which])
        some.undefined, some.evaluations = self.undefined[which], self.evaluations[which]
        return some

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


FREEDOM = 5.0
"""Degrees of freedom of the components that moves are proposed from: tails above those of most targets."""


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


def parts(
    mixture: LocalMixture,
    points: np.ndarray,
    *,
    # Deviations between the means of components that share a part of the target.
    separate: float = 4.0,
) -> tuple[np.ndarray, np.ndarray]:
    """The separate parts of each mixture."""
    # Shapes: points (b, n, q); returned: (b, q, q).
    covariances = mixture.factors @ np.swapaxes(mixture.factors, 2, 3)
    gaps = mixture.means[:, :, None] - mixture.means[:, None]
    white = np.swapaxes(mixture.inverses, 2, 3)
    squares = ((gaps @ white) ** 2).sum(axis=3)
    # Near in the metric of either: a narrow component may lie within a wide one.
    joined = (np.minimum(squares, np.swapaxes(squares, 1, 2)) < separate**2).astype(float)
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


def log_student_mixture(mixture: LocalMixture, points: np.ndarray) -> np.ndarray:
    """Log densities (b, m) of points (b, m, q) under the mixtures with Student components."""
    return log_sum(_student_parts(mixture, points)[0])


def mixture_draws(mixture: LocalMixture, count: int, streams: Streams) -> np.ndarray:
    """Draws (b, count, q) of the mixtures with Student components."""
    shares = np.cumsum(np.exp(mixture.log_weights), axis=1)
    # As evenly as can be: components get their shares but for one draw.
    at = (np.arange(count) + streams.uniform(1)) / count * shares[:, -1:]
    picked = np.minimum((shares[:, None] <= at[..., None]).sum(axis=2), shares.shape[1] - 1)
    rows = np.arange(len(shares))[:, None]
    precision = streams.gamma(np.full(at.shape, FREEDOM / 2)) / (FREEDOM / 2)
    noise = np.matmul(mixture.factors[rows, picked], streams.normal(count, mixture.means.shape[2])[..., None])
    return mixture.means[rows, picked] + noise[..., 0] / np.sqrt(precision)[..., None]


def propose_within(
    mixture: LocalMixture, points: np.ndarray, fresh: np.ndarray, step: np.ndarray, streams: Streams
) -> tuple[np.ndarray, np.ndarray]:
    """Moves that leave the mixture (with Student components) as it is."""
    # Preconditioned Crank-Nicolson steps for Student targets (Grumitt, Karamanis and Seljak 2024).
    # Shapes: points (b, m, q); fresh (b, m); step (b, m); returned: (b, m, q).
    b, m, q = points.shape
    parts, squares = _student_parts(mixture, points)
    density = log_sum(parts)
    logs = np.where(fresh[:, None], mixture.log_weights[..., None], parts - density[:, None])
    shares = np.cumsum(np.exp(logs), axis=1)
    picked = np.minimum((shares < streams.uniform(1, m) * shares[:, -1:]).sum(axis=1), logs.shape[1] - 1)
    rows = np.arange(b)[:, None]
    square = np.where(fresh, 0.0, np.take_along_axis(squares, picked[:, None], axis=1)[:, 0])
    # Given the point, Student's precision is gamma distributed with q degrees of freedom more.
    shape = np.where(fresh, FREEDOM / 2, (FREEDOM + q) / 2)
    precision = streams.gamma(shape) / ((FREEDOM + square) / 2)
    noise = np.matmul(mixture.factors[rows, picked], streams.normal(m, q)[..., None])[..., 0]
    centre = mixture.means[rows, picked]
    keep = np.where(fresh, 0.0, np.sqrt(1 - step**2))[..., None]
    size = np.where(fresh, 1.0, step) / np.sqrt(precision)
    proposed = centre + keep * (points - centre) + size[..., None] * noise
    return proposed, density - log_sum(_student_parts(mixture, proposed)[0])
