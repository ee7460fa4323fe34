"""Section 5.4 of the localised draft: cross-validation of bandwidths over twenty decades.

200 points of y = 10 sin(4 x) + noise, x uniform on [-1, 1]. Run by
``python -m case_studies.nonlinear_regression``.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd

import pymc_kbr as pk
from case_studies.embedding_errors import draft_ridge, neighbours, squared_distance, write
from pymc_kbr.kernels import Gaussian

matplotlib.use("Agg")
import matplotlib.pyplot as plt

N = 200


def sample(rng: np.random.Generator, n: int = N) -> tuple[np.ndarray, np.ndarray]:
    """X and y, (n, 1) each."""
    x = rng.uniform(-1, 1, (n, 1))
    return x, 10 * np.sin(4 * x) + rng.normal(size=x.shape)


def curves(points: int, folds: int, random_seed: int = 0) -> pd.DataFrame:
    """Cross-validated distance, and the error of the mean, of each bandwidth.

    The bandwidth of X varies while that of Y is one; then that of Y, at the bandwidth of X that was best.
    """
    x, y = sample(np.random.default_rng(random_seed))
    at = np.linspace(-0.95, 0.95, 200)[:, None]
    m, grid, lines = neighbours(N), np.logspace(-10, 10, points), []

    def made(method: str, bandwidth: float) -> pk.Estimator:
        if method == "exact":
            return pk.ConditionalMean(bandwidth, draft_ridge(N), centred=False, scale=False, solver="exact")
        return pk.Localised(m, bandwidth, draft_ridge(m), centred=False, scale=False)

    for method in ("exact", "localised"):
        best, least = 1.0, np.inf
        for varied in ("x", "y"):
            for bandwidth in grid:
                estimator = made(method, bandwidth if varied == "x" else best)
                kernel = Gaussian(1.0 if varied == "x" else bandwidth)
                distance = squared_distance(estimator, x, y, kernel, folds)
                means = estimator.fit(y, x).weights(at) @ y
                lines.append(
                    {
                        "varied": varied,
                        "method": method,
                        "bandwidth": bandwidth,
                        "squared_distance": distance,
                        "rmse_to_exact_mean": float(np.sqrt(np.mean((means - 10 * np.sin(4 * at)) ** 2))),
                    }
                )
                if varied == "x" and distance < least:
                    following, least = bandwidth, distance
            best = following
    return pd.DataFrame(lines)


def plot(table: pd.DataFrame, path: Path) -> None:
    """Distance and error over the bandwidth of X, and distance over that of Y."""
    figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.4), constrained_layout=True)
    panels = [
        ("x", "squared_distance", "bandwidth of x", "cross-validated squared distance"),
        ("x", "rmse_to_exact_mean", "bandwidth of x", "error of the mean"),
        ("y", "squared_distance", "bandwidth of y", "cross-validated squared distance"),
    ]
    for axis, (varied, column, label, text) in zip(axes, panels, strict=True):
        for method, colour, line in (("exact", "#000000", "-"), ("localised", "#d55e00", "--")):
            part = table[(table["varied"] == varied) & (table["method"] == method)]
            axis.plot(part["bandwidth"], part[column], color=colour, linestyle=line, label=method)
            if varied == "x":
                best = part.sort_values("squared_distance").iloc[0]
                axis.plot(best["bandwidth"], best[column], marker="o", color=colour, markersize=5)
        axis.set(xscale="log", yscale="log", xlabel=label, ylabel=text)
    axes[0].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def bandwidths(quick: bool, output: Path) -> None:
    """The curves of both."""
    table = curves(11 if quick else 81, 4 if quick else 10)
    write(table, output / "cross_validation.csv")
    plot(table, output / "cross_validation.png")
