"""How far posteriors of a learned likelihood of trials are from exact ones.

``python -m tests.statistical.trials drift --rows 20000`` (with the shift declared; ``--undeclared`` without)
has four data sets of 200 trials of the drift diffusion model, ``python -m tests.statistical.trials counts``
data sets of 400 counts. Errors of posterior means are in exact posterior deviations.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from scipy import stats

import pymc_kbr as pk
from tests.statistical import drift_diffusion

COUNTS = ("poisson", "negative binomial", "binomial")


def drift(rows: int, seed: int, *, declared: bool) -> None:
    """Print the errors at four data sets of the drift diffusion model."""
    rng = np.random.default_rng(100)
    truths = drift_diffusion.draw_prior(rng, 4)
    sets = [drift_diffusion.simulate(rng, np.repeat(truth[None], 200, axis=0)) for truth in truths]
    exact = [
        drift_diffusion.exact_posterior(trials, truth, rng)
        for trials, truth in zip(sets, truths, strict=True)
    ]
    rng = np.random.default_rng(seed)
    theta = drift_diffusion.draw_prior(rng, rows)
    trials = drift_diffusion.simulate(rng, theta)
    parameters = dict(zip(drift_diffusion.NAMES, theta.T, strict=True))
    known: dict[str, Any] = {"shift": {"rt": "t0"}, "lower": {"rt": "t0"}} if declared else {}
    begun = time.perf_counter()
    likelihood = pk.KernelLikelihood(**known).fit(
        parameters, {"rt": trials[:, 0], "choice": trials[:, 1]}, random_seed=seed
    )
    seconds = time.perf_counter() - begun
    print(f"{rows} trials, {'shift declared' if declared else 'nothing declared'}, fit {seconds:.0f} s")
    errors = []
    for trials, draws in zip(sets, exact, strict=True):
        found = likelihood.condition(trials, trials=True)
        deviations = draws.std(axis=0)
        errors.append((found.mean() - draws.mean(axis=0)) / deviations)
        widths = found.draw(4000, 1).std(axis=0) / deviations
        print("  errors", errors[-1].round(2), "widths", widths.round(2))
    print(f"  rms {np.sqrt(np.mean(np.square(errors))):.2f}, largest {np.abs(errors).max():.2f}")


def log_probability(kind: str, theta: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Of counts (r,) at parameters (k,), shape (k, r)."""
    mean = np.exp(0.7 * theta + 0.5)[:, None]
    if kind == "poisson":
        return stats.poisson.logpmf(counts, mean)
    if kind == "negative binomial":
        return stats.nbinom.logpmf(counts, 3, 3 / (3 + mean))
    return stats.binom.logpmf(counts, 10, 1 / (1 + np.exp(0.5 - 0.7 * theta[:, None])))


def draw_counts(kind: str, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One count for each parameter (n,)."""
    mean = np.exp(0.7 * theta + 0.5)
    if kind == "poisson":
        return rng.poisson(mean)
    if kind == "negative binomial":
        return rng.negative_binomial(3, 3 / (3 + mean))
    return rng.binomial(10, 1 / (1 + np.exp(0.5 - 0.7 * theta)))


def counts(rows: int, seed: int) -> None:
    """Print the errors at data sets of 400 counts, under a uniform prior from -3 to 3."""
    grid = np.linspace(-3, 3, 1201)
    for kind in COUNTS:
        rng = np.random.default_rng(seed)
        theta = rng.uniform(-3, 3, rows)
        begun = time.perf_counter()
        likelihood = pk.KernelLikelihood(
            lower={"x": 0}, **({"upper": {"x": 10}} if kind == "binomial" else {})
        )
        x = draw_counts(kind, theta, rng)[:, None].astype(float)
        likelihood.fit({"theta": theta}, {"x": x[:, 0]}, random_seed=seed)
        seconds = time.perf_counter() - begun
        errors = []
        for truth in np.repeat([-2.0, -1.0, 0.0, 1.0, 2.0], 4):
            values, times = np.unique(draw_counts(kind, np.full(400, truth), rng), return_counts=True)
            logs = [
                log_probability(kind, grid, values) @ times,
                likelihood.log_likelihoods(grid[:, None], values[:, None].astype(float)) @ times,
            ]
            (mean, deviation), (found, _) = (_moments(each, grid) for each in logs)
            errors.append((found - mean) / deviation)
        sums = np.exp(likelihood.log_likelihoods(grid[::40, None], np.arange(500.0)[:, None])).sum(axis=1)
        rms, off = np.sqrt(np.mean(np.square(errors))), np.abs(sums - 1).max()
        by_truth = np.sqrt(np.mean(np.reshape(np.square(errors), (5, 4)), axis=1)).round(2)
        print(f"{kind}: {rows} rows, fit {seconds:.0f} s, rms {rms:.2f} {by_truth}, sums off by {off:.0e}")


def _moments(logs: np.ndarray, grid: np.ndarray) -> tuple[float, float]:
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = weights @ grid
    return mean, np.sqrt(weights @ (grid - mean) ** 2)


def main() -> None:
    """As the module says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problem", choices=["drift", "counts"])
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--undeclared", action="store_true")
    given = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if given.problem == "drift":
            drift(given.rows or 20_000, given.seed, declared=not given.undeclared)
        else:
            counts(given.rows or 10_000, given.seed)


if __name__ == "__main__":
    main()
