"""Neural posterior estimation of the package sbi, as a rival: ``pip install -e ".[rivals]"``."""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

DRAWS = 1000
"""Of which a posterior's mean is that."""


@dataclass(frozen=True)
class NeuralPosterior:
    """The posterior of one observation, of which only draws are known."""

    _posterior: Any
    _observed: Any

    @cached_property
    def _drawn(self) -> np.ndarray:
        return self._sampled(DRAWS)

    def _sampled(self, count: int) -> np.ndarray:
        drawn = self._posterior.sample((count,), x=self._observed, show_progress_bars=False)
        return drawn.numpy().astype(float)

    def draw(
        self, count: int, rng: np.random.Generator | None = None, smoothing: str | None = None
    ) -> np.ndarray:
        """Draws (count, p), from torch's own generator; nothing is smoothed."""
        return self._drawn if count == DRAWS else self._sampled(count)

    def mean(self) -> np.ndarray:
        """The mean of draws, shape (p,)."""
        return self._drawn.mean(axis=0)


@dataclass(frozen=True)
class NeuralPosteriorEstimation:
    """A masked autoregressive flow with sbi's own settings, trained on a table."""

    _posterior: Any

    @classmethod
    def fit(
        cls, parameters: np.ndarray, statistics: np.ndarray, bounds: np.ndarray, random_seed: int
    ) -> NeuralPosteriorEstimation:
        """Train on parameters (n, p), uniform between bounds (2, p), and statistics (n, d).

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
                "the estimator 'neural' is that of sbi, which is not installed; "
                'pip install -e ".[rivals]", or leave it out'
            ) from error
        logging.getLogger("sbi").setLevel(logging.ERROR)
        torch.manual_seed(random_seed)
        low, high = torch.tensor(bounds, dtype=torch.float32)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            inference = NPE(prior=BoxUniform(low, high), show_progress_bars=False)
            inference.append_simulations(
                torch.tensor(parameters, dtype=torch.float32), torch.tensor(statistics, dtype=torch.float32)
            )
            trained = inference.train()
            return cls(inference.build_posterior(trained))

    def condition(self, observed: np.ndarray) -> list[NeuralPosterior]:
        """The posteriors of observations (k, d)."""
        import torch

        return [NeuralPosterior(self._posterior, torch.tensor(row, dtype=torch.float32)) for row in observed]
