"""Eight problems of single trials whose density is known, for checks of learned likelihoods of trials."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import stats

import pymc_kbr as pk
from case_studies.reaction_times import drift_diffusion
from case_studies.trial_rivals.problems import Problem, g_and_k_normal, g_and_k_quantile


@dataclass(frozen=True)
class TrialProblem(Problem):
    """A model of one trial, and the settings of its likelihood."""

    settings: dict[str, Any] = field(default_factory=dict)

    def learn(self, theta: np.ndarray, x: np.ndarray, random_seed: int, **more: Any) -> pk.KernelLikelihood:
        """The likelihood of trials x (n, d) at parameters (n, p)."""
        return pk.KernelLikelihood(**self.settings, **more).fit(
            dict(zip(self.parameters, theta.T, strict=True)),
            dict(zip(self.statistics, x.T, strict=True)),
            random_seed=random_seed,
        )


def _of_one(rate: Callable[[np.ndarray], Any], settings: dict[str, Any]) -> TrialProblem:
    """A count whose distribution depends on one parameter from -3 to 3."""
    return TrialProblem(
        ("theta",),
        ("x",),
        np.array([-3.0]),
        np.array([3.0]),
        lambda theta, rng: rate(theta).rvs(random_state=rng).astype(float).reshape(-1, 1),
        lambda theta, x: rate(theta).logpmf(x[:, 0]),
        settings=settings,
    )


def _mean(theta: np.ndarray) -> np.ndarray:
    return np.exp(0.7 * theta[:, :1] + 0.5)


def _of_two(
    names: tuple[str, str], lower: tuple[float, float], upper: tuple[float, float], law: Any
) -> TrialProblem:
    """A continuous statistic whose distribution depends on two parameters, each (k, 1)."""
    return TrialProblem(
        names,
        ("x",),
        np.array(lower),
        np.array(upper),
        lambda theta, rng: law(theta[:, :1], theta[:, 1:]).rvs(random_state=rng).reshape(-1, 1),
        lambda theta, x: law(theta[:, :1], theta[:, 1:]).logpdf(x[:, 0]),
    )


def _g_and_k_log_density(theta: np.ndarray, x: np.ndarray) -> np.ndarray:
    z, log_slope = g_and_k_normal(x[None, :, 0], theta[:, :1], theta[:, 1:])
    return stats.norm.logpdf(z) - log_slope


def _drift(settings: dict[str, Any]) -> TrialProblem:
    return TrialProblem(
        drift_diffusion.NAMES,
        ("rt", "choice"),
        drift_diffusion.LOWER,
        drift_diffusion.UPPER,
        lambda theta, rng: drift_diffusion.simulate(rng, theta),
        drift_diffusion.log_density,
        settings=settings,
    )


PROBLEMS = {
    "normal": _of_two(
        ("mu", "log_sigma"), (-3, -1), (3, 1), lambda mu, log_sigma: stats.norm(mu, np.exp(log_sigma))
    ),
    "gamma": _of_two(
        ("log_shape", "log_scale"), (-0.5, -1), (2, 1), lambda a, b: stats.gamma(np.exp(a), scale=np.exp(b))
    ),
    "t": _of_two(
        ("mu", "log_sigma"), (-3, -1), (3, 1), lambda mu, log_sigma: stats.t(4, mu, np.exp(log_sigma))
    ),
    "g_and_k": TrialProblem(
        ("g", "k"),
        ("x",),
        np.array([0.0, 0.0]),
        np.array([3.0, 0.5]),
        lambda theta, rng: g_and_k_quantile(rng.standard_normal((len(theta), 1)), theta[:, :1], theta[:, 1:]),
        _g_and_k_log_density,
    ),
    "poisson": _of_one(lambda theta: stats.poisson(_mean(theta)), {"lower": {"x": 0}}),
    "negative_binomial": _of_one(lambda theta: stats.nbinom(3, 3 / (3 + _mean(theta))), {"lower": {"x": 0}}),
    "drift": _drift({"shift": {"rt": "t0"}, "lower": {"rt": "t0"}}),
    "drift_undeclared": _drift({}),
}
