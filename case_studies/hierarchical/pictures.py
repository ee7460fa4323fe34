"""The picture of the study, from its files alone: errors of every parameter, sampler by sampler."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from pymc_kbr.arrays.plotting import BAND, OBSERVED, POSTERIOR

TITLES = {"waiting": "Waiting times of 20 participants", "epidemic": "An epidemic in 8 regions"}
WANTED = 0.1


def draw(folder: Path, path: Path) -> None:
    """Errors of posterior means, in the reference's deviations; the group's parameters with their names."""
    figure, panels = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    for panel, (name, title) in zip(panels, TITLES.items(), strict=True):
        lines = pd.read_csv(folder / f"{name}_parameters.csv")
        methods = list(dict.fromkeys(lines["method"]))
        rng = np.random.default_rng(0)
        panel.axvspan(-WANTED, WANTED, color=BAND, label=f"within {WANTED} deviations")
        for place, method in enumerate(methods):
            part = lines[lines["method"] == method]
            members = part["parameter"].str.contains("[", regex=False)
            height = place + rng.uniform(-0.25, 0.25, len(part))
            panel.scatter(
                part["error"][members], height[members], s=12, color=POSTERIOR, alpha=0.6, label="members"
            )
            panel.scatter(
                part["error"][~members], height[~members], s=42, marker="D", color=OBSERVED, label="group"
            )
        panel.set_yticks(range(len(methods)), [method.replace(", ", ",\n") for method in methods])
        panel.invert_yaxis()
        panel.set_xscale("symlog", linthresh=WANTED, linscale=0.5)
        panel.xaxis.set_major_formatter("{x:g}")
        panel.set(title=title, xlabel="error of the posterior mean, in the reference's deviations")
    handles, labels = panels[0].get_legend_handles_labels()
    known = dict(zip(labels, handles, strict=True))
    panels[1].legend(known.values(), known.keys(), loc="best", fontsize="small")
    figure.savefig(path, dpi=110)
    plt.close(figure)
