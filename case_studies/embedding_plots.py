"""Pictures of the tables of `embedding_errors`."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd

matplotlib.use("Agg")
import matplotlib.pyplot as plt

STYLES = {
    "exact": ("#000000", "-", "o"),
    "localised": ("#d55e00", "-", "s"),
    "Nadaraya-Watson": ("#0072b2", "--", "^"),
    "random subsample": ("#009e73", ":", "v"),
    "incomplete Cholesky": ("#cc79a7", "-.", "D"),
    "random features": ("#e69f00", "--", "P"),
    "divide and conquer": ("#56b4e9", "-.", "X"),
    "fast randomised": ("#7f7f7f", ":", "*"),
    "exact, by default": ("#000000", (0, (1, 1)), "o"),
    "localised, by default": ("#d55e00", (0, (1, 1)), "s"),
}
ERRORS = {"rkhs_error": "RKHS error", "rmse_of_mean": "RMSE of mean", "rmse_of_mode": "RMSE of mode"}
SECONDS = {"seconds": "seconds, fit and 10 observations", "against seconds": "RKHS error"}
"""Columns of a table and how they are called in pictures."""


def plot_surface(table: pd.DataFrame, path: Path) -> None:
    """RKHS error over bandwidth and ridge, a panel a method, and two slices."""
    names = list(dict.fromkeys(table["method"]))
    figure, axes = plt.subplots(2, 3, figsize=(9, 5.4), constrained_layout=True)
    low, high = np.log10(table["rkhs_error"].min()), np.log10(table["rkhs_error"].quantile(0.95))
    for axis, name in zip([axes[0, 0], axes[0, 1], axes[1, 0], axes[1, 1]], names, strict=True):
        part = table[table["method"] == name].pivot(
            index="regularisation", columns="bandwidth", values="rkhs_error"
        )
        mesh = axis.pcolormesh(
            part.columns,
            part.index,
            np.log10(part.to_numpy()),
            cmap="viridis",
            vmin=low,
            vmax=high,
            shading="nearest",
        )
        axis.set(
            xscale="log", yscale="log", title=name, xlabel="bandwidth", ylabel=r"regularisation $\lambda$"
        )
    figure.colorbar(mesh, ax=axes[:, :2], label=r"$\log_{10}$ RKHS error", shrink=0.7)
    middle = {
        "bandwidth": ("regularisation", r"at the best $\lambda$"),
        "regularisation": ("bandwidth", "at the best bandwidth"),
    }
    for axis, (along, (other, text)) in zip(axes[:, 2], middle.items(), strict=True):
        for name in names:
            part = table[table["method"] == name]
            best = part.loc[part["rkhs_error"].idxmin(), other]
            curve = part[part[other] == best]
            colour, line, marker = STYLES[name]
            axis.errorbar(
                curve[along],
                curve["rkhs_error"],
                yerr=curve["standard_error"],
                color=colour,
                linestyle=line,
                marker=marker,
                markersize=3,
                linewidth=1,
                label=name,
            )
        label = r"regularisation $\lambda$" if along == "regularisation" else "bandwidth"
        axis.set(xscale="log", yscale="log", xlabel=label, ylabel="RKHS error", title=text)
    handles, labels = axes[0, 2].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=4, frameon=False, fontsize=8)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def plot_modes(table: pd.DataFrame, path: Path) -> None:
    """Three errors, a row each: over bandwidth and ridge, a panel a method, and along the best of either."""
    names = list(dict.fromkeys(table["method"]))
    figure, axes = plt.subplots(
        len(ERRORS), len(names) + 2, figsize=(14, 7), constrained_layout=True, squeeze=False
    )
    for row, (column, text) in zip(axes, ERRORS.items(), strict=True):
        low, high = np.log10(table[column].min()), np.log10(table[column].quantile(0.95))
        for axis, name in zip(row, names, strict=False):
            part = table[table["method"] == name].pivot(
                index="regularisation", columns="bandwidth", values=column
            )
            mesh = axis.pcolormesh(
                part.columns, part.index, np.log10(part.to_numpy()), vmin=low, vmax=high, shading="nearest"
            )
            axis.set(xscale="log", yscale="log", title=name, xlabel="bandwidth")
        row[0].set_ylabel(r"regularisation $\lambda$")
        figure.colorbar(mesh, ax=row[: len(names)], label=rf"$\log_{{10}}$ {text}", shrink=0.9)
        for axis, along, other in (
            (row[-2], "bandwidth", "regularisation"),
            (row[-1], "regularisation", "bandwidth"),
        ):
            for name in names:
                curve = _best_slice(table[table["method"] == name], column, other)
                colour, line, marker = STYLES[name]
                style = {"color": colour, "linestyle": line, "marker": marker, "markersize": 3}
                axis.plot(curve[along], curve[column], label=name, linewidth=1, **style)
            axis.set(xscale="log", yscale="log", xlabel=along, ylabel=text, title=f"at the best {other}")
            axis.title.set_fontsize(9)
    handles, labels = axes[0, -1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    figure.savefig(path, dpi=80)
    plt.close(figure)


def _best_slice(part: pd.DataFrame, column: str, other: str) -> pd.DataFrame:
    """The lines of a method's table that have its best value of the other setting."""
    best = part[other].to_numpy()[int(np.argmin(part[column].to_numpy()))]
    return part[part[other] == best]


def plot_curves(
    table: pd.DataFrame, along: str, label: str, path: Path, columns: dict[str, str], log: bool = True
) -> None:
    """A panel a column of the table, a line a method; "against seconds" draws the first against these."""
    figure, axes = plt.subplots(
        1, len(columns), figsize=(3.4 * len(columns), 4.1), constrained_layout=True, squeeze=False
    )
    for axis, (column, text) in zip(axes[0], columns.items(), strict=True):
        for name, rows in table.dropna(subset=["rkhs_error"]).groupby("method", sort=False):
            colour, line, marker = STYLES[str(name)]
            part = rows.dropna(subset=["seconds" if column == "against seconds" else column])
            x = part["seconds"] if column == "against seconds" else part[along]
            y = part["rkhs_error"] if column == "against seconds" else part[column]
            axis.plot(
                x, y, color=colour, linestyle=line, marker=marker, markersize=4, linewidth=1.1, label=name
            )
        axis.set(
            xscale="log" if log or column == "against seconds" else "linear",
            yscale="log",
            xlabel="seconds, fit and 10 observations" if column == "against seconds" else label,
            ylabel=text,
        )
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=5, frameon=False, fontsize=8)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def plot_chosen(table: pd.DataFrame, path: Path) -> None:
    """Chosen bandwidth and ridge less the exact one's, a point a trial; bandwidths alone below."""
    names = ("localised", "random subsample", "Nadaraya-Watson")
    figure, (above, below) = plt.subplots(
        2, 1, figsize=(4.8, 5.4), height_ratios=(3, 1), sharex=True, constrained_layout=True
    )
    rng = np.random.default_rng(0)
    for row, name in enumerate(names):
        part = table[table["method"] == name]
        colour, _, marker = STYLES[name]
        # Grids make points coincide: they are shaken by a twentieth of a decade.
        shaken = rng.uniform(-0.05, 0.05, (2, len(part)))
        style = {"s": 22, "color": colour, "marker": marker, "alpha": 0.7, "linewidths": 0}
        x = part["log10_bandwidth_less_exact"] + shaken[0]
        if name != "Nadaraya-Watson":
            above.scatter(x, part["log10_regularisation_less_exact"] + shaken[1], label=name, **style)
        below.scatter(x, -row + 2 * shaken[1], **style)
    for axis in (above, below):
        axis.axvline(0, color="0.8", zorder=0)
    above.axhline(0, color="0.8", zorder=0)
    above.set_ylabel(r"$\log_{10}\lambda$, less the exact one's")
    below.set(xlabel=r"$\log_{10}$ bandwidth, less the exact one's", yticks=[0, -1, -2], yticklabels=names)
    above.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=90)
    plt.close(figure)
