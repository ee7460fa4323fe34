"""Matern kernels, the Laplace kernel among them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gamma, kv

from pymc_kbr.kernels.gaussian import squared_distances
from pymc_kbr.kernels.kernel import Composable


@dataclass(frozen=True)
class Matern(Composable):
    """The Matern kernel of smoothness nu, a function of u = |a - b| / s.

    Parameters
    ----------
    bandwidth : float or tuple of float, length p
        s, one for all dimensions or one for each.
    nu : float
        Smoothness; 1/2, 3/2 and 5/2 have closed forms and are fast, infinity is the Gaussian kernel.

    Notes
    -----
    k = 2^(1 - nu) / Gamma(nu) * (sqrt(2 nu) u)^nu K_nu(sqrt(2 nu) u), with K_nu the modified Bessel
    function.

    Examples
    --------
    >>> Matern(1.0, nu=0.5)(np.array([[0.0], [2.0]])).round(3)
    array([[1.   , 0.135],
           [0.135, 1.   ]])
    """

    bandwidth: float | tuple[float, ...]
    nu: float = 1.5

    def __call__(self, a: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
        """The Gram matrix of the rows of `a` (n, p) and `b` (m, p), or of `a` alone, shape (n, m)."""
        scale = np.asarray(self.bandwidth)
        u = np.sqrt(squared_distances(a / scale, None if b is None else b / scale))
        if self.nu == 0.5:
            return np.exp(-u)
        if np.isinf(self.nu):
            return np.exp(-0.5 * u**2)
        u *= np.sqrt(2 * self.nu)
        if self.nu == 1.5:
            return (1 + u) * np.exp(-u)
        if self.nu == 2.5:
            return (1 + u + u**2 / 3) * np.exp(-u)
        gram = np.ones_like(u)
        apart = u > 1e-12  # where K_nu is infinite and u^nu zero, their product tends to one
        gram[apart] = 2 ** (1 - self.nu) / gamma(self.nu) * u[apart] ** self.nu * kv(self.nu, u[apart])
        return gram

    def diag(self, a: np.ndarray) -> np.ndarray:
        """The diagonal of the Gram matrix of `a`, shape (n,)."""
        return np.ones(len(a))


@dataclass(frozen=True)
class Laplace(Matern):
    """k(a, b) = exp(-|a - b| / s), with the Euclidean distance: the Matern kernel of smoothness 1/2."""

    nu: float = 0.5
