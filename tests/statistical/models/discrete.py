"""Parameters that are whole numbers."""

import numpy as np
import pymc as pm
from scipy import stats
from scipy.special import gammaln

import pymc_kbr as pk
from tests.statistical.models.problem import moments, problem

YEARS = np.arange(40)
COUNTS = np.random.default_rng(6).poisson(np.where(YEARS < 18, 3.2, 1.3))


def counts_of(rng, rate, size=None):
    return rng.poisson(rate, size)


def change_point_exact():
    """Rates are gamma distributed given the change, whose probabilities are ratios of gamma functions."""
    before = np.concatenate([[0], np.cumsum(COUNTS)[:-1]])
    shapes = 1 + np.stack([before, COUNTS.sum() - before])
    rates = 0.3 + np.stack([YEARS, 40 - YEARS])
    log_weight = (gammaln(shapes) - shapes * np.log(rates)).sum(axis=0)
    weights = np.exp(log_weight - log_weight.max())
    weights /= weights.sum()
    firsts = np.stack([YEARS, *(shapes / rates)])
    seconds = np.stack([YEARS**2, *(shapes * (shapes + 1) / rates**2)]) @ weights
    means = firsts @ weights
    deviations = np.sqrt(seconds - means**2)
    return {name: (m, s) for name, m, s in zip(("change", "early", "late"), means, deviations, strict=True)}


@problem("discrete", change_point_exact, "closed form")
def change_point(simulated):
    """Counts of 40 years, raw, whose rate changes once"""
    change = pm.DiscreteUniform("change", 0, 39)
    early, late = pm.Exponential("early", 0.3), pm.Exponential("late", 0.3)
    rate = pm.math.switch(change > YEARS, early, late)
    if simulated:
        pm.Simulator("counts", counts_of, rate, observed=COUNTS)
    else:
        pm.Poisson("counts", rate, observed=COUNTS)


CAPTURED = np.array([62, 71, 17])
"""In the first session, in the second, and in both."""


def two_sessions(rng, population, share, size=None):
    first = rng.binomial(population, share)
    both = rng.binomial(first, share)
    return np.stack([first, both + rng.binomial(population - first, share), both], axis=-1)


def log_captures(population, share):
    """Up to a constant."""
    seen = CAPTURED[0] + CAPTURED[1] - CAPTURED[2]
    failed = 2 * population - CAPTURED[0] - CAPTURED[1]
    log_ways = gammaln(population + 1) - gammaln(population - seen + 1)
    return log_ways + (CAPTURED[0] + CAPTURED[1]) * np.log(share) + failed * np.log1p(-share)


def population_size_exact():
    population, share = np.arange(116, 801), np.linspace(0, 1, 2002)[1:-1]
    grid = log_captures(population[:, None], share) + stats.beta(2, 4).logpdf(share)
    return moments(grid, population=population, share=share)


@problem("discrete", population_size_exact, "grid")
def population_size(simulated):
    """Animals captured in two sessions, and in both"""
    population, share = pm.DiscreteUniform("population", 100, 800), pm.Beta("share", 2, 4)
    if simulated:
        pk.vector_simulator("captured", two_sessions, population, share, observed=CAPTURED)
    else:
        beyond = population < CAPTURED[0] + CAPTURED[1] - CAPTURED[2]
        both = CAPTURED[0] + CAPTURED[1]
        log_ways = pm.math.switch(beyond, -np.inf, _log_ways(population, beyond))
        log_share = both * pm.math.log(share) + (2 * population - both) * pm.math.log1p(-share)
        pm.Potential("captured", log_ways + log_share)


def _log_ways(population, beyond):
    seen = CAPTURED[0] + CAPTURED[1] - CAPTURED[2]
    inside = pm.math.switch(beyond, seen, population)
    return pm.math.gammaln(inside + 1.0) - pm.math.gammaln(inside - seen + 1.0)


SAMPLE_MEANS = np.array([0.21, 0.62])


def two_means(rng, base, treated, size=None):
    centre = np.stack([base, treated], axis=-1)
    return rng.normal(centre[..., None], 1.0, (*centre.shape, 30)).mean(axis=-1)


def is_shifted_exact():
    """A mixture of two normal posteriors of base and shift."""
    parts, log_weights = [], []
    for shifted in (0, 1):
        design = np.array([[1.0, 0.0], [1.0, shifted]])
        covariance = np.linalg.inv(np.eye(2) + 30 * design.T @ design)
        mean = covariance @ (30 * design.T @ SAMPLE_MEANS)
        parts.append((np.r_[shifted, mean], np.r_[shifted, np.diag(covariance) + mean**2]))
        of_data = design @ design.T + np.eye(2) / 30
        log_weights.append(stats.multivariate_normal(np.zeros(2), of_data).logpdf(SAMPLE_MEANS))
    weights = np.exp(log_weights - np.logaddexp(*log_weights))
    means = weights @ np.stack([first for first, _ in parts])
    deviations = np.sqrt(weights @ np.stack([second for _, second in parts]) - means**2)
    names = ("shifted", "base", "shift")
    return {name: (m, s) for name, m, s in zip(names, means, deviations, strict=True)}


@problem("discrete", is_shifted_exact, "closed form")
def is_shifted(simulated):
    """Means of two samples of 30; whether the second is shifted, and how far"""
    shifted = pm.Bernoulli("shifted", 0.5)
    base, shift = pm.Normal("base", 0, 1), pm.Normal("shift", 0, 1)
    if simulated:
        pk.vector_simulator("means", two_means, base, base + shifted * shift, observed=SAMPLE_MEANS)
    else:
        centre = pm.math.stack([base, base + shifted * shift])
        pm.Normal("means", centre, 1 / np.sqrt(30), observed=SAMPLE_MEANS)


NOISE = 1.5 * np.random.default_rng(8).laplace(size=40)


def of_some_family(rng, family, scale, size=None):
    """Normal, Laplace or Student t of three degrees of freedom."""
    rows = np.broadcast_to(family, size)
    drawn = np.stack([rng.normal(size=size), rng.laplace(size=size), rng.standard_t(3, size=size)])
    return scale * np.choose(rows, drawn)


def which_noise_exact():
    scale = np.linspace(0, 8, 4002)[1:-1]
    families = (stats.norm, stats.laplace, stats.t(3))
    grid = [family.logpdf(NOISE[:, None] / scale).sum(axis=0) for family in families]
    grid = np.stack(grid) - len(NOISE) * np.log(scale) + stats.halfnorm(scale=2).logpdf(scale)
    return moments(grid, family=np.arange(3), scale=scale)


@problem("discrete", which_noise_exact, "grid")
def which_noise(simulated):
    """40 sorted residuals of one of three families"""
    family, scale = pm.Categorical("family", np.ones(3) / 3), pm.HalfNormal("scale", 2)
    if simulated:
        pm.Simulator("residuals", of_some_family, family, scale, sum_stat="sort", observed=NOISE)
    else:
        each = [pm.Normal.dist(0, scale), pm.Laplace.dist(0, scale), pm.StudentT.dist(3, mu=0, sigma=scale)]
        sums = pm.math.stack([pm.logp(one, NOISE).sum() for one in each])
        pm.Potential("residuals", sums[family])
