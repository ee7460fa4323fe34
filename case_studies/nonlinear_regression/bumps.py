"""Section 5.2 of the localised draft: y = f(x) + noise, f a sum of Gaussian bumps.

Run by ``python -m case_studies.nonlinear_regression``.
"""

from __future__ import annotations

import numpy as np

from case_studies.embedding_errors import Trial
from case_studies.embedding_parts import Plan

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


PLAN = Plan(
    draw,
    "",
    surface=10,
    modes=10,
    chosen=10,
    dimensions=5,
    sizes={1_000: 5, 3_000: 3, 10_000: 2, 30_000: 1, 100_000: 1},
    exact_up_to=10_000,
    chosen_up_to=3_000,
)
