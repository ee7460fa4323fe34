"""``python -m case_studies.trial_rivals.picture``: the picture of the learned likelihoods, from the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from case_studies.destination import redraw
from case_studies.trial_rivals.likelihoods import METHODS
from case_studies.trial_rivals.problems import PROBLEMS
from pymc_kbr.arrays.plotting import BLUE, GREEN, MARKERS, ORANGE, RULE, SKY, VERMILION

HERE = Path(__file__).parent
COLOURS = (BLUE, SKY, BLUE, VERMILION, GREEN, ORANGE)
WORST = 0.001
"""Nats lost below this one are drawn there: they cannot be told from none."""


def style(method: str) -> dict[str, Any]:
    """Of a method's point: those of ours whose shift is not looked for are hollow."""
    place = list(METHODS).index(method)
    face = "none" if method == "ours, no shift" else COLOURS[place]
    return {
        "marker": MARKERS[place],
        "color": COLOURS[place],
        "markerfacecolor": face,
        "linestyle": "none",
        "markersize": 8,
    }


def panels_of(titles: list[str], width: float, height: float) -> tuple[Any, Any]:
    """A figure with two panels below each title; both axes logarithmic, with plain numbers and a grid."""
    figure, panels = plt.subplots(
        2,
        len(titles),
        figsize=(width, height),
        sharex=True,
        sharey="row",
        squeeze=False,
        layout="constrained",
    )
    for title, panel in zip(titles, panels[0], strict=True):
        panel.set_title(title, fontsize=10)
    for panel in panels.flat:
        panel.set(xscale="log", yscale="log")
        panel.grid(color="#eeeeee", linewidth=0.6)
        panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        panel.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        panel.yaxis.set_minor_formatter(NullFormatter())
        panel.set_axisbelow(True)
    return figure, panels


def draw(lines: pd.DataFrame, path: Path) -> None:
    """Nats lost a trial and errors of posterior means against processor seconds, a column a problem."""
    problems = [name for name in PROBLEMS if (lines["problem"] == name).any()]
    figure, panels = panels_of(problems, 2.9 * len(problems), 5.4)
    handles: dict[str, Any] = {}
    for column, name in enumerate(problems):
        above, below = panels[:, column]
        for line in lines[lines["problem"] == name].to_dict("records"):
            looks = style(line["method"])
            lost, error = max(line["nats_lost"], WORST), line["standard_error"]
            bars = [[min(error, lost - WORST)], [error]]
            above.errorbar([line["seconds"]], [lost], yerr=bars, elinewidth=1, **looks)
            handles[line["method"]] = below.plot([line["seconds"]], [line["rms_error"]], **looks)[0]
        below.set_xlabel("processor seconds of the fit")
        below.axhline(0.5, color=RULE, linewidth=0.8, linestyle="--")
    panels[0, 0].set_ylabel("nats lost a held-out trial")
    panels[1, 0].set_ylabel("rms error of posterior means\n(exact standard deviations)")
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles), frameon=False
    )
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    redraw(lambda folder, path: draw(pd.read_csv(folder / "summary.csv"), path), HERE, "trial_rivals.png")
