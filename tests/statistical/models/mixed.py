"""Simulators beside ordinary likelihoods and Potentials, and several simulators in one model."""

import numpy as np
import pymc as pm
from scipy import stats

import pymc_kbr as pk
from tests.statistical.models.problem import moments, problem


def mean_of_ten(rng, m, size=None):
    return rng.normal(np.asarray(m)[..., None], 1.0, (*np.shape(m), 10)).mean(axis=-1, keepdims=True)


@problem("mixed likelihood")
def beside_normal(simulated):
    """A mean of 10 data beside 50 ordinary normal observations"""
    observed = np.random.default_rng(20).normal(0.6, 0.52, 50)
    m, s = pm.Normal("m", 0, 1), pm.HalfNormal("s", 1)
    pm.Normal("y", m, s, observed=observed)
    if simulated:
        pk.vector_simulator("x", mean_of_ten, m, observed=[0.45])
    else:
        pm.Normal("x", m, 1 / np.sqrt(10), observed=[0.45])


STANDARDS = np.linspace(0, 10, 15)
READINGS = np.random.default_rng(21).normal(0.5 + 1.1 * 6.2, 0.6, 5)


def mean_and_deviation(rng, centre, sigma, size=None):
    y = centre[..., None] + sigma[..., None] * rng.standard_normal((*centre.shape, 5))
    return np.stack([y.mean(axis=-1), y.std(axis=-1)], axis=-1)


@problem("mixed likelihood")
def calibration_curve(simulated):
    """Mean and deviation of 5 readings of an unknown amount, beside 15 ordinary standards"""
    observed = np.random.default_rng(22).normal(0.5 + 1.1 * STANDARDS, 0.6)
    intercept, slope = pm.Normal("intercept", 0, 1), pm.Normal("slope", 1, 0.5)
    sigma, amount = pm.HalfNormal("sigma", 1), pm.Uniform("amount", 0, 10)
    pm.Normal("standards", intercept + slope * STANDARDS, sigma, observed=observed)
    centre = intercept + slope * amount
    if simulated:
        of_readings = [READINGS.mean(), READINGS.std()]
        pk.vector_simulator("readings", mean_and_deviation, centre, sigma, observed=of_readings)
    else:
        pm.Normal("readings", centre, sigma, observed=READINGS)


def three_readings(rng, a, b, c, size=None):
    parts = np.stack([a, b, c], axis=-1)
    return rng.normal(parts, 0.1)


@problem("mixed likelihood")
def budget(simulated):
    """Readings of three parts, whose sum a Potential holds near one"""
    parts = [pm.HalfNormal(name, 1) for name in ("rent", "food", "rest")]
    pm.Potential("sum", pm.logp(pm.Normal.dist(1, 0.05), sum(parts)))
    if simulated:
        pk.vector_simulator("readings", three_readings, *parts, observed=[0.52, 0.38, 0.21])
    else:
        pm.Normal("readings", pm.math.stack(parts), 0.1, observed=[0.52, 0.38, 0.21])


def stages_of(rng, first, second, third, size=None):
    """Means of 6 plants in each of three years."""
    height = np.stack([first, second, third], axis=-1)
    return rng.normal(height[..., None], 12.0, (*height.shape, 6)).mean(axis=-1)


HEIGHTS = [88.0, 85.0, 109.0]


def growth_exact():
    """Of three normal heights in ascending order; gradients do not see the Potential's edges."""
    height = np.linspace(65, 130, 163)
    error = 12 / np.sqrt(6)
    parts = [stats.norm(90, 20).logpdf(height) + stats.norm(y, error).logpdf(height) for y in HEIGHTS]
    log = parts[0][:, None, None] + parts[1][:, None] + parts[2]
    inside = (height[:, None, None] < height[:, None]) & (height[:, None] < height)
    return moments(np.where(inside, log, -np.inf), first=height, second=height, third=height)


@problem("mixed likelihood", growth_exact, "grid")
def growth(simulated):
    """Mean heights of three years, which a Potential keeps in order"""
    first, second, third = (pm.Normal(name, 90, 20) for name in ("first", "second", "third"))
    pm.Potential("grows", pm.math.switch((first < second) & (second < third), 0.0, -np.inf))
    if simulated:
        pk.vector_simulator("heights", stages_of, first, second, third, observed=HEIGHTS)
    else:
        heights = pm.math.stack([first, second, third])
        pm.Normal("heights", heights, 12 / np.sqrt(6), observed=HEIGHTS)


def binomial(rng, n, p, size=None):
    return rng.binomial(n, p, size)


@problem("several simulators")
def prevalence(simulated):
    """Positive tests in the field, among the infected and among the healthy: three simulators"""
    infected, sensitivity = pm.Beta("infected", 1, 3), pm.Beta("sensitivity", 2, 1)
    specificity = pm.Beta("specificity", 2, 1)
    positive = infected * sensitivity + (1 - infected) * (1 - specificity)
    tests = {
        "field": (150, positive, 43),
        "known": (40, sensitivity, 33),
        "healthy": (60, 1 - specificity, 5),
    }
    for name, (n, share, observed) in tests.items():
        if simulated:
            pm.Simulator(name, binomial, n, share, observed=np.array([observed]))
        else:
            pm.Binomial(name, n, share, observed=np.array([observed]))


def readings(rng, level, noise, size=None):
    return rng.normal(level, noise, size)


@problem("several simulators")
def three_instruments(simulated):
    """10 raw readings of one level by each of three instruments: three simulators"""
    level, noise = pm.Normal("level", 0, 3), pm.HalfNormal("noise", 2, shape=3)
    for i, deviation in enumerate((0.4, 1.0, 2.5)):
        observed = np.random.default_rng([23, i]).normal(1.4, deviation, 10)
        if simulated:
            pm.Simulator(f"instrument_{i}", readings, level, noise[i], observed=observed)
        else:
            pm.Normal(f"instrument_{i}", level, noise[i], observed=observed)
