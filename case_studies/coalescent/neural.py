"""A masked autoregressive flow of sbi, as a rival."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from case_studies.neural import sampled, trained, uniform

DRAWS = 1000
"""Of which a posterior's mean is that."""


@dataclass(frozen=True)
class NeuralPosterior:
    """The posterior of one observation, of which only draws are known."""

    _posterior: Any
    _observed: np.ndarray

    @cached_property
    def _drawn(self) -> np.ndarray:
        return sampled(self._posterior, self._observed, DRAWS)

    def draw(
        self, count: int, rng: np.random.Generator | None = None, smoothing: str | None = None
    ) -> np.ndarray:
        """Draws (count, p), from torch's own generator; nothing is smoothed."""
        return self._drawn if count == DRAWS else sampled(self._posterior, self._observed, count)

    def mean(self) -> np.ndarray:
        """The mean of draws, shape (p,)."""
        return self._drawn.mean(axis=0)


@dataclass(frozen=True)
class NeuralPosteriorEstimation:
    """Trained on a table."""

    _posterior: Any

    @classmethod
    def fit(
        cls, parameters: np.ndarray, statistics: np.ndarray, bounds: np.ndarray, random_seed: int
    ) -> NeuralPosteriorEstimation:
        """Train on parameters (n, p), uniform between bounds (2, p), and statistics (n, d)."""
        return cls(trained(parameters, statistics, lambda: uniform(bounds), "maf", random_seed))

    def condition(self, observed: np.ndarray) -> list[NeuralPosterior]:
        """The posteriors of observations (k, d)."""
        return [NeuralPosterior(self._posterior, row) for row in observed]
