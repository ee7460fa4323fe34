"""From lines of runs to one line a cell, and the study's pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from scipy.stats import wilcoxon

from case_studies.filtering.dynamics import DYNAMICS
from pymc_kbr.arrays import plotting as palette

SHOWN = {
    "ekf": ("EKF, told the dynamics", palette.BLACK, "--"),
    "ukf": ("UKF, told the dynamics", palette.GREY, "-."),
    "particles": ("particles, told the dynamics", palette.SKY, ":"),
    "original": ("original, as published", palette.ORANGE, (0, (5, 1))),
    "importance_weighted": ("importance-weighted, as published", palette.GREEN, (0, (3, 1, 1, 1))),
    "default": ("default", palette.POSTERIOR, "-"),
}
"""How each method is drawn."""

LEVELS = ((1e-3, "***"), (1e-2, "**"), (5e-2, "*"))
"""Stars of Wilcoxon's signed-rank test, two-sided."""


def cells(lines: pd.DataFrame) -> pd.DataFrame:
    """Mean errors over the runs that every method of a cell has, a line a length and dynamics.

    Columns are ``runs``, each method's mean error, ``<method>_standard_error``, and ``p_<other>``: the
    signed-rank test of the default against another method's errors, run by run.
    """
    found = []
    kept = lines[lines["method"] != "known_transition"]
    for (name, n), cell in kept.groupby(["dynamics", "n"]):
        errors = cell.pivot(index="run", columns="method", values="error").dropna()
        line: dict[str, object] = {"dynamics": name, "n": n, "runs": len(errors)}
        for method in errors:
            line[str(method)] = errors[method].mean()
            line[f"{method}_standard_error"] = errors[method].sem()
        for other in ("ekf", "original", "importance_weighted"):
            line[f"p_{other}"] = wilcoxon(errors["default"], errors[other]).pvalue
        found.append(line)
    return pd.DataFrame(found)


def known(lines: pd.DataFrame, n: int = 200) -> pd.DataFrame:
    """The default with a learnt and with the true transition, over runs that have both."""
    found = []
    for name, cell in lines[lines["n"] == n].groupby("dynamics"):
        errors = cell.pivot(index="run", columns="method", values="error")
        wanted = ["importance_weighted", "default", "known_transition", "particles"]
        errors = errors[wanted].dropna()
        found.append({"dynamics": name, "n": n, "runs": len(errors), **errors.mean()})
    return pd.DataFrame(found)


def stars(p: float) -> str:
    """What stands over a point."""
    return next((mark for level, mark in LEVELS if p < level), "")


def over_lengths(table: pd.DataFrame, path: Path) -> None:
    """Errors over the length of the training sequence, one panel a dynamics."""
    figure, axes = plt.subplots(1, len(DYNAMICS), figsize=(9, 4.2), constrained_layout=True)
    for axis, name in zip(axes, DYNAMICS, strict=True):
        cell = table[table["dynamics"] == name].sort_values("n")
        for method, (label, colour, style) in SHOWN.items():
            axis.errorbar(
                cell["n"],
                cell[method],
                cell[f"{method}_standard_error"],
                label=label,
                color=colour,
                linestyle=style,
                capsize=2,
            )
        for n, p in zip(cell["n"], cell["p_importance_weighted"], strict=True):
            axis.text(n, 0.01, stars(p), transform=axis.get_xaxis_transform(), ha="center", fontsize=9)
        axis.set(title=name, xlabel="length of the training sequence", ylim=(0.04, None))
    axes[0].set(ylabel="squared error a step")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def scatter(path: Path, steps: int = 300) -> None:
    """States and observations of the oscillation, as the papers show them."""
    states, observations = DYNAMICS["oscillation"].simulate(steps, np.random.default_rng(0))
    figure, axes = plt.subplots(1, 2, figsize=(6.4, 3.2), constrained_layout=True, sharex=True, sharey=True)
    for axis, rows, title in zip(axes, (states, observations), ("states", "observations"), strict=True):
        axis.plot(*rows.T, ".", color=palette.BLACK, markersize=3)
        axis.set(title=f"{steps} {title}", aspect="equal")
    figure.savefig(path, dpi=110)
    plt.close(figure)
