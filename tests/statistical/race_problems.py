"""Problems on which the rule of a race was settled: none is one of the forty models, or of a benchmark.

See `tests.statistical.race_choices`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.signal import lfilter

Drawn = tuple[np.ndarray, np.ndarray]
"""Parameters (n, p) and statistics (n, d)."""

PLAN = np.random.default_rng(20)
"""Of covariates and loadings, which are the same for all rows."""

LOADS = {5: PLAN.normal(size=(5, 10)), 10: np.eye(10) + 0.3 * PLAN.normal(size=(10, 10))}
COVARIATES = PLAN.normal(size=(60, 6))


def loaded(rng: np.random.Generator, n: int) -> Drawn:
    """Ten linear measurements of five parameters."""
    theta = rng.normal(size=(n, 5))
    return theta, theta @ LOADS[5] + rng.normal(size=(n, 10))


def in_a_box(rng: np.random.Generator, n: int) -> Drawn:
    """Ten linear measurements of ten parameters that are uniform."""
    theta = rng.uniform(-1, 1, (n, 10))
    return theta, theta @ LOADS[10] + 0.4 * rng.normal(size=(n, 10))


def bent(rng: np.random.Generator, n: int) -> Drawn:
    """A parabola and its place."""
    theta = rng.normal(size=(n, 2)) * [1, 2]
    means = np.c_[theta[:, 0] ** 2 + theta[:, 1], theta[:, 0]]
    return theta, means + rng.normal(size=(n, 2)) * [0.2, 0.8]


def mirrored(rng: np.random.Generator, n: int) -> Drawn:
    """A square and a product: two modes."""
    theta = rng.uniform(-2, 2, (n, 2))
    return theta, np.c_[theta[:, 0] ** 2, theta[:, 0] * theta[:, 1]] + 0.25 * rng.normal(size=(n, 2))


def overdispersed(rng: np.random.Generator, n: int) -> Drawn:
    """Mean, variance and zeros of thirty counts."""
    theta = rng.normal(size=(n, 2)) * [1, 0.7] + [1, 0]
    shape = np.exp(theta[:, 1:])
    counts = rng.poisson(rng.gamma(shape, np.exp(theta[:, :1]) / shape, (n, 30)))
    return theta, np.c_[counts.mean(1), counts.var(1), (counts == 0).sum(1)].astype(float)


def student(rng: np.random.Generator, n: int) -> Drawn:
    """Mean, deviation, median and extremes of draws of a heavy tail."""
    theta = rng.normal(size=(n, 2)) * [3, 0.8]
    y = theta[:, :1] + np.exp(theta[:, 1:]) * rng.standard_t(2, (n, 25))
    return theta, np.c_[y.mean(1), y.std(1), np.median(y, 1), y.min(1), y.max(1)]


def logistic(rng: np.random.Generator, n: int) -> Drawn:
    """A logistic regression on six covariates, and its sums."""
    theta = rng.normal(size=(n, 6))
    return theta, (rng.random((n, 60)) < 1 / (1 + np.exp(-theta @ COVARIATES.T))) @ COVARIATES


def poisson(rng: np.random.Generator, n: int) -> Drawn:
    """A Poisson regression on three covariates and a level, its sums and that of squares."""
    design = np.c_[np.ones(60), COVARIATES[:, :3]]
    theta = 0.5 * rng.normal(size=(n, 4))
    counts = rng.poisson(np.exp(theta @ design.T))
    return theta, np.c_[counts @ design, np.sqrt(np.sum(counts**2, axis=1))]


def beside_forty(rng: np.random.Generator, n: int) -> Drawn:
    """Level, width and skewness of draws of a gamma law, beside forty useless statistics."""
    theta = rng.normal(size=(n, 2)) * 0.6
    y = rng.gamma(np.exp(theta[:, :1]), np.exp(theta[:, 1:]), (n, 20))
    return theta, np.c_[y.mean(1), np.log(y).mean(1), y.std(1), rng.normal(size=(n, 40))]


def beside_twelve(rng: np.random.Generator, n: int) -> Drawn:
    """A decay at five times, beside twelve useless statistics that are alike."""
    theta = np.c_[rng.uniform(0, 2, n), rng.normal(0, 1, n)]
    curve = np.exp(theta[:, 1:]) * np.exp(-theta[:, :1] * np.arange(5)) + 0.2 * rng.normal(size=(n, 5))
    return theta, np.c_[curve, rng.normal(size=(n, 1)) + rng.normal(size=(n, 12))]


def raw_normal(rng: np.random.Generator, n: int) -> Drawn:
    """Sixteen values."""
    theta = rng.normal(size=(n, 2)) * [2, 0.7]
    return theta, theta[:, :1] + np.exp(theta[:, 1:]) * rng.normal(size=(n, 16))


def raw_gumbel(rng: np.random.Generator, n: int) -> Drawn:
    """Forty-five sorted values."""
    theta = rng.normal(size=(n, 2)) * [2, 0.6]
    return theta, np.sort(theta[:, :1] + np.exp(theta[:, 1:]) * rng.gumbel(size=(n, 45)), axis=1)


def noisy_series(rng: np.random.Generator, n: int) -> Drawn:
    """Autocovariances of an autoregression that is seen with noise."""
    theta = np.c_[rng.uniform(-0.9, 0.95, n), rng.normal(0, 0.5, (n, 2))]
    steps = np.exp(theta[:, 1:2]) * rng.normal(size=(n, 150))
    state = np.array([lfilter([1], [1, -a], one) for a, one in zip(theta[:, 0], steps, strict=True)])
    y = state[:, 50:] + np.exp(theta[:, 2:]) * rng.normal(size=(n, 100))
    return theta, np.column_stack([np.mean(y[:, k:] * y[:, : 100 - k], axis=1) for k in range(6)])


def jumps(rng: np.random.Generator, n: int) -> Drawn:
    """Deviations, extremes and quantiles of the increments of a path with jumps."""
    theta = np.c_[rng.uniform(0, 0.3, n), rng.normal(size=(n, 2)) * [0.5, 0.5] + [1.2, 0]]
    jumped = rng.random((n, 80)) < theta[:, :1]
    y = np.exp(theta[:, 2:]) * rng.normal(size=(n, 80)) + jumped * np.exp(theta[:, 1:2])
    quantiles = np.quantile(y, [0.1, 0.25, 0.5, 0.75, 0.9, 0.97], axis=1)
    return theta, np.c_[y.mean(1), y.std(1), quantiles.T]


def two_kinds(rng: np.random.Generator, n: int) -> Drawn:
    """Nine quantiles of forty draws of a mixture."""
    theta = np.c_[rng.uniform(0, 1, n), rng.uniform(0, 5, n), rng.normal(0, 1, n)]
    y = theta[:, 2:] + (rng.random((n, 40)) < theta[:, :1]) * theta[:, 1:2] + rng.normal(size=(n, 40))
    return theta, np.quantile(y, np.linspace(0.1, 0.9, 9), axis=1).T


def ridge(rng: np.random.Generator, n: int) -> Drawn:
    """A product, and a sum of three parameters."""
    theta = np.exp(0.6 * rng.normal(size=(n, 3)))
    means = np.c_[theta[:, 0] * theta[:, 1], theta.sum(1), theta[:, 1] / theta[:, 2]]
    return theta, means * (1 + 0.15 * rng.normal(size=(n, 3)))


def groups(rng: np.random.Generator, n: int) -> Drawn:
    """Means of eight groups, and deviations in and between them."""
    theta = rng.normal(size=(n, 3)) * [2, 0.7, 0.7]
    centre = theta[:, :1] + np.exp(theta[:, 1:2]) * rng.normal(size=(n, 8))
    y = centre[:, :, None] + np.exp(theta[:, 2:])[:, :, None] * rng.normal(size=(n, 8, 5))
    return theta, np.c_[y.mean(2), np.log(y.mean(2).std(1)), np.log(y.std(2).mean(1))]


def wave(rng: np.random.Generator, n: int) -> Drawn:
    """A sine at thirty times."""
    theta = np.c_[np.exp(0.4 * rng.normal(size=n)), rng.uniform(0.5, 2, n), rng.normal(size=n)]
    phases = theta[:, 1:2] * np.linspace(0, 5, 30) + theta[:, 2:]
    return theta, theta[:, :1] * np.sin(phases) + 0.4 * rng.normal(size=(n, 30))


def epidemic(rng: np.random.Generator, n: int) -> Drawn:
    """Size, length, peak and its time of a chain of infections among two hundred."""
    theta = np.c_[rng.uniform(0.5, 4, n), rng.uniform(0.2, 0.9, n)]
    healthy, ill = np.full(n, 195), np.full(n, 5)
    seen = []
    for _ in range(40):
        fresh = rng.binomial(healthy, -np.expm1(-theta[:, 0] * theta[:, 1] * ill / 200))
        healthy, ill = healthy - fresh, ill + fresh - rng.binomial(ill, theta[:, 1])
        seen.append(fresh)
    by_day = np.array(seen)
    length = 40 - np.argmax(by_day[::-1] > 0, axis=0)
    return theta, np.c_[by_day.sum(0), length, by_day.max(0), by_day.argmax(0)].astype(float)


def rates(rng: np.random.Generator, n: int) -> Drawn:
    """Two counts of each of seven rates that go together."""
    theta = 0.6 * rng.normal(size=(n, 7)) + 0.8 * rng.normal(size=(n, 1))
    return theta, rng.poisson(3 * np.exp(np.repeat(theta, 2, axis=1))).astype(float)


def lognormal(rng: np.random.Generator, n: int) -> Drawn:
    """Sums of exponentials of normals, of four parameters."""
    theta = rng.normal(size=(n, 4))
    return theta, np.exp(theta @ LOADS[5][:4, :8] + 0.5 * rng.normal(size=(n, 8)))


def shares(rng: np.random.Generator, n: int) -> Drawn:
    """Five counts of fifty, by four log odds."""
    theta = rng.normal(size=(n, 4))
    odds = np.exp(np.c_[theta, np.zeros(n)])
    return theta, rng.multinomial(50, odds / odds.sum(1, keepdims=True)).astype(float)


def rings(rng: np.random.Generator, n: int) -> Drawn:
    """Where two arms end, one at the end of the other, of three angles."""
    theta = rng.normal(size=(n, 3)) * [1.2, 1, 0.7]
    turned = np.cumsum(theta, axis=1)
    ends = np.c_[np.cos(turned).sum(1), np.sin(turned).sum(1)]
    return theta, ends + 0.1 * rng.normal(size=(n, 2))


def threshold(rng: np.random.Generator, n: int) -> Drawn:
    """How many of sixty values are above each of eleven levels, of a law whose form changes."""
    theta = np.c_[rng.normal(size=n), rng.normal(0, 0.5, n), rng.uniform(-0.9, 0.9, n)]
    noise = rng.normal(size=(n, 60))
    y = theta[:, :1] + np.exp(theta[:, 1:2]) * (noise + theta[:, 2:] * (noise**2 - 1) / 2)
    return theta, np.column_stack([(y > level).sum(1) for level in np.linspace(-3, 3, 11)]).astype(float)


PROBLEMS: list[Callable[[np.random.Generator, int], Drawn]] = [
    logistic, loaded, bent, beside_forty, raw_normal, rates, mirrored, student, noisy_series, in_a_box, ridge,
    groups, poisson, wave, two_kinds, overdispersed, beside_twelve, epidemic, lognormal, shares, jumps,
    raw_gumbel, rings, threshold,
]  # fmt: skip
