"""The picture of the study, from problems.csv and sizes.csv: what raw data gain on fields' statistics."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from case_studies.destination import redraw
from pymc_kbr.arrays.plotting import BLUE, MARKERS, RULE, line_style


def draw(folder: Path, path: Path) -> None:
    """By how much scores are lower given the data sets, with two standard errors; g-and-k by size."""
    lines, sizes = pd.read_csv(folder / "problems.csv"), pd.read_csv(folder / "sizes.csv")
    sets = lines[lines["columns"] == "data sets"].sort_values("energy_lower_by").reset_index(drop=True)
    own = lines[lines["columns"] != "data sets"].set_index("problem")["columns"]
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9.5, 3.8), layout="constrained", width_ratios=(1.6, 1)
    )
    errors = 200 * sets["energy_standard_error"]
    left.errorbar(
        100 * sets["energy_lower_by"], sets.index, xerr=errors, fmt="D", color=BLUE, capsize=2, markersize=5
    )
    left.axvline(0, color=RULE, linewidth=0.8, zorder=0)
    names = [f"{problem}: {own[problem].replace(' (sufficient)', '*')}" for problem in sets["problem"]]
    left.set_yticks(sets.index, names, fontsize=8)
    left.set(xlabel="energy score lower given the data sets, %  (* sufficient statistics)")
    for number, (name, part) in enumerate(sizes.groupby("columns", sort=False)):
        style = line_style(number) | {"marker": MARKERS[number], "markersize": 5}
        right.plot(part["size"], part["energy_score"], label=f"given {name}", **style)
    right.set(title="g-and-k", xlabel="rows of a data set", ylabel="energy score", ylim=(0, None))
    right.legend(fontsize=8)
    figure.savefig(path, dpi=100)
    plt.close(figure)


if __name__ == "__main__":
    redraw(draw, Path(__file__).parent, "data_sets.png")
