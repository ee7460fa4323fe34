"""Neural posterior estimation of the package sbi, on the same tables: ``pip install -e ".[rivals]"``."""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import pymc_kbr as pk
from case_studies.sbi_benchmark.task import Task


@dataclass(frozen=True)
class NeuralPosterior:
    """The posterior of one observation, of which only draws are known."""

    flow: Any
    support: pk.Support | None
    observed: np.ndarray
    settings: dict[str, float] = field(default_factory=dict)

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draws (count, p)."""
        import torch

        torch.manual_seed(int(rng.integers(2**31)))
        observed = torch.tensor(self.observed, dtype=torch.float32)
        drawn = self.flow.sample((count,), x=observed, show_progress_bars=False).numpy().astype(float)
        return drawn if self.support is None else self.support.backward(drawn)


@dataclass(frozen=True)
class NeuralSplineFlow:
    """A neural spline flow with sbi's own settings, trained on a table.

    Under a uniform prior in the parameters, of which draws outside the bounds are refused; else in the space
    without edges.
    """

    flow: Any
    support: pk.Support | None

    @classmethod
    def fit(cls, task: Task, table: pk.ReferenceTable, random_seed: int) -> NeuralSplineFlow:
        """Train on a table.

        Raises
        ------
        ImportError
            If sbi is not installed.
        """
        try:
            import torch
            from sbi.inference import NPE
            from sbi.utils import BoxUniform
        except ImportError as error:
            raise ImportError(
                "the method 'npe' is that of sbi, which is not installed; "
                'pip install -e ".[rivals]", or leave it out'
            ) from error
        logging.getLogger("sbi").setLevel(logging.ERROR)
        torch.manual_seed(random_seed)
        bounds = task.law.bounds
        if bounds is not None and np.all(np.isfinite(bounds)):
            support, theta = None, table.parameters
            low, high = (torch.full((theta.shape[1],), float(end)) for end in bounds)
            prior = BoxUniform(low, high)
        else:
            support, theta = table.support, table.support.forward(table.parameters)
            mean, cov = (torch.tensor(v, dtype=torch.float32) for v in (theta.mean(axis=0), np.cov(theta.T)))
            prior = torch.distributions.MultivariateNormal(mean, cov)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            inference = NPE(prior=prior, density_estimator="nsf", show_progress_bars=False)
            inference.append_simulations(
                torch.tensor(theta, dtype=torch.float32), torch.tensor(table.statistics, dtype=torch.float32)
            )
            return cls(inference.build_posterior(inference.train()), support)

    def condition(self, observed: np.ndarray) -> NeuralPosterior:
        """The posterior of an observation (d,)."""
        return NeuralPosterior(self.flow, self.support, observed)
