"""Conditional mean embeddings against exact ones: what the ground-truth studies have in common.

A problem draws pairs (X, Y) whose conditional distribution of Y given X is known and normal. Each method
estimates its embedding at some x; errors are the RKHS distance to the exact embedding (Gaussian kernel of
variance one on Y), and the distances of the mean and the mode to a value of Y drawn at x.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from sklearn.model_selection import KFold

import pymc_kbr as pk
from pymc_kbr.embedding import Atoms, Embedding
from pymc_kbr.gram import (
    DivideAndConquer,
    IncompleteCholesky,
    Nystroem,
    RandomFeatures,
    Subsample,
    pivoted_cholesky,
)
from pymc_kbr.kernels import Gaussian, gaussian_mean

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OUTPUT_KERNEL = Gaussian(1.0)
FACTOR_ABOVE = 3_000
"""Rows above which the Gram matrix of Y is factored, to 1e-10 of its trace, to take norms."""

RANK = 500
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


@dataclass(frozen=True)
class Trial:
    """One drawn problem.

    Attributes
    ----------
    x, y : ndarray of shape (n, d), (n, p)
        The sample.
    at : ndarray of shape (k, d)
        Where the conditional distribution is wanted.
    means : ndarray of shape (k, p)
        Its exact means.
    covariance : ndarray of shape (p, p)
        Its exact covariance, the same everywhere.
    drawn : ndarray of shape (k, p)
        One value of Y at each.
    """

    x: np.ndarray
    y: np.ndarray
    at: np.ndarray
    means: np.ndarray
    covariance: np.ndarray
    drawn: np.ndarray


ERRORS = {"rkhs_error": "RKHS error", "rmse_of_mean": "RMSE of mean", "rmse_of_mode": "RMSE of mode"}
SECONDS = {"seconds": "seconds, fit and 10 observations", "against seconds": "RKHS error"}
"""Columns of a table and how they are called in pictures."""

Draw = Callable[[int, int, np.random.Generator], Trial]
"""A problem: from the dimension of X, the sample's size and a generator to a trial."""


def neighbours(n: int) -> int:
    """M = n^(2/3), as in the draft."""
    return min(n, max(2, round(n ** (2 / 3))))


def methods(
    n: int, bandwidth: float, regularisation: Callable[[int], float], names: Iterable[str]
) -> dict[str, pk.Estimator]:
    """The draft's methods at fixed settings; `regularisation` is a function of the rows in one regression."""
    m = neighbours(n)
    common: dict[str, Any] = {"centred": False, "scale": False}
    lam = regularisation(n)

    def on_all(solver: Any) -> pk.Estimator:
        return pk.ConditionalMean(bandwidth, lam, solver=solver, **common)

    made: dict[str, Callable[[], pk.Estimator]] = {
        "exact": lambda: on_all("exact"),
        "localised": lambda: pk.Localised(m, bandwidth, regularisation(m), **common),
        "Nadaraya-Watson": lambda: pk.NadarayaWatson(bandwidth, scale=False),
        "random subsample": lambda: pk.ConditionalMean(
            bandwidth,
            regularisation(m),
            solver=Subsample(m),
            **common,
        ),
        "incomplete Cholesky": lambda: on_all(IncompleteCholesky(tolerance=1e-6, rank=min(n, RANK))),
        "random features": lambda: on_all(RandomFeatures(RANK)),
        "divide and conquer": lambda: on_all(DivideAndConquer(max(1, n // m))),
        "fast randomised": lambda: on_all(Nystroem(min(n, RANK), sampling="leverage")),
        "exact, by default": lambda: pk.ConditionalMean(solver="exact"),
        "localised, by default": lambda: pk.Localised(),
    }
    return {name: made[name]() for name in names}


class Errors:
    """Errors of weights on one trial's sample."""

    def __init__(self, trial: Trial, modes: bool = True) -> None:
        self.trial, self.modes = trial, modes
        y, variance = trial.y, np.ones(trial.y.shape[1])
        self.own = gaussian_mean(
            np.zeros((1, len(variance))), np.zeros_like(variance), 2 * trial.covariance, variance
        )[0]
        self.cross = np.array([gaussian_mean(y, mean, trial.covariance, variance) for mean in trial.means])
        rank = min(len(y), 800)
        self.factor = pivoted_cholesky(OUTPUT_KERNEL, y, rank, 1e-10)[0] if len(y) > FACTOR_ABOVE else None
        self.gram = OUTPUT_KERNEL(y) if self.factor is None else None

    def of(self, weights: np.ndarray) -> dict[str, float]:
        """Mean RKHS error, and root mean squared errors of mean and mode, of weights (k, n)."""
        if self.factor is not None:
            squares = np.sum((weights @ self.factor) ** 2, axis=1)
        else:
            squares = np.sum((weights @ self.gram) * weights, axis=1)
        squared = self.own - 2 * np.sum(weights * self.cross, axis=1) + squares
        found = {
            "rkhs_error": float(np.mean(np.sqrt(np.maximum(squared, 0)))),
            "squared_error_of_mean": float(
                np.mean(np.sum((weights @ self.trial.y - self.trial.drawn) ** 2, axis=1))
            ),
        }
        if self.modes:
            gaps = [self._mode(w) - drawn for w, drawn in zip(weights, self.trial.drawn, strict=True)]
            found["squared_error_of_mode"] = float(np.mean(np.sum(np.square(gaps), axis=1)))
        return found

    def _mode(self, weights: np.ndarray) -> np.ndarray:
        carried = weights != 0
        return Embedding(Atoms(self.trial.y[carried], OUTPUT_KERNEL), weights[carried]).mode(
            starts=2, iterations=60
        )


def score(trial: Trial, made: dict[str, pk.Estimator], modes: bool = True) -> list[dict[str, float | str]]:
    """A line for each method: errors and seconds, or why it was refused."""
    errors = Errors(trial, modes)
    lines: list[dict[str, float | str]] = []
    for name, estimator in made.items():
        started = time.perf_counter()
        try:
            weights = estimator.fit(trial.y, trial.x, random_seed=0).weights(trial.at)
        except MemoryError as error:
            lines.append({"method": name, "refused": str(error)})
            continue
        seconds = time.perf_counter() - started
        lines.append({"method": name, **errors.of(weights), "seconds": seconds})
    return lines


def averaged(lines: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Means over trials: the RKHS error with its standard error, root mean squared errors, seconds."""
    grouped = lines.groupby(by, sort=False)
    result = grouped[["rkhs_error"]].mean()
    result["standard_error"] = grouped["rkhs_error"].sem()
    for what in ("mean", "mode"):
        if f"squared_error_of_{what}" in lines:
            result[f"rmse_of_{what}"] = np.sqrt(grouped[f"squared_error_of_{what}"].mean())
    if "seconds" in lines:
        result["seconds"] = grouped["seconds"].mean()
    result["trials"] = grouped["rkhs_error"].count()
    if "refused" in lines:
        result["refused"] = grouped["refused"].first()
    return result.reset_index()


def surface(
    draw: Draw, trials: int, n: int, bandwidths: np.ndarray, regularisations: np.ndarray
) -> pd.DataFrame:
    """Errors as functions of bandwidth and ridge; the ridge of m rows is the same lambda times m."""
    names = ("exact", "localised", "Nadaraya-Watson", "random subsample")
    lines = []
    for number in range(trials):
        trial = draw(2, n, np.random.default_rng([number, n]))
        errors = Errors(trial, modes=False)
        for bandwidth in bandwidths:
            smoothed: dict[str, float] | None = None
            for regularisation in regularisations:
                ridge = functools.partial(_same, float(regularisation))
                for name, estimator in methods(n, bandwidth, ridge, names).items():
                    if name == "Nadaraya-Watson" and smoothed is not None:
                        found = smoothed  # it has no ridge
                    else:
                        weights = estimator.fit(trial.y, trial.x, random_seed=0).weights(trial.at)
                        found = errors.of(weights)
                    if name == "Nadaraya-Watson":
                        smoothed = found
                    lines.append(
                        {
                            "method": name,
                            "bandwidth": bandwidth,
                            "regularisation": regularisation,
                            **found,
                        }
                    )
    return averaged(pd.DataFrame(lines), ["method", "bandwidth", "regularisation"])


def over_dimensions(draw: Draw, trials: int, n: int, dimensions: Sequence[int]) -> pd.DataFrame:
    """Errors as a function of the dimension of X, at bandwidth sqrt(d) and lambda = 0.001 / sqrt(n)."""
    lines = []
    for d in dimensions:
        for number in range(trials):
            trial = draw(d, n, np.random.default_rng([number, n, d]))
            made = methods(n, np.sqrt(d), draft_ridge, STYLES)
            lines += [{"d": d, **line} for line in score(trial, made)]
    return averaged(pd.DataFrame(lines), ["d", "method"])


def over_sizes(draw: Draw, trials: dict[int, int], exact_up_to: int, chosen_up_to: int) -> pd.DataFrame:
    """Errors and seconds as functions of n, at the draft's bandwidth 1 and lambda = 0.001 / sqrt(n).

    The exact estimator is left out above the first number, with settings of its own above the second one.
    """
    most = {"exact": exact_up_to, "exact, by default": chosen_up_to}
    lines = []
    for n, repeats in trials.items():
        names = [name for name in STYLES if n <= most.get(name, n)]
        for number in range(repeats):
            trial = draw(2, n, np.random.default_rng([number, n]))
            lines += [{"n": n, **line} for line in score(trial, methods(n, 1.0, draft_ridge, names))]
            print(pd.DataFrame(lines[-len(names) :]).to_string(index=False), flush=True)
    return averaged(pd.DataFrame(lines), ["n", "method"])


def _same(regularisation: float, n: int) -> float:
    """The same lambda for any number of rows."""
    return regularisation


def draft_ridge(n: int) -> float:
    """Lambda of the draft's notes: 0.001 / sqrt(n)."""
    return 0.001 / np.sqrt(n)


def squared_distance(
    estimator: pk.Estimator, x: np.ndarray, y: np.ndarray, kernel: Gaussian, folds: int
) -> float:
    """Cross-validated |k(., y_i) - m(x_i)|^2 in the space of the kernel on Y, averaged over i."""
    total = 0.0
    for rest, out in KFold(folds, shuffle=True, random_state=0).split(x):
        weights = estimator.fit(y[rest], x[rest], random_seed=0).weights(x[out])
        cross = np.sum(weights * kernel(y[out], y[rest]), axis=1)
        own = np.sum(weights @ kernel(y[rest]) * weights, axis=1)
        total += float(np.sum(kernel.diag(y[out]) - 2 * cross + own))
    return total / len(x)


def chosen_settings(
    draw: Draw, trials: int, n: int, bandwidths: np.ndarray, regularisations: np.ndarray
) -> pd.DataFrame:
    """Bandwidth and ridge with the smallest 5-fold distance, as logarithms less those of the exact one."""
    names = ("exact", "localised", "Nadaraya-Watson", "random subsample")
    lines = []
    for number in range(trials):
        trial = draw(2, n, np.random.default_rng([number, n, 7]))
        chosen: dict[str, tuple[float, float, float]] = {}
        for bandwidth in bandwidths:
            for place, regularisation in enumerate(regularisations):
                ridge = functools.partial(_same, float(regularisation))
                for name, estimator in methods(n * 4 // 5, bandwidth, ridge, names).items():
                    if name == "Nadaraya-Watson" and place:
                        continue  # it has no ridge
                    distance = squared_distance(estimator, trial.x, trial.y, OUTPUT_KERNEL, 5)
                    if name not in chosen or distance < chosen[name][0]:
                        chosen[name] = distance, float(bandwidth), float(regularisation)
        for name, (distance, bandwidth, regularisation) in chosen.items():
            lines.append(
                {
                    "trial": number,
                    "method": name,
                    "distance": distance,
                    "bandwidth": bandwidth,
                    "regularisation": np.nan if name == "Nadaraya-Watson" else regularisation,
                    "log10_bandwidth_less_exact": np.log10(bandwidth / chosen["exact"][1]),
                    "log10_regularisation_less_exact": np.nan
                    if name == "Nadaraya-Watson"
                    else np.log10(regularisation / chosen["exact"][2]),
                }
            )
    return pd.DataFrame(lines)


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
    axes[0, 2].legend(frameon=False, fontsize=7)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def plot_curves(
    table: pd.DataFrame, along: str, label: str, path: Path, columns: dict[str, str], log: bool = True
) -> None:
    """A panel a column of the table, a line a method; "against seconds" draws the first against these."""
    figure, axes = plt.subplots(
        1, len(columns), figsize=(3.4 * len(columns), 4.1), constrained_layout=True, squeeze=False
    )
    for axis, (column, text) in zip(axes[0], columns.items(), strict=True):
        for name, part in table.dropna(subset=["rkhs_error"]).groupby("method", sort=False):
            colour, line, marker = STYLES[str(name)]
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


def write(table: pd.DataFrame, path: Path) -> None:
    """A CSV file with five significant digits."""
    table.to_csv(path, index=False, float_format="%.5g")
