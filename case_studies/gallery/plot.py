"""One panel a problem: accuracy against seconds."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.ticker import NullFormatter

STYLES = {
    "sample_smc, epsilon 1": ("#000000", "o"),
    "sample_smc, epsilon 0.3": ("#7f7f7f", "s"),
    "regression ABC": ("#d55e00", "^"),
    "one table, auto": ("#0072b2", "D"),
}
"""Colour and marker of each method."""


def draw(found: pd.DataFrame, path: Path) -> None:
    """Energy scores on the data sets that every method had, against the seconds of one posterior."""
    problems = list(found["problem"].unique())
    figure, axes = plt.subplots(
        -(-len(problems) // 3), min(3, len(problems)), figsize=(10, 6), squeeze=False, layout="constrained"
    )
    for panel in axes.flat[len(problems) :]:
        panel.remove()
    for panel, problem in zip(axes.flat, problems, strict=False):
        for line in found[found["problem"] == problem].to_dict("records"):
            colour, marker = STYLES[line["method"]]
            panel.plot(
                line["seconds"], line["energy_score"], marker, color=colour, label=line["method"], ms=8
            )
        highest = found.loc[found["problem"] == problem, "energy_score"].max()
        panel.set(title=problem, xscale="log", xlim=(0.1, 300), ylim=(0, 1.1 * highest))
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.grid(alpha=0.3)
    figure.supxlabel("seconds of one posterior, simulations included")
    figure.supylabel("energy score, prior deviations (less is better)")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), fontsize=8, frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)
