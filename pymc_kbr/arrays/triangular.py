"""Triangular factors inverted, so that threads can multiply with them side by side."""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack


def inverse_lower(factor: np.ndarray) -> np.ndarray:
    """The inverse (m, m) of a lower triangular factor with positive diagonal, lower triangular itself."""
    inverse, _ = lapack.dtrtri(factor, lower=1)
    return np.tril(inverse)
