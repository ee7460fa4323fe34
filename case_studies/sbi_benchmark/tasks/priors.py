"""Priors that more than one task has: a box, independent log-normals, a normal of given precision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


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


@dataclass(frozen=True)
class LogNormals:
    """Independent log-normals with means and deviations of the logarithms."""

    means: tuple[float, ...]
    deviations: tuple[float, ...]

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


@dataclass(frozen=True, eq=False)
class Normal:
    """Normal of mean zero, given by a square root R of its precision R^T R, shape (p, p)."""

    root: np.ndarray

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draws of shape (n, p)."""
        return np.linalg.solve(self.root, rng.normal(size=(len(self.root), n))).T

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """Of theta (n, p)."""
        _, log_determinant = np.linalg.slogdet(self.root)
        scaled = theta @ self.root.T
        return log_determinant - 0.5 * (scaled**2).sum(axis=-1) - 0.5 * len(self.root) * np.log(2 * np.pi)
