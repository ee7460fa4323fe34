"""The picture: C2ST against simulations, ours and published, a panel a task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from case_studies.sbi_benchmark.summary import means, published
from case_studies.sbi_benchmark.tasks import TASKS

COLOURS = {
    "rejection": "0.6",
    "auto": "tab:blue",
    "kernel_likelihood": "tab:red",
    "rounds": "tab:purple",
    "NPE": "tab:green",
    "NLE": "tab:olive",
    "NPE-PFN": "tab:orange",
    "best sequential": "tab:brown",
    "best ABC": "black",
}
LINES = {"network": "-", "forest": ":"}


def draw(lines: pd.DataFrame, path: Path) -> None:
    """Write the picture as PNG: filled marks are ours, open ones published; dotted lines the forest's."""
    from matplotlib.figure import Figure

    ours, theirs = means(lines), published()
    tasks = [name for name in TASKS if name in set(ours["task"])]
    columns = min(5, len(tasks))
    rows = -(-len(tasks) // columns)
    figure = Figure(figsize=(2.6 * columns, 2.5 * rows + 0.9), layout="constrained")
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    labelled: dict[str, Any] = {}
    for axis, task in zip(axes.flat, tasks, strict=False):
        for frame in (ours, theirs.assign(standard_error=0.0, published=True)):
            for (method, classifier), part in frame[frame["task"] == task].groupby(["method", "classifier"]):
                if method in COLOURS:
                    _curve(axis, part.sort_values("budget"), str(method), str(classifier), labelled)
        axis.set_title(task, fontsize=9)
        axis.set_xscale("log")
        axis.axhline(0.5, color="0.85", linewidth=0.8, zorder=0)
    for axis in axes.flat[len(tasks) :]:
        axis.set_visible(False)
    figure.supxlabel("simulations", fontsize=9)
    figure.supylabel("C2ST (0.5: not told from the reference)", fontsize=9)
    figure.legend(labelled.values(), labelled.keys(), loc="outside upper center", ncols=5, fontsize=8)
    figure.savefig(path, dpi=110)


def _curve(axis: Any, part: pd.DataFrame, method: str, classifier: str, labelled: dict[str, Any]) -> None:
    theirs = "published" in part
    label = f"{method}{' (published)' if theirs else ''}, {classifier}"
    drawn = axis.errorbar(
        part["budget"],
        part["c2st"],
        yerr=None if theirs else part["standard_error"],
        color=COLOURS[method],
        linestyle=LINES[classifier],
        marker="o" if classifier == "network" else "s",
        markersize=4,
        markerfacecolor="white" if theirs else COLOURS[method],
        linewidth=1.2,
    )
    labelled.setdefault(label, drawn)
