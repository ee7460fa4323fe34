"""Signed, weighted atoms as one element of a reproducing kernel Hilbert space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

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
