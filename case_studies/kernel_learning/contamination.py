"""The misspecification p-value: its level on data of the model, its power on five contaminations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binom

import pymc_kbr as pk

DATA, ROWS = 50, 2000
"""Data in a set, and simulations."""


def statistics(y: np.ndarray) -> np.ndarray:
    """Eleven statistics of data sets (n, 50): moments, quantiles, the maximum, the first autocorrelation."""
    mean, deviation = y.mean(axis=1), y.std(axis=1)
    z = (y - mean[:, None]) / deviation[:, None]
    quantiles = np.quantile(y, [0.1, 0.25, 0.5, 0.75, 0.9], axis=1)
    shape = [(z**3).mean(axis=1), (z**4).mean(axis=1), y.max(axis=1), (z[:, 1:] * z[:, :-1]).mean(axis=1)]
    return np.column_stack([mean, deviation, *quantiles, *shape])


def outliers(z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A tenth is four deviations larger."""
    z[:, : DATA // 10] += 4
    return z


def heavy_tails(z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Student's t with two degrees of freedom."""
    return rng.standard_t(2, size=z.shape)


def skewed(z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Exponential waiting times."""
    return rng.exponential(size=z.shape) - 1


def two_modes(z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Two narrow parts."""
    return np.sign(z) + 0.2 * rng.normal(size=z.shape)


def dependent(z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each tells of the next, with a correlation of 0.6."""
    for t in range(1, DATA):
        z[:, t] = 0.6 * z[:, t - 1] + 0.8 * z[:, t]
    return z


def none(z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Data of the model."""
    return z


CONTAMINATIONS: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "none": none,
    "outliers": outliers,
    "heavy tails": heavy_tails,
    "skewed": skewed,
    "two modes": two_modes,
    "dependent": dependent,
}


def simulated(count: int, rng: np.random.Generator, kind: str = "none") -> tuple[np.ndarray, np.ndarray]:
    """Parameters from their prior (n, 2), and the statistics of normal data, contaminated or not."""
    mean, deviation = rng.normal(0, 2, size=count), rng.gamma(4, 0.25, size=count)
    z = CONTAMINATIONS[kind](rng.normal(size=(count, DATA)), rng)
    return np.column_stack([mean, deviation]), statistics(mean[:, None] + deviation[:, None] * z)


def contaminations(quick: bool, output: Path) -> None:
    """Shares of p-values of at most 0.05 and of the warning `outside` (misspecification.csv)."""
    rng = np.random.default_rng(3)
    parameters, rows = simulated(200 if quick else ROWS, rng)
    names = [f"s{i}" for i in range(rows.shape[1])]
    frame = pd.DataFrame(np.hstack([parameters, rows]), columns=["mean", "deviation", *names])
    table = pk.ReferenceTable.from_dataframe(frame, parameters=["mean", "deviation"], statistics=names)
    lines = []
    for kind in CONTAMINATIONS:
        sets = (20 if quick else 500) if kind == "none" else (5 if quick else 100)
        _, observations = simulated(sets, rng, kind)
        pvalues = np.array([pk.misspecification(table, each).pvalue for each in observations])
        far = [pk.observation_support(table, each).far for each in observations]
        lower, upper = binom.ppf([0.005, 0.995], sets, 0.05) / sets
        lines.append(
            {
                "contamination": kind,
                "sets": sets,
                "rejected": float(np.mean(pvalues <= 0.05)),
                "warned": float(np.mean(pvalues < 0.002)),
                "outside": float(np.mean(far)),
                "lower": lower,
                "upper": upper,
            }
        )
        pd.DataFrame(lines).round(4).to_csv(output / "misspecification.csv", index=False)
        print(lines[-1], flush=True)
