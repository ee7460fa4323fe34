"""Sizes of a hundred clusters of a branching process: nine counts that share their sum.

``python -m tests.statistical.branching --rows 10000 --seed 0`` prints how far the posterior of the mean
and the dispersion of offspring is from the exact one, in exact posterior deviations, and its width.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.special import gammaln

import pymc_kbr as pk

CLUSTERS, SIZES = 100, 9
NAMES = ("offspring", "log_dispersion")
LOWEST, HIGHEST = np.array([0.1, -2.3]), np.array([0.9, 1.6])


def probabilities(theta: np.ndarray) -> np.ndarray:
    """Of clusters of 1 to 8 and of more, shape (n, 9): offspring are negative binomial.

    S. Blumberg, J. O. Lloyd-Smith, PLoS Computational Biology 9 (2013) e1002993, eq. 2.
    """
    r, k = theta[:, :1], np.exp(theta[:, 1:])
    size = np.arange(1, SIZES)
    logs = gammaln(k * size + size - 1) - gammaln(k * size) - gammaln(size + 1)
    logs = logs + (size - 1) * np.log(r / k) - (k * size + size - 1) * np.log1p(r / k)
    each = np.exp(logs)
    return np.column_stack([each, np.maximum(1 - each.sum(axis=1), 1e-300)])


def draw_prior(rng: np.random.Generator, count: int) -> np.ndarray:
    """Mean of offspring, and log of the dispersion, both even."""
    return rng.uniform(LOWEST, HIGHEST, (count, 2))


def simulate(rng: np.random.Generator, theta: np.ndarray) -> np.ndarray:
    """Counts (n, 9) of clusters by their sizes."""
    return rng.multinomial(CLUSTERS, probabilities(theta)).astype(float)


def exact_moments(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and deviations of the posterior of one set of counts (9,), on a grid."""
    axes = [np.linspace(a, b, 302)[1:-1] for a, b in zip(LOWEST, HIGHEST, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    logs = np.log(probabilities(grid)) @ counts
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = weights @ grid
    return mean, np.sqrt(weights @ (grid - mean) ** 2)


def errors(likelihood: pk.KernelLikelihood, seed: int = 100, sets: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Errors of posterior means at several data sets, in exact deviations, and ratios of widths."""
    rng = np.random.default_rng(seed)
    away, widths = [], []
    for theta in draw_prior(rng, sets):
        counts = simulate(rng, theta[None])[0]
        mean, deviation = exact_moments(counts)
        found = likelihood.condition(counts)
        away.append((found.mean() - mean) / deviation)
        widths.append(found.draw(4000, 1).std(axis=0) / deviation)
    return np.array(away), np.array(widths)


def learn(rows: int, seed: int) -> pk.KernelLikelihood:
    """A likelihood learnt from so many simulations."""
    rng = np.random.default_rng(seed)
    theta = draw_prior(rng, rows)
    counts = simulate(rng, theta)
    columns = {f"size_{i + 1}": column for i, column in enumerate(counts.T)}
    return pk.KernelLikelihood().fit(dict(zip(NAMES, theta.T, strict=True)), columns, random_seed=seed)


def main() -> None:
    """Print errors and widths."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    begun = time.perf_counter()
    likelihood = learn(given.rows, given.seed)
    print(f"{given.rows} rows, seed {given.seed}, fit {time.perf_counter() - begun:.0f} s")
    away, widths = errors(likelihood)
    for name, error, width in zip(NAMES, away.T, widths.T, strict=True):
        print(
            f"  {name}: rms error {np.sqrt(np.mean(error**2)):.2f}, largest {np.abs(error).max():.2f}, "
            f"widths {width.mean():.2f} (from {width.min():.2f} to {width.max():.2f})"
        )


if __name__ == "__main__":
    main()
