"""The picture of the study, from gaps.csv: errors and widths over the number of missing statistics."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from case_studies.destination import redraw
from pymc_kbr.arrays.plotting import MARKERS, RULE, line_style


def draw(folder: Path, path: Path) -> None:
    """A line an estimator: error of the mean, with the pattern of the largest, and the ratio of widths."""
    lines = pd.read_csv(folder / "gaps.csv")
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    for number, (name, part) in enumerate(lines.groupby("estimator", sort=False)):
        style = line_style(number) | {"marker": MARKERS[number], "markersize": 5}
        at = part["missing"] + 0.04 * number
        left.plot(at, part["mean_error"], label=str(name), **style)
        left.vlines(at, part["mean_error"], part["largest_pattern_error"], color=style["color"], linewidth=1)
        right.plot(at, part["width_ratio"], **style)
    right.axhline(1, color=RULE, linewidth=0.8, zorder=0)
    left.set(ylabel="error of the mean, exact deviations", ylim=(0, None))
    right.set(ylabel="width over the exact one")
    for axis in (left, right):
        axis.set(xlabel="missing statistics, of four", xticks=sorted(set(lines["missing"])))
    figure.legend(
        *left.get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=9, frameon=False
    )
    figure.savefig(path, dpi=100)
    plt.close(figure)


if __name__ == "__main__":
    redraw(draw, Path(__file__).parent, "missing_statistics.png")
