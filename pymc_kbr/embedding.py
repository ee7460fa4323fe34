"""Signed, weighted atoms as one element of a reproducing kernel Hilbert space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import minimize

from pymc_kbr.gram import pivoted_cholesky
from pymc_kbr.kernels import Gaussian, Kernel, gaussian_mean

EXACT_ATOMS = 200
"""Atoms up to which Gram matrices are formed whole; above, they are factored to a low rank."""

BLOCK = 1024
"""Rows of a Gram matrix that are formed at once in inner products."""

TOLERANCE, MOST = 1e-4, 400
"""Where that factorisation ends: its residual as a share of the trace, and its rank."""


@dataclass(frozen=True, eq=False)
class Atoms:
    """Points with a kernel; shared by all embeddings on them, with their Gram matrix.

    Parameters
    ----------
    points : ndarray of shape (m, p)
    kernel : Kernel
    """

    points: np.ndarray
    kernel: Kernel

    @cached_property
    def gram(self) -> np.ndarray:
        """The Gram matrix (m, m), or a factor F (m, r) of it with F F' close to it where m is large."""
        if len(self.points) <= EXACT_ATOMS:
            return self.kernel(self.points)
        return pivoted_cholesky(self.kernel, self.points, MOST, TOLERANCE)[0]

    def apply_gram(self, weights: np.ndarray) -> np.ndarray:
        """The Gram matrix times weights (m,)."""
        if len(self.points) <= EXACT_ATOMS:
            return self.gram @ weights
        return self.gram @ (self.gram.T @ weights)


@dataclass(frozen=True, eq=False)
class Embedding:
    """The element sum_i w_i k(., y_i) of the kernel's space.

    Parameters
    ----------
    atoms : Atoms
        y_i and the kernel k.
    weights : ndarray of shape (m,)
        w_i, of either sign.
    """

    atoms: Atoms
    weights: np.ndarray

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """The embedding as a function, at points (l, p): shape (l,)."""
        return self.atoms.kernel(points, self.atoms.points) @ self.weights

    def expectation(self, f: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """sum_i w_i f(y_i), the expectation of f from points (m, p) to values (m,) or (m, q)."""
        return self.weights @ np.asarray(f(self.atoms.points))

    def inner(self, other: Embedding) -> float:
        """The inner product with another embedding of the same kernel.

        For embeddings of distributions this is the kernel Bayes average of one under the other.

        Raises
        ------
        ValueError
            If the kernels differ.
        """
        if self.atoms.kernel != other.atoms.kernel:
            raise ValueError(
                f"the embeddings have the kernels {self.atoms.kernel} and {other.atoms.kernel}; inner "
                "products and distances need one kernel for both"
            )
        a, b = self.atoms.points, other.atoms.points
        return float(
            sum(
                self.weights[i : i + BLOCK] @ (self.atoms.kernel(a[i : i + BLOCK], b) @ other.weights)
                for i in range(0, len(a), BLOCK)
            )
        )

    def distance(self, other: Embedding) -> float:
        """The RKHS distance to another embedding; of equal weights, the maximum mean discrepancy."""
        squared = self.inner(self) - 2 * self.inner(other) + other.inner(other)
        return float(np.sqrt(max(squared, 0.0)))

    def shrunk(self, target: Embedding) -> tuple[Embedding, float]:
        """The embedding of equally weighted draws moved towards another one.

        Parameters
        ----------
        target : Embedding
            Of the same kernel; what this one is compared with.

        Returns
        -------
        Embedding
            (1 - a) times this one plus a times `target`, on the atoms of both.
        float
            a, in [0, 1].

        Notes
        -----
        a = min(1, D / |m - t|^2), with m this embedding, t the target and D an unbiased estimate of
        m's squared error, as James and Stein's estimator for a mean.

        References
        ----------
        .. [1] K. Muandet, B. Sriperumbudur, K. Fukumizu, A. Gretton, B. Schölkopf, Kernel mean shrinkage
           estimators, JMLR 17 (2016), 48.
        """
        size = self.weights.sum() ** 2 / (self.weights @ self.weights)
        norm = self.inner(self)
        diagonal = float(self.weights @ self.atoms.kernel.diag(self.atoms.points))
        error = max(diagonal - norm, 0.0) / (size - 1) if size > 1 else np.inf
        apart = norm - 2 * self.inner(target) + target.inner(target)
        share = float(min(1.0, error / apart)) if apart > 0 else 1.0
        atoms = Atoms(np.vstack([self.atoms.points, target.atoms.points]), self.atoms.kernel)
        weights = np.concatenate([(1 - share) * self.weights, share * target.weights])
        return Embedding(atoms, weights), share

    def herd(self, draws: int) -> np.ndarray:
        """Row numbers of atoms whose equally weighted sum is near to this embedding, shape (draws,).

        Kernel herding: each draw is the atom at which the embedding exceeds that of the draws before
        it most [1]_.

        References
        ----------
        .. [1] Y. Chen, M. Welling, A. Smola, Super-samples from kernel herding, UAI (2010).
        """
        points, kernel = self.atoms.points, self.atoms.kernel
        target = self.atoms.apply_gram(self.weights)
        half_norms = 0.5 * kernel.diag(points)
        drawn = np.zeros(draws, dtype=int)
        total = np.zeros(len(points))
        for t in range(draws):
            drawn[t] = int(np.argmax((t + 1) * target - total - half_norms))
            total += kernel(points, points[drawn[t] : drawn[t] + 1])[:, 0]
        return drawn

    def squared_error_to_gaussian(self, mean: np.ndarray, covariance: np.ndarray) -> float:
        """The squared RKHS distance to the embedding of a normal distribution, under a Gaussian kernel.

        Parameters
        ----------
        mean : ndarray of shape (p,)
        covariance : ndarray of shape (p, p)

        Notes
        -----
        Section 5.1 of the localised draft, in the scale of its kernel, which is a normal density: for
        k = exp(-|a - b|^2 / (2 s^2)) each term is multiplied by the density's constant.

        Raises
        ------
        TypeError
            If the kernel is not Gaussian.
        """
        kernel = self.atoms.kernel
        if not isinstance(kernel, Gaussian):
            raise TypeError(f"the kernel is {kernel!r}; the closed form holds for Gaussian kernels")
        points = self.atoms.points
        variance = np.broadcast_to(np.asarray(kernel.bandwidth, dtype=float) ** 2, points.shape[1:])
        own = gaussian_mean(np.zeros((1, len(mean))), np.zeros_like(mean), 2 * covariance, variance)[0]
        cross = gaussian_mean(points, mean, covariance, variance)
        return float(own - 2 * self.weights @ cross + self.inner(self))

    def mode(self, starts: int = 5, iterations: int = 200) -> np.ndarray:
        """The point whose feature is nearest to the embedding, shape (p,): the pre-image.

        Under a Gaussian kernel by a fixed point (see `_fixed_point`), under others by SciPy's
        minimiser from the atoms at which the embedding is largest.
        """
        if isinstance(self.atoms.kernel, Gaussian):
            return self._fixed_point(starts, iterations)
        kernel, points = self.atoms.kernel, self.atoms.points

        def gap(y: np.ndarray) -> float:
            return float(kernel.diag(y[None])[0] - 2 * self(y[None])[0])

        nearest = points[np.argsort(kernel.diag(points) - 2 * self(points))[:starts]]
        ends = [
            minimize(gap, y, method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-12}) for y in nearest
        ]
        return min(ends, key=lambda end: end.fun).x

    def _fixed_point(self, starts: int, iterations: int) -> np.ndarray:
        """The highest end of fixed-point iterations from several atoms, for a Gaussian kernel.

        Notes
        -----
        The fixed point of eq. 3 of the localised draft, y <- sum_i y_i w_i k(y_i, y) / sum_i w_i
        k(y_i, y), from several of the 200 heaviest atoms, the first of them the one at which the
        embedding is largest. For a Gaussian kernel the nearest feature is where the embedding is
        largest, and the step is an ascent of it while weights are positive; with signed ones a step
        that does not ascend is halved.
        """
        points, weights = self.atoms.points, self.weights
        heaviest = points[np.argsort(weights)[::-1][:200]]
        descending = heaviest[np.argsort(self(heaviest))[::-1]]
        best, highest = descending[0], -np.inf
        for y in descending[:: max(1, len(descending) // starts)][:starts]:
            height = float(self(y[None])[0])
            for _ in range(iterations):
                similar = self.atoms.kernel(y[None], points)[0] * weights
                total = similar.sum()
                if total <= 0:
                    break
                step = similar @ points / total - y
                while (risen := float(self((y + step)[None])[0])) < height and np.abs(step).max() > 0:
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

    def project_to_simplex(self, iterations: int = 500, tolerance: float = 1e-4) -> np.ndarray:
        """Weights v (m,), non-negative and of sum one, whose embedding is nearest to this one.

        Notes
        -----
        Minimises (v - w)' G (v - w) over the simplex by accelerated projected gradients, from the
        positive part of w. The embedding nearest to this one is unique where G has full rank; an
        iteration ends when it lowers the objective by less than `tolerance` of its value.
        """
        target = self.atoms.apply_gram(self.weights)
        norm = float(self.weights @ target)
        length = 1 / _largest_eigenvalue(self.atoms)
        v = onto_simplex(np.maximum(self.weights, 0) / max(np.maximum(self.weights, 0).sum(), 1e-300))
        ahead, momentum = v, 1.0
        image = image_ahead = self.atoms.apply_gram(v)
        objective = v @ image - 2 * v @ target + norm
        for _ in range(iterations):
            moved = onto_simplex(ahead - length * (image_ahead - target))
            image_moved = self.atoms.apply_gram(moved)
            lowered = moved @ image_moved - 2 * moved @ target + norm
            if lowered > objective:  # momentum overshot: go on from here without it
                if momentum == 1.0:
                    break
                ahead, image_ahead, momentum = v, image, 1.0
                continue
            following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            push = (momentum - 1) / following
            ahead = moved + push * (moved - v)
            image_ahead = image_moved + push * (image_moved - image)
            settled = objective - lowered <= tolerance * max(abs(lowered), 1e-12) and momentum > 1.0
            v, image, objective, momentum = moved, image_moved, lowered, following
            if settled:
                break
        return v


def onto_simplex(weights: np.ndarray) -> np.ndarray:
    """The point of the probability simplex nearest to weights (m,) in Euclidean distance."""
    descending = np.sort(weights)[::-1]
    excess = np.cumsum(descending) - 1
    count = np.arange(1, len(weights) + 1)
    last = np.flatnonzero(descending - excess / count > 0)[-1]
    return np.maximum(weights - excess[last] / count[last], 0)


def _largest_eigenvalue(atoms: Atoms) -> float:
    """An upper estimate of the Gram matrix's largest eigenvalue, by power iteration."""
    vector = np.ones(len(atoms.points)) / np.sqrt(len(atoms.points))
    value = 1.0
    for _ in range(20):
        image = atoms.apply_gram(vector)
        value = float(np.linalg.norm(image))
        vector = image / value
    return 1.05 * value
