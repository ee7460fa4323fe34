"""Counts, and mixtures of two laws."""

import numpy as np
import pymc as pm
from pymc.distributions.transforms import ordered

import pymc_kbr as pk
from tests.statistical.models.problem import problem

EGGS = np.where(np.random.default_rng(28).random(60) < 0.35, 0, np.random.default_rng(29).poisson(2.4, 60))


def of_eggs(counts):
    """Number of zeros, and total."""
    return np.stack([(counts == 0).sum(axis=-1), counts.sum(axis=-1)], axis=-1)


def nests(rng, empty, mean, size=None):
    empty, mean = np.asarray(empty)[..., None], np.asarray(mean)[..., None]
    shape = (*empty.shape[:-1], 60)
    return of_eggs(np.where(rng.random(shape) < empty, 0, rng.poisson(mean, shape)))


@problem("counts")
def zero_inflated(simulated):
    """Number of zeros and total of 60 counts"""
    empty, mean = pm.Beta("empty", 2, 2), pm.Gamma("mean", 2, 0.5)
    if simulated:
        pk.vector_simulator("eggs", nests, empty, mean, observed=of_eggs(EGGS))
    else:
        pm.ZeroInflatedPoisson("eggs", 1 - empty, mean, observed=EGGS)


PARASITES = np.random.default_rng(30).negative_binomial(1.2, 1.2 / (1.2 + 5.0), 50)


def overdispersed_counts(rng, mean, alpha, size=None):
    return rng.poisson(rng.gamma(alpha, mean / alpha, size))


@problem("counts")
def overdispersed(simulated):
    """50 sorted counts of a negative binomial distribution"""
    mean, alpha = pm.Exponential("mean", 0.1), pm.Exponential("alpha", 0.5)
    if simulated:
        pm.Simulator("counts", overdispersed_counts, mean, alpha, sum_stat="sort", observed=PARASITES)
    else:
        pm.NegativeBinomial("counts", mean, alpha, observed=PARASITES)


def poisson(rng, rate, size=None):
    return rng.poisson(rate, size)


@problem("counts")
def count_regression(simulated):
    """30 raw counts whose log rate is linear"""
    x = np.linspace(-1, 1, 30)
    observed = np.random.default_rng(31).poisson(np.exp(1.2 + 0.8 * x))
    intercept, slope = pm.Normal("intercept", 0, 1), pm.Normal("slope", 0, 1)
    rate = pm.math.exp(intercept + slope * x)
    if simulated:
        pm.Simulator("counts", poisson, rate, observed=observed)
    else:
        pm.Poisson("counts", rate, observed=observed)


def two_normals(rng, weight, low, high, sigma, size=None):
    return rng.normal(np.where(rng.random(size) < weight, low, high), sigma)


@problem("mixtures")
def two_species(simulated):
    """80 sorted lengths of two species with ordered means"""
    rng = np.random.default_rng(32)
    observed = rng.normal(np.where(rng.random(80) < 0.35, -1.2, 1.5), 0.8)
    weight = pm.Beta("weight", 2, 2)
    means = pm.Normal("means", 0, 2, shape=2, transform=ordered, initval=[-1, 1])
    sigma = pm.HalfNormal("sigma", 1)
    if simulated:
        arguments = (weight, means[0], means[1], sigma)
        pm.Simulator("lengths", two_normals, *arguments, sum_stat="sort", observed=observed)
    else:
        weights = pm.math.stack([weight, 1 - weight])
        pm.NormalMixture("lengths", weights, means, sigma, observed=observed)


def with_outliers(rng, mean, sigma, share, size=None):
    wild = rng.random(size) < share
    return mean + np.where(wild, 10.0, sigma) * rng.standard_normal(size)


@problem("mixtures")
def contaminated(simulated):
    """60 sorted data, of which some are wild"""
    rng = np.random.default_rng(33)
    observed = 0.7 + np.where(rng.random(60) < 0.12, 10.0, 0.9) * rng.standard_normal(60)
    mean, sigma = pm.Normal("mean", 0, 2), pm.HalfNormal("sigma", 1)
    share = pm.Beta("share", 1, 9)
    if simulated:
        pm.Simulator("y", with_outliers, mean, sigma, share, sum_stat="sort", observed=observed)
    else:
        weights = pm.math.stack([1 - share, share])
        spreads = pm.math.stack([sigma, 10.0])
        pm.NormalMixture("y", weights, pm.math.stack([mean, mean]), spreads, observed=observed)
