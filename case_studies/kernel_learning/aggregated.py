"""Levels and power of tests aggregated over bandwidths, and of conditional independence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pymc_kbr as pk
from case_studies.kernel_learning import grid, levels

Samples = tuple[np.ndarray, ...]
Simulator = Callable[[np.random.Generator], Samples]

ROWS = 60


def of_both(
    first: Callable[..., np.ndarray], second: Callable[..., np.ndarray], rows: int = ROWS
) -> Simulator:
    """Two samples, each of a distribution."""
    return lambda rng: (first(rng, rows), second(rng, rows))


def normal(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Standard normal numbers."""
    return rng.normal(size=rows)


def heavy(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Of two degrees of freedom."""
    return rng.standard_t(2, size=rows)


def counts(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Of mean one, with many ties."""
    return rng.poisson(1.0, size=rows).astype(float)


SAMPLES: dict[str, Simulator] = {
    "null: normal": of_both(normal, normal),
    "null: heavy tails": of_both(heavy, heavy),
    "null: counts": of_both(counts, counts),
    "mean": of_both(normal, lambda rng, rows: rng.normal(0.5, 1.0, size=rows)),
    "variance": of_both(normal, lambda rng, rows: rng.normal(0.0, 1.6, size=rows)),
    "tails": of_both(normal, lambda rng, rows: heavy(rng, rows) / 1.5, 200),
    "grid of clouds": lambda rng: grid.pair(6.0, rng),
}
"""Two samples: the same, or different."""

PAIRS: dict[str, Simulator] = {
    "null: normal": SAMPLES["null: normal"],
    "null: heavy tails": SAMPLES["null: heavy tails"],
    "null: counts": SAMPLES["null: counts"],
    "linear": lambda rng: levels.linear(rng, ROWS),
    "spread": lambda rng: levels.spread(rng, ROWS),
    "sine": lambda rng: levels.sine(rng, ROWS),
}
"""Two columns: independent, or not."""


def given(
    scale: Callable[[np.ndarray], np.ndarray], dependence: float = 0.0, signed: bool = False
) -> Simulator:
    """Columns x, y, and z, whose noise has a scale that depends on z."""

    def simulate(rng: np.random.Generator) -> Samples:
        z, noise = rng.normal(size=100), rng.normal(size=(2, 100))
        noise[1] += dependence * noise[0] * (np.sign(z) if signed else 1.0)
        x, y = np.stack([np.sin(2 * z), z]) + scale(z) * noise
        return x, y, z

    return simulate


def constant(z: np.ndarray) -> np.ndarray:
    """The same for all z."""
    return np.full(len(z), 0.5)


def growing(z: np.ndarray) -> np.ndarray:
    """Larger far from zero."""
    return 0.2 + np.abs(z)


CONDITIONAL: dict[str, Simulator] = {
    "null: noise of one scale": given(constant),
    "null: scale by abs(z)": given(growing),
    "null: scale by exp(z)": given(np.exp),
    "y with x": given(constant, 0.5),
    "y with x, scale by abs(z)": given(growing, 0.5),
    "y with x, its sign by z": given(constant, 0.8, signed=True),
}
"""Two columns, which a third makes independent, or does not."""


def rejected(test: Callable[..., Any], simulate: Simulator, repeats: int, **options: Any) -> float:
    """Share of samples that are rejected at level 0.05, the same samples for all tests."""
    found = [
        test(*simulate(np.random.default_rng([11, i])), random_seed=i, **options).pvalue
        for i in range(repeats)
    ]
    return float(np.mean(np.array(found) <= 0.05 + 1e-9))


def aggregated(quick: bool, output: Path) -> None:
    """Shares of rejections before and after, a line a problem (aggregated.csv, conditional.csv)."""
    permuted: dict[str, Any] = {"permutations": 39 if quick else 199}
    lines: list[dict[str, Any]] = []
    for name, test, problems in (("mmd", pk.mmd_test, SAMPLES), ("hsic", pk.hsic_test, PAIRS)):
        for problem, simulate in problems.items():
            repeats = 5 if quick else 400 if problem.startswith("null") else 10 if "grid" in problem else 60
            line: dict[str, Any] = {"problem": f"{name}, {problem}", "repeats": repeats}
            for bandwidth in ("median", "bayesian", "aggregated"):
                if bandwidth == "bayesian" and problem.startswith("null"):
                    continue  # its level is in levels.csv
                line[bandwidth] = rejected(test, simulate, repeats, bandwidth=bandwidth, **permuted)
            lines.append(line)
            pd.DataFrame(lines).round(4).to_csv(output / "aggregated.csv", index=False)
            print(lines[-1], flush=True)
    lines = []
    for problem, simulate in CONDITIONAL.items():
        repeats = 3 if quick else 100 if problem.startswith("null") else 40
        line = {"problem": problem, "repeats": repeats}
        line["residuals"] = rejected(
            pk.conditional_hsic_test, simulate, repeats, null="gamma", statistic="biased"
        )
        line["kci"] = rejected(pk.kci_test, simulate, repeats)
        lines.append(line)
        pd.DataFrame(lines).round(4).to_csv(output / "conditional.csv", index=False)
        print(lines[-1], flush=True)
