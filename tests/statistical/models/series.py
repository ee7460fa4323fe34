"""Time series: summarised and raw."""

import numpy as np
import pymc as pm
from scipy import stats

import pymc_kbr as pk
from tests.statistical.models.problem import problem


def autoregression(rng, phi, s, size=None):
    """200 values, the first of the stationary distribution."""
    phi, s = np.asarray(phi, dtype=float), np.asarray(s, dtype=float)
    noise = s[..., None] * rng.standard_normal((*phi.shape, 200))
    x = np.empty_like(noise)
    x[..., 0] = noise[..., 0] / np.sqrt(1 - phi**2)
    for t in range(1, 200):
        x[..., t] = phi * x[..., t - 1] + noise[..., t]
    return x


def summaries_of(x):
    """Variance, and autocorrelations at lags one and two."""
    x = x - x.mean(axis=-1, keepdims=True)
    variance = (x**2).mean(axis=-1)
    lags = [(x[..., k:] * x[..., :-k]).mean(axis=-1) / variance for k in (1, 2)]
    return np.stack([variance, *lags], axis=-1)


SUMMARISED = summaries_of(autoregression(np.random.default_rng(24), 0.6, 0.9))


def summaries(rng, phi, s, size=None):
    return summaries_of(autoregression(rng, phi, s))


def summarised_series_exact(simulations=4_000_000, tolerance=0.004):
    """Rejection in the autocorrelations, and exact in the variance.

    The autocorrelations do not depend on s, and the variance is that of s = 1 times s^2. So a series of s = 1
    whose autocorrelations are the observed ones, and whose variance is v, stands for s = sqrt(observed / v)
    with a weight of p(s) ds / d(observed), which is p(s) s / (2 observed).
    """
    rng, kept = np.random.default_rng(1), []
    for _ in range(simulations // 20_000):
        phi = rng.uniform(*PHI_BETWEEN, 20_000)
        noise = rng.standard_normal((20_000, 200))
        noise[:, 0] /= np.sqrt(1 - phi**2)
        x = _filtered(noise, phi)
        found = summaries_of(x)
        near = np.abs(found[:, 1:] - SUMMARISED[1:]).max(axis=1) < tolerance
        kept.append(np.column_stack([phi, found[:, 0]])[near])
    phi, variance = np.concatenate(kept).T
    s = np.sqrt(SUMMARISED[0] / variance)
    weights = stats.halfnorm(scale=2).pdf(s) * s
    weights /= weights.sum()
    means = [weights @ one for one in (phi, s)]
    spread = [np.sqrt(weights @ (one - m) ** 2) for one, m in zip((phi, s), means, strict=True)]
    error = np.sqrt(np.sum(weights**2))
    return {"phi": (means[0], spread[0], error), "s": (means[1], spread[1], error)}


PHI_BETWEEN = (0.2, 0.95)
"""Outside there is less than a millionth of the posterior of the summarised series."""


def _filtered(noise, phi):
    x = noise.T.copy()
    for t in range(1, len(x)):
        x[t] += phi * x[t - 1]
    return x.T


@problem("time series", summarised_series_exact, "rejection near the limit")
def summarised_series(simulated):
    """Variance and two autocorrelations of 200 values of an autoregression"""
    phi, s = pm.Uniform("phi", -1, 1), pm.HalfNormal("s", 2)
    if simulated:
        pk.vector_simulator("summaries", summaries, phi, s, observed=SUMMARISED)
    else:
        raise NotImplementedError("the summaries' density is not known")


RAW = autoregression(np.random.default_rng(25), 0.55, 1.0)


@problem("time series")
def raw_series(simulated):
    """200 raw values of an autoregression"""
    phi, s = pm.Uniform("phi", -1, 1), pm.HalfNormal("s", 1)
    if simulated:
        pk.vector_simulator("x", autoregression, phi, s, observed=RAW)
    else:
        pm.Normal("first", 0, s / pm.math.sqrt(1 - phi**2), observed=RAW[0])
        pm.Normal("x", phi * RAW[:-1], s, observed=RAW[1:])


def level_and_noise(rng, step, noise, size=None):
    """60 values of a random walk, measured with noise."""
    steps = np.asarray(step)[..., None] * rng.standard_normal((*np.shape(step), 60))
    return np.cumsum(steps, axis=-1) + np.asarray(noise)[..., None] * rng.standard_normal(steps.shape)


LEVELS = level_and_noise(np.random.default_rng(26), 0.4, 0.7)
WALK = np.minimum(*np.meshgrid(np.arange(1.0, 61), np.arange(1.0, 61)))
"""Covariances of a random walk's values."""


@problem("time series")
def local_level(simulated):
    """60 raw values of a random walk measured with noise"""
    step, noise = pm.HalfNormal("step", 1), pm.HalfNormal("noise", 1)
    if simulated:
        pk.vector_simulator("y", level_and_noise, step, noise, observed=LEVELS)
    else:
        covariance = step**2 * WALK + noise**2 * np.eye(60)
        pm.MvNormal("y", np.zeros(60), covariance, observed=LEVELS)


def weather(rng, rains, stays, size=None):
    """Dry days, days on which rain begins and on which it stays, of 120 after a dry one."""
    rains, stays = np.asarray(rains), np.asarray(stays)
    wet = np.zeros(rains.shape, dtype=bool)
    counts = np.zeros((*rains.shape, 3))
    for _ in range(120):
        tomorrow = rng.random(rains.shape) < np.where(wet, stays, rains)
        counts += np.stack([~wet, ~wet & tomorrow, wet & tomorrow], axis=-1)
        wet = tomorrow
    return counts


DAYS = weather(np.random.default_rng(27), 0.25, 0.6)


def weather_exact():
    dry, begins, remains = DAYS
    posteriors = {
        "rains": stats.beta(1 + begins, 3 + dry - begins),
        "stays": stats.beta(2 + remains, 2 + 120 - dry - remains),
    }
    return {name: (one.mean(), one.std()) for name, one in posteriors.items()}


@problem("time series", weather_exact, "closed form")
def wet_days(simulated):
    """Transitions between dry and wet on 120 days"""
    rains, stays = pm.Beta("rains", 1, 3), pm.Beta("stays", 2, 2)
    if simulated:
        pk.vector_simulator("days", weather, rains, stays, observed=DAYS)
    else:
        dry, begins, remains = DAYS
        pm.Binomial("begins", dry, rains, observed=begins)
        pm.Binomial("remains", 120 - dry, stays, observed=remains)
