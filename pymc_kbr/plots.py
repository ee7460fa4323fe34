"""Pictures of weights, calibration and the observation's place among the simulations."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from pymc_kbr.calibration import Calibration
from pymc_kbr.diagnostics import FAR, observation_support
from pymc_kbr.posterior import Posterior
from pymc_kbr.reference_table import ReferenceTable

COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2, 2, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "h")
"""Of estimators, in their order: told apart by shape alone, and by colour-blind eyes."""

LEVELS = np.linspace(0.02, 0.98, 49)
"""Probabilities of the central intervals whose coverage is drawn."""


def plot_posterior_weights(
    posterior: Posterior, *, names: list[str] | None = None, axes: Any = None
) -> np.ndarray:
    """Each atom's weight against its parameters: positive weights filled, negative ones hollow.

    Parameters
    ----------
    posterior : Posterior
    names : list of str, optional
        Of the parameters.
    axes : sequence of matplotlib Axes, optional
        One a parameter.

    Returns
    -------
    ndarray of matplotlib Axes, shape (p,)
    """
    p = posterior.atoms.shape[1]
    axes = _axes(axes, p, (3.2 * p, 2.8))
    negative = posterior.weights < 0
    for i, axis in enumerate(axes):
        atoms = posterior.atoms[:, i]
        axis.scatter(atoms[~negative], posterior.weights[~negative], s=8, color="black", label="positive")
        if np.any(negative):
            axis.scatter(
                atoms[negative],
                posterior.weights[negative],
                s=10,
                facecolors="none",
                edgecolors="tab:orange",
                linewidths=0.8,
                label=f"negative ({posterior.negative_share:.0%})",
            )
        axis.axhline(0, color="0.7", linewidth=0.8, zorder=0)
        axis.set(xlabel=names[i] if names else f"parameter {i}", ylabel="weight" if i == 0 else "")
    axes[0].legend(frameon=False, fontsize=8)
    return axes


def plot_calibration(calibration: Calibration, *, probability: float = 0.95, axes: Any = None) -> np.ndarray:
    """Coverage of central intervals less their probability, and the transforms' distribution.

    Parameters
    ----------
    calibration : Calibration
    probability : float
        Of the bands in which a calibrated estimator's coverage lies, at each level by itself.
    axes : pair of matplotlib Axes, optional

    Returns
    -------
    ndarray of matplotlib Axes, shape (2,)
    """
    axes = _axes(axes, 2, (7.2, 3.0))
    styles = ["-", "--", "-.", ":"]
    band = calibration.band(LEVELS, probability)
    axes[0].fill_between(LEVELS, band[:, 0] - LEVELS, band[:, 1] - LEVELS, color="0.88", label="calibrated")
    covered = calibration.coverage(LEVELS)
    for i, name in enumerate(calibration.names):
        style = styles[i % len(styles)]
        axes[0].plot(LEVELS, covered[:, i] - LEVELS, linestyle=style, label=name)
        ordered = np.sort(calibration.pit[:, i])
        empirical = (np.arange(len(ordered)) + 0.5) / len(ordered)
        axes[1].plot(ordered, empirical - ordered, linestyle=style, label=name)
    half = band[:, 1] - LEVELS, band[:, 0] - LEVELS
    axes[1].fill_between(LEVELS, half[1], half[0], color="0.88")
    for axis in axes:
        axis.axhline(0, color="0.5", linewidth=0.8)
    axes[0].set(xlabel="probability of the central interval", ylabel="coverage less probability")
    axes[1].set(xlabel="probability integral transform", ylabel="share below less transform")
    extent = max(np.abs(band - LEVELS[:, None]).max(), np.abs(covered - LEVELS[:, None]).max())
    axes[0].set_ylim(-2.0 * extent, 1.2 * extent)  # room for the legend below the curves
    axes[0].legend(frameon=False, fontsize=8, loc="lower center", ncols=min(4, 1 + len(calibration.names)))
    return axes


def plot_observation_support(table: ReferenceTable, *, axes: Any = None) -> np.ndarray:
    """How far the observation is from its nearest simulations, and on which statistics.

    Parameters
    ----------
    table : ReferenceTable
        With an observation.
    axes : pair of matplotlib Axes, optional

    Returns
    -------
    ndarray of matplotlib Axes, shape (2,)

    Raises
    ------
    ValueError
        If the table has no observation.
    """
    support = observation_support(table)
    axes = _axes(axes, 2, (8.0, 0.6 + max(2.4, 0.28 * min(len(support.names), 15))))
    axes[0].hist(support.references, bins=40, color="0.75", label="simulations")
    axes[0].axvline(
        np.quantile(support.references, FAR), color="0.4", linestyle=":", label=f"{FAR:.1%} of them"
    )
    axes[0].axvline(support.distance, color="tab:red", label="observation")
    axes[0].set(xlabel="mean distance to the 10 nearest simulations", ylabel="simulations")
    axes[0].legend(frameon=False, fontsize=8)
    shown = np.argsort(support.contributions)[::-1][:15][::-1]
    axes[1].barh(range(len(shown)), support.contributions[shown], color="0.75")
    for place, i in enumerate(shown):
        axes[1].text(
            support.contributions[shown].max() * 0.02,
            place,
            f"{support.position[i]:.1%} of the simulations are smaller",
            va="center",
            fontsize=7,
        )
    axes[1].set(
        yticks=range(len(shown)),
        yticklabels=[support.names[i] for i in shown],
        xlabel="share of the squared distance",
    )
    return axes


def _axes(axes: Any, count: int, size: tuple[float, float]) -> np.ndarray:
    if axes is None:
        _, axes = plt.subplots(1, count, figsize=size, constrained_layout=True, squeeze=False)
    axes = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
    if len(axes) != count:
        raise ValueError(f"{len(axes)} axes were given; {count} are needed")
    return axes


def plot_accuracy_runtime(
    comparison: pd.DataFrame,
    *,
    score: str = "energy_score",
    cost_per_simulation: float | None = None,
    observations: int = 1,
    axes: Any = None,
) -> Any:
    """A score against seconds, a line for each estimator, and the front that nothing is below and left of.

    Parameters
    ----------
    comparison : pandas.DataFrame
        What `compare` returned.
    score : str
        A column that is better where it is smaller.
    cost_per_simulation : float, optional
        Seconds that a simulation takes instead of those measured: what the picture would be with a costlier
        simulator. All measured seconds of an estimator that is not amortised are then left out, since its
        simulations cannot be told from the rest.
    observations : int
        Observations to be conditioned on: estimators that are amortised simulate and fit once for all of
        them.
    axes : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If the comparison lacks the score, or has no line with it.
    """
    totals = accuracy_runtime(comparison, score, cost_per_simulation, observations)
    if axes is None:
        _, axes = plt.subplots(figsize=(5.6, 4.2), constrained_layout=True)
    for i, (name, line) in enumerate(totals.groupby("estimator", sort=False)):
        axes.errorbar(
            line["seconds"],
            line["score"],
            xerr=line["seconds_error"],
            yerr=line["score_error"],
            label=str(name).replace("_", " "),
            color=COLOURS[i % len(COLOURS)],
            linestyle=LINES[i % len(LINES)],
            marker=MARKERS[i % len(MARKERS)],
            markersize=5,
            markerfacecolor="white" if i >= len(COLOURS) else None,  # colours come round again
            linewidth=1.2,
            capsize=2,
        )
    front = pareto_front(totals["seconds"].to_numpy(), totals["score"].to_numpy())
    axes.step(
        totals["seconds"].iloc[front],
        totals["score"].iloc[front],
        where="post",
        color="0.8",
        linewidth=5,
        zorder=0,
        label="Pareto front",
    )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel=f"seconds for {observations:,} observation{'s' if observations > 1 else ''}",
        ylabel=score.replace("_", " "),
    )
    axes.yaxis.set_minor_formatter("{x:.3g}")
    axes.tick_params(axis="y", which="minor", labelsize=7)
    axes.legend(frameon=False, fontsize=8)
    return axes


def accuracy_runtime(
    comparison: pd.DataFrame,
    score: str = "energy_score",
    cost_per_simulation: float | None = None,
    observations: int = 1,
) -> pd.DataFrame:
    """Mean seconds and score of each estimator and budget, with standard errors: what is drawn.

    See `plot_accuracy_runtime`. Lines whose estimator failed are left out and named in
    ``attrs["failed"]`` of the result.
    """
    if score not in comparison:
        raise ValueError(f"the comparison has no column {score!r}; it has {list(comparison.columns)}")
    usable = comparison[comparison[score].notna()]
    if usable.empty:
        raise ValueError(f"no line of the comparison has a value of {score!r}")
    simulating = usable["seconds_simulate"]
    conditioning = usable["seconds_condition"] * observations
    if cost_per_simulation is not None:
        times = np.where(usable["amortised"], 1, observations)
        simulating = usable["simulations"] * cost_per_simulation * times
        conditioning = conditioning.where(usable["amortised"], 0.0)
    lines = pd.DataFrame(
        {
            "estimator": usable["estimator"],
            "budget": usable["budget"],
            "seconds": simulating + usable["seconds_fit"] + conditioning,
            "score": usable[score],
        }
    )
    grouped = lines.groupby(["estimator", "budget"], sort=False)
    errors = grouped.sem().fillna(0.0).add_suffix("_error")
    totals = pd.concat([grouped.mean(), errors], axis=1).reset_index()
    failed = comparison[comparison[score].isna()]
    totals.attrs["failed"] = failed[["estimator", "budget", "repetition"]].to_dict("records")
    return totals


def pareto_front(cost: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Places of the points than which none is both cheaper and better, the cheapest first."""
    order = np.lexsort((score, cost))
    best = np.minimum.accumulate(np.concatenate([[np.inf], score[order][:-1]]))
    return order[score[order] < best]
