"""How far posteriors of a learned likelihood of trials are from exact ones.

``python -m tests.statistical.trials drift --rows 20000`` (with the shift declared; ``--undeclared`` without)
has four data sets of 200 trials of the drift diffusion model, ``python -m tests.statistical.trials counts``
data sets of 400 counts. Errors of posterior means are in exact posterior deviations.

``python -m tests.statistical.trials bias --seed 0`` learns eight problems of known density from tables of
five sizes. It compares errors of posterior means of 200 trials with those that `KernelLikelihood.bias_for`
expects and warns of. The rows of ``trial_bias.csv`` are those of seed 0.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import pymc_kbr as pk
from case_studies.reaction_times import drift_diffusion
from case_studies.trial_rivals.posteriors import on_grid
from tests.statistical.trial_problems import PROBLEMS, TrialProblem

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


# --- whether the check of many trials warns where it should ---


SIZES = (1_000, 2_000, 5_000, 10_000, 20_000)
BIASES = Path(__file__).with_name("trial_bias.csv")


class DataSets:
    """Data sets of 200 trials of a problem, away from the edges of its prior, and exact posteriors."""

    def __init__(self, problem: TrialProblem, count: int, rng: np.random.Generator) -> None:
        margin = 0.1 * (problem.upper - problem.lower)
        truths = rng.uniform(problem.lower + margin, problem.upper - margin, (count, len(margin)))
        self.problem = problem
        self.trials = [problem.draw(np.repeat(truth[None], 200, axis=0), rng) for truth in truths]
        self.exact = []
        for truth, trials in zip(truths, self.trials, strict=True):
            if len(truth) > 2:
                draws = drift_diffusion.exact_posterior(trials, truth, rng, 1500)
                self.exact.append((draws.mean(axis=0), draws.std(axis=0)))
            else:
                self.exact.append(self._on_grid(problem.log_density, trials))

    def errors(self, likelihood: Any) -> tuple[np.ndarray, np.ndarray]:
        """Of posterior means, in exact posterior deviations, and these means, (s, p) both."""
        if len(self.problem.parameters) > 2:
            means = np.stack([each.mean() for each in likelihood.condition(self.trials, trials=True)])
        else:
            means = np.stack([self._on_grid(likelihood.log_likelihoods, each)[0] for each in self.trials])
        exact, deviations = map(np.array, zip(*self.exact, strict=True))
        return (means - exact) / deviations, means

    def _on_grid(self, log_densities: Any, trials: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, times = np.unique(trials, axis=0, return_counts=True)
        return on_grid(
            lambda points: log_densities(points, values) @ times, self.problem.lower, self.problem.upper
        )


def biases(seed: int, names: list[str], sizes: list[int]) -> Iterator[dict[str, Any]]:
    """Errors that there are and that are expected, root mean squares over data sets and parameters."""
    for name in names:
        problem = PROBLEMS[name]
        data = DataSets(problem, 4 if len(problem.parameters) > 2 else 8, np.random.default_rng(7))
        for rows in sizes:
            rng = np.random.default_rng(rows + seed)
            theta = problem.draw_prior(rows, rng)
            x = problem.draw(theta, rng)
            begun = time.perf_counter()
            likelihood = problem.learn(theta, x, rows + seed)
            fitted = time.perf_counter()
            likelihood.bias_for(200, theta[0])
            checked = time.perf_counter()
            errors, means = data.errors(likelihood)
            expected = np.array([likelihood.bias_for(200, mean).expected for mean in means])
            row = {
                "problem": name,
                "rows": rows,
                "seed": seed,
                "fit_seconds": round(fitted - begun, 1),
                "check_seconds": round(checked - fitted, 1),
                "error": round(float(np.sqrt(np.mean(errors**2))), 3),
                "expected": round(float(np.sqrt(np.mean(expected**2))), 3),
                "warned": round(float(np.mean(expected > 0.5)), 3),
            }
            print(*row.values(), flush=True)
            yield row


def summary(rows: list[dict[str, Any]]) -> str:
    """How many of those off by more than a deviation, and of those within a third, are warned of."""
    errors, expected = (np.array([float(row[name]) for row in rows]) for name in ("error", "expected"))
    warned, off, fine = expected > 0.5, errors > 1, errors < 1 / 3
    return (
        f"{len(rows)} fits: warned of {np.sum(warned & off)} of {np.sum(off)} that are off by more than a "
        f"deviation, and of {np.sum(warned & fine)} of {np.sum(fine)} within a third"
    )


def main() -> None:
    """As the module says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problem", choices=["drift", "counts", "bias"])
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--undeclared", action="store_true")
    parser.add_argument("--only", nargs="*", default=list(PROBLEMS), help="problems of `bias`")
    parser.add_argument("--to", type=Path, default=None, help=f"a file, such as {BIASES.name}, to add to")
    given = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if given.problem == "drift":
            drift(given.rows or 20_000, given.seed, declared=not given.undeclared)
        elif given.problem == "counts":
            counts(given.rows or 10_000, given.seed)
        else:
            found = []
            for row in biases(given.seed, given.only, [given.rows] if given.rows else list(SIZES)):
                found.append(row)
                if given.to is not None:
                    _add(row, given.to)
            print(summary(found))


def _add(row: dict[str, Any], path: Path) -> None:
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)


if __name__ == "__main__":
    main()
