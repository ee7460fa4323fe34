"""Six simulators as PyMC models: epidemic, unseen prey, g-and-k, Ricker's map, a queue, two models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from scipy.integrate import odeint

Generator = np.random.Generator


@dataclass(frozen=True)
class Problem:
    """A prior and a simulator.

    Parameters
    ----------
    prior : callable
        Registers the parameters in the PyMC model around it and returns them in the simulator's order.
    statistics : callable
        ``statistics(rng, *parameters)``, an array (d,).
    names : tuple of str
        Of the parameters.
    number : int
        Statistics.
    """

    prior: Callable[[], list]
    statistics: Callable[..., np.ndarray]
    names: tuple[str, ...]
    number: int

    def model(self, observed: np.ndarray, scale: np.ndarray | float = 1.0, epsilon: float = 1.0) -> pm.Model:
        """The PyMC model; `scale` (d,) divides the statistics, as `sample_smc` takes one epsilon for all."""

        def scaled(rng: Generator, *passed: Any) -> np.ndarray:
            parameters = passed[:-1]  # PyMC passes the size last
            return self.statistics(rng, *(np.asarray(one).item() for one in parameters)) / scale

        with pm.Model() as model:
            pm.Simulator("x", scaled, *self.prior(), epsilon=epsilon, observed=observed / scale)
        return model


def epidemic(
    rng: Generator, infection: float, incubation: float, recovery: float, reported: float, days: int = 70
) -> np.ndarray:
    """Weekly reported cases, on a logarithmic scale, of 10,000 people of whom 10 are infected; (10,)."""
    susceptible, exposed, infected, cases = 9990, 0, 10, np.zeros(days)
    leave, recover = 1 - np.exp(-1 / incubation), 1 - np.exp(-1 / recovery)
    for day in range(days):
        caught = rng.binomial(susceptible, 1 - np.exp(-infection / recovery * infected / 10_000))
        ill, well = rng.binomial(exposed, leave), rng.binomial(infected, recover)
        susceptible, exposed, infected = susceptible - caught, exposed + caught - ill, infected + ill - well
        cases[day] = ill
    return np.log1p(rng.binomial(cases.astype(int), reported).reshape(-1, 7).sum(axis=1))


def unseen_prey(rng: Generator, a: float, b: float, c: float) -> np.ndarray:
    """Logarithms of the predators at 20 times of the Lotka-Volterra equations, with noise of 0.1; (20,)."""

    def rates(state: np.ndarray, _: float) -> list[float]:
        prey, predators = state
        return [a * prey - b * prey * predators, 0.75 * b * prey * predators - c * predators]

    states = odeint(rates, [10.0, 5.0], np.linspace(0, 15, 21), rtol=1e-6)
    return np.log(np.maximum(states[1:, 1], 1e-6)) + 0.1 * rng.standard_normal(20)


def g_and_k(rng: Generator, location: float, scale: float, g: float, k: float) -> np.ndarray:
    """The octiles of 1,000 draws as location, scale, skewness and kurtosis; (4,)."""
    z = rng.standard_normal(1000)
    x = location + scale * (1 + 0.8 * np.tanh(g * z / 2)) * z * (1 + z**2) ** k
    o = np.quantile(x, np.arange(1, 8) / 8)
    width = o[5] - o[1]
    tails = (o[6] - o[4] + o[2] - o[0]) / width
    return np.array([o[3], np.log(width), (o[5] + o[1] - 2 * o[3]) / width, np.log(tails)])


def ricker(rng: Generator, log_growth: float, noise: float, observed: float) -> np.ndarray:
    """Wood's statistics of 50 counts, with quantiles of the differences for his cubic regression; (15,)."""
    population, counts = 1.0, np.zeros(50)
    shocks = noise * rng.standard_normal(100)
    for t in range(100):
        population = population * np.exp(log_growth - population + shocks[t])
        if t >= 50:
            counts[t - 50] = rng.poisson(min(observed * population, 1e9))
    centred, power = counts - counts.mean(), counts**0.3
    covariances = [np.mean(centred[lag:] * centred[: 50 - lag]) for lag in range(6)]
    lagged = np.column_stack([power[:-1], power[:-1] ** 2])
    slopes = np.linalg.lstsq(lagged, power[1:], rcond=None)[0]
    differences = np.quantile(np.diff(counts), [0.05, 0.25, 0.5, 0.75, 0.95])
    return np.array([counts.mean(), (counts == 0).sum(), *np.cbrt(covariances), *slopes, *differences])


def queue(rng: Generator, least: float, span: float, arrivals: float) -> np.ndarray:
    """Logarithms of five quantiles of 50 times between departures from a queue with one server; (5,)."""
    service = rng.uniform(least, least + span, 50)
    arrived = np.cumsum(rng.exponential(1 / arrivals, 50))
    departed, times = 0.0, np.zeros(50)
    for i in range(50):
        left = max(departed, arrived[i]) + service[i]
        times[i], departed = left - departed, left
    return np.log(np.quantile(times, [0, 0.25, 0.5, 0.75, 1]) + 1e-3)


def two_models(rng: Generator, index: float, centre: float, spread: float) -> np.ndarray:
    """Median, logarithms of the mean absolute deviation and of the tails of 100 draws of either law; (3,)."""
    x = rng.laplace(size=100) / np.sqrt(2) if index > 0.5 else rng.standard_normal(100)
    x = centre + spread * x
    apart = np.abs(x - np.median(x))
    return np.array([np.median(x), np.log(apart.mean()), np.log(apart.std() / apart.mean())])


def _of_epidemic() -> list:
    return [
        pm.LogNormal("reproduction", np.log(2.5), 0.3),
        pm.LogNormal("incubation", np.log(4), 0.3),
        pm.LogNormal("recovery", np.log(6), 0.3),
        pm.Beta("reported", 4, 4),
    ]


def _of_prey() -> list:
    middles = {"growth": 1.0, "predation": 0.3, "death": 1.0}
    return [pm.LogNormal(name, np.log(middle), 0.3) for name, middle in middles.items()]


def _of_g_and_k() -> list:
    return [pm.Uniform(name, 0, 10) for name in ("A", "B", "g", "k")]


def _of_ricker() -> list:
    return [pm.Uniform("log_r", 2, 5), pm.Uniform("sigma", 0, 0.8), pm.Uniform("phi", 2, 20)]


def _of_queue() -> list:
    return [pm.Uniform("least", 0, 10), pm.Uniform("span", 0, 10), pm.Uniform("arrivals", 0.02, 1 / 3)]


def _of_two_models() -> list:
    return [pm.Bernoulli("index", 0.5), pm.Normal("centre", 0, 2), pm.HalfNormal("spread", 2)]


PROBLEMS = {
    "epidemic": Problem(_of_epidemic, epidemic, ("reproduction", "incubation", "recovery", "reported"), 10),
    "unseen prey": Problem(_of_prey, unseen_prey, ("growth", "predation", "death"), 20),
    "g-and-k": Problem(_of_g_and_k, g_and_k, ("A", "B", "g", "k"), 4),
    "Ricker": Problem(_of_ricker, ricker, ("log_r", "sigma", "phi"), 15),
    "queue": Problem(_of_queue, queue, ("least", "span", "arrivals"), 5),
    "two models": Problem(_of_two_models, two_models, ("index", "centre", "spread"), 3),
}
"""By the names of gallery.csv."""
