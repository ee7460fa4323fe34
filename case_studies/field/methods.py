"""The packages of the field, each with its own settings, on one table of simulations of a problem."""

from __future__ import annotations

import argparse
import logging
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import pymc_kbr as pk
from case_studies.field.problems import Problem
from case_studies.neural import sampled, trained
from case_studies.population_genetics.in_r import NoR, R, found_r
from case_studies.trial_rivals.likelihoods import missing, versions
from case_studies.trial_rivals.posteriors import on_grid
from pymc_kbr.simulation.sample_smc import run_smc

DRAWS = 2_000
"""Of each posterior that has draws; a standard error of 0.022 deviations in a mean."""


@dataclass(frozen=True)
class Work:
    """What every method is given: a problem, a table of it and observations."""

    # Shapes: observed (k, d).
    problem: Problem
    table: pk.ReferenceTable
    observed: np.ndarray
    seed: int
    r: R | None = None

    def logarithms(self, statistics: np.ndarray) -> np.ndarray:
        """Statistics (n, d) for neural networks."""
        found = statistics.copy()
        for place in self.problem.positive:
            found[:, place] = np.log(found[:, place])
        return found


@dataclass(frozen=True)
class Answer:
    """Moments of each observation; seconds of the fit, with one posterior, and of another posterior."""

    # Shapes: means and deviations (k, p).
    means: np.ndarray
    deviations: np.ndarray
    fit: float
    first: float
    another: float
    simulations: int
    estimator: str
    versions: str


class Clock:
    """Processor seconds of this process and its threads."""

    def __init__(self) -> None:
        self.begun = time.process_time()

    def read(self) -> float:
        """Since it was made."""
        return time.process_time() - self.begun


def answered(
    work: Work,
    clock: Clock,
    condition: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    by: str,
    of: str,
) -> Answer:
    """Of a fit that ends now: moments of each observation in turn, from its mean and deviations (p,)."""
    fit, found, times = clock.read(), [], []
    for row in work.observed:
        found.append(condition(row))
        times.append(clock.read())
    another = (times[-1] - times[0]) / (len(times) - 1)
    means, deviations = (np.array(each) for each in zip(*found, strict=True))
    packages = versions(tuple(of.split()))
    return Answer(means, deviations, fit, times[0], another, len(work.table.statistics), by, packages)


def moments(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviations of draws (m, p)."""
    return draws.mean(axis=0), draws.std(axis=0)


def automatic(work: Work) -> Answer:
    """`pk.sample_abc` by default, anew for each observation; another one by its estimator."""
    found, seconds, others, chosen = [], [], [], []
    for row in work.observed:
        clock = Clock()
        idata = pk.sample_abc(
            DRAWS // 2,
            reference_table=work.table.with_observed(row),
            random_seed=work.seed,
            progressbar=False,
        )
        seconds.append(clock.read())
        found.append(
            moments(np.stack([np.ravel(idata["posterior"][name]) for name in work.problem.priors], axis=1))
        )
        estimator, clock = pk.estimator_of(idata), Clock()
        estimator.condition(row).draw(DRAWS, work.seed)
        others.append(clock.read())
        chosen.append(type(estimator).__name__)
    means, deviations = (np.array(each) for each in zip(*found, strict=True))
    first, another = float(np.mean(seconds)), float(np.mean(others))
    by = " and ".join(f"{name} {chosen.count(name)} times" for name in sorted(set(chosen)))
    return Answer(
        means,
        deviations,
        first - another,
        first,
        another,
        len(work.table.statistics),
        by,
        versions(("pymc_kbr", "numpy", "scipy")),
    )


def by_estimator(work: Work, estimator: pk.Estimator) -> Answer:
    """An estimator of ours, fitted once."""
    clock = Clock()
    estimator.fit(work.table, random_seed=work.seed)
    name = type(estimator).__name__
    return answered(
        work,
        clock,
        lambda row: moments(estimator.condition(row).draw(DRAWS, work.seed)),
        name,
        "pymc_kbr numpy scipy",
    )


def smc(work: Work, smaller: bool) -> Answer:
    """PyMC's `sample_smc`, which simulates anew for each observation."""
    found, seconds, simulations = [], [], []
    for row in work.observed:
        epsilon: Any = 0.1 * work.problem.unit(row) if smaller else 1.0
        model = work.problem.model(row, epsilon)
        clock = Clock()
        run = run_smc(model, draws=DRAWS // 2, chains=2, random_seed=work.seed)
        seconds.append(clock.read())
        found.append(moments(run.draws))
        simulations.append(run.simulations)
    means, deviations = (np.array(each) for each in zip(*found, strict=True))
    mean = float(np.mean(seconds))
    count = round(float(np.mean(simulations)))
    return Answer(means, deviations, 0.0, mean, mean, count, "sample_smc", versions(("pymc",)))


def in_r(work: Work, task: str, package: str) -> Answer:
    """A task of ``in_r.R``: draws of abc, or the mean and the variance of abcrf's forests."""
    if work.r is None:
        raise NoR("there is no Rscript on PATH")
    by = work.r.named(package)
    names = list(work.problem.priors)
    statistics = [f"s.{name}" for name in work.problem.statistics]
    learnt = pd.DataFrame(work.table.parameters, columns=[f"p.{name}" for name in names])
    learnt[statistics] = work.table.statistics
    found, seconds = work.r.run(task, learnt, pd.DataFrame(work.observed, columns=statistics))
    if task == "forests":
        means = found[[f"mean.p.{name}" for name in names]].to_numpy()
        deviations = np.sqrt(found[[f"variance.p.{name}" for name in names]].to_numpy())
    else:
        each = [moments(draws.to_numpy()[:, 1:]) for _, draws in found.groupby("row")]
        means, deviations = (np.array(part) for part in zip(*each, strict=True))
    another = seconds["rest"] / len(work.observed)
    ranger = f", ranger {work.r.versions['ranger']}" if package == "abcrf" else ""
    return Answer(
        means,
        deviations,
        seconds["fit"],
        seconds["fit"] + another,
        another,
        len(learnt),
        task,
        f"R {work.r.versions['R']}, {by}{ranger}",
    )


def of_sbi(work: Work) -> Answer:
    """NPE of sbi, a masked autoregressive flow."""
    try:
        import torch
        from sbi.inference import NPE
        from sbi.utils import MultipleIndependent
    except ImportError as error:
        raise missing("sbi", error) from error

    def prior() -> Any:
        each = [
            getattr(torch.distributions, kind)(*(torch.tensor([float(value)]) for value in given))
            for kind, *given in work.problem.priors.values()
        ]
        return MultipleIndependent(each)

    assert NPE
    clock = Clock()
    posterior = trained(
        work.table.parameters, work.logarithms(work.table.statistics), prior, "maf", work.seed
    )

    def condition(row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return moments(sampled(posterior, work.logarithms(row[None])[0], DRAWS))

    return answered(work, clock, condition, "NPE", "sbi torch")


def of_bayesflow(work: Work) -> Answer:
    """BayesFlow's `BasicWorkflow`, a coupling flow that is told where parameters end."""
    os.environ.setdefault("KERAS_BACKEND", "jax")
    logging.getLogger("bayesflow").setLevel(logging.ERROR)
    try:
        import bayesflow
        import keras
    except ImportError as error:
        raise missing("bayesflow", error) from error
    names = list(work.problem.priors)
    ends = {"Normal": {}, "HalfNormal": {"lower": 0.0}}
    keras.utils.set_random_seed(work.seed)
    adapter = bayesflow.Adapter().convert_dtype("float64", "float32")
    for name, (kind, *given) in work.problem.priors.items():
        limits = {"lower": given[0], "upper": given[1]} if kind == "Uniform" else ends[kind]
        adapter = adapter.constrain(name, **limits) if limits else adapter
    adapter = adapter.concatenate(names, into="inference_variables").rename("x", "inference_conditions")
    data = {name: work.table.parameters[:, [place]] for place, name in enumerate(names)}
    clock = Clock()
    workflow = bayesflow.BasicWorkflow(adapter=adapter)
    workflow.fit_offline({**data, "x": work.logarithms(work.table.statistics)}, verbose=0)

    def condition(row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        drawn = workflow.sample(num_samples=DRAWS, conditions={"x": work.logarithms(row[None])})
        return moments(np.stack([np.ravel(drawn[name]) for name in names], axis=1).astype(float))

    return answered(work, clock, condition, "coupling flow", "bayesflow keras jax")


def of_setu(work: Work) -> Answer:
    """The `NLE` of setu-sbi: it has no posterior of its own, which is here the prior times it, on a grid."""
    try:
        import jax
        import setu
    except ImportError as error:
        raise missing("setu-sbi", error) from error
    low, high = work.problem.corners()
    clock = Clock()
    begin, train = jax.random.split(jax.random.key(work.seed))
    theta, x = (
        jax.numpy.asarray(part) for part in (work.table.parameters, work.logarithms(work.table.statistics))
    )
    begun = setu.create_nle(x.shape[1], theta.shape[1], key=begin)
    data = setu.SimulationDataset(theta, x)
    found = setu.fit_nle(begun, data, show_progress=False, key=train).nle
    of_each = jax.jit(jax.vmap(found.log_prob, in_axes=(None, 0)))

    def condition(row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        given = jax.numpy.asarray(work.logarithms(row[None])[0])

        def log_posterior(theta: np.ndarray) -> np.ndarray:
            logs = np.asarray(of_each(given, theta)) + work.problem.log_prior(theta)
            return np.where(np.isnan(logs), -np.inf, logs)

        return on_grid(log_posterior, low, high)

    return answered(work, clock, condition, "NLE", "setu-sbi flowjax jax")


METHODS: dict[str, Callable[[Work], Answer]] = {
    "ours, auto": automatic,
    "ours, adjusted": lambda work: by_estimator(work, pk.Adjusted()),
    "ours, rejection": lambda work: by_estimator(work, pk.Rejection()),
    "sample_smc": lambda work: smc(work, smaller=False),
    "sample_smc, smaller epsilon": lambda work: smc(work, smaller=True),
    "R abc, loclinear": lambda work: in_r(work, "loclinear", "abc"),
    "R abc, neuralnet": lambda work: in_r(work, "neuralnet", "abc"),
    "R abcrf": lambda work: in_r(work, "forests", "abcrf"),
    "sbi NPE": of_sbi,
    "BayesFlow": of_bayesflow,
    "setu-sbi NLE": of_setu,
}
"""By their names in the tables."""


def r_of(arguments: argparse.Namespace) -> R | None:
    """The reader's R, where there is one."""
    try:
        return found_r(arguments)
    except NoR:
        return None


def answer(method: str, work: Work) -> Answer:
    """Of one method, without the warnings of the packages."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return METHODS[method](work)
