"""Grids of normal clouds, round ones against elongated ones: where the median heuristic is too wide."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import CenteredNorm

import pymc_kbr as pk
from pymc_kbr.arrays import plotting as palette
from pymc_kbr.embedding.learnt_lengthscale import LearntLengthscale, learn_lengthscale
from pymc_kbr.embedding.marginal_likelihood import MarginalLikelihood
from pymc_kbr.kernels import Kernel, median_heuristic

SPACING, CELLS, POINTS = 14.0, 3, 100
"""Between centres; a side of the grid; points in each cell."""

RATIOS = (1.0, 2.0, 3.0, 5.0, 15.0)
"""Of an elongated cloud's covariance: the largest eigenvalue over the smallest."""


BANDWIDTHS: dict[str, Callable[[LearntLengthscale], Kernel | None]] = {
    "median": lambda learnt: None,
    "highest": lambda learnt: learnt.kernel,
    "shortest": lambda learnt: learnt.shortest,
    "all": lambda learnt: learnt.kernel_of_all,
}
"""The kernel of each test: at the median, the highest maximum, the shortest one, and the sum of all."""


def clouds(ratio: float, rng: np.random.Generator, points: int = POINTS) -> np.ndarray:
    """Points (9 points, 2): unit variance in one direction, `ratio` in the other, turned by 45 degrees."""
    centres = SPACING * np.array([(i, j) for i in range(CELLS) for j in range(CELLS)], dtype=float)
    turn = np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2)
    noise = rng.normal(size=(len(centres) * points, 2)) * [np.sqrt(ratio), 1.0] @ turn
    return np.repeat(centres, points, axis=0) + noise


def pair(ratio: float, rng: np.random.Generator, points: int = POINTS) -> tuple[np.ndarray, np.ndarray]:
    """Samples of P, with round clouds, and of Q."""
    return clouds(1.0, rng, points), clouds(ratio, rng, points)


def errors(quick: bool, output: Path) -> None:
    """Type II error of both bandwidths, a line a ratio, written as they come (errors.csv)."""
    repeats, points = (3, 15) if quick else (25, POINTS)
    lines = []
    for ratio in (1.0, 2.0) if quick else RATIOS:
        rng = np.random.default_rng([7, int(100 * ratio)])
        pvalues: dict[str, list[float]] = {name: [] for name in BANDWIDTHS}
        widths: dict[str, list[float]] = {name: [] for name in BANDWIDTHS}
        for _ in range(repeats):
            x, y = pair(ratio, rng, points)
            learnt = learn_lengthscale(np.vstack([x, y]))
            for bandwidth, found in pvalues.items():
                kernel = BANDWIDTHS[bandwidth](learnt)
                result = pk.mmd_test(
                    x, y, kernel=kernel, bandwidth="median", permutations=200, random_seed=rng
                )
                found.append(result.pvalue)
                widths[bandwidth].append(float(getattr(result.kernels[0], "bandwidth", np.nan)))
        line: dict[str, float] = {"ratio": ratio, "repeats": repeats}
        for bandwidth in pvalues:
            line[f"type_two_{bandwidth}"] = float(np.mean(np.array(pvalues[bandwidth]) > 0.05))
            line[f"bandwidth_{bandwidth}"] = float(np.mean(widths[bandwidth]))
        lines.append(line)
        pd.DataFrame(lines).round(4).to_csv(output / "errors.csv", index=False)
        print(line, flush=True)


def curve(quick: bool, output: Path) -> None:
    """The marginal likelihood over lengthscales, and its maxima, of one pair at ratio 2."""
    x, y = pair(2.0, np.random.default_rng(1), 15 if quick else POINTS)
    pooled = np.vstack([x, y])
    rows = pooled[:: max(1, len(pooled) // 900)]
    likelihood = MarginalLikelihood(rows)
    lengthscales = np.geomspace(0.4, 60, 12 if quick else 60)
    values = [likelihood(np.full(2, length))[0] for length in lengthscales]
    frame = pd.DataFrame({"lengthscale": lengthscales, "log_likelihood": values})
    frame.round(4).to_csv(output / "curve.csv", index=False)
    maxima = learn_lengthscale(pooled, most=len(rows)).maxima
    marks = [{"what": f"maximum {i + 1}", "lengthscale": m.lengthscale[0]} for i, m in enumerate(maxima)]
    marks.append({"what": "median", "lengthscale": median_heuristic(pooled)})
    pd.DataFrame(marks).round(4).to_csv(output / "maxima.csv", index=False)
    print(pd.DataFrame(marks).to_string(index=False), flush=True)


def picture(quick: bool, output: Path) -> None:
    """Samples, errors, the likelihood and the witness function (grid.png), from the files of the others."""
    x, y = pair(2.0, np.random.default_rng(1), 15 if quick else POINTS)
    lines, likelihood = pd.read_csv(output / "errors.csv"), pd.read_csv(output / "curve.csv")
    marks = pd.read_csv(output / "maxima.csv").set_index("what")["lengthscale"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        figure, axes = plt.subplots(2, 2, figsize=(9.5, 8), layout="constrained")
    axes[0, 0].scatter(*x.T, s=2, color=palette.BLACK, label="P")
    axes[0, 0].scatter(*y.T, s=2, color=palette.VERMILION, label="Q")
    axes[0, 0].set(title="P, and Q with ratio 2", aspect="equal", ylim=(None, 2 * SPACING + 11))
    axes[0, 0].legend(markerscale=4, loc="upper right", ncols=2)
    labels = ("median heuristic", "highest maximum", "shortest maximum", "all maxima")
    for number, (name, label) in enumerate(zip(BANDWIDTHS, labels, strict=True)):
        style = palette.line_style(number) | {"marker": palette.MARKERS[number]}
        axes[0, 1].plot(lines["ratio"], lines[f"type_two_{name}"], label=label, **style)
    axes[0, 1].set(title="Type II error at level 0.05", xlabel="ratio of eigenvalues", ylim=(-0.03, 1.03))
    axes[0, 1].legend()
    axes[1, 0].plot(likelihood["lengthscale"], likelihood["log_likelihood"], color=palette.BLACK)
    for what, length in marks.items():
        colour, dash = (palette.BLUE, "--") if what == "median" else (palette.VERMILION, ":")
        axes[1, 0].axvline(length, color=colour, linestyle=dash, label=f"{what}: {length:.1f}")
    axes[1, 0].set(title="Log marginal likelihood", xlabel="lengthscale", xscale="log")
    axes[1, 0].legend()
    side = np.linspace(-4, 2 * SPACING + 4, 80)
    at = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    found = pk.witness(x, y, at, lengthscale=float(marks["maximum 1"]))
    image = axes[1, 1].pcolormesh(
        side, side, found.mean.reshape(80, 80), norm=CenteredNorm(), shading="nearest"
    )
    image.set_cmap(palette.DIVERGING)
    figure.colorbar(image, ax=axes[1, 1])
    axes[1, 1].set(title="Witness function at ratio 2, learnt bandwidth", aspect="equal")
    figure.savefig(output / "grid.png", dpi=110)
    plt.close(figure)
