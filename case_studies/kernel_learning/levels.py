"""Levels of the tests over 1,000 nulls, and power beside hyppo's."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binom

import pymc_kbr as pk

Sampler = Callable[[Any, np.random.Generator], tuple[np.ndarray, ...]]


def columns(kind: str, rng: np.random.Generator, rows: int) -> np.ndarray:
    """Points of two columns that depend on each other, with normal or Cauchy tails."""
    common = rng.standard_cauchy(rows) if kind == "cauchy" else rng.normal(size=rows)
    return np.stack([common, common + 0.5 * rng.normal(size=rows)], axis=1)


def two_samples(kind: str, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Two samples of one distribution."""
    return columns(kind, rng, 40), columns(kind, rng, 60)


def independent(kind: str, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Independent samples."""
    return columns(kind, rng, 50), columns(kind, rng, 50)


def many(kind: str, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Independent samples of one distribution, with rows for twenty blocks of ten."""
    return columns(kind, rng, 200), columns(kind, rng, 200)


def common_cause(kind: str, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Two columns that are independent given a third."""
    z = rng.normal(size=(60, 1))
    noise = rng.standard_t(2, size=(60, 2)) if kind == "heavy" else rng.normal(size=(60, 2))
    x, y = np.sin(2 * z[:, 0]) + 0.5 * noise[:, 0], z[:, 0] + 0.5 * noise[:, 1]
    return x, y, z


MEDIAN: dict[str, Any] = {"permutations": 99, "bandwidth": "median"}

TESTS: dict[str, tuple[Callable[..., Any], Sampler, list[str], dict[str, Any]]] = {
    "conditional hsic": (
        pk.conditional_hsic_test,
        common_cause,
        ["normal", "heavy"],
        {"null": "gamma", "statistic": "biased"},
    ),
    "mmd": (pk.mmd_test, two_samples, ["normal", "cauchy"], MEDIAN),
    "mmd, biased": (pk.mmd_test, two_samples, ["normal", "cauchy"], MEDIAN | {"statistic": "biased"}),
    "mmd, gamma": (pk.mmd_test, two_samples, ["normal", "cauchy"], {"null": "gamma", "statistic": "biased"}),
    "mmd, learnt": (pk.mmd_test, two_samples, ["normal"], {"permutations": 99, "bandwidth": "bayesian"}),
    "mmd, aggregated": (
        pk.mmd_test,
        two_samples,
        ["normal", "cauchy"],
        {"permutations": 99, "bandwidth": "aggregated"},
    ),
    "mmd, blocks": (pk.mmd_test, many, ["normal", "cauchy"], {"form": "block"}),
    "mmd, random features": (pk.mmd_test, many, ["normal", "cauchy"], MEDIAN | {"form": "random_features"}),
    "hsic": (pk.hsic_test, independent, ["normal", "cauchy"], MEDIAN),
    "hsic, gamma": (
        pk.hsic_test,
        independent,
        ["normal", "cauchy"],
        {"null": "gamma", "statistic": "biased"},
    ),
    "hsic, learnt": (pk.hsic_test, independent, ["normal"], {"permutations": 99, "bandwidth": "bayesian"}),
    "hsic, aggregated": (
        pk.hsic_test,
        independent,
        ["normal", "cauchy"],
        {"permutations": 99, "bandwidth": "aggregated"},
    ),
    "hsic, blocks": (pk.hsic_test, many, ["normal", "cauchy"], {"form": "block"}),
    "hsic, random features": (pk.hsic_test, many, ["normal", "cauchy"], MEDIAN | {"form": "random_features"}),
}


def levels(quick: bool, output: Path) -> None:
    """Shares of rejections at level 0.05 and the band of 99% about it (levels.csv)."""
    repeats = 20 if quick else 1000
    lower, upper = binom.ppf([0.005, 0.995], repeats, 0.05) / repeats
    lines = []
    for name, (test, simulate, kinds, options) in TESTS.items():
        for kind in kinds:
            curve = pk.power_curve(test, simulate, [kind], repeats=repeats, random_seed=11, **options)
            share = float(curve.power[0])
            lines.append({"test": name, "tails": kind, "rejected": share, "lower": lower, "upper": upper})
            pd.DataFrame(lines).round(4).to_csv(output / "levels.csv", index=False)
            print(lines[-1], flush=True)


def linear(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Y = x and noise."""
    x = rng.normal(size=rows)
    return x, 0.45 * x + rng.normal(size=rows)


def parabola(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Y = x^2 and noise."""
    x = rng.uniform(-1, 1, size=rows)
    return x, x**2 + 0.45 * rng.normal(size=rows)


def sine(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Y = sin(4 pi x) and noise."""
    x = rng.uniform(-1, 1, size=rows)
    return x, np.sin(4 * np.pi * x) + 0.3 * rng.normal(size=rows)


def circle(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Points about a circle."""
    angle = rng.uniform(0, 2 * np.pi, size=rows)
    noise = 0.35 * rng.normal(size=(2, rows))
    return np.cos(angle) + noise[0], np.sin(angle) + noise[1]


def spread(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Y has mean zero, and a spread that grows with |x|."""
    x = rng.normal(size=rows)
    return x, (0.3 + np.abs(x)) * rng.normal(size=rows)


ALTERNATIVES = {"linear": linear, "parabola": parabola, "sine": sine, "circle": circle, "spread": spread}


POWER_ROWS = 60


def power(quick: bool, output: Path) -> None:
    """Power of independence tests on 60 rows, beside hyppo's (power.csv)."""
    from hyppo.independence import MGC, Dcorr, Hsic  # the extra `rivals`

    repeats, rows = (5, 30) if quick else (60, POWER_ROWS)

    def fast(kind: type, x: np.ndarray, y: np.ndarray, random_seed: Any) -> Any:
        return kind().test(x[:, None], y[:, None], auto=True)

    def multiscale(x: np.ndarray, y: np.ndarray, random_seed: np.random.Generator) -> Any:
        seed = int(random_seed.integers(2**31))
        return MGC().test(x[:, None], y[:, None], reps=99, workers=1, random_state=seed)

    tests: dict[str, Callable[..., Any]] = {
        "hsic, median": partial(pk.hsic_test, permutations=199, bandwidth="median"),
        "hsic, learnt": partial(pk.hsic_test, permutations=199, bandwidth="bayesian"),
        "hsic, aggregated": partial(pk.hsic_test, permutations=199, bandwidth="aggregated"),
        "hyppo's Hsic": partial(fast, Hsic),
        "hyppo's Dcorr": partial(fast, Dcorr),
        "hyppo's MGC": multiscale,
    }
    lines = []
    for name, simulate in ALTERNATIVES.items():
        line: dict[str, Any] = {"alternative": name, "repeats": repeats, "rows": rows}
        for kind, test in tests.items():

            def draw(
                rows: int, rng: np.random.Generator, simulate: Callable[..., Any] = simulate
            ) -> tuple[np.ndarray, ...]:
                # The same samples for each test, whatever it draws itself.
                return simulate(np.random.default_rng(rng.integers(2**31)), rows)

            curve = pk.power_curve(Seeded(test), draw, [rows], repeats=repeats, random_seed=13)
            line[kind] = float(curve.power[0])
        lines.append(line)
        pd.DataFrame(lines).round(4).to_csv(output / "power.csv", index=False)
        print(line, flush=True)


@dataclass(frozen=True)
class Seeded:
    """A test that draws from a generator of its own, so that the next samples do not depend on it."""

    test: Callable[..., Any]

    def __call__(self, x: np.ndarray, y: np.ndarray, random_seed: np.random.Generator) -> Any:
        """What the test finds."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # MGC's, of few permutations
            return self.test(x, y, random_seed=np.random.default_rng(random_seed.integers(2**31)))
