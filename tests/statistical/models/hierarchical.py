"""Groups whose parameters have a distribution of their own."""

import numpy as np
import pymc as pm

import pymc_kbr as pk
from tests.statistical.models.problem import problem

WITHIN = 1 / np.sqrt(20)


def means_of_twenty(rng, theta, size=None):
    return rng.normal(theta[..., None], 1.0, (*theta.shape, 20)).mean(axis=-1)


@problem("hierarchical")
def eight_groups(simulated):
    """Means of 8 groups of 20 data of deviation one"""
    rng = np.random.default_rng(49)
    observed = rng.normal(rng.normal(0.3, 0.45, 8), WITHIN)
    mu, tau = pm.Normal("mu", 0, 1), pm.HalfNormal("tau", 1)
    theta = pm.Normal("theta", mu, tau, shape=8)
    if simulated:
        pk.vector_simulator("means", means_of_twenty, theta, observed=observed)
    else:
        pm.Normal("means", theta, WITHIN, observed=observed)


def sums_of_ten_counts(rng, log_rate, size=None):
    return rng.poisson(np.exp(log_rate)[..., None], (*log_rate.shape, 10)).sum(axis=-1)


@problem("hierarchical")
def log_rates(simulated):
    """Sums of 10 counts in each of 6 regions"""
    observed = [31, 22, 45, 18, 27, 63]
    base, spread = pm.Normal("base", 1, 1), pm.HalfNormal("spread", 0.5)
    log_rate = pm.Normal("log_rate", base, spread, shape=6)
    if simulated:
        pk.vector_simulator("sums", sums_of_ten_counts, log_rate, observed=observed)
    else:
        pm.Poisson("sums", 10 * pm.math.exp(log_rate), observed=observed)


HOURS = np.array([94.3, 15.7, 62.9, 126.0, 5.24, 31.4, 1.05, 1.05, 2.1, 10.5])
FAILURES = np.array([5, 1, 5, 14, 3, 19, 1, 1, 4, 22])


def failures_of(rng, rate, size=None):
    return rng.poisson(rate * HOURS)


@problem("hierarchical")
def pumps(simulated):
    """Failures of 10 pumps in unequal times, with gamma rates"""
    alpha, beta = pm.Exponential("alpha", 1), pm.Gamma("beta", 1, 1)
    rate = pm.Gamma("rate", alpha, beta, shape=10)
    if simulated:
        pk.vector_simulator("failures", failures_of, rate, observed=FAILURES)
    else:
        pm.Poisson("failures", rate * HOURS, observed=FAILURES)


X = np.linspace(-1, 1, 12)


def lines_of(rng, intercept, slope, size=None):
    """Least-squares intercept and slope of each group's 12 points."""
    y = intercept[..., None] + slope[..., None] * X
    y = y + 0.5 * rng.standard_normal(y.shape)
    return np.concatenate([y.mean(axis=-1), y @ X / (X @ X)], axis=-1)


@problem("hierarchical")
def random_slopes(simulated):
    """Least-squares lines of 5 groups of 12 points"""
    rng = np.random.default_rng(5)
    errors = 0.5 / np.sqrt([12, X @ X])
    lines = [rng.normal(rng.normal(1.0, 0.4, 5), errors[0]), rng.normal(rng.normal(-0.5, 0.6, 5), errors[1])]
    centre, tilt = pm.Normal("centre", 0, 1), pm.Normal("tilt", 0, 1)
    of_centre, of_tilt = pm.HalfNormal("of_centre", 1), pm.HalfNormal("of_tilt", 1)
    intercept = pm.Normal("intercept", centre, of_centre, shape=5)
    slope = pm.Normal("slope", tilt, of_tilt, shape=5)
    if simulated:
        pk.vector_simulator("lines", lines_of, intercept, slope, observed=np.concatenate(lines))
    else:
        pm.Normal("intercepts", intercept, errors[0], observed=lines[0])
        pm.Normal("slopes", slope, errors[1], observed=lines[1])


EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def effects_of(rng, theta, size=None):
    return rng.normal(theta, ERRORS, size)


@problem("hierarchical")
def schools(simulated):
    """Effects in 8 schools, not centred, with a half-Cauchy deviation"""
    mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
    z = pm.Normal("z", 0, 1, shape=8)
    if simulated:
        pm.Simulator("effects", effects_of, mu + tau * z, observed=EFFECTS)
    else:
        pm.Normal("effects", mu + tau * z, ERRORS, observed=EFFECTS)
