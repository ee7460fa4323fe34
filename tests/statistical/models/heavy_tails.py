"""Data whose tails are heavier than a normal distribution's."""

import numpy as np
import pymc as pm
from scipy import stats

import pymc_kbr as pk
from case_studies.walkers import walk
from tests.statistical.models.problem import problem

OCTILES = np.arange(125, 1000, 125)
"""Ranks, of 1,000 sorted data."""


def g_and_k_of(z, a, b, g, k):
    return a + b * (1 + 0.8 * np.tanh(g * z / 2)) * (1 + z**2) ** k * z


def octiles_of(rng, a, b, g, k, size=None):
    a, b, g, k = (np.asarray(one)[..., None] for one in (a, b, g, k))
    y = g_and_k_of(rng.standard_normal((*a.shape[:-1], 1000)), a, b, g, k)
    return np.sort(y, axis=-1)[..., OCTILES - 1]


OCTILES_OBSERVED = octiles_of(np.random.default_rng(13), 3.0, 1.0, 2.0, 0.5)


def log_octiles(theta):
    """Log density (n,) of the order statistics under parameters (n, 4), uniform between 0 and 10."""
    inside = np.all((theta > 0) & (theta < 10), axis=1)
    a, b, g, k = np.where(inside[:, None], theta, 1.0).T[..., None]
    low, high = np.full((len(theta), 7), -9.0), np.full((len(theta), 7), 9.0)
    for _ in range(50):  # bisection: the quantile function ascends
        middle = (low + high) / 2
        below = g_and_k_of(middle, a, b, g, k) < OCTILES_OBSERVED
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    z = (low + high) / 2
    tanh = np.tanh(g * z / 2)
    of_skew = 0.4 * g * (1 - tanh**2) * z * (1 + z**2) ** k
    slope = b * (of_skew + (1 + 0.8 * tanh) * (1 + z**2) ** (k - 1) * (1 + (2 * k + 1) * z**2))
    shares = np.diff(stats.norm.cdf(z), prepend=0.0, append=1.0, axis=1)
    between = np.diff(OCTILES, prepend=0, append=1001) - 1
    log = np.log(np.maximum(shares, 1e-300)) @ between + (stats.norm.logpdf(z) - np.log(slope)).sum(axis=1)
    return np.where(inside, log, -np.inf)


def g_and_k_exact():
    start = np.random.default_rng(1).normal([3.0, 1.0, 2.0, 0.5], [0.05, 0.05, 0.1, 0.05], (100, 4))
    draws = walk(log_octiles, start, np.random.default_rng(2), 4000, first=1000, every=1)
    # Walkers stay apart over 3,000 moves: their own means tell the error.
    errors = draws.reshape(3000, 100, 4).mean(axis=0).std(axis=0) / 10 / draws.std(axis=0)
    return {name: (draws[:, i].mean(), draws[:, i].std(), errors[i]) for i, name in enumerate("ABgk")}


@problem("heavy tails", g_and_k_exact, "walkers on the density of the order statistics")
def g_and_k(simulated):
    """Octiles of 1,000 data of a g-and-k distribution"""
    parameters = [pm.Uniform(name, 0, 10) for name in "ABgk"]
    if simulated:
        pk.vector_simulator("octiles", octiles_of, *parameters, observed=OCTILES_OBSERVED)
    else:
        raise NotImplementedError("the quantile function has no inverse in closed form")


RETURNS = 0.4 + 1.2 * np.random.default_rng(14).standard_t(4, size=60)


def student(rng, location, scale, nu, size=None):
    return location + scale * rng.standard_t(nu, size=size)


@problem("heavy tails")
def student_returns(simulated):
    """60 sorted returns of a Student t distribution"""
    location, scale = pm.Normal("location", 0, 2), pm.HalfNormal("scale", 2)
    nu = pm.Gamma("nu", 2, 0.1)
    if simulated:
        pm.Simulator("returns", student, location, scale, nu, sum_stat="sort", observed=RETURNS)
    else:
        pm.StudentT("returns", nu, mu=location, sigma=scale, observed=RETURNS)


FLASHES = 1.5 + 2.0 * np.random.default_rng(15).standard_cauchy(40)


def flashes_of(rng, position, distance, size=None):
    return position + distance * np.tan(rng.uniform(-np.pi / 2, np.pi / 2, size))


@problem("heavy tails")
def lighthouse(simulated):
    """40 flashes of a lighthouse on the shore, raw"""
    position, distance = pm.Uniform("position", -10, 10), pm.HalfNormal("distance", 5)
    if simulated:
        pm.Simulator("flashes", flashes_of, position, distance, observed=FLASHES)
    else:
        pm.Cauchy("flashes", position, distance, observed=FLASHES)
