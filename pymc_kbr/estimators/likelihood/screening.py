"""Which of many earlier statistics a conditional needs to see."""

from __future__ import annotations

from itertools import zip_longest

import numpy as np


def screen(
    theta: np.ndarray,
    candidates: np.ndarray,
    y: np.ndarray,
    most: int,
    *,
    # Parameters whose products with an input are tried: those that vary most with the target.
    most_parameters: int = 6,
) -> np.ndarray:
    """Candidates that inform about the mean or the spread of y, in increasing order."""
    # Inputs x, x^2 and |x| and their products with parameters: an effect whose sign a parameter decides is
    # seen, too.
    # Shapes: theta (n, q); candidates (n, c); y (n,).
    theta, x = _cut(theta), _cut(candidates)
    near = np.argsort([-abs(np.corrcoef(t, y**2)[0, 1]) for t in theta.T])[:most_parameters]
    moduli = np.column_stack([np.ones(len(theta)), theta[:, np.sort(near)]])
    found, residuals = _forward(theta, x, moduli, y, most)
    # Without the floor a row that is met by chance would be an outlier of the logarithms.
    squares = np.log(residuals**2 + 1e-4 * np.mean(residuals**2))
    more, _ = _forward(theta, x, moduli, squares, most)
    # Means first: what a missing mean leaves behind would be taken for spread.
    ordered = dict.fromkeys(c for pair in zip_longest(found, more) for c in pair if c is not None)
    return np.sort(np.array(list(ordered)[:most], dtype=int))


def _cut(
    columns: np.ndarray,
    *,
    # Deviations at which inputs of polynomials are cut off.
    cut_off: float = 3.0,
) -> np.ndarray:
    deviation = columns.std(axis=0)
    return np.clip(
        (columns - columns.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0), -cut_off, cut_off
    )


def _forward(
    theta: np.ndarray,
    x: np.ndarray,
    moduli: np.ndarray,
    y: np.ndarray,
    most: int,
    *,
    # Standard deviations of a chi-squared test by which an input must improve a regression.
    surprising_gain: float = 4.0,
) -> tuple[list[int], np.ndarray]:
    """Columns of x that are chosen one after the other, and what they leave of y."""
    base = orthonormal(np.column_stack([np.ones(len(y)), theta, theta**2]))
    y = y - base @ (base.T @ y)
    functions = np.stack([x, x**2, np.abs(x)], axis=2)
    blocks = np.einsum("ncf,nt->ncft", functions, moduli).reshape(len(x), x.shape[1], -1)
    blocks = blocks - np.tensordot(base, np.tensordot(base.T, blocks, axes=1), axes=1)
    chosen: list[int] = []
    while len(chosen) < min(most, x.shape[1]):
        gains = [_gain(blocks[:, c], y) if c not in chosen else -np.inf for c in range(x.shape[1])]
        best = int(np.argmax(gains))
        if gains[best] < surprising_gain:
            break
        chosen.append(best)
        q = orthonormal(blocks[:, best])
        y = y - q @ (q.T @ y)
        blocks = blocks - np.tensordot(q, np.tensordot(q.T, blocks, axes=1), axes=1)
    return chosen, y


def _gain(block: np.ndarray, y: np.ndarray) -> float:
    """Chi-squared test of a block of columns, in standard deviations from its mean."""
    gram = block.T @ block
    unit = np.sqrt(np.maximum(np.diag(gram), 1e-8 * len(y)))
    gram, right = gram / np.outer(unit, unit), (block.T @ y) / unit
    gram[np.diag_indices_from(gram)] += 1e-3
    explained = right @ np.linalg.solve(gram, right)
    left = max(float(y @ y) - explained, 1e-3 * float(y @ y)) / len(y)
    return (explained / left - len(gram)) / np.sqrt(2 * len(gram))


def orthonormal(columns: np.ndarray, least: float = 1e-6) -> np.ndarray:
    """Orthonormal columns (n, r) of the same span, but for directions of less than a share of the largest."""
    vectors, values, _ = np.linalg.svd(columns, full_matrices=False)
    return vectors[:, values > least * values[0]]
