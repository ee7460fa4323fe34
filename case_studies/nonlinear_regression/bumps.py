"""Section 5.2 of the localised draft: y = f(x) + noise, f a sum of Gaussian bumps.

Run by ``python -m case_studies.nonlinear_regression``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from case_studies import embedding_errors as errors
from case_studies.embedding_errors import Trial

OBSERVATIONS = 10
BUMPS = 20
WIDTH = 0.3
"""Standard deviation of a bump, times the square root of the dimension."""

NOISE = 0.1


def draw(d: int, n: int, rng: np.random.Generator) -> Trial:
    """X uniform on [-1, 1]^d, f = sum_i gamma_i exp(-|x - U_i|^2 / 2 s^2), gamma and U uniform on [-1, 1].

    The draft's bumps are normal densities, whose height grows without bound as they narrow; here their height
    is gamma. Their number, width and noise, which it does not give, are ours.
    """
    heights, centres = rng.uniform(-1, 1, BUMPS), rng.uniform(-1, 1, (BUMPS, d))
    x = rng.uniform(-1, 1, (n + OBSERVATIONS, d))
    # One centre at a time: the whole matrix of distances would not be small.
    means = sum(
        height * np.exp(-np.sum((x - centre) ** 2, axis=1) / (2 * d * WIDTH**2))
        for height, centre in zip(heights, centres, strict=True)
    )[:, None]
    y = means + NOISE * rng.normal(size=means.shape)
    return Trial(x[:n], y[:n], x[n:], means[n:], NOISE**2 * np.eye(1), y[n:])


def settings(quick: bool, output: Path) -> None:
    """The surface over bandwidth and ridge."""
    points, trials, n = (4, 2, 100) if quick else (13, 10, 500)
    table = errors.surface(draw, trials, n, np.logspace(-1.5, 1.5, points), np.logspace(-10, 0, points))
    errors.write(table, output / "surface.csv")
    errors.plot_surface(table, output / "surface.png")


def chosen(quick: bool, output: Path) -> None:
    """What cross-validation chooses."""
    points, trials, n = (3, 2, 60) if quick else (9, 10, 500)
    bandwidths, ridges = np.logspace(-1, 1.5, points), np.logspace(-6, 0, points)
    table = errors.chosen_settings(draw, trials, n, bandwidths, ridges)
    errors.write(table, output / "chosen.csv")
    errors.plot_chosen(table, output / "chosen.png")


def dimensions(quick: bool, output: Path) -> None:
    """Errors over the dimension of X."""
    table = errors.over_dimensions(
        draw, 2 if quick else 5, 150 if quick else 1000, (1, 2) if quick else (1, 2, 4, 8, 16)
    )
    errors.write(table, output / "dimensions.csv")
    errors.plot_curves(table, "d", "dimension of X", output / "dimensions.png", errors.ERRORS)


def sizes(quick: bool, output: Path) -> None:
    """Errors and seconds over the sample's size."""
    full = {1_000: 5, 3_000: 3, 10_000: 2, 30_000: 1, 100_000: 1}
    table = errors.over_sizes(draw, {200: 2, 400: 2} if quick else full, 10_000, 3_000)
    errors.write(table, output / "sizes.csv")
    errors.plot_curves(table, "n", "sample size n", output / "sizes.png", errors.ERRORS | errors.SECONDS)
