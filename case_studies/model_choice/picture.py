"""The picture of the study, from toys.csv: errors of the models' probabilities, method by method."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from case_studies.destination import redraw
from pymc_kbr.arrays.plotting import BLUE, GREY, PAPER


def draw(folder: Path, path: Path) -> None:
    """Mean absolute errors, and means of the standard errors that are stated, a panel a choice of models."""
    lines = pd.read_csv(folder / "toys.csv")
    toys = list(dict.fromkeys(lines["toy"]))
    figure, axes = plt.subplots(
        1, len(toys), figsize=(10, 2.9), layout="constrained", sharex=True, sharey=True
    )
    for axis, toy in zip(axes, toys, strict=True):
        part = lines[lines["toy"] == toy].reset_index(drop=True)
        stated = part[part["stated_error"] > 0]
        axis.plot(
            stated["stated_error"], stated.index, "o", color=GREY, markerfacecolor=PAPER, label="stated"
        )
        axis.plot(part["error"], part.index, "D", color=BLUE, label="error")
        axis.hlines(part.index, 1e-3, part["error"], color=BLUE, linewidth=1)
        axis.set_yticks(part.index, part["method"].str.replace(", ", ",\n"), fontsize=9)
        axis.set(title=toy, xscale="log", xlim=(4e-3, 0.3))
        axis.grid(axis="x", alpha=0.3)
    axes[0].margins(y=0.12)
    axes[0].invert_yaxis()
    axes[-1].legend(loc="upper right", fontsize=8)
    figure.supxlabel("mean absolute error of a model's probability", fontsize=10)
    figure.savefig(path, dpi=100)
    plt.close(figure)


if __name__ == "__main__":
    redraw(draw, Path(__file__).parent, "model_choice.png")
