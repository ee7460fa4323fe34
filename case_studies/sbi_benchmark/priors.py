"""The tasks' priors: a box, independent log-normals, a normal of given precision.

Each draws, has a density, and can stand in a PyMC model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np


class Law(Protocol):
    """What a task asks of its prior."""

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Ends of every parameter, None where all are unbounded; an end may be infinite."""
        ...

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draws of shape (n, p)."""
        ...

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """Normalised, of theta (n, p), minus infinity outside of the support."""
        ...

    def variable(self, name: str) -> Any:
        """A variable of shape (p,) in the PyMC model of the context."""
        ...


@dataclass(frozen=True)
class Box:
    """Uniform between -bound and bound in each of `size` dimensions."""

    bound: float
    size: int

    @property
    def bounds(self) -> tuple[float, float]:
        """Ends of every dimension."""
        return -self.bound, self.bound

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draws of shape (n, size)."""
        return rng.uniform(-self.bound, self.bound, (n, self.size))

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """Of theta (n, size), minus infinity outside."""
        inside = np.all(np.abs(theta) <= self.bound, axis=-1)
        return np.where(inside, -self.size * np.log(2 * self.bound), -np.inf)

    def variable(self, name: str) -> Any:
        """As `Law.variable`."""
        import pymc as pm

        return pm.Uniform(name, -self.bound, self.bound, shape=self.size)


@dataclass(frozen=True)
class LogNormals:
    """Independent log-normals with means and deviations of the logarithms."""

    means: tuple[float, ...]
    deviations: tuple[float, ...]

    @property
    def bounds(self) -> tuple[float, float]:
        """Positive numbers."""
        return 0.0, np.inf

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draws of shape (n, p)."""
        return np.exp(rng.normal(self.means, self.deviations, (n, len(self.means))))

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """Of theta (n, p), minus infinity where one is not positive."""
        positive = np.all(theta > 0, axis=-1)
        logs = np.log(np.where(theta > 0, theta, 1.0))
        scaled = (logs - self.means) / self.deviations
        constant = np.log(self.deviations).sum() + 0.5 * len(self.means) * np.log(2 * np.pi)
        return np.where(positive, -0.5 * (scaled**2).sum(axis=-1) - logs.sum(axis=-1) - constant, -np.inf)

    def variable(self, name: str) -> Any:
        """As `Law.variable`."""
        import pymc as pm

        return pm.LogNormal(name, np.array(self.means), np.array(self.deviations), shape=len(self.means))


@dataclass(frozen=True, eq=False)
class Normal:
    """Normal of mean zero, given by a square root R of its precision R^T R, shape (p, p)."""

    root: np.ndarray

    @property
    def bounds(self) -> None:
        """All numbers."""
        return None

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draws of shape (n, p)."""
        return np.linalg.solve(self.root, rng.normal(size=(len(self.root), n))).T

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """Of theta (n, p)."""
        _, log_determinant = np.linalg.slogdet(self.root)
        scaled = theta @ self.root.T
        return log_determinant - 0.5 * (scaled**2).sum(axis=-1) - 0.5 * len(self.root) * np.log(2 * np.pi)

    def variable(self, name: str) -> Any:
        """As `Law.variable`."""
        import pymc as pm

        return pm.MvNormal(name, np.zeros(len(self.root)), tau=self.root.T @ self.root)
