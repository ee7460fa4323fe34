"""Densities of one number: normal mixtures whose parts are functions of the parameters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtr

from pymc_kbr.estimators.likelihood.residual_shape import LOG_ROOT_2PI, log_sum_exp

LEAST_LOG_DEVIATION, LARGEST_LOG_DEVIATION = -8.0, 6.0
"""Logs of the deviations of parts stay between them."""

FUNCTION_PENALTIES = (1000.0, 100.0, 10.0, 1.0)
"""Precisions of the coefficients' prior, each tried from where the one before ended."""

OF_LINEAR_FUNCTIONS = 0.01
"""Added to the penalties of functions of the parameters: that of the linear ones."""

FEW_NUMBERS = 16
"""Of each row, drawn at random, on which precisions are tried."""

MOST_NUMBERS = 800_000
"""Of all rows, on which the chosen precision is fitted in the end."""

FIRST_ITERATIONS, FURTHER_ITERATIONS = 150, 60
"""At most, of the first precision and of each that follows."""


class FittedFunctions(NamedTuple):
    """What `fit_functions` finds.

    Attributes
    ----------
    coefficients : ndarray of shape (f, 3 c)
        Of logits, means and log deviations of c parts.
    held_out : float
        Mean log density of held-out rows.
    """

    coefficients: np.ndarray
    held_out: float


def parts_of_numbers(numbers: Any, c: int, xp: Any = np) -> list[tuple[Any, Any, Any]]:
    """Log share, mean and log deviation (k, 1) of each of c parts, from logits, means and logs (k, 3 c)."""
    logits, means, logs = ([numbers[:, i, None] for i in range(j * c, (j + 1) * c)] for j in range(3))
    total = log_sum_exp(logits, xp)
    low, high = LEAST_LOG_DEVIATION, LARGEST_LOG_DEVIATION
    held = [xp.maximum(xp.minimum(log, high), low) for log in logs]
    return [(a - total, m, s) for a, m, s in zip(logits, means, held, strict=True)]


def log_densities(parts: Sequence[tuple[Any, Any, Any]], z: Any, xp: Any = np) -> Any:
    """Log densities (k, m) of numbers (k, m)."""
    terms = [a - s - LOG_ROOT_2PI - 0.5 * ((z - m) * xp.exp(-s)) ** 2 for a, m, s in parts]
    return log_sum_exp(terms, xp)


def distribution(parts: Sequence[tuple[np.ndarray, ...]], z: np.ndarray) -> np.ndarray:
    """Distribution functions (k, m) of numbers (k, m)."""
    return sum(np.exp(a) * ndtr((z - m) * np.exp(-s)) for a, m, s in parts)


def draw_numbers(parts: Sequence[tuple[np.ndarray, ...]], size: int, rng: np.random.Generator) -> np.ndarray:
    """Independent numbers (k, size) for each of k parameters."""
    shares, means, logs = (np.stack([part[i] for part in parts], axis=2) for i in range(3))
    # The largest of logits with Gumbel noise is a draw of a part.
    noise = rng.gumbel(size=(len(shares), size, shares.shape[2]))
    chosen = np.argmax(shares + noise, axis=2)
    means, logs = (np.take_along_axis(one[:, 0], chosen, axis=1) for one in (means, logs))
    return means + np.exp(logs) * rng.standard_normal(means.shape)


def start_of_groups(z: np.ndarray, parts: int) -> np.ndarray:
    """Means and log deviations (n, 2 c) of the lowest numbers of each row, the next lowest, and so on.

    Each group stands for a part: regressed on the parameters these are the functions to begin with.
    """
    ordered = np.sort(z, axis=1)
    ends = np.linspace(0, z.shape[1], parts + 1).round().astype(int)
    groups = [ordered[:, a:b] for a, b in pairwise(ends)]
    means = [group.mean(axis=1) for group in groups]
    logs = [np.log(group.std(axis=1) + 1e-3) for group in groups]
    return np.column_stack([*means, *logs])


def fit_functions(
    z: np.ndarray,
    features: np.ndarray,
    penalties: np.ndarray,
    start: np.ndarray,
    held_out: np.ndarray,
    rng: np.random.Generator,
    tried: tuple[float, ...] = FUNCTION_PENALTIES,
    numbers: int = MOST_NUMBERS,
) -> FittedFunctions:
    """Penalised likelihood, its penalty by held-out rows.

    Parameters
    ----------
    z : ndarray of shape (n, e)
        Independent of each other in every row.
    features : ndarray of shape (n, f)
        Orthonormal over the rows, the constant first.
    penalties : ndarray of shape (f,)
        Squared norms in the space of the kernel.
    start : ndarray of shape (f, 2 c)
        Coefficients of means and log deviations to begin with.
    held_out : ndarray of bool, shape (n,)
    rng : numpy.random.Generator
        Of the numbers that are looked at.
    tried : tuple of float
    numbers : int
        On which the chosen precision is fitted to all rows in the end; zero leaves this out.

    Notes
    -----
    After C. Bishop, Mixture density networks, Aston University NCRG/94/004 (1994), with functions in the
    space of a kernel in place of a network.
    """
    n, e = z.shape
    order = rng.permuted(np.tile(np.arange(e), (n, 1)), axis=1)
    few = np.take_along_axis(z, order[:, :FEW_NUMBERS], axis=1)
    penalty = OF_LINEAR_FUNCTIONS + penalties[:, None] * np.ones(3 * start.shape[1] // 2)
    now = np.hstack([np.zeros((len(start), start.shape[1] // 2)), start])
    best, density, chosen, rest = now, -np.inf, tried[0], ~held_out
    for weight in tried:
        most = FIRST_ITERATIONS if weight == tried[0] else FURTHER_ITERATIONS
        now = _maximised(now, few[rest], features[rest], weight * penalty, most)
        parts = parts_of_numbers(features[held_out] @ now, start.shape[1] // 2)
        found = float(log_densities(parts, z[held_out]).sum(axis=1).mean())
        if found > density:
            best, density, chosen = now, found, weight
    if numbers:
        wide = int(np.clip(numbers // n, min(e, FEW_NUMBERS), e))
        more = np.take_along_axis(z, order[:, :wide], axis=1)
        best = _maximised(best, more, features, chosen * penalty, FURTHER_ITERATIONS)
    return FittedFunctions(best, density)


def _maximised(
    start: np.ndarray, z: np.ndarray, features: np.ndarray, penalty: np.ndarray, iterations: int
) -> np.ndarray:
    """Coefficients (f, 3 c) of the highest penalised likelihood, from some on."""
    c, count = start.shape[1] // 3, z.size
    logs = np.clip(features @ start[:, 2 * c :], LEAST_LOG_DEVIATION, LARGEST_LOG_DEVIATION)
    # In these units the loss is about as steep in all directions.
    steep = np.concatenate([np.ones(c), np.exp(-2 * np.median(logs, axis=0)), np.ones(c)])
    units = 1 / np.sqrt(count / c * steep + penalty)

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        w = flat.reshape(start.shape) * units
        value, slopes = _likelihood(features @ w, z)
        down = penalty * w
        return -value + 0.5 * float(np.sum(down * w)), ((down - features.T @ slopes) * units).ravel()

    options = {"maxiter": iterations, "maxcor": 20, "ftol": 1e-9}
    found = minimize(loss, (start / units).ravel(), jac=True, method="L-BFGS-B", options=options)
    return found.x.reshape(start.shape) * units


def _likelihood(numbers: np.ndarray, z: np.ndarray) -> tuple[float, np.ndarray]:
    """Summed log density of rows (n, e), and its slopes (n, 3 c) in the numbers of their parts."""
    c = numbers.shape[1] // 3
    parts, logs = parts_of_numbers(numbers, c), numbers[:, 2 * c :]
    free = ((logs > LEAST_LOG_DEVIATION) & (logs < LARGEST_LOG_DEVIATION)).T
    terms, away = _terms(parts, z)
    highest = terms.max(axis=0)
    terms -= highest
    np.exp(terms, out=terms)
    total = terms.sum(axis=0)
    terms /= total
    shares = [np.exp(a[:, 0]) for a, _, _ in parts]
    held = terms.sum(axis=2)
    terms *= away
    first = terms.sum(axis=2)
    terms *= away
    second = terms.sum(axis=2)
    slopes = [
        *(one - z.shape[1] * share for one, share in zip(held, shares, strict=True)),
        *(one * np.exp(-s[:, 0]) for one, (_, _, s) in zip(first, parts, strict=True)),
        # Where a logarithm is cut off the density does not feel it.
        *((two - one) * inside for one, two, inside in zip(held, second, free, strict=True)),
    ]
    return float(np.sum(highest + np.log(total))), np.column_stack(slopes)


def _terms(parts: Sequence[tuple[np.ndarray, ...]], z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log densities of each part, but for a constant, and standardised distances, both (c, n, e)."""
    away = np.empty((len(parts), *z.shape))
    terms = np.empty_like(away)
    for i, (a, m, s) in enumerate(parts):
        away[i] = (z - m) * np.exp(-s)
        terms[i] = a - s - 0.5 * away[i] ** 2
    return terms, away
