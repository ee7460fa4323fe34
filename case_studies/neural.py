"""Neural posterior estimation of the package sbi, as a rival: ``pip install -e ".[rivals]"``."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np


def uniform(bounds: np.ndarray) -> Any:
    """A uniform prior of sbi between bounds (2, p)."""
    import torch
    from sbi.utils import BoxUniform

    return BoxUniform(*torch.tensor(bounds, dtype=torch.float32))


def normal(parameters: np.ndarray) -> Any:
    """A normal prior with the mean and covariance of parameters (n, p)."""
    import torch

    mean, covariance = (
        torch.tensor(v, dtype=torch.float32) for v in (parameters.mean(axis=0), np.cov(parameters.T))
    )
    return torch.distributions.MultivariateNormal(mean, covariance)


def trained(
    parameters: np.ndarray,
    statistics: np.ndarray,
    prior: Callable[[], Any],
    density_estimator: str,
    random_seed: int,
) -> Any:
    """The posterior by a flow trained on parameters (n, p) and statistics (n, d), with the settings of sbi.

    Parameters
    ----------
    parameters, statistics : ndarray of shape (n, p), (n, d)
    prior : callable
        Makes the prior, once it is known that sbi is there.
    density_estimator : str
        "maf", its masked autoregressive flow, or "nsf", a neural spline flow.
    random_seed : int

    Raises
    ------
    ImportError
        If sbi is not installed.
    """
    try:
        import torch
        from sbi.inference import NPE
    except ImportError as error:
        raise ImportError(
            "neural posterior estimation is that of sbi, which is not installed; "
            'pip install -e ".[rivals]", or leave it out'
        ) from error
    logging.getLogger("sbi").setLevel(logging.ERROR)
    torch.manual_seed(random_seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inference = NPE(prior=prior(), density_estimator=density_estimator, show_progress_bars=False)
        inference.append_simulations(
            torch.tensor(parameters, dtype=torch.float32), torch.tensor(statistics, dtype=torch.float32)
        )
        return inference.build_posterior(inference.train())


def sampled(posterior: Any, observed: np.ndarray, count: int, seed: int | None = None) -> np.ndarray:
    """Draws (count, p) given an observation (d,), from torch's own generator, seeded by a given seed."""
    import torch

    if seed is not None:
        torch.manual_seed(seed)
    given = torch.tensor(observed, dtype=torch.float32)
    return posterior.sample((count,), x=given, show_progress_bars=False).numpy().astype(float)
