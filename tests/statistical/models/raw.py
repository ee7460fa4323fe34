"""Observed values as they are, without summary statistics."""

import numpy as np
import pymc as pm

from tests.statistical.models.problem import problem


def normal(rng, mean, deviation, size=None):
    return rng.normal(mean, deviation, size)


@problem("raw data")
def raw_normal(simulated):
    """100 normal data"""
    observed = np.random.default_rng(16).normal(0.8, 1.3, 100)
    mean, deviation = pm.Normal("mean", 0, 2), pm.HalfNormal("deviation", 2)
    if simulated:
        pm.Simulator("y", normal, mean, deviation, observed=observed)
    else:
        pm.Normal("y", mean, deviation, observed=observed)


@problem("raw data")
def raw_line(simulated):
    """40 points about a line"""
    x = np.linspace(0, 4, 40)
    observed = np.random.default_rng(17).normal(1.0 + 0.7 * x, 0.8)
    intercept, slope = pm.Normal("intercept", 0, 2), pm.Normal("slope", 0, 2)
    sigma = pm.HalfNormal("sigma", 2)
    if simulated:
        pm.Simulator("y", normal, intercept + slope * x, sigma, observed=observed)
    else:
        pm.Normal("y", intercept + slope * x, sigma, observed=observed)


TIMES = np.linspace(0, 1, 200)
WAVE = np.random.default_rng(18).normal(np.sin(2 * np.pi * 5 * TIMES), 1.2)


@problem("raw data")
def sinusoid(simulated):
    """200 points of a sinusoid of unknown frequency"""
    frequency = pm.Uniform("frequency", 0, 10)
    amplitude, sigma = pm.HalfNormal("amplitude", 1), pm.HalfNormal("sigma", 1)
    wave = amplitude * pm.math.sin(2 * np.pi * frequency * TIMES)
    if simulated:
        pm.Simulator("y", normal, wave, sigma, observed=WAVE)
    else:
        pm.Normal("y", wave, sigma, observed=WAVE)


@problem("raw data")
def decay(simulated):
    """25 measurements of a decay to a background"""
    t = np.linspace(0, 5, 25)
    observed = np.random.default_rng(19).normal(0.4 + 3.0 * np.exp(-0.9 * t), 0.25)
    amplitude, rate = pm.HalfNormal("amplitude", 4), pm.LogNormal("rate", 0, 0.7)
    background, sigma = pm.HalfNormal("background", 1), pm.HalfNormal("sigma", 0.5)
    curve = background + amplitude * pm.math.exp(-rate * t)
    if simulated:
        pm.Simulator("y", normal, curve, sigma, observed=observed)
    else:
        pm.Normal("y", curve, sigma, observed=observed)
