"""One panel a question: each method's intervals beside the exact one."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from pymc_kbr.arrays.plotting import BAND, BLUE, GREY, TRUTH, VERMILION

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Of the quantiles that are drawn."""

AXES = {
    "4,096 points": ("phi", "linear"),
    "exponential": ("scale", "log"),
    "a hundred statistics": ("a", "linear"),
}
"""Name and scale of each problem's parameter."""

COLOURS = {"exact": TRUTH, "auto": BLUE, "regression ABC": VERMILION}
"""By the method's first word; grey for the others."""


def draw(found: pd.DataFrame, path: Path) -> None:
    """Central 50% and 90% intervals of the first parameter given one data set; the exact one shaded."""
    problems = list(found["problem"].unique())
    figure, axes = plt.subplots(
        1, len(problems), figsize=(4.0 * len(problems), 3.0), layout="constrained", squeeze=False
    )
    for axis, problem in zip(axes[0], problems, strict=True):
        lines = found[found["problem"] == problem].to_dict("records")
        axis.axvspan(lines[0]["q0.05"], lines[0]["q0.95"], color=BAND, zorder=0)
        for place, line in enumerate(lines):
            colour = COLOURS.get(line["method"].split(",")[0], GREY)
            axis.plot([line["q0.05"], line["q0.95"]], [place, place], color=colour, linewidth=1.2)
            axis.plot(
                [line["q0.25"], line["q0.75"]],
                [place, place],
                color=colour,
                linewidth=4,
                solid_capstyle="butt",
            )
            axis.plot(line["q0.5"], place, "o", color=colour, markersize=5, markeredgecolor="white")
        axis.set_yticks(
            range(len(lines)), [line["method"].replace(", ", ",\n", 1) for line in lines], fontsize=8
        )
        axis.invert_yaxis()
        name, scale = AXES[problem]
        axis.set(title=problem, xlabel=name, xscale=scale)
    figure.savefig(path, dpi=110)
    plt.close(figure)
