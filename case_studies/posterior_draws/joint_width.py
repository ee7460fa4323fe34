"""Adjusted posteriors along and across a ridge: ``python -m case_studies.posterior_draws.joint_width``.

Fifty waiting times are gamma distributed, so that the posterior given their sum and the sum of their
logarithms is known on a grid; rate and shape are tied to each other in it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import gammaln
from scipy.stats import kstest

import pymc_kbr as pk
from case_studies.destination import add_destination, folder_of
from pymc_kbr.arrays.neighbours import Tree
from pymc_kbr.checking.calibration import ball_transform

HERE = Path(__file__).parent
WAITS, DRAWS = 50, 500
NAMES = ["rate", "shape"]
COLUMNS = [*NAMES, "along", "across"]
RATES, SHAPES = np.geomspace(0.02, 9, 261), np.linspace(0.5, 5, 226)
"""The grid, regular in the logarithm of the rate and in the shape."""

ESTIMATORS = {
    "nearest 30%, the default": pk.Adjusted(),
    "the same, not smoothed": pk.Adjusted(smoothing="none"),
    "the same, heteroscedastic": pk.Adjusted(adjustment="heteroscedastic_kernel_ridge"),
    "nearest 3%": pk.Adjusted(pk.Rejection(0.03, kernel="epanechnikov")),
}


def simulated(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Parameters (n, 2), statistics (n, 2), and what the likelihood is of, the sums (n, 2)."""
    rate, shape = np.abs(rng.normal(0, 2, n)), rng.uniform(0.5, 5, n)
    waits = rng.gamma(shape[:, None], 1 / rate[:, None], (n, WAITS))
    sums = np.column_stack([waits.sum(axis=1), np.log(waits).sum(axis=1)])
    logs = np.log(sums[:, 0] / WAITS)
    return np.column_stack([rate, shape]), np.column_stack([logs, sums[:, 1] / WAITS - logs]), sums


def exact(sums: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draws (m, 2) of the posterior, uniform within a cell of the grid."""
    rate, shape = (grid.ravel() for grid in np.meshgrid(RATES, SHAPES, indexing="ij"))
    logs = np.log(rate) - rate**2 / 8 + WAITS * (shape * np.log(rate) - gammaln(shape))
    logs += (shape - 1) * sums[1] - rate * sums[0]
    weights = np.exp(logs - logs.max())
    picked = rng.choice(len(weights), DRAWS, p=weights / weights.sum())
    within = rng.random((2, DRAWS)) - 0.5
    steps = np.log(RATES[1] / RATES[0]), SHAPES[1] - SHAPES[0]
    return np.column_stack(
        [
            rate[picked] * np.exp(within[0] * steps[0]),
            np.clip(shape[picked] + within[1] * steps[1], SHAPES[0], SHAPES[-1]),
        ]
    )


def widths(draws: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Deviations over the exact ones: of rate and shape, and along the exact long and short axis; (4,)."""
    right_cov, cov = np.cov(right.T), np.cov(draws.T)
    values, axes = np.linalg.eigh(right_cov)
    along = np.sqrt(np.diag(axes.T @ cov @ axes) / values)
    return np.concatenate([np.sqrt(np.diag(cov) / np.diag(right_cov)), along[::-1]])


def of_seed(seed: int, simulations: int, held_out: int) -> list[dict[str, float | str]]:
    """A line a method: transforms of balls about the nearest row's parameters, and widths."""
    rng = np.random.default_rng(seed)
    theta, x, _ = simulated(simulations, rng)
    truths, observed, sums = simulated(held_out, rng)
    unit, scale = theta.std(axis=0), x.std(axis=0)
    _, near = Tree(x / scale).query(observed / scale, 1)
    right = [exact(one, rng) for one in sums]
    drawn = {"exact": [exact(one, rng) for one in sums]}
    frame = pd.DataFrame(np.hstack([theta, x]), columns=[*NAMES, "log_mean", "mean_log"])
    table = pk.ReferenceTable.from_dataframe(
        frame,
        parameters=NAMES,
        statistics=["log_mean", "mean_log"],
        bounds={"rate": (0, None), "shape": (0.5, 5)},
    )
    for name, estimator in ESTIMATORS.items():
        fitted = estimator.fit(table, random_seed=seed)
        drawn[name] = [one.draw(DRAWS, rng) for one in fitted.condition(observed)]
    lines = []
    for name, sets in drawn.items():
        balls = [
            ball_transform(draws / unit, truth / unit, theta[row] / unit, rng)
            for draws, truth, row in zip(sets, truths, near[:, 0], strict=True)
        ]
        found = np.array([widths(a / unit, b / unit) for a, b in zip(sets, right, strict=True)])
        ratios = dict(zip(COLUMNS, np.median(found, axis=0).round(4).tolist(), strict=True))
        lines.append({"method": name, "transforms": balls, **ratios})
        print(seed, name, ratios, flush=True)
    return lines


def main() -> None:
    """Write joint_width.csv, a line a method; transforms of all seeds together."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--simulations", type=int, default=10_000)
    parser.add_argument("--held-out", type=int, default=500)
    parser.add_argument("--quick", action="store_true", help="one seed, 500 simulations, 20 held-out rows")
    add_destination(parser, "folder of joint_width.csv")
    asked = parser.parse_args()
    seeds, sizes = (1, (500, 20)) if asked.quick else (asked.seeds, (asked.simulations, asked.held_out))
    output = folder_of(asked, HERE)
    every = pd.DataFrame([line for seed in range(seeds) for line in of_seed(seed, *sizes)])
    lines = []
    for name, part in every.groupby("method", sort=False):
        balls = np.concatenate(part["transforms"].tolist())
        lines.append(
            {
                "method": name,
                "rows": len(balls),
                "coverage_50": np.mean(balls <= 0.5),
                "uniformity_p": kstest(balls, "uniform").pvalue,
                **part[COLUMNS].mean(),
            }
        )
    pd.DataFrame(lines).round(5).to_csv(output / "joint_width.csv", index=False)
    print(pd.DataFrame(lines).round(4).to_string(index=False))


if __name__ == "__main__":
    main()
