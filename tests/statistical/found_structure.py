"""Whether a shift and a scale that the table shows should be taken: exact ones, and ones that nearly are.

``python -m tests.statistical.found_structure --record`` learns likelihoods of one number m(a, b) + s(a, b) e
from 10,000 and 20,000 simulations: without structure, with the shift a and the scale b declared, and with
what the table shows. A figure of ``found_structure.csv`` is the root mean square of the errors of both
posterior means, in exact posterior standard deviations, of four data sets of 500 numbers.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from scipy import stats

import pymc_kbr as pk
from case_studies.trial_rivals.posteriors import on_grid
from case_studies.trial_rivals.problems import Problem

Function = Callable[[np.ndarray, np.ndarray], np.ndarray]

MODELS: dict[str, tuple[Function, Function, object]] = {
    "exact, normal": (lambda a, b: a, lambda a, b: b, stats.norm),
    "exact, t": (lambda a, b: a, lambda a, b: b, stats.t(4)),
    "exact, exponential": (lambda a, b: a, lambda a, b: b, stats.expon),
    "slightly bent": (lambda a, b: a + 0.03 * a**2, lambda a, b: b, stats.norm),
    "bent": (lambda a, b: a + 0.1 * a**2, lambda a, b: b, stats.norm),
    "slope 0.97": (lambda a, b: 0.97 * a, lambda a, b: b, stats.norm),
    "slope 0.9": (lambda a, b: 0.9 * a, lambda a, b: b, stats.norm),
    "power 0.95": (lambda a, b: a, lambda a, b: b**0.95, stats.norm),
    "power 0.85": (lambda a, b: a, lambda a, b: b**0.85, stats.norm),
    "further noise": (lambda a, b: a, lambda a, b: np.sqrt(b**2 + 0.05), stats.norm),
    "scale by both": (lambda a, b: a, lambda a, b: b * np.exp(0.03 * a), stats.norm),
    "product": (lambda a, b: a + 0.05 * a * b, lambda a, b: b, stats.norm),
}
"""The functions m and s of a and b, and the distribution of e."""

WAYS = {"none": {"shift": {}}, "declared": {"shift": {"x": "a"}, "scale": {"x": "b"}}, "found": {}}


def problem(name: str) -> Problem:
    """The model of one number, a between -3 and 3, b between 0.3 and 3."""
    location, scale, noise = MODELS[name]

    def parts(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        a, b = theta[:, :1], theta[:, 1:]
        return location(a, b), scale(a, b)

    def draw(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        m, s = parts(theta)
        return m + s * noise.rvs(size=m.shape, random_state=rng)  # type: ignore[attr-defined]

    def log_density(theta: np.ndarray, x: np.ndarray) -> np.ndarray:
        m, s = parts(theta)
        return noise.logpdf((x[:, 0] - m) / s) - np.log(s)  # type: ignore[attr-defined,no-any-return]

    ends = np.array([-3.0, 0.3]), np.array([3.0, 3.0])
    return Problem(("a", "b"), ("x",), *ends, draw, log_density, trials=500)


def errors(of: Problem, rows: int, seed: int, *, sets: int = 4) -> dict[str, tuple[float, str]]:
    """Root mean square errors of posterior means by each way, and what was found."""
    rng = np.random.default_rng(seed)
    theta = of.draw_prior(rows, rng)
    x = of.draw(theta, rng)
    frames = dict(zip(of.parameters, theta.T, strict=True)), {"x": x[:, 0]}
    likelihoods = {
        way: pk.KernelLikelihood(**known).fit(*frames, random_seed=seed) for way, known in WAYS.items()
    }
    found: dict[str, list[np.ndarray]] = {way: [] for way in WAYS}
    for truth in of.draw_prior(sets, rng, margin=0.1):
        trials = of.draw(np.repeat(truth[None], of.trials, axis=0), rng)

        def exact(t: np.ndarray, trials: np.ndarray) -> np.ndarray:
            return of.log_density(t, trials).sum(axis=1)

        mean, deviation = on_grid(partial(exact, trials=trials), of.lower, of.upper)
        for way, likelihood in likelihoods.items():
            posterior = likelihood.condition(trials, trials=True)
            found[way].append((posterior.mean() - mean) / deviation)
    return {
        way: (float(np.sqrt(np.mean(np.square(each)))), likelihoods[way].found_in_words())
        for way, each in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--record", action="store_true")
    record = parser.parse_args().record
    warnings.simplefilter("ignore", pk.PosteriorWarning)
    table = []
    for name in MODELS:
        for rows in (10_000, 20_000):
            for seed in (0, 1):
                each = errors(problem(name), rows, seed)
                line = [name, rows, seed, *(round(error, 3) for error, _ in each.values()), each["found"][1]]
                table.append(line)
                print(*line, flush=True)
    if record:
        with open(Path(__file__).with_suffix(".csv"), "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["model", "rows", "seed", *WAYS, "structure"])
            writer.writerows(table)


if __name__ == "__main__":
    main()
