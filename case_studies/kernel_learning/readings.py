"""The grid of clouds read in several ways: which null distribution, which bandwidth, which samples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import gamma

import pymc_kbr as pk
from case_studies.kernel_learning.grid import CELLS, POINTS, clouds, pair
from pymc_kbr.embedding.learnt_lengthscale import learn_lengthscale
from pymc_kbr.kernels import Gaussian, median_heuristic

RATIOS = (1.0, 2.0, 15.0)

Sampler = Callable[[float, np.random.Generator, int], tuple[np.ndarray, np.ndarray]]
Test = Callable[[np.ndarray, np.ndarray, float, np.random.Generator], float]
"""From two samples, a bandwidth and a generator to a p-value."""


def drawn(ratio: float, rng: np.random.Generator, points: int = POINTS) -> tuple[np.ndarray, np.ndarray]:
    """As `pair`, with the cell of each point drawn, so that cells do not hold the same number of both."""
    samples = []
    for each in (1.0, ratio):
        many = clouds(each, rng, 3 * points)
        samples.append(rng.permutation(many)[: CELLS**2 * points])
    return samples[0], samples[1]


def by_all(x: np.ndarray, y: np.ndarray, bandwidth: float, rng: np.random.Generator) -> float:
    """Permutations of all rows."""
    return pk.mmd_test(x, y, bandwidth=bandwidth, permutations=99, random_seed=rng).pvalue


def within_cells(x: np.ndarray, y: np.ndarray, bandwidth: float, rng: np.random.Generator) -> float:
    """Permutations within cells, whose rows lie together."""
    cells = np.repeat(np.arange(CELLS**2), len(x) // CELLS**2)
    found = pk.mmd_test(x, y, bandwidth=bandwidth, strata=(cells, cells), permutations=99, random_seed=rng)
    return found.pvalue


def by_moments(x: np.ndarray, y: np.ndarray, bandwidth: float, rng: np.random.Generator) -> float:
    """A gamma distribution with the moments of permutations of all rows."""
    return pk.mmd_test(x, y, bandwidth=bandwidth, statistic="biased", null="gamma").pvalue


def by_pairs(x: np.ndarray, y: np.ndarray, bandwidth: float, rng: np.random.Generator) -> float:
    """The gamma distribution of Gretton et al. 2009, whose moments pair row i of x with row i of y."""
    kernel, m = Gaussian(bandwidth), len(x)
    cross = kernel(x, y)
    h = kernel(x) + kernel(y) - cross - cross.T
    mean = 2 / m * (1 - np.diag(cross).mean())
    variance = 2 / (m * (m - 1)) ** 2 * (np.sum(h**2) - np.sum(np.diag(h) ** 2))
    return float(gamma(mean**2 / variance, scale=variance / mean).sf(h.mean()))


def by_shuffled_pairs(x: np.ndarray, y: np.ndarray, bandwidth: float, rng: np.random.Generator) -> float:
    """The same, with the rows of both samples in random order."""
    return by_pairs(rng.permutation(x), rng.permutation(y), bandwidth, rng)


NULLS: dict[str, Test] = {
    "permutations of all rows": by_all,
    "permutations within cells": within_cells,
    "gamma, moments of permutations": by_moments,
    "gamma, pairs within cells": by_pairs,
    "gamma, pairs at random": by_shuffled_pairs,
}


def bandwidths(points: int) -> dict[str, float]:
    """The maxima of one pair of samples at ratio 2, half the shortest, and both forms of the median."""
    pooled = np.vstack(pair(2.0, np.random.default_rng(1), points))
    lengths = sorted(float(m.lengthscale[0]) for m in learn_lengthscale(pooled).maxima)
    median = median_heuristic(pooled)
    return {
        "learnt": lengths[0],
        "half the learnt": lengths[0] / 2,
        "the other maximum": lengths[-1],
        "median": median,
        "median over root 2": float(median / np.sqrt(2)),
    }


def readings(quick: bool, output: Path) -> None:
    """Shares of rejections at level 0.05, a line a reading, written as they come (readings.csv)."""
    repeats, points = (2, 10) if quick else (20, POINTS)
    samplers: dict[str, Sampler] = {"100 a cell": pair, "cells drawn": drawn}
    lines: list[dict[str, float | str]] = []
    for rows, simulate in samplers.items():
        for name, bandwidth in bandwidths(points).items():
            usual = name in ("learnt", "median")
            for ratio in RATIOS if usual and rows == "100 a cell" else (1.0, 2.0):
                for null, test in NULLS.items():
                    if rows == "cells drawn" and null != "permutations of all rows":
                        continue
                    if not usual and null not in ("permutations of all rows", "permutations within cells"):
                        continue
                    pvalues = []
                    for repeat in range(repeats):
                        rng = np.random.default_rng([9, int(100 * ratio), repeat])
                        pvalues.append(test(*simulate(ratio, rng, points), bandwidth, rng))
                    line: dict[str, float | str] = {
                        "rows": rows,
                        "bandwidth": name,
                        "lengthscale": round(bandwidth, 2),
                        "null": null,
                        "ratio": ratio,
                        "repeats": repeats,
                        "rejected": float(np.mean(np.array(pvalues) <= 0.05)),
                    }
                    lines.append(line)
                    pd.DataFrame(lines).round(4).to_csv(output / "readings.csv", index=False)
                    print(line, flush=True)
