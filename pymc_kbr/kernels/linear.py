"""The linear kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_kbr.kernels.kernel import Composable


@dataclass(frozen=True)
class Linear(Composable):
    """k(a, b) = a . b + constant.

    On rotation matrices R, S flattened to rows this is the trace kernel tr(R S').

    Parameters
    ----------
    constant : float
    """

    constant: float = 0.0

    def __call__(self, a: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
        """The Gram matrix of the rows of `a` (n, p) and `b` (m, p), or of `a` alone, shape (n, m)."""
        return a @ (a if b is None else b).T + self.constant

    def diag(self, a: np.ndarray) -> np.ndarray:
        """The diagonal of the Gram matrix of `a`, shape (n,)."""
        return np.einsum("ij,ij->i", a, a) + self.constant
