"""Probabilities whose embedding is nearest to one with signed weights."""

from __future__ import annotations

import numpy as np

from pymc_kbr.embedding.embedding import Atoms, Embedding


def project_to_simplex(embedding: Embedding, iterations: int = 500, tolerance: float = 1e-4) -> np.ndarray:
    """Weights v (m,), non-negative and of sum one, whose embedding is nearest to the given one."""
    target = embedding.atoms.apply_gram(embedding.weights)
    norm = float(embedding.weights @ target)
    # A step of one over the gradient's Lipschitz constant never overshoots without momentum.
    length = 1 / _largest_eigenvalue(embedding.atoms)
    # No weight need be positive: what comes out then is equal weights.
    v = onto_simplex(np.maximum(embedding.weights, 0) / max(np.maximum(embedding.weights, 0).sum(), 1e-300))
    ahead, momentum = v, 1.0
    image = image_ahead = embedding.atoms.apply_gram(v)
    objective = v @ image - 2 * v @ target + norm
    for _ in range(iterations):
        moved = onto_simplex(ahead - length * (image_ahead - target))
        image_moved = embedding.atoms.apply_gram(moved)
        lowered = moved @ image_moved - 2 * moved @ target + norm
        if lowered > objective:  # momentum overshot: go on from here without it
            # Without momentum no step overshoots: only rounding is left.
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
    # Power iteration approaches the eigenvalue from below.
    return 1.05 * value
