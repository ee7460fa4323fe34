"""What is asked of a Gram matrix, whole or approximated."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Self

import numpy as np

from pymc_kbr.arrays.users_line import users_line


class Operator(ABC):
    """A factored inverse, made once and applied to many right-hand sides."""

    # ridge: The one that was used.
    # raised: How many times it was raised because the factorisation failed.

    ridge: float
    raised: int

    @abstractmethod
    def solve(self, b: np.ndarray) -> np.ndarray:
        """The operator applied to b (n,) or (n, k)."""

    @abstractmethod
    def weights(self, x: np.ndarray) -> np.ndarray:
        """The operator applied to the kernel's values at new points x (k, d): shape (k, n)."""

    def means(self, x: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Those weights applied to values b (n, t): shape (k, t)."""
        return self.weights(x) @ b


class SquaredOperator(Operator):
    """L G ((L G)^2 + delta I)^-1 L, which is also known before the last L."""

    @abstractmethod
    def dual_weights(self, x: np.ndarray) -> np.ndarray:
        """((G L)^2 + delta I)^-1 G L on the kernel's values at points x (k, d), shape (k, n)."""


class Gram(ABC):
    """The Gram matrix G of n points, known through what can be done with it."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of points, n."""

    @abstractmethod
    def apply(self, v: np.ndarray) -> np.ndarray:
        """G times v (n,) or (n, k)."""

    @abstractmethod
    def cross(self, x: np.ndarray) -> np.ndarray:
        """The kernel between the points and new ones x (k, d), shape (n, k)."""

    @abstractmethod
    def centred(self, base: np.ndarray) -> Self:
        """The Gram matrix of features less their mean under weights `base` (n,) of sum one."""

    @abstractmethod
    def regularised(self, ridge: float, scale: np.ndarray | None = None) -> Operator:
        """S (S G S + ridge I)^-1 S with S = diag(scale), the identity where `scale` is left out."""

    @abstractmethod
    def squared(self, weights: np.ndarray, delta: float) -> Operator:
        """L G ((L G)^2 + delta I)^-1 L with L = diag(weights), of any sign (Fukumizu 2013, eq. 13)."""


class AllRows:
    """A solver in which all rows meet in one regression."""

    def rows(self, n: int) -> int:
        """Rows in one regression."""
        return n


def raising(
    factor: Callable[[float], object],
    ridge: float,
    least: float,
    *,
    raised_by: float = 10.0,
    # A ridge that many times ten as large is beyond any rounding.
    most: int = 40,
) -> tuple[object, float, int]:
    """A factorisation, its ridge, and how many times that had to be raised."""
    given, raised = ridge, 0
    while True:
        try:
            made = factor(ridge)
            break
        except np.linalg.LinAlgError:
            raised += 1
            ridge = max(raised_by * ridge, least)  # below rounding no raise would tell
            if not np.isfinite(ridge) or raised > most:
                raise
    if raised:
        warn_raised(given, ridge, raised)
    return made, ridge, raised


def warn_raised(given: float, used: float, raised: int) -> None:
    """Say that a ridge was raised, and how far."""
    warnings.warn(
        f"the Gram matrix plus a ridge of {given:.3g} is not positive definite in double precision; the "
        f"ridge was raised {raised} time(s) to {used:.3g}; take a larger "
        "regularisation, or leave it out to have it chosen",
        UserWarning,
        stacklevel=users_line(),
    )
