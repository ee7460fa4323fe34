"""What a posterior's embedding is asked: expectations of functions, and a point."""

from __future__ import annotations

import numpy as np

from pymc_kbr.embedding.embedding import Embedding
from pymc_kbr.embedding.preimage import mode


def bayes_average(function: Embedding, posterior: Embedding) -> float:
    """The posterior expectation of a function of the kernel's space: sum_ij b_i w_j k(y_i, theta_j)."""
    return function.inner(posterior)


def posterior_decoding(posterior: Embedding, starts: int = 5) -> np.ndarray:
    """The point y that minimises k(y, y) - 2 sum_i w_i k(theta_i, y), shape (p,): see `preimage`."""
    return mode(posterior, starts)
