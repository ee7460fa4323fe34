"""Triangular factors inverted, so that threads can multiply with them side by side."""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack


def inverse_lower(factor: np.ndarray) -> np.ndarray:
    """The inverse (m, m) of a lower triangular factor with positive diagonal, lower triangular itself.

    SciPy holds Python's lock while it solves, NumPy releases it while it multiplies: on several threads a
    product with many columns takes a share of the time. Errors grow with the factor's condition number, the
    root of that of the matrix it is a factor of.
    """
    inverse, _ = lapack.dtrtri(factor, lower=1)
    return np.tril(inverse)
