"""A stochastic epidemic in one region or several: simulator, statistics and models.

Susceptible, exposed, infected, recovered, by chains of binomial draws a day, with a force of infection that
varies from day to day and cases of which a share is reported.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pymc as pm

import pymc_kbr as pk

WEEKS, POPULATION, DAYS_LATENT = 22, 20_000, 3.0
NOISE = 20.0
"""Shape of the gamma factors, of mean one, on each day's force of infection and each week's reports."""

NAMES = ("log R0", "log days", "logit reporting", "log seeds")
LOWEST = np.array([0.1, np.log(3.0), -2.6, np.log(5.0)])
HIGHEST = np.array([1.4, np.log(9.0), 1.4, np.log(100.0)])
"""Between which regions are simulated, uniformly."""

STATISTICS = ("total", "peak", "mean week", "spread in weeks", "weeks 1 to 4", "weeks 5 to 8")


class Regions(NamedTuple):
    """Simulated regions.

    Attributes
    ----------
    cases : ndarray of shape (g, weeks)
    statistics : ndarray of shape (g, d)
    crowding : ndarray of shape (g,)
        A covariate of log R0.
    group : dict of str to float
        True parameters of the group.
    truth : ndarray of shape (g, 4)
        In the order of `NAMES`.
    """

    cases: np.ndarray
    statistics: np.ndarray
    crowding: np.ndarray
    group: dict[str, float]
    truth: np.ndarray


def table_parameters(n: int, rng: np.random.Generator) -> np.ndarray:
    """Parameters (n, 4) that are simulated at."""
    return rng.uniform(LOWEST, HIGHEST, (n, len(LOWEST)))


def simulate(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Reported cases (n, weeks) of n regions with parameters (n, 4), all regions a day at a time."""
    reproduction, days = np.exp(theta[:, 0]), np.exp(theta[:, 1])
    infected = np.rint(np.exp(theta[:, 3])).astype(np.int64)
    susceptible, exposed = POPULATION - infected, np.zeros_like(infected)
    becomes_infectious, recovers = 1 - np.exp(-1 / DAYS_LATENT), 1 - np.exp(-1 / days)
    fresh = np.zeros((len(theta), WEEKS))
    for day in range(7 * WEEKS):
        force = reproduction * recovers * infected / POPULATION * rng.gamma(NOISE, 1 / NOISE, len(theta))
        newly_exposed = rng.binomial(susceptible, 1 - np.exp(-force))
        newly_infected = rng.binomial(exposed, becomes_infectious)
        recovered = rng.binomial(infected, recovers)
        susceptible = susceptible - newly_exposed
        exposed = exposed + newly_exposed - newly_infected
        infected = infected + newly_infected - recovered
        fresh[:, day // 7] += newly_infected
    reported = 1 / (1 + np.exp(-theta[:, 2:3]))
    return rng.poisson(reported * fresh * rng.gamma(NOISE, 1 / NOISE, fresh.shape))


def summarise(cases: np.ndarray) -> np.ndarray:
    """The statistics (..., 6) of weekly cases (..., weeks), in the order of `STATISTICS`."""
    week = np.arange(1, WEEKS + 1)
    # One case spread over all weeks: those without cases have a mean week, too.
    shares = (cases + 1 / WEEKS) / (cases.sum(axis=-1, keepdims=True) + 1)
    mean = shares @ week
    spread = np.sqrt(shares @ week**2 - mean**2)
    sums = [cases.sum(axis=-1), cases.max(axis=-1), cases[..., :4].sum(axis=-1), cases[..., 4:8].sum(axis=-1)]
    total, peak, first, second = (np.log(1 + part) for part in sums)
    return np.stack([total, peak, mean, np.log(spread), first, second], axis=-1)


def simulate_rows(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A table's statistics (n, 6): of one region a row."""
    return summarise(simulate(theta, rng))


def regions(random_seed: int, count: int = 8) -> Regions:
    """Regions whose rates are of one group."""
    rng = np.random.default_rng(random_seed)
    group = {"mean_log_R0": 0.7, "deviation_log_R0": 0.15, "slope": 0.1, "log_days": float(np.log(5.0))}
    crowding = np.linspace(-1.5, 1.5, count)
    truth = np.column_stack(
        [
            group["mean_log_R0"] + group["slope"] * crowding + 0.15 * rng.standard_normal(count),
            np.full(count, group["log_days"]),
            rng.normal(-0.7, 0.4, count),
            rng.normal(np.log(25.0), 0.4, count),
        ]
    )
    cases = simulate(truth, rng)
    return Regions(cases, summarise(cases), crowding, group, truth)


def group_level(data: Regions) -> list[Any]:
    """Log R0, log days, logit reporting and log seeds of each region, in the model that is open."""
    count = len(data.crowding)
    centre, slope = pm.Normal("mean_log_R0", 0.7, 0.25), pm.Normal("slope", 0, 0.2)
    deviation = pm.HalfNormal("deviation_log_R0", 0.2)
    days = pm.Normal("log_days", np.log(5.0), 0.05)
    return [
        pm.Normal("log_R0", centre + slope * data.crowding, deviation, shape=count),
        days,
        pm.Normal("logit_reporting", -0.7, 0.5, shape=count),
        pm.Normal("log_seeds", np.log(25.0), 0.5, shape=count),
    ]


def learned_model(data: Regions, likelihood: pk.KernelLikelihood) -> pm.Model:
    """With the likelihood of one region as it was learnt."""
    with pm.Model() as model:
        pk.LearnedSimulator("cases", likelihood, *group_level(data), observed=data.statistics)
    return model


def simulator_model(data: Regions, random_seed: int, epsilon: float) -> pm.Model:
    """For `pm.sample_smc`: all regions' statistics over their deviations at the centre of the prior."""
    centre = np.tile([0.7, np.log(5.0), -0.7, np.log(25.0)], (500, 1))
    deviations = simulate_rows(centre, np.random.default_rng(random_seed)).std(axis=0)

    def draw(rng: np.random.Generator, *parameters: Any, size: Any = None) -> np.ndarray:
        columns = [np.broadcast_to(one, len(data.crowding)) for one in parameters]
        return simulate(np.column_stack(columns), rng).ravel()

    def scaled(cases: np.ndarray) -> np.ndarray:
        return (summarise(cases.reshape(-1, WEEKS)) / deviations).ravel()

    with pm.Model() as model:
        cases = data.cases.ravel()
        pm.Simulator("cases", draw, *group_level(data), sum_stat=scaled, epsilon=epsilon, observed=cases)
    return model
