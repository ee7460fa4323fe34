"""The picture of the study, from benchmark.csv: the newest ratio of each subject against what was wanted."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import shorten

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from case_studies.destination import redraw
from pymc_kbr.arrays.plotting import BLUE, RULE, WRONG

WIDTH = 82
"""Letters of a label."""


def margins(lines: pd.DataFrame) -> pd.DataFrame:
    """Subjects that have a limit: how many times better the newest ratio is than wanted."""
    newest = lines.drop_duplicates("what", keep="last")
    limits = newest["wanted"].str.extract(r"^(?P<side>at least|at most|below) (?P<limit>[\d.]+)$")
    found = newest.join(limits).dropna(subset=["limit"])
    found = found[~found["what"].str.contains("difference")]  # is no matter of speed
    times = found["ratio"] / found["limit"].astype(float)
    return found.assign(margin=np.where(found["side"] == "at least", times, 1 / times))


def draw(folder: Path, path: Path) -> None:
    """A mark a subject, to the right of the line where the limit is kept."""
    found = margins(pd.read_csv(folder / "benchmark.csv")).reset_index(drop=True)
    figure, axis = plt.subplots(figsize=(10, 0.27 * len(found) + 0.9), layout="constrained")
    for kept, marker, colour, label in ((True, "o", BLUE, "kept"), (False, "X", WRONG, "missed")):
        part = found[(found["margin"] >= 1) == kept]
        axis.plot(part["margin"], part.index, marker, color=colour, label=label)
    axis.axvline(1, color=RULE, linewidth=0.8, zorder=0)
    labels = [shorten(re.sub(r" / ", " against ", what), WIDTH, placeholder=" ...") for what in found["what"]]
    axis.set_yticks(found.index, labels, fontsize=7.5)
    axis.invert_yaxis()
    axis.set(xscale="log", xlabel="times better than the limit")
    axis.grid(axis="x", alpha=0.3)
    axis.legend(fontsize=8, loc="lower right")
    figure.savefig(path, dpi=100)
    plt.close(figure)


if __name__ == "__main__":
    redraw(draw, Path(__file__).parent, "speed.png")
