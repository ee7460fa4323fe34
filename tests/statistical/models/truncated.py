"""Data that are cut off or recorded at a limit, and priors that end."""

import numpy as np
import pymc as pm
from scipy import stats

import pymc_kbr as pk
from tests.statistical.models.problem import problem

LIMIT = np.log(0.5)
LOG_AMOUNTS = np.maximum(np.random.default_rng(10).normal(-0.3, 0.8, 50), LIMIT)


def of_detected(log_amounts):
    """Number of amounts above the limit, and sums of their logarithms and of the squares."""
    above = np.where(log_amounts > LIMIT, log_amounts, 0.0)
    return np.stack([(above != 0).sum(axis=-1), above.sum(axis=-1), (above**2).sum(axis=-1)], axis=-1)


def measured(rng, mu, sigma, size=None):
    return of_detected(mu[..., None] + sigma[..., None] * rng.standard_normal((*mu.shape, 50)))


@problem("truncated")
def detection_limit(simulated):
    """50 log-normal amounts, of which those above a limit are measured"""
    mu, sigma = pm.Normal("mu", 0, 1), pm.HalfNormal("sigma", 1)
    if simulated:
        pk.vector_simulator("detected", measured, mu, sigma, observed=of_detected(LOG_AMOUNTS))
    else:
        amount = pm.Normal.dist(mu, sigma)
        pm.Censored("detected", amount, lower=LIMIT, upper=None, observed=LOG_AMOUNTS)


SELECTED = stats.truncnorm(-0.5, np.inf, 1.8, 1.6).rvs(60, random_state=11)
"""Above one."""


def above_one(rng, mu, sigma, size=None):
    mu, sigma = np.asarray(mu)[..., None], np.asarray(sigma)[..., None]
    shape = (*np.shape(mu)[:-1], 60)
    y = stats.truncnorm.rvs((1 - mu) / sigma, np.inf, mu, sigma, size=shape, random_state=rng)
    return np.stack([y.mean(axis=-1), y.std(axis=-1)], axis=-1)


@problem("truncated")
def selected_sample(simulated):
    """Mean and deviation of 60 normal data, of which only those above one were kept"""
    mu = pm.TruncatedNormal("mu", 2, 1.5, lower=0, upper=5)
    sigma = pm.TruncatedNormal("sigma", 1, 1, lower=0.2)
    observed = [SELECTED.mean(), SELECTED.std()]
    if simulated:
        pk.vector_simulator("kept", above_one, mu, sigma, observed=observed)
    else:
        pm.TruncatedNormal("kept", mu, sigma, lower=1, observed=SELECTED)


ENDS = np.array([1.32, 4.91])


def ends_of(rng, start, width, size=None):
    y = start[..., None] + width[..., None] * rng.random((*start.shape, 25))
    return np.stack([y.min(axis=-1), y.max(axis=-1)], axis=-1)


def uniform_width_exact():
    """On a grid of the distances from the smallest and the largest of the data to the ends."""
    step = 0.002
    below, above = np.meshgrid(*2 * [np.arange(step / 2, 4, step)], indexing="ij")
    start, width = ENDS[0] - below, np.diff(ENDS)[0] + below + above
    log = stats.norm(0, 2).logpdf(start) + stats.halfnorm(scale=3).logpdf(width) - 25 * np.log(width)
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    means = [np.sum(weights * one) for one in (start, width)]
    spread = [np.sqrt(np.sum(weights * (one - m) ** 2)) for one, m in zip((start, width), means, strict=True)]
    return {"start": (means[0], spread[0]), "width": (means[1], spread[1])}


@problem("truncated", uniform_width_exact, "grid")
def uniform_width(simulated):
    """Smallest and largest of 25 uniform data"""
    start, width = pm.Normal("start", 0, 2), pm.HalfNormal("width", 3)
    if simulated:
        pk.vector_simulator("ends", ends_of, start, width, observed=ENDS)
    else:
        pm.Potential("density", -25 * pm.math.log(width))
        inside = (start < ENDS[0]) & (start + width > ENDS[1])
        pm.Potential("inside", pm.math.switch(inside, 0.0, -np.inf))
