"""Likelihoods of a trial, each learnt with its package's own settings: ours, and those of three others.

A neural likelihood gets the logarithm of a time. One that knows no whole numbers gets these with uniform
noise, and one that knows no single column gets another one of normal noise. Neither changes what is exact.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol

import numpy as np
import pandas as pd

import pymc_kbr as pk
from case_studies.trial_rivals.problems import Problem

CHUNK = 4096
"""Pairs of parameters and trials at a time."""


class Learned(Protocol):
    """What was learnt of one trial."""

    def columns(self, trials: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The trials (r, d) with the noise that the likelihood needs beside them, drawn once."""

    def log_density(self, theta: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """From parameters (k, p) and columns (r, c) to (k, r)."""


class Ours:
    """`KernelLikelihood` with settings."""

    def __init__(
        self, problem: Problem, theta: np.ndarray, trials: np.ndarray, seed: int, **known: Any
    ) -> None:
        parameters = pd.DataFrame(theta, columns=list(problem.parameters))
        statistics = pd.DataFrame(trials, columns=list(problem.statistics))
        self._likelihood = pk.KernelLikelihood(**known).fit(parameters, statistics, random_seed=seed)

    def columns(self, trials: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The trials."""
        return trials

    def log_density(self, theta: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Of all pairs."""
        return self._likelihood.log_likelihoods(theta, columns)


class Neural:
    """Columns of a neural likelihood: logarithms of times, and noise.

    Parameters
    ----------
    problem : Problem
    whole : bool
        Whether whole numbers stay as they are.
    single : bool
        Whether a single column may stay alone.
    """

    def __init__(self, problem: Problem, *, whole: bool, single: bool) -> None:
        self.problem = problem
        self.noisy = 0 if whole else problem.discrete
        self.beside = not single and len(problem.statistics) == 1
        self.of_pairs: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None

    def columns(self, trials: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Trials (r, d), some in logarithms, and noise."""
        found = trials.copy()
        for place in self.problem.positive:
            found[:, place] = np.log(found[:, place])
        if self.noisy:
            found[:, -self.noisy :] += rng.random((len(found), self.noisy))
        return np.column_stack([found, rng.standard_normal(len(found))]) if self.beside else found

    def log_density(self, theta: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Of all pairs, of the trials themselves."""
        assert self.of_pairs is not None
        k, r = len(theta), len(columns)
        pairs = np.repeat(theta, r, axis=0), np.tile(columns, (k, 1))
        left = -len(pairs[0]) % CHUNK
        first, second = (np.concatenate([each, np.repeat(each[:1], left, axis=0)]) for each in pairs)
        parts = [
            self.of_pairs(first[i : i + CHUNK], second[i : i + CHUNK]) for i in range(0, len(first), CHUNK)
        ]
        found = np.concatenate(parts)[: k * r].reshape(k, r).astype(float)
        found -= columns[:, list(self.problem.positive)].sum(axis=1)
        if self.beside:
            found += (columns[:, -1] ** 2 + np.log(2 * np.pi)) / 2
        return found


def missing(package: str, error: ImportError) -> ImportError:
    """What to say where a package is not installed."""
    return ImportError(
        f'{package} is not installed; pip install -e ".[rivals]", or leave it out with --methods'
    )


def noise_of(seed: int) -> np.random.Generator:
    """For noise beside trials, which is none of the stream that parameters of the same seed are from."""
    return np.random.default_rng([seed, 1])


class OfSetu(Neural):
    """Setu's `MixedNLE`, its `NLE` where all is continuous, and its `DiscreteNLE` where nothing is."""

    def __init__(self, problem: Problem, theta: np.ndarray, trials: np.ndarray, seed: int) -> None:
        super().__init__(problem, whole=True, single=True)
        try:
            import jax
            import setu
        except ImportError as error:
            raise missing("setu-sbi", error) from error
        x = self.columns(trials, noise_of(seed))
        begin, train = jax.random.split(jax.random.key(seed))
        d, p = x.shape[1], theta.shape[1]
        categories = (x[:, d - problem.discrete :].max(axis=0) + 1).astype(int)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = setu.SimulationDataset(jax.numpy.asarray(theta), jax.numpy.asarray(x))
            if problem.discrete == 0:
                begun = setu.create_nle(d, p, key=begin)
                found = setu.fit_nle(begun, data, show_progress=False, key=train).nle
            elif problem.discrete == d:
                begun = setu.create_discrete_nle(d, p, num_categories=categories, key=begin)
                found = setu.fit_discrete_nle(begun, data, show_progress=False, key=train).discrete_nle
            else:
                begun = setu.create_mixed_nle(d, p, problem.discrete, categories, key=begin)
                found = setu.fit_mixed_nle(begun, data, show_progress=False, key=train).mixed_nle
        of_each = jax.jit(jax.vmap(found.log_prob))
        spread = 1.0
        if 0 < problem.discrete < d:  # its `MixedNLE` leaves out that numbers were divided by deviations
            spread = float(np.prod(np.asarray(found.x_transform.std)))
        self.of_pairs = lambda theta, x: np.asarray(of_each(x, theta)) - np.log(spread)


class OfSbi(Neural):
    """sbi's `MNLE`, and its `NLE` where all is continuous or nothing is."""

    def __init__(self, problem: Problem, theta: np.ndarray, trials: np.ndarray, seed: int) -> None:
        mixed = 0 < problem.discrete < len(problem.statistics)
        super().__init__(problem, whole=mixed, single=True)
        try:
            import torch
            from sbi.inference import MNLE, NLE
        except ImportError as error:
            raise missing("sbi", error) from error
        logging.getLogger("sbi").setLevel(logging.ERROR)
        torch.manual_seed(seed)

        def tensor(values: np.ndarray) -> Any:
            return torch.tensor(values, dtype=torch.float32)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Its default for one column is a normal distribution, which no counts have.
            other = {"density_estimator": "nsf"} if problem.discrete and not mixed else {}
            inference = (MNLE if mixed else NLE)(show_progress_bars=False, **other)
            x = self.columns(trials, noise_of(seed))
            learned = inference.append_simulations(tensor(theta), tensor(x)).train()

        def of_pairs(theta: np.ndarray, x: np.ndarray) -> np.ndarray:
            with torch.no_grad():
                return learned.log_prob(tensor(x)[None], tensor(theta))[0].numpy()

        self.of_pairs = of_pairs


class OfBayesFlow(Neural):
    """BayesFlow's coupling flow, with the parts of parameters and data exchanged."""

    def __init__(self, problem: Problem, theta: np.ndarray, trials: np.ndarray, seed: int) -> None:
        super().__init__(problem, whole=False, single=False)
        os.environ.setdefault("KERAS_BACKEND", "jax")
        try:
            import bayesflow
            import keras
        except ImportError as error:
            raise missing("bayesflow", error) from error
        keras.utils.set_random_seed(seed)
        x = self.columns(trials, noise_of(seed))
        workflow = bayesflow.BasicWorkflow(inference_variables="x", inference_conditions="theta")
        workflow.fit_offline({"x": x, "theta": theta}, verbose=0)
        found = workflow.approximator
        self.of_pairs = lambda theta, x: found.log_prob({"x": x, "theta": theta})


METHODS: dict[str, tuple[Callable[..., Learned], dict[str, Any], tuple[str, ...]]] = {
    "ours": (Ours, {}, ("pymc_kbr", "numpy", "scipy")),
    "ours, shift declared": (
        Ours,
        {"shift": {"rt": "t0"}, "lower": {"rt": "t0"}},
        ("pymc_kbr", "numpy", "scipy"),
    ),
    "ours, no shift": (Ours, {"shift": {}}, ("pymc_kbr", "numpy", "scipy")),
    "setu": (OfSetu, {}, ("setu-sbi", "flowjax", "jax")),
    "sbi": (OfSbi, {}, ("sbi", "torch")),
    "BayesFlow": (OfBayesFlow, {}, ("bayesflow", "keras", "jax")),
}
"""What learns, its settings, and the packages whose versions matter."""


def methods_of(problem: Problem) -> list[str]:
    """The methods that a problem has: a shift is one of times."""
    return [name for name in METHODS if "shift" not in name or "rt" in problem.statistics]


def versions(packages: tuple[str, ...]) -> str:
    """Of packages, in words."""
    found = []
    for name in packages:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:  # a checkout that is not installed
            found.append(f"{name} of a checkout")
    return ", ".join(found)
