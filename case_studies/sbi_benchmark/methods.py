"""What is compared: each method by its name, all with the same signature.

A method that is fitted once serves all observations. One that goes in rounds simulates for each.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import pymc_kbr as pk
from case_studies.sbi_benchmark.neural import NeuralSplineFlow
from case_studies.sbi_benchmark.task import Task
from pymc_kbr.estimators.likelihood.choice import scale_of_many

DRAWS = 10_000
ROUNDS = 5


@dataclass(frozen=True)
class Answer:
    """Draws of one posterior, and what they took.

    Parameters
    ----------
    draws : ndarray of shape (10000, p)
    seconds : mapping of str to float
        Of "simulate", "fit" and "condition"; the last is conditioning and drawing.
    log_evidence : float
        NaN where the method has none.
    chosen : str
        The estimator, or the form of the likelihood, that was chosen.
    """

    draws: np.ndarray
    seconds: dict[str, float]
    log_evidence: float
    chosen: str


Answering = Callable[[int], Answer]
"""From the number of an observation to draws."""

Method = Callable[[Task, int], Answering]
"""From a task and a number of simulations to what answers for its observations."""


@dataclass(frozen=True)
class Simulated:
    """A reference table, and the seconds it took."""

    table: pk.ReferenceTable
    seconds: float


def simulated(task: Task, budget: int) -> Simulated:
    """The task's table of `budget` simulations, the same for every method."""
    started = time.perf_counter()
    rng = np.random.default_rng(seed_of(task, budget))
    parameters = task.prior(budget, rng)
    statistics = task.simulate(parameters, rng)
    columns = [f"x_{i}" for i in range(task.statistics_size)]
    rows = pd.DataFrame(np.hstack([parameters, statistics]), columns=[*task.names, *columns])
    bounds = None if task.law.bounds is None else dict.fromkeys(task.names, task.law.bounds)
    table = pk.ReferenceTable.from_dataframe(rows, parameters=task.names, statistics=columns, bounds=bounds)
    return Simulated(table, time.perf_counter() - started)


def seed_of(task: Task, *numbers: int) -> list[int]:
    """A seed for each task and numbers."""
    return [*task.name.encode(), *numbers]


def answer(
    task: Task, fitted: Any, number: int, seconds: dict[str, float], chosen: Callable[[Any], str]
) -> Answer:
    """Condition a fitted estimator on observation `number` and draw."""
    started = time.perf_counter()
    posterior = fitted.condition(task.observation(number))
    draws = posterior.draw(DRAWS, np.random.default_rng(seed_of(task, number)))
    spent = time.perf_counter() - started
    evidence = float(posterior.settings.get("log_evidence", np.nan))
    return Answer(draws, {**seconds, "condition": spent}, evidence, chosen(fitted))


def of_table(fit: Callable[[Task, pk.ReferenceTable, int], Any], chosen: Callable[[Any], str]) -> Method:
    """A method that fits once; `fit` takes the task, its table and a seed."""

    def method(task: Task, budget: int) -> Answering:
        made = simulated(task, budget)
        started = time.perf_counter()
        fitted = fit(task, made.table, budget)
        seconds = {"simulate": made.seconds, "fit": time.perf_counter() - started}
        return lambda number: answer(task, fitted, number, seconds, chosen)

    return method


def _rejection(task: Task, table: pk.ReferenceTable, seed: int) -> Any:
    return pk.Rejection().fit(table.parameters, table.statistics, table.support)


def _auto(task: Task, table: pk.ReferenceTable, seed: int) -> Any:
    return pk.select(table, random_seed=seed, progressbar=False).for_draws(DRAWS)


def _kernel_likelihood(form: str) -> Callable[[Task, pk.ReferenceTable, int], Any]:
    def fit(task: Task, table: pk.ReferenceTable, seed: int) -> Any:
        estimator = pk.KernelLikelihood(form=form, particles=DRAWS)
        return estimator.fit(
            table.parameters, table.statistics, table.support, log_prior=task.log_prior, random_seed=seed
        )

    return fit


def _selected(fitted: Any) -> str:
    return str(fitted.selection_.chosen.label)


def _form(fitted: Any) -> str:
    return str(fitted.choice_.name)


def rounds(task: Task, budget: int) -> Answering:
    """`pk.refine`, then `KernelLikelihood` on the rows of all rounds; simulates for each observation.

    Where few of many statistics depend on the parameters, the likelihood is that of these, as in the rounds.
    """

    def answering(number: int) -> Answer:
        started = time.perf_counter()
        clock = Clock(task)
        model = model_of(task, task.observation(number), clock)
        seed = np.random.default_rng(seed_of(task, budget, number))
        table = pk.refine(budget, model=model, rounds=ROUNDS, random_seed=seed, progressbar=False)
        scale = scale_of_many(table.statistics, table.parameters)
        fitted = pk.KernelLikelihood(particles=DRAWS, scale=scale).fit(
            table.parameters,
            table.statistics,
            table.support,
            ratio=table.prior_ratio,
            log_prior=task.log_prior,
            random_seed=seed,
        )
        fitting = time.perf_counter() - started - clock.seconds
        return answer(task, fitted, number, {"simulate": clock.seconds, "fit": fitting}, _form)

    return answering


class Clock:
    """A task's simulator as PyMC calls it, adding up the seconds it takes."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.seconds = 0.0

    def __call__(self, rng: np.random.Generator, theta: np.ndarray, size: Any = None) -> np.ndarray:
        """Statistics for parameters (p,) or (n, p)."""
        started = time.perf_counter()
        rows = np.atleast_2d(theta)
        if size and len(rows) == 1:
            rows = np.repeat(rows, size[0], axis=0)
        statistics = self.task.simulate(rows, rng)
        self.seconds += time.perf_counter() - started
        return statistics if np.ndim(theta) > 1 or size else statistics[0]


def model_of(task: Task, observed: np.ndarray, simulator: Callable[..., np.ndarray]) -> Any:
    """The task as a PyMC model with one vector of parameters, `theta`."""
    import pymc as pm

    with pm.Model() as model:
        pk.vector_simulator("x", simulator, task.law.variable("theta"), observed=observed)
    return model


METHODS: dict[str, Method] = {
    "rejection": of_table(_rejection, lambda fitted: "Rejection"),
    "auto": of_table(_auto, _selected),
    "kernel_likelihood": of_table(_kernel_likelihood("auto"), _form),
    "location_scale": of_table(_kernel_likelihood("location_scale"), _form),
    "autoregressive": of_table(_kernel_likelihood("autoregressive"), _form),
    "rounds": rounds,
    "npe": of_table(NeuralSplineFlow.fit, lambda fitted: "neural spline flow"),
}
