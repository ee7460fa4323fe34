"""Posteriors of curves that are measured with noise, by learned likelihoods of tens of statistics.

``python -m tests.statistical.many_statistics`` prints the table from the figures that are kept in
``many_statistics.csv``; ``--record`` makes these figures again, in some twenty minutes of one core.

10,000 rows each of problems of which none is one of the forty models; the exact posteriors are weighted draws
of the prior. On these the settings of the diagonal form were settled.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.signal import lfilter
from scipy.special import logsumexp
from scipy.stats import norm, poisson, t

from pymc_kbr.estimators import KernelLikelihood
from tests.statistical.figures import command, read_figures, write_figures

FIGURES = Path(__file__).with_name("many_statistics.csv")
ROWS, PRIOR_DRAWS, OBSERVATIONS, LEAST = 10_000, 600_000, 6, 100
"""Of a table, of an exact posterior; how many of these, and the effective draws that each has at least."""

Curve = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""From parameters (n, p) to means and scales of the noise, each (n, d)."""


class Problem(NamedTuple):
    """A prior, a curve, and the law of what is measured of it."""

    name: str
    prior: Callable[[np.random.Generator, int], np.ndarray]
    draw: Callable[[np.random.Generator, np.ndarray], np.ndarray]
    log_likelihood: Callable[[np.ndarray, np.ndarray], np.ndarray]


OVER_SIX, OVER_FOUR, ABOUT_ZERO = np.linspace(0, 6, 60), np.linspace(0, 4, 40), np.linspace(-2, 2, 30)


def of_oscillation(rng: np.random.Generator, n: int) -> np.ndarray:
    """Frequency, damping, phase and noise."""
    return np.column_stack(
        [rng.uniform(1, 6, n), rng.uniform(0.05, 1, n), rng.normal(0, 1, n), np.exp(rng.normal(-1, 0.5, n))]
    )


def oscillation(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of one unit, damped."""
    f, damping, phase, noise = theta.T[:, :, None]
    mean = np.exp(-damping * OVER_SIX) * (np.cos(f * OVER_SIX) + phase * np.sin(f * OVER_SIX))
    return mean, np.repeat(noise, 60, axis=1)


def of_growth(rng: np.random.Generator, n: int) -> np.ndarray:
    """Capacity, rate, middle and noise."""
    return np.column_stack(
        [np.exp(rng.normal(0, 0.5, (n, 2))), rng.uniform(0, 4, n), np.exp(rng.normal(-2, 0.5, n))]
    )


def growth(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Logistic, with noise in proportion to one more than its height."""
    capacity, rate, middle, noise = theta.T[:, :, None]
    mean = 10 * capacity / (1 + np.exp(-3 * rate * (OVER_FOUR - middle)))
    return mean, noise * (1 + mean)


def of_parabola(rng: np.random.Generator, n: int) -> np.ndarray:
    """Three coefficients, and level and slope of the logarithm of the noise."""
    return rng.normal(size=(n, 5)) * [1, 1, 0.7, 0.5, 0.4] + [0, 0, 0, -0.5, 0]


def parabola(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """With noise that changes along it."""
    a, b, c, level, slope = theta.T[:, :, None]
    return a + b * ABOUT_ZERO + c * ABOUT_ZERO**2, np.exp(level + slope * ABOUT_ZERO)


def measured(name: str, prior: Callable, curve: Curve, law: object) -> Problem:
    """With independent noise of a law of SciPy."""

    def draw(rng: np.random.Generator, theta: np.ndarray) -> np.ndarray:
        mean, scale = curve(theta)
        return mean + scale * law.rvs(size=mean.shape, random_state=rng)

    def log_likelihood(theta: np.ndarray, x: np.ndarray) -> np.ndarray:
        mean, scale = curve(theta)
        return np.sum(law.logpdf((x - mean) / scale) - np.log(scale), axis=1)

    return Problem(name, prior, draw, log_likelihood)


def in_a_row(name: str, prior: Callable, curve: Curve, coefficient: float) -> Problem:
    """With noise of which each value depends on the one before."""

    def draw(rng: np.random.Generator, theta: np.ndarray) -> np.ndarray:
        mean, scale = curve(theta)
        steps = rng.normal(size=(len(theta), mean.shape[1] + 50))
        return mean + scale * lfilter([1], [1, -coefficient], steps, axis=1)[:, 50:]

    def log_likelihood(theta: np.ndarray, x: np.ndarray) -> np.ndarray:
        mean, scale = curve(theta)
        r = (x - mean) / scale
        first = norm.logpdf(r[:, 0], scale=1 / np.sqrt(1 - coefficient**2))
        steps = norm.logpdf(r[:, 1:] - coefficient * r[:, :-1])
        return first + steps.sum(axis=1) - np.log(scale).sum(axis=1)

    return Problem(name, prior, draw, log_likelihood)


def counted(name: str, prior: Callable, curve: Curve) -> Problem:
    """With counts in place of noise."""
    return Problem(
        name,
        prior,
        lambda rng, theta: rng.poisson(curve(theta)[0] + 0.2).astype(float),
        lambda theta, x: poisson.logpmf(x, curve(theta)[0] + 0.2).sum(axis=1),
    )


def problems() -> list[Problem]:
    """All of them."""
    return [
        measured("oscillation at 60 times", of_oscillation, oscillation, norm()),
        measured("the same, Student noise", of_oscillation, oscillation, t(4)),
        in_a_row("the same, correlated noise", of_oscillation, oscillation, 0.6),
        measured("growth at 40 times, noise that grows", of_growth, growth, norm()),
        counted("growth at 40 times, counts", of_growth, growth),
        measured("parabola at 30 points, uneven noise", of_parabola, parabola, norm()),
        measured("the same, Student noise of 3 degrees", of_parabola, parabola, t(3)),
    ]


def estimators() -> dict[str, KernelLikelihood]:
    """What is tried of that many statistics."""
    return {
        "diagonal_scale": KernelLikelihood("diagonal_scale", 2000),
        "autoregressive": KernelLikelihood("autoregressive", 2000, scale=False),
        "location_scale of estimates": KernelLikelihood(
            "location_scale", 2000, scale="curved_posterior_mean"
        ),
    }


def exact_posteriors(problem: Problem) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Observations (d,), and the means and deviations (p,) of their posteriors."""
    drawn, found = problem.prior(np.random.default_rng(9), PRIOR_DRAWS), 0
    rng = np.random.default_rng(77)
    for observed in problem.draw(rng, problem.prior(rng, 40)):
        parts = np.array_split(drawn, 30)
        logs = np.concatenate([problem.log_likelihood(part, observed) for part in parts])
        weights = np.exp(logs - logsumexp(logs))
        if found == OBSERVATIONS or 1 / np.sum(weights**2) < LEAST:
            continue
        found += 1
        mean = weights @ drawn
        yield observed, mean, np.sqrt(weights @ (drawn - mean) ** 2)


def lines_of(problem: Problem) -> Iterator[dict[str, object]]:
    """What each estimator reached."""
    theta = problem.prior(np.random.default_rng(5), ROWS)
    x = problem.draw(np.random.default_rng(6), theta)
    exact = list(exact_posteriors(problem))
    for name, estimator in estimators().items():
        began = time.process_time()
        fitted = estimator.fit(theta, x, random_seed=1)
        seconds = time.process_time() - began
        errors, ratios = [], []
        for observed, mean, deviation in exact:
            posterior = fitted.condition(observed)
            errors.append((posterior.mean() - mean) / deviation)
            ratios.append(np.log(posterior.atoms.std(axis=0) / deviation))
        yield {
            "problem": problem.name,
            "likelihood": name,
            "observations": len(exact),
            "error": round(float(np.sqrt(np.mean(np.square(errors)))), 3),
            "worst_error": round(float(np.abs(errors).max()), 2),
            "width": round(float(np.exp(np.mean(ratios))), 3),
            "worst_width": round(float(np.exp(np.abs(ratios).max())), 2),
            "fit_seconds": round(seconds, 1),
        }


def record() -> None:
    """Make the figures again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lines = [line for problem in problems() for line in lines_of(problem)]
    write_figures(FIGURES, lines)


def show() -> None:
    """Print the table."""
    lines = read_figures(FIGURES)
    print("| " + " | ".join(name.replace("_", " ") for name in lines[0]) + " |")
    print("| " + " | ".join("---" for _ in lines[0]) + " |")
    for line in lines:
        print("| " + " | ".join(line.values()) + " |")


if __name__ == "__main__":
    command(__doc__, record, show)
