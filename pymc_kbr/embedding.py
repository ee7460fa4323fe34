"""Signed, weighted atoms as one element of a reproducing kernel Hilbert space."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pymc_kbr.kernels.gaussian import Gaussian

EXACT_ATOMS = 200
"""Atoms up to which Gram matrices are formed whole; above, they are factored to a low rank."""


@dataclass(frozen=True, eq=False)
class Atoms:
    """Points with a kernel; shared by all embeddings on them, with their Gram matrix.

    Parameters
    ----------
    points : ndarray of shape (m, p)
    kernel : Gaussian
    """

    points: np.ndarray
    kernel: Gaussian

    @cached_property
    def gram(self) -> np.ndarray:
        """The Gram matrix (m, m), or a factor F (m, r) of it with F F' close to it where m is large."""
        if len(self.points) <= EXACT_ATOMS:
            return self.kernel(self.points)
        return pivoted_cholesky(self.points, self.kernel)

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

    def mode(self, starts: int = 5, iterations: int = 200) -> np.ndarray:
        """The point whose feature is nearest to the embedding, shape (p,).

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


def pivoted_cholesky(
    points: np.ndarray, kernel: Gaussian, tolerance: float = 1e-4, most: int = 400
) -> np.ndarray:
    """A factor F (m, r) of the Gram matrix with trace(G - F F') <= tolerance * m, r at most `most`."""
    m = len(points)
    factor = np.zeros((m, min(m, most)), order="F")
    residual = kernel.diag(points)
    for rank in range(factor.shape[1]):
        if residual.sum() <= tolerance * m:
            return factor[:, :rank]
        pivot = int(np.argmax(residual))
        column = kernel(points, points[pivot : pivot + 1])[:, 0]
        column -= factor[:, :rank] @ factor[pivot, :rank]
        factor[:, rank] = column / np.sqrt(residual[pivot])
        residual = np.maximum(residual - factor[:, rank] ** 2, 0)
        residual[pivot] = 0
    return factor


def _largest_eigenvalue(atoms: Atoms) -> float:
    """An upper estimate of the Gram matrix's largest eigenvalue, by power iteration."""
    vector = np.ones(len(atoms.points)) / np.sqrt(len(atoms.points))
    value = 1.0
    for _ in range(20):
        image = atoms.apply_gram(vector)
        value = float(np.linalg.norm(image))
        vector = image / value
    return 1.05 * value
