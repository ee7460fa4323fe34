"""What a kernel is, and kernels made of kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np


class Kernel(Protocol):
    """A positive semi-definite function of two points; scikit-learn's Gaussian-process kernels are some."""

    def __call__(self, a: np.ndarray, b: Any = None) -> np.ndarray:
        """The Gram matrix of the rows of `a` (n, p) and `b` (m, p), or of `a` alone, shape (n, m)."""

    def diag(self, a: np.ndarray) -> np.ndarray:
        """The diagonal of the Gram matrix of `a`, shape (n,)."""


class Composable:
    """Gives a kernel ``+`` and ``*``, with any other kernel."""

    def __add__(self, other: Kernel) -> Sum:
        """The kernel k + l."""
        return Sum(self, other)  # type: ignore[arg-type]

    def __mul__(self, other: Kernel) -> Product:
        """The kernel k * l."""
        return Product(self, other)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Sum(Composable):
    """k(a, b) + l(a, b).

    Examples
    --------
    >>> from pymc_kbr.kernels import Gaussian, Linear
    >>> (Gaussian(1.0) + Linear())(np.array([[0.0], [2.0]])).round(3)
    array([[1.   , 0.135],
           [0.135, 5.   ]])
    """

    left: Kernel
    right: Kernel

    def __call__(self, a: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
        """The Gram matrix, shape (n, m)."""
        return self.left(a, b) + self.right(a, b)

    def diag(self, a: np.ndarray) -> np.ndarray:
        """Its diagonal, shape (n,)."""
        return self.left.diag(a) + self.right.diag(a)


@dataclass(frozen=True)
class Product(Composable):
    """k(a, b) l(a, b)."""

    left: Kernel
    right: Kernel

    def __call__(self, a: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
        """The Gram matrix, shape (n, m)."""
        return self.left(a, b) * self.right(a, b)

    def diag(self, a: np.ndarray) -> np.ndarray:
        """Its diagonal, shape (n,)."""
        return self.left.diag(a) * self.right.diag(a)
