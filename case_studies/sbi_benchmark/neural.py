"""A neural spline flow of sbi, on the same tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import pymc_kbr as pk
from case_studies.neural import normal, sampled, trained, uniform
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
        drawn = sampled(self.flow, self.observed, count, int(rng.integers(2**31)))
        return drawn if self.support is None else self.support.backward(drawn)


@dataclass(frozen=True)
class NeuralSplineFlow:
    """Under a uniform prior in the parameters, of which draws outside the bounds are refused.

    Under any other, in the space without edges.
    """

    flow: Any
    support: pk.Support | None

    @classmethod
    def fit(cls, task: Task, table: pk.ReferenceTable, random_seed: int) -> NeuralSplineFlow:
        """Train on a table."""
        bounds, theta = task.law.bounds, table.parameters
        if bounds is not None and np.all(np.isfinite(bounds)):
            ends = np.tile(np.array(bounds, dtype=float)[:, None], theta.shape[1])
            flow = trained(theta, table.statistics, lambda: uniform(ends), "nsf", random_seed)
            return cls(flow, None)
        free = table.support.forward(theta)
        return cls(trained(free, table.statistics, lambda: normal(free), "nsf", random_seed), table.support)

    def condition(self, observed: np.ndarray) -> NeuralPosterior:
        """The posterior of an observation (d,)."""
        return NeuralPosterior(self.flow, self.support, observed)
