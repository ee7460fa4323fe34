"""Pictures of the tables of Fukumizu 2013 and Xu 2022."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import pandas as pd

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OF_DIMENSION = {
    "prior_mean": ("prior mean", "0.7", ":", None),
    "kde_best": ("KDE + IW, best bandwidth", "#e69f00", "--", "P"),
    "kde_least_squares": ("KDE + IW, cross-validated", "#e69f00", ":", "X"),
    "kbr_median": ("KBR, median, sum one", "#0072b2", "--", "^"),
    "kbr_cross_validated": ("KBR, cross-validated, sum one", "#0072b2", ":", "v"),
    "kbr_median_printed": ("KBR, median, printed", "#56b4e9", "--", "^"),
    "kbr_cross_validated_printed": ("KBR, cross-validated, printed", "#56b4e9", ":", "v"),
    "original_sum_one": ("original, sum one", "#0072b2", "--", "^"),
    "importance_weighted_sum_one": ("importance-weighted, sum one", "#009e73", "-.", "D"),
    "original_printed": ("original, printed", "#56b4e9", "--", "^"),
    "importance_weighted_printed": ("importance-weighted, printed", "#8fd175", "-.", "D"),
    "kbr_default": ("kbr, ours", "#000000", "-", "o"),
    "iw_kbr_default": ("iw_kbr, ours", "#d55e00", "-", "s"),
}
OF_SIZE = {
    "rejection": ("rejection, best", "#7f7f7f", ":", "P"),
    "kbr": ("KBR, paper's settings", "#0072b2", "--", "^"),
    "conditional_mean": ("conditional mean, paper's settings", "#009e73", "-.", "D"),
    "kbr_default": ("kbr, ours", "#000000", "-", "o"),
    "conditional_mean_default": ("conditional_mean, ours", "#d55e00", "-", "s"),
}


def over_dimensions(table: pd.DataFrame, path: Path) -> None:
    """Mean squared error of the posterior mean over the dimension."""
    figure, axis = plt.subplots(figsize=(5, 4.6), constrained_layout=True)
    for column, (label, colour, line, marker) in OF_DIMENSION.items():
        if column in table:
            axis.plot(
                table["d"],
                table[column],
                color=colour,
                linestyle=line,
                marker=marker,
                markersize=5,
                label=label,
            )
    axis.set(xscale="log", yscale="log", xlabel="dimension", ylabel="mean squared error of posterior mean")
    axis.set_xticks(table["d"], [str(d) for d in table["d"]])
    axis.minorticks_off()
    axis.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def over_seconds(table: pd.DataFrame, path: Path) -> None:
    """The same over simulations, and over seconds, for two and six dimensions."""
    table = table.assign(estimator=table["estimator"].str.replace(r"rejection_\d+", "rejection", regex=True))
    figure, axes = plt.subplots(2, 2, figsize=(7.6, 6.4), constrained_layout=True, sharey="row")
    for row, (d, part) in zip(axes, table.groupby("d"), strict=True):
        for axis, (column, text) in zip(
            row, {"n": "simulations", "seconds": "seconds, fit and 10 observations"}.items(), strict=True
        ):
            for name, (label, colour, line, marker) in OF_SIZE.items():
                points = part[part["estimator"] == name].sort_values("n")
                axis.errorbar(
                    points[column],
                    points["error"],
                    yerr=points["standard_error"],
                    color=colour,
                    linestyle=line,
                    marker=marker,
                    markersize=4,
                    linewidth=1.2,
                    label=label,
                )
            axis.set(xscale="log", yscale="log", xlabel=text)
        row[0].set_ylabel(f"mean squared error, d = {d}")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=8)
    figure.savefig(path, dpi=90)
    plt.close(figure)
