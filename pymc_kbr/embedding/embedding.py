"""Signed, weighted atoms as one element of a reproducing kernel Hilbert space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.optimize import minimize

from pymc_kbr.arrays.refusals import shown
from pymc_kbr.gram import pivoted_cholesky
from pymc_kbr.kernels import Gaussian, Kernel, gaussian_mean


@dataclass(frozen=True, eq=False)
class Atoms:
    """Points with a kernel; shared by all embeddings on them, with their Gram matrix."""

    # Shapes: points (m, p).
    points: np.ndarray
    kernel: Kernel
    # Up to which Gram matrices are formed whole; above, they are factored,
    most_exact: int = field(default=200, kw_only=True)
    # to a rank, or to a residual that is this share of the trace.
    rank: int = field(default=400, kw_only=True)
    tolerance: float = field(default=1e-4, kw_only=True)

    @cached_property
    def gram(self) -> np.ndarray:
        """The Gram matrix (m, m), or a factor F (m, r) of it with F F' close to it where m is large."""
        if len(self.points) <= self.most_exact:
            return self.kernel(self.points)
        return pivoted_cholesky(self.kernel, self.points, self.rank, self.tolerance)[0]

    @cached_property
    def largest_eigenvalue_about_mean(self) -> float:
        """The largest eigenvalue of the Gram matrix of features about their mean."""
        about = self.gram - self.gram.mean(axis=0)
        if len(self.points) <= self.most_exact:
            about = about - about.mean(axis=1, keepdims=True)
        else:
            about = about.T @ about
        # Of atoms that are almost the same a step by less would leave no digits of weights.
        least = np.sqrt(np.finfo(float).eps) * float(self.kernel.diag(self.points).sum())
        return max(float(np.linalg.eigvalsh(about)[-1]), least)

    def apply_gram(self, weights: np.ndarray) -> np.ndarray:
        """The Gram matrix times weights (m,)."""
        if len(self.points) <= self.most_exact:
            return self.gram @ weights
        return self.gram @ (self.gram.T @ weights)


@dataclass(frozen=True, eq=False)
class Embedding:
    """The element sum_i w_i k(., y_i) of the kernel's space."""

    # Shapes: weights (m,).
    atoms: Atoms
    weights: np.ndarray

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """The embedding as a function, at points (l, p): shape (l,)."""
        return self.atoms.kernel(points, self.atoms.points) @ self.weights

    def expectation(self, f: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """sum_i w_i f(y_i), the expectation of f from points (m, p) to values (m,) or (m, q)."""
        return self.weights @ np.asarray(f(self.atoms.points))

    def inner(self, other: Embedding, *, rows_at_once: int = 1024) -> float:
        """The inner product with another embedding of the same kernel."""
        if self.atoms.kernel != other.atoms.kernel:
            raise ValueError(
                f"the embeddings have the kernels {self.atoms.kernel} and {other.atoms.kernel}; inner "
                "products and distances need one kernel for both"
            )
        a, b = self.atoms.points, other.atoms.points
        return float(
            sum(
                self.weights[i : i + rows_at_once]
                @ (self.atoms.kernel(a[i : i + rows_at_once], b) @ other.weights)
                for i in range(0, len(a), rows_at_once)
            )
        )

    def distance(self, other: Embedding) -> float:
        """The RKHS distance to another embedding; of equal weights, the maximum mean discrepancy."""
        squared = self.inner(self) - 2 * self.inner(other) + other.inner(other)
        return float(np.sqrt(max(squared, 0.0)))  # rounding may leave less than zero

    def squared_error_to_gaussian(self, mean: np.ndarray, covariance: np.ndarray) -> float:
        """The squared RKHS distance to the embedding of a normal distribution, under a Gaussian kernel."""
        # Shapes: mean (p,); covariance (p, p).
        kernel = self.atoms.kernel
        if not isinstance(kernel, Gaussian):
            raise TypeError(f"the kernel is {shown(kernel)}; the closed form holds for Gaussian kernels")
        points = self.atoms.points
        variance = np.broadcast_to(np.asarray(kernel.bandwidth, dtype=float) ** 2, points.shape[1:])
        # The difference of two independent draws: of mean zero, and twice the covariance.
        own = gaussian_mean(np.zeros((1, len(mean))), np.zeros_like(mean), 2 * covariance, variance)[0]
        cross = gaussian_mean(points, mean, covariance, variance)
        return float(own - 2 * self.weights @ cross + self.inner(self))


# --- the point that an embedding is nearest to ---


def mode(embedding: Embedding, starts: int = 5, iterations: int = 200) -> np.ndarray:
    """The point whose feature is nearest to an embedding, shape (p,): the pre-image."""
    if isinstance(embedding.atoms.kernel, Gaussian):
        return _fixed_point(embedding, starts, iterations)
    kernel, points = embedding.atoms.kernel, embedding.atoms.points

    def gap(y: np.ndarray) -> float:
        return float(kernel.diag(y[None])[0] - 2 * embedding(y[None])[0])

    nearest = points[np.argsort(kernel.diag(points) - 2 * embedding(points))[:starts]]
    ends = [minimize(gap, y, method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-12}) for y in nearest]
    return min(ends, key=lambda end: end.fun).x


def _fixed_point(embedding: Embedding, starts: int, iterations: int) -> np.ndarray:
    """The highest end of fixed-point iterations from several atoms, for a Gaussian kernel."""
    points, weights = embedding.atoms.points, embedding.weights
    heaviest = points[np.argsort(weights)[::-1][:200]]
    descending = heaviest[np.argsort(embedding(heaviest))[::-1]]
    best, highest = descending[0], -np.inf
    # From atoms of all heights, since the highest ones may all lie on one peak.
    for y in descending[:: max(1, len(descending) // starts)][:starts]:
        height = float(embedding(y[None])[0])
        for _ in range(iterations):
            similar = embedding.atoms.kernel(y[None], points)[0] * weights
            total = similar.sum()
            if total <= 0:  # negative weights prevail here: the fixed point's mean is no mean
                break
            step = similar @ points / total - y
            while (risen := float(embedding((y + step)[None])[0])) < height and np.abs(step).max() > 0:
                step = step / 2
                if np.all(np.abs(step) <= 1e-10 * (1 + np.abs(y))):
                    break
            if risen <= height:
                break
            y, height = y + step, risen
            if np.all(np.abs(step) <= 1e-8 * (1 + np.abs(y))):
                break
        if height > highest:
            best, highest = y, height
    return best
