"""``python -m case_studies.field.picture``: the picture of the field, from the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd

from case_studies.destination import redraw
from case_studies.field.methods import METHODS
from case_studies.field.problems import PROBLEMS
from case_studies.trial_rivals.picture import panels_of
from pymc_kbr.arrays.plotting import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RULE, VERMILION

HERE = Path(__file__).parent
COLOURS = (BLUE, BLUE, BLUE, BLACK, BLACK, GREEN, GREEN, PURPLE, ORANGE, VERMILION, GREY)
SHAPES = ("o", "s", "^", "D", "d", "v", "P", "X", "*", "<", ">")


def style(method: str) -> dict[str, Any]:
    """Of a method's point: a colour for each package, and hollow where it has an earlier line."""
    place = list(METHODS).index(method)
    again = place and COLOURS[place] == COLOURS[place - 1]
    return {
        "marker": SHAPES[place],
        "color": COLOURS[place],
        "markerfacecolor": "white" if again else COLOURS[place],
        "linestyle": "none",
        "markersize": 10 if SHAPES[place] == "*" else 8,
    }


def draw(lines: pd.DataFrame, path: Path) -> None:
    """Errors of posterior means and ratios of widths against processor seconds, a column a problem."""
    problems = [name for name in PROBLEMS if (lines["problem"] == name).any()]
    figure, panels = panels_of(problems, 1.2 + 3.7 * len(problems), 6.6)
    handles: dict[str, Any] = {}
    for column, name in enumerate(problems):
        above, below = panels[:, column]
        for line in lines[lines["problem"] == name].to_dict("records"):
            looks, at = style(line["method"]), [line["seconds"]]
            handles[line["method"]] = above.plot(at, [line["rms_error"]], **looks)[0]
            middle = line["typical_width"]
            bars = [[middle - line["narrowest"]], [line["widest"] - middle]]
            below.errorbar(at, [middle], yerr=bars, elinewidth=1, **looks)
        below.set_xlabel("processor seconds: fit and one posterior")
        below.axhline(1, color=RULE, linewidth=0.8, linestyle="--")
    panels[0, 0].set_ylabel("rms error of posterior means\n(exact standard deviations)")
    panels[1, 0].set_ylabel("width of posteriors, exact one 1\n(median, and range of all)")
    order = [method for method in METHODS if method in handles]
    figure.legend(
        [handles[method] for method in order], order, loc="outside lower center", ncols=4, frameon=False
    )
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    redraw(lambda folder, path: draw(pd.read_csv(folder / "summary.csv"), path), HERE, "field.png")
