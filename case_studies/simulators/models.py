"""A normal distribution and the Lotka-Volterra equations, as in PyMC's gallery of ABC, and an epidemic.

Their posteriors are known on a grid; no estimator uses that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pymc as pm
from scipy.integrate import odeint
from scipy.stats import halfnorm, norm

import pymc_kbr as pk

DATA = np.random.default_rng(2020).normal(0.0, 1.0, 1000)
TIMES = np.linspace(0, 15, 100)
START = (10.0, 5.0)
DEATH, GROWTH = 1.5, 0.75
"""Of the predators; rates c and d of the gallery, which are not estimated."""

TRUTH = {"a": 1.0, "b": 0.1}
TOLERANCE = 10.0
"""The gallery's epsilon: under its Gaussian distance the deviation of normal noise on each population."""

DAYS = np.arange(1.0, 31.0)
COUNTED = 25.0
"""Deviation of the noise on the number of infected."""


@dataclass(frozen=True)
class Study:
    """A model to be estimated.

    Parameters
    ----------
    model : callable, optional
        The PyMC model whose table we simulate, with all noise; where left out, statistics are only predicted.
    gallery : callable
        From epsilon to the gallery's model, for `sample_smc`.
    epsilons : tuple of float
        The gallery's, then others that are tried.
    exact : callable
        Mean (2,) and standard deviation (2,) of the exact posterior; from the points of the last grid in each
        direction, where these are to be fewer.
    one_table : bool
        Whether a table of the whole prior is tried too.
    noise : float, optional
        Of the observation, where the gallery's simulator is without noise and statistics can be predicted.
    batched : bool, optional
        Whether the simulator takes many parameters at once; where left out this is found out.
    """

    model: Callable[[], pm.Model] | None
    gallery: Callable[[float], pm.Model]
    epsilons: tuple[float, ...]
    exact: Callable[..., tuple[np.ndarray, np.ndarray]]
    one_table: bool = True
    noise: float | None = None
    batched: bool | None = None


def normal_sim(
    rng: np.random.Generator, a: np.ndarray, b: np.ndarray, size: tuple[int, ...] | None = None
) -> np.ndarray:
    """Independent draws from a normal distribution."""
    return rng.normal(a, b, size=size)


def normal_model(epsilon: float = 1.0) -> pm.Model:
    """The gallery's model: mean and standard deviation from 1,000 data, which are compared sorted."""
    with pm.Model() as model:
        a = pm.Normal("a", 0, 5)
        b = pm.HalfNormal("b", 1)
        pm.Simulator("s", normal_sim, a, b, sum_stat="sort", epsilon=epsilon, observed=DATA)
    return model


def normal_exact(finest: int = 401) -> tuple[np.ndarray, np.ndarray]:
    """On a grid around the data's own mean and deviation."""
    a = DATA.mean() + np.linspace(-0.3, 0.3, finest)[:, None]
    b = DATA.std() + np.linspace(-0.2, 0.2, finest)[None]
    squares = np.sum((DATA - DATA.mean()) ** 2) + len(DATA) * (a - DATA.mean()) ** 2
    log = -len(DATA) * np.log(b) - squares / (2 * b**2) + norm.logpdf(a, 0, 5) + halfnorm.logpdf(b)
    return moments(a, b, log)


def path(a: float, b: float, tolerance: float = 0.01) -> np.ndarray:
    """Prey and predators at `TIMES`, shape (200,), to the gallery's relative tolerance or another one."""

    def slopes(state: np.ndarray, _: float) -> tuple[float, float]:
        prey, predators = state
        eaten = b * prey * predators
        return a * prey - eaten, GROWTH * eaten - DEATH * predators

    return odeint(slopes, START, TIMES, rtol=tolerance).ravel()


def competition(
    rng: np.random.Generator, a: float, b: float, size: tuple[int, ...] | None = None
) -> np.ndarray:
    """The gallery's simulator: the equations' solution."""
    return path(float(a), float(b))


def competition_with_noise(
    rng: np.random.Generator, a: float, b: float, size: tuple[int, ...] | None = None
) -> np.ndarray:
    """The same with the noise that the gallery's epsilon stands for."""
    solution = path(float(a), float(b))
    return solution + TOLERANCE * rng.normal(size=solution.shape)


OBSERVED = path(**TRUTH) + np.random.default_rng(2021).normal(size=2 * len(TIMES))


def lotka_volterra_model(
    epsilon: float = TOLERANCE, simulator: Callable[..., np.ndarray] = competition_with_noise
) -> pm.Model:
    """The gallery's model: rates of birth and predation from both populations over time."""
    with pm.Model() as model:
        a = pm.HalfNormal("a", 1)
        b = pm.HalfNormal("b", 1)
        pk.vector_simulator("populations", simulator, a, b, observed=OBSERVED, epsilon=epsilon)
    return model


@cache
def lotka_volterra_exact(finest: int = 193) -> tuple[np.ndarray, np.ndarray]:
    """On a grid that closes in on the posterior.

    With its tolerance of 0.01 the solver's steps change abruptly with the rates. The last grid is fine, to
    average this out.
    """
    return exact_on_a_grid(path, OBSERVED, TOLERANCE, TRUTH, (0.05, 0.01), (49, 49, finest))


def infected(a: float, b: float) -> np.ndarray:
    """How many of a thousand are infected at `DAYS`, shape (30,)."""

    def slopes(state: np.ndarray, _: float) -> tuple[float, float]:
        susceptible, ill = state
        caught = a * susceptible * ill / 1000
        return -caught, caught - b * ill

    return odeint(slopes, (999.0, 1.0), DAYS)[:, 1]


def epidemic(rng: np.random.Generator, a: float, b: float, size: tuple[int, ...] | None = None) -> np.ndarray:
    """Susceptible, infected and recovered: the equations' solution."""
    return infected(float(a), float(b))


EPIDEMIC_TRUTH = {"a": 0.8, "b": 0.25}
ILL = infected(**EPIDEMIC_TRUTH) + COUNTED * np.random.default_rng(2022).normal(size=len(DAYS))


def epidemic_model(epsilon: float = COUNTED) -> pm.Model:
    """Rates of infection and of recovery a day, from the infected."""
    with pm.Model() as model:
        a = pm.HalfNormal("a", 1)
        b = pm.HalfNormal("b", 1)
        pk.vector_simulator("infected", epidemic, a, b, observed=ILL, epsilon=epsilon)
    return model


def epidemic_exact(finest: int = 97) -> tuple[np.ndarray, np.ndarray]:
    """On a grid that closes in on the posterior."""
    return exact_on_a_grid(infected, ILL, COUNTED, EPIDEMIC_TRUTH, (0.05, 0.02), (49, 49, finest))


def exact_on_a_grid(
    solve: Callable[[float, float], np.ndarray],
    observed: np.ndarray,
    noise: float,
    truth: dict[str, float],
    deviations: tuple[float, float],
    sizes: tuple[int, ...],
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of two rates with half-normal priors, on one grid after another.

    Parameters
    ----------
    solve : callable
        The equations' solution (d,) for two rates.
    observed : ndarray of shape (d,)
    noise : float
        Standard deviation of the normal noise on it.
    truth : dict of str to float
        About which the first grid lies.
    deviations : tuple of float
        Of which it reaches six in each direction.
    sizes : tuple of int
        Points of each grid in each direction.
    """
    mean, deviation = np.array(list(truth.values())), np.array(deviations)
    for points in sizes:
        a = mean[0] + np.linspace(-6, 6, points)[:, None] * deviation[0]
        b = mean[1] + np.linspace(-6, 6, points)[None] * deviation[1]
        squares = np.array([[np.sum((solve(p, q) - observed) ** 2) for q in b[0]] for p in a[:, 0]])
        log = -squares / (2 * noise**2) + halfnorm.logpdf(a) + halfnorm.logpdf(b)
        mean, found = moments(a, b, log)
        deviation = np.maximum(found, deviation / 10)
    return mean, found


def moments(a: np.ndarray, b: np.ndarray, log: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations of a density on a grid."""
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    means = np.array([np.sum(weights * a), np.sum(weights * b)])
    variances = [np.sum(weights * (a - means[0]) ** 2), np.sum(weights * (b - means[1]) ** 2)]
    return means, np.sqrt(np.array(variances))


STUDIES = {
    "normal": Study(normal_model, normal_model, (1.0, 0.3), normal_exact),
    "lotka_volterra": Study(
        lotka_volterra_model,
        lambda epsilon: lotka_volterra_model(epsilon, competition),
        (TOLERANCE,),
        lotka_volterra_exact,
        noise=TOLERANCE,
        batched=False,
    ),
    "lotka_volterra_with_noise": Study(
        lotka_volterra_model,
        lotka_volterra_model,
        (TOLERANCE,),
        lotka_volterra_exact,
        one_table=False,
        batched=False,
    ),
    "epidemic": Study(
        None, epidemic_model, (COUNTED,), epidemic_exact, one_table=False, noise=COUNTED, batched=False
    ),
}
"""The gallery's two models; the second one with its noise in the simulator for `sample_smc`, too; and an
epidemic, on which nothing was settled."""
