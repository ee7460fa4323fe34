"""The picture: C2ST against simulations, ours and published, a panel a task and classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from case_studies.sbi_benchmark.results import CLASSIFIERS
from case_studies.sbi_benchmark.summary import means, published
from case_studies.sbi_benchmark.tasks import TASKS
from pymc_kbr.arrays import plotting as palette

STYLES = {
    "rejection": (palette.GREY, "s"),
    "auto": (palette.BLUE, "o"),
    "kernel_likelihood": (palette.VERMILION, "^"),
    "rounds": (palette.PURPLE, "D"),
    "npe": (palette.GREEN, "v"),
    "NPE": (palette.GREEN, "v"),
    "NLE": (palette.ORANGE, "^"),
    "NPE-PFN": (palette.SKY, "P"),
    "best sequential": (palette.PURPLE, "D"),
    "best ABC": (palette.BLACK, "s"),
}
"""Colour and marker of each method; one colour where the same is run here and published."""

COLUMNS = 5


def draw(lines: pd.DataFrame, path: Path) -> None:
    """Write the picture as PNG: filled marks are ours, open ones published."""
    from matplotlib.figure import Figure

    ours, theirs = means(lines), published().assign(standard_error=0.0, published=True)
    tasks = [name for name in TASKS if name in set(ours["task"])]
    classifiers = [name for name in CLASSIFIERS if name in set(ours["classifier"])]
    columns = min(COLUMNS, len(tasks))
    rows = -(-len(tasks) // columns)
    figure = Figure(figsize=(2.3 * columns + 1, 2.1 * rows * len(classifiers) + 0.9), layout="constrained")
    labelled: dict[str, Any] = {}
    halves = figure.subfigures(len(classifiers), 1, squeeze=False)[:, 0]
    for part, classifier in zip(halves, classifiers, strict=True):
        axes = part.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for axis, task in zip(axes.flat, tasks, strict=False):
            _panel(axis, task, classifier, (ours, theirs), labelled)
        for axis in axes.flat[len(tasks) :]:
            axis.set_visible(False)
        part.supylabel(f"C2ST by a {classifier}", fontsize=9)
    figure.supxlabel("simulations", fontsize=9)
    figure.legend(labelled.values(), labelled.keys(), loc="outside upper center", ncols=columns, fontsize=8)
    figure.savefig(path, dpi=90)


def _panel(
    axis: Any, task: str, classifier: str, frames: tuple[pd.DataFrame, ...], labelled: dict[str, Any]
) -> None:
    for frame in frames:
        here = frame[(frame["task"] == task) & (frame["classifier"] == classifier)]
        for name, part in here.groupby("method"):
            method = str(name)
            if method in STYLES:
                _curve(axis, part.sort_values("budget"), method, labelled)
    axis.set_title(task, fontsize=9)
    axis.set_xscale("log")
    axis.tick_params(labelsize=8)
    axis.axhline(0.5, color=palette.BAND, linewidth=0.8, zorder=0)


def _curve(axis: Any, part: pd.DataFrame, method: str, labelled: dict[str, Any]) -> None:
    theirs, (colour, marker) = "published" in part, STYLES[method]
    drawn = axis.errorbar(
        part["budget"],
        part["c2st"],
        yerr=None if theirs else part["standard_error"],
        color=colour,
        linestyle="--" if theirs else "-",
        marker=marker,
        markersize=4,
        markerfacecolor=palette.PAPER if theirs else colour,
        linewidth=1.2,
    )
    labelled.setdefault(f"{method} (published)" if theirs else method, drawn)
