"""Waiting times of participants: drift and threshold of each, from a group; and their exact likelihood.

A decision falls when evidence, a Brownian motion with drift v, first reaches a threshold a: after a time that
has the inverse Gaussian (Wald) distribution of mean a / v and shape a^2.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from pytensor import tensor as pt

import pymc_kbr as pk

PARTICIPANTS = 20
FEWEST, MOST = 20, 200
CENTRE, DEVIATION = np.array([0.9, 0.1]), np.array([0.4, 0.35])
"""Of the table's log drifts and log thresholds: wider than what the group's prior allows a participant."""

LAPSES, LONGEST = 0.05, 6.0
"""Share of trials that are uniform up to that long, whatever the evidence, in the harder model."""


class Participants(NamedTuple):
    """Simulated participants.

    Attributes
    ----------
    times : ndarray of shape (n,)
        Of all trials.
    who : ndarray of shape (n,)
        Whose each is, from 0.
    truth : ndarray of shape (g, 2)
        Log drifts and log thresholds.
    group : ndarray of shape (4,)
        Means and deviations of these: drift's mean and deviation, threshold's mean and deviation.
    """

    times: np.ndarray
    who: np.ndarray
    truth: np.ndarray
    group: np.ndarray


def table_parameters(n: int, rng: np.random.Generator) -> np.ndarray:
    """Log drifts and log thresholds (n, 2) that are simulated at."""
    return CENTRE + DEVIATION * rng.standard_normal((n, 2))


def table_log_density(theta: np.ndarray) -> np.ndarray:
    """Log density (n,) of `table_parameters`, but for a constant."""
    return -0.5 * np.sum(((theta - CENTRE) / DEVIATION) ** 2, axis=1)


def simulate(theta: np.ndarray, rng: np.random.Generator, lapses: float = 0.0) -> np.ndarray:
    """One waiting time (n,) for each row of log drift and log threshold (n, 2)."""
    drift, threshold = np.exp(theta[:, 0]), np.exp(theta[:, 1])
    times = rng.wald(threshold / drift, threshold**2)
    if lapses:
        times = np.where(rng.random(len(times)) < lapses, rng.uniform(0, LONGEST, len(times)), times)
    return times


def simulate_rows(theta: np.ndarray, rng: np.random.Generator, lapses: float = 0.0) -> np.ndarray:
    """A table's statistics (n, 1): one waiting time a row."""
    return simulate(theta, rng, lapses)[:, None]


def log_density(times: np.ndarray, theta: np.ndarray, lapses: float = 0.0) -> np.ndarray:
    """Exact log densities of waiting times (...) at log drifts and log thresholds (..., 2)."""
    drift, threshold = np.exp(theta[..., 0]), np.exp(theta[..., 1])
    exponent = -((threshold - drift * times) ** 2) / (2 * times)
    logs = np.log(threshold) - 0.5 * np.log(2 * np.pi * times**3) + exponent
    if not lapses:
        return logs
    uniform = np.where(times <= LONGEST, np.log(lapses / LONGEST), -np.inf)
    return np.logaddexp(np.log1p(-lapses) + logs, uniform)


def participants(random_seed: int) -> Participants:
    """Twenty of them, with 20 to 200 trials each."""
    rng = np.random.default_rng(random_seed)
    group = np.array([0.9, 0.3, 0.1, 0.2])
    truth = group[[0, 2]] + group[[1, 3]] * rng.standard_normal((PARTICIPANTS, 2))
    counts = rng.permutation(np.linspace(FEWEST, MOST, PARTICIPANTS).astype(int))
    who = np.repeat(np.arange(PARTICIPANTS), counts)
    return Participants(simulate(truth[who], rng), who, truth, group)


def group_level() -> tuple[Any, Any]:
    """Log drift and log threshold of each participant, in the model that is open."""
    parameters = []
    for name, centre in (("drift", CENTRE[0]), ("threshold", CENTRE[1])):
        mean = pm.Normal(f"{name}_mean", centre, 0.4)
        deviation = pm.HalfNormal(f"{name}_deviation", 0.3)
        parameters.append(pm.Normal(name, mean, deviation, shape=PARTICIPANTS))
    return parameters[0], parameters[1]


def exact_model(data: Participants) -> pm.Model:
    """With PyMC's own Wald distribution."""
    with pm.Model() as model:
        drift, threshold = group_level()
        mean, shape = pt.exp(threshold - drift), pt.exp(2 * threshold)
        pm.Wald("times", mu=mean[data.who], lam=shape[data.who], observed=data.times)
    return model


def learned_model(data: Participants, likelihood: pk.KernelLikelihood) -> pm.Model:
    """With the likelihood of one trial as it was learnt."""
    with pm.Model() as model:
        drift, threshold = group_level()
        pk.LearnedSimulator("times", likelihood, drift, threshold, observed=data.times, group=data.who)
    return model


def simulator_model(data: Participants, epsilon: float) -> pm.Model:
    """For `pm.sample_smc`: mean and deviation of each participant's log times, in units of their errors."""
    counts = np.bincount(data.who)
    errors = np.bincount(data.who, np.log(data.times) ** 2) / counts
    errors = np.sqrt((errors - (np.bincount(data.who, np.log(data.times)) / counts) ** 2) / counts)

    def draw(rng: np.random.Generator, drift: Any, threshold: Any, size: Any = None) -> np.ndarray:
        return simulate(np.column_stack([drift, threshold])[data.who], rng)

    def summarise(times: np.ndarray) -> np.ndarray:
        logs = np.log(times)
        means = np.bincount(data.who, logs) / counts
        deviations = np.sqrt(np.bincount(data.who, (logs - means[data.who]) ** 2) / counts)
        return np.concatenate([means / errors, np.sqrt(2) * deviations / errors])

    with pm.Model() as model:
        drift, threshold = group_level()
        pm.Simulator(
            "times", draw, drift, threshold, sum_stat=summarise, epsilon=epsilon, observed=data.times
        )
    return model
