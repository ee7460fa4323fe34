"""Models of many kinds, drawn at random, whose posterior given the statistics is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, logsumexp

from pymc_kbr.arrays.bijections import Interval
from pymc_kbr.arrays.support import Block, Support
from pymc_kbr.tables.columns import Columns, Variable
from pymc_kbr.tables.origin import Failures
from pymc_kbr.tables.reference_table import ReferenceTable

Density = Callable[[np.ndarray, np.ndarray], np.ndarray]
Simulator = Callable[[np.ndarray, np.random.Generator], np.ndarray]

HALF_WIDTH = 2.0
"""Of the interval that a uniform parameter lies in, about zero."""

GRID, NARROWINGS, NEGLIGIBLE = {1: 4001, 2: 301}, 5, 18.0
"""Points of a grid along each parameter, how often it closes in, and log density left out."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A table, an observation and the exact moments of the posterior given it."""

    kind: str
    parameters: np.ndarray
    statistics: np.ndarray
    observed: np.ndarray
    support: Support
    log_prior: Callable[[np.ndarray], np.ndarray]
    mean: np.ndarray
    deviation: np.ndarray
    simulate: Simulator
    uniform: bool = True

    def table(self) -> ReferenceTable:
        """As a reference table."""
        return ReferenceTable(
            parameters=self.parameters,
            statistics=self.statistics,
            observed=self.observed,
            parameter_columns=Columns((Variable("theta", self.parameters.shape[1:]),)),
            statistic_columns=Columns((Variable("x", self.statistics.shape[1:]),)),
            support=self.support,
            failures=Failures.none(self.parameters.shape[1]),
        )


def problem(number: int, rows: int | None = None) -> Problem:
    """Model `number`, of which every eight or so are of one kind; as many rows as it says, or as given."""
    rng = np.random.default_rng([7, number])
    kind = KINDS[number % len(KINDS)]
    n = round(10 ** rng.uniform(2.7, 4.0)) if rows is None else rows
    return kind(rng, n)


def linear(rng: np.random.Generator, n: int) -> Problem:
    """Normal parameters, linear statistics with normal noise of one level."""
    p = int(rng.choice([1, 2, 3, 5, 8]))
    d = p + int(rng.integers(0, 8))
    mix, noise = rng.normal(size=(p, d)) / np.sqrt(p), 10 ** rng.uniform(-2.5, 0.3)
    theta = rng.normal(size=(n + 1, p))
    x = theta @ mix + noise * rng.normal(size=(n + 1, d))
    precision = np.eye(p) + mix @ mix.T / noise**2
    covariance = np.linalg.inv(precision)
    mean = covariance @ mix @ x[-1] / noise**2
    return Problem(
        "linear", theta[:-1], x[:-1], x[-1], Support.unbounded(p),
        lambda t: -0.5 * np.sum(t**2, axis=1), mean, np.sqrt(np.diag(covariance)),
        lambda t, r: t @ mix + noise * r.normal(size=(len(t), d)), False,
    )  # fmt: skip


def curved(rng: np.random.Generator, n: int) -> Problem:
    """Each statistic a random smooth function of one or two parameters, with normal noise."""
    p, d = int(rng.integers(1, 3)), int(rng.integers(2, 6))
    frequency = rng.normal(size=(3, d, p)) * rng.choice([0.4, 0.8, 1.2])
    phase, height = rng.uniform(0, 6.3, (3, d)), rng.normal(size=(3, d))
    slopes = rng.normal(size=(p, d))
    noise = 10 ** rng.uniform(-2.5, 0.2, size=d if rng.random() < 0.5 else 1) * np.ones(d)

    def mean(t: np.ndarray) -> np.ndarray:
        waves = np.sin(np.einsum("kdp,np->nkd", frequency, t) + phase) * height
        return t @ slopes + waves.sum(axis=1)

    return _normal_noise("curved", rng, n, p, mean, noise)


def polynomial(rng: np.random.Generator, n: int) -> Problem:
    """Products and squares of two parameters."""
    noise = 10 ** rng.uniform(-2.5, 0.0) * np.ones(3)
    which = int(rng.integers(3))

    def mean(t: np.ndarray) -> np.ndarray:
        a, b = t.T
        forms = ((a + b**2, a * b, b), (np.exp(a), a * b, b - a), (a, b + a**2, a**3))
        return np.column_stack(forms[which])

    return _normal_noise("polynomial", rng, n, 2, mean, noise)


def periodic(rng: np.random.Generator, n: int) -> Problem:
    """Sine and cosine of one parameter, or the sine alone: several modes."""
    frequency, noise = rng.uniform(0.5, 6), 10 ** rng.uniform(-2.5, 0.0)
    both = rng.random() < 0.5

    def mean(t: np.ndarray) -> np.ndarray:
        turns = frequency * t[:, 0]
        return np.column_stack([np.sin(turns), np.cos(turns)] if both else [np.sin(turns)])

    return _normal_noise("periodic", rng, n, 1, mean, noise * np.ones(1 + both))


def raw_data(rng: np.random.Generator, n: int) -> Problem:
    """Normal data as they are, whose mean and log deviation are unknown."""
    m, level = int(rng.integers(5, 40)), rng.uniform(-2, 0)

    def simulate(t: np.ndarray, r: np.random.Generator) -> np.ndarray:
        return t[:, :1] + np.exp(level + t[:, 1:]) * r.normal(size=(len(t), m))

    def density(t: np.ndarray, x: np.ndarray) -> np.ndarray:
        scale = level + t[:, 1]
        squares = m * (t[:, 0] - x.mean()) ** 2 + m * x.var()
        return -0.5 * squares * np.exp(-2 * scale) - m * scale

    return of_uniform_parameters("raw_data", rng, n, 2, simulate, density)


def heavy_tailed(rng: np.random.Generator, n: int) -> Problem:
    """Statistics with Student's noise about the parameters, or about curves of them."""
    p, freedom, scale = int(rng.integers(1, 3)), rng.uniform(1.0, 3.0), 10 ** rng.uniform(-2.0, 0.0)
    d = p * int(rng.integers(1, 6))
    bend = rng.choice([0.0, 0.5])

    def mean(t: np.ndarray) -> np.ndarray:
        return np.tile(t + bend * np.sin(2 * t), (1, d // p))

    def simulate(t: np.ndarray, r: np.random.Generator) -> np.ndarray:
        return mean(t) + scale * r.standard_t(freedom, size=(len(t), d))

    def density(t: np.ndarray, x: np.ndarray) -> np.ndarray:
        apart = ((x - mean(t)) / scale) ** 2
        return -0.5 * (freedom + 1) * np.sum(np.log1p(apart / freedom), axis=1)

    return of_uniform_parameters("heavy_tailed", rng, n, p, simulate, density)


def irrelevant(rng: np.random.Generator, n: int) -> Problem:
    """A few statistics that tell, among many that do not, all mixed by a rotation or not."""
    p, useless = int(rng.integers(1, 3)), int(rng.integers(5, 60))
    noise, bend = 10 ** rng.uniform(-2.0, 0.0), rng.choice([0.0, 0.5, 1.0])
    turn = np.linalg.qr(rng.normal(size=(p + useless,) * 2))[0] if rng.random() < 0.5 else np.eye(p + useless)

    def tells(t: np.ndarray) -> np.ndarray:
        return t + bend * np.sin(2 * t)

    def simulate(t: np.ndarray, r: np.random.Generator) -> np.ndarray:
        told = tells(t) + noise * r.normal(size=t.shape)
        return np.hstack([told, r.normal(size=(len(t), useless))]) @ turn

    def density(t: np.ndarray, x: np.ndarray) -> np.ndarray:
        return -0.5 * np.sum(((x @ turn.T)[:p] - tells(t)) ** 2, axis=1) / noise**2

    return of_uniform_parameters("irrelevant", rng, n, p, simulate, density)


def hierarchical(rng: np.random.Generator, n: int) -> Problem:
    """Means of groups, of which the mean and the log deviation between them are unknown."""
    groups, noise = int(rng.integers(4, 30)), 10 ** rng.uniform(-1.5, 0.3)
    summarised = rng.random() < 0.5

    def variance(t: np.ndarray) -> np.ndarray:
        return noise**2 + np.exp(2 * t[:, 1])

    def simulate(t: np.ndarray, r: np.random.Generator) -> np.ndarray:
        x = t[:, :1] + np.sqrt(variance(t))[:, None] * r.normal(size=(len(t), groups))
        if summarised:
            x = np.column_stack([x.mean(axis=1), np.log(x.var(axis=1, ddof=1))])
        return x

    def density(t: np.ndarray, x: np.ndarray) -> np.ndarray:
        mean, squares = (x[0], (groups - 1) * np.exp(x[1])) if summarised else (x.mean(), groups * x.var())
        v = variance(t)
        return -0.5 * (groups * (t[:, 0] - mean) ** 2 + squares) / v - 0.5 * groups * np.log(v)

    return of_uniform_parameters("hierarchical", rng, n, 2, simulate, density)


def counts(rng: np.random.Generator, n: int) -> Problem:
    """Poisson counts, whose log rates are one or two parameters and their sum."""
    p, level = int(rng.integers(1, 3)), rng.uniform(0, 6)
    copies = int(rng.integers(1, 4))

    def log_rates(t: np.ndarray) -> np.ndarray:
        return level + np.tile(np.column_stack([t, t.sum(axis=1)]), (1, copies))

    def simulate(t: np.ndarray, r: np.random.Generator) -> np.ndarray:
        return r.poisson(np.exp(log_rates(t))).astype(float)

    def density(t: np.ndarray, x: np.ndarray) -> np.ndarray:
        rates = log_rates(t)
        return np.sum(x * rates - np.exp(rates) - gammaln(x + 1), axis=1)

    return of_uniform_parameters("counts", rng, n, p, simulate, density)


def skewed(rng: np.random.Generator, n: int) -> Problem:
    """Statistics that are a power or an exponential of a linear one with normal noise."""
    p, noise = int(rng.integers(1, 3)), 10 ** rng.uniform(-2.5, 0.0)
    d = p + int(rng.integers(0, 3))
    mix, form = rng.normal(size=(p, d)), int(rng.integers(3))
    there = (np.exp, lambda z: z**3, np.arctan)[form]
    back = (np.log, np.cbrt, np.tan)[form]

    def simulate(t: np.ndarray, r: np.random.Generator) -> np.ndarray:
        return there(t @ mix + noise * r.normal(size=(len(t), d)))

    def density(t: np.ndarray, x: np.ndarray) -> np.ndarray:
        return -0.5 * np.sum((back(x) - t @ mix) ** 2, axis=1) / noise**2

    return of_uniform_parameters("skewed", rng, n, p, simulate, density)


def separable(rng: np.random.Generator, n: int) -> Problem:
    """Three to six parameters, each with a curved statistic of its own, these mixed by a rotation."""
    p, noise, bend = int(rng.integers(3, 7)), 10 ** rng.uniform(-2.3, 0.0), rng.choice([0.0, 0.45, 0.9])
    turn = np.linalg.qr(rng.normal(size=(p, p)))[0]

    def simulate(t: np.ndarray, r: np.random.Generator) -> np.ndarray:
        return (t + bend * np.sin(2 * t) / 2 + noise * r.normal(size=t.shape)) @ turn

    theta = rng.uniform(-HALF_WIDTH, HALF_WIDTH, (n + 1, p))
    x = simulate(theta, rng)

    def one(t: np.ndarray, value: np.ndarray) -> np.ndarray:
        return -0.5 * ((value - t - bend * np.sin(2 * t) / 2)[:, 0] / noise) ** 2

    found = [moments(lambda t, v=value: one(t, v), 1) for value in x[-1] @ turn.T]
    mean, deviation = (np.array([each[i][0] for each in found]) for i in (0, 1))
    return Problem(
        "separable", theta[:-1], x[:-1], x[-1], box(p), flat, mean, deviation, simulate
    )  # fmt: skip


def variance_only(rng: np.random.Generator, n: int) -> Problem:
    """A parameter that only moves the spread of the statistics, another one that moves their place."""
    d, share = int(rng.integers(2, 15)), rng.uniform(0.2, 1.0)

    def simulate(t: np.ndarray, r: np.random.Generator) -> np.ndarray:
        return share * t[:, :1] + np.exp(t[:, 1:]) * r.normal(size=(len(t), d))

    def density(t: np.ndarray, x: np.ndarray) -> np.ndarray:
        squares = np.sum((x - share * t[:, :1]) ** 2, axis=1)
        return -0.5 * squares * np.exp(-2 * t[:, 1]) - d * t[:, 1]

    return of_uniform_parameters("variance_only", rng, n, 2, simulate, density)


KINDS = (
    linear, curved, polynomial, periodic, raw_data, heavy_tailed, irrelevant, hierarchical, counts, skewed,
    separable, variance_only,
)  # fmt: skip


def _normal_noise(
    kind: str,
    rng: np.random.Generator,
    n: int,
    p: int,
    mean: Callable[[np.ndarray], np.ndarray],
    noise: np.ndarray,
) -> Problem:
    def simulate(t: np.ndarray, r: np.random.Generator) -> np.ndarray:
        return mean(t) + noise * r.normal(size=(len(t), len(noise)))

    def density(t: np.ndarray, x: np.ndarray) -> np.ndarray:
        return -0.5 * np.sum(((x - mean(t)) / noise) ** 2, axis=1)

    return of_uniform_parameters(kind, rng, n, p, simulate, density)


def of_uniform_parameters(
    kind: str, rng: np.random.Generator, n: int, p: int, simulate: Simulator, density: Density
) -> Problem:
    """A table of n draws between the bounds, one further row for the observation, and its posterior."""
    theta = rng.uniform(-HALF_WIDTH, HALF_WIDTH, (n + 1, p))
    x = simulate(theta, rng)
    mean, deviation = moments(lambda t: density(t, x[-1]), p)
    return Problem(kind, theta[:-1], x[:-1], x[-1], box(p), flat, mean, deviation, simulate)


def moments(log_density: Callable[[np.ndarray], np.ndarray], p: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation (p,) of a density between the bounds, on a grid that closes in."""
    lower, upper = np.full(p, -HALF_WIDTH), np.full(p, HALF_WIDTH)
    for _ in range(NARROWINGS):
        axes = [np.linspace(a, b, GRID[p]) for a, b in zip(lower, upper, strict=True)]
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, p)
        logs = log_density(points)
        weights = np.exp(logs - logsumexp(logs))
        likely = points[logs > logs.max() - NEGLIGIBLE]
        step = (upper - lower) / (GRID[p] - 1)
        lower = np.maximum(likely.min(axis=0) - 2 * step, -HALF_WIDTH)
        upper = np.minimum(likely.max(axis=0) + 2 * step, HALF_WIDTH)
    mean = weights @ points
    return mean, np.sqrt(weights @ (points - mean) ** 2)


def box(p: int) -> Support:
    """Between the bounds, all p parameters."""
    step = Interval((-HALF_WIDTH,) * p, (HALF_WIDTH,) * p)
    return Support(p, (Block(tuple(range(p)), (step,)),))


def flat(theta: np.ndarray) -> np.ndarray:
    """The log density of the uniform prior, up to a constant."""
    return np.where(np.all(np.abs(theta) <= HALF_WIDTH, axis=1), 0.0, -np.inf)
