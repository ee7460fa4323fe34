"""Accuracy against seconds as a picture."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.plotting import (
    BARS,
    COLOURS,
    DASHES,
    MARKERS,
    PAPER,
    POSTERIOR,
    RULE,
    SEQUENTIAL,
    drawn_on,
    once_axes,
)
from pymc_kbr.arrays.refusals import instance, shown
from pymc_kbr.selection.model_choice.model_choice import ModelChoice


@default_arithmetic
@once_axes
def plot_accuracy_runtime(
    comparison: pd.DataFrame,
    *,
    score: str = "energy_score",
    cost_per_simulation: float | None = None,
    observations: int = 1,
    ax: Any = None,
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
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If the comparison lacks the score, or has no line with it.
    """
    totals = accuracy_runtime(comparison, score, cost_per_simulation, observations)
    (axes,) = drawn_on(ax, 1, (5.6, 4.2))
    for i, (name, line) in enumerate(totals.groupby("estimator", sort=False)):
        axes.errorbar(
            line["seconds"],
            line["score"],
            xerr=line["seconds_error"],
            yerr=line["score_error"],
            label=str(name).replace("_", " "),
            color=COLOURS[i % len(COLOURS)],
            linestyle=DASHES[i % len(DASHES)],
            marker=MARKERS[i % len(MARKERS)],
            markersize=5,
            markerfacecolor=PAPER if i >= len(COLOURS) else None,  # colours come round again
            linewidth=1.2,
            capsize=2,
        )
    front = pareto_front(totals["seconds"].to_numpy(), totals["score"].to_numpy())
    axes.step(
        totals["seconds"].iloc[front],
        totals["score"].iloc[front],
        where="post",
        color=BARS,
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
    """Mean seconds and score of each estimator and budget, with standard errors: what is drawn."""
    if not hasattr(comparison, "columns") or not hasattr(comparison, "notna"):
        raise TypeError(
            f"comparison is {shown(comparison)}; give the data frame that `pymc_kbr.compare` returns"
        )
    if score not in comparison:
        raise ValueError(f"the comparison has no column {score!r}; it has {list(comparison.columns)}")
    usable = comparison[comparison[score].notna()]
    if usable.empty:
        raise ValueError(f"no line of the comparison has a value of {score!r}")
    simulating = usable["seconds_simulate"]
    conditioning = usable["seconds_condition"] * observations
    if cost_per_simulation is not None:
        # What does not amortise simulates again for each observation.
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
    # A single repetition has no standard error.
    errors = grouped.sem().fillna(0.0).add_suffix("_error")
    totals = pd.concat([grouped.mean(), errors], axis=1).reset_index()
    failed = comparison[comparison[score].isna()]
    totals.attrs["failed"] = failed[["estimator", "budget", "repetition"]].to_dict("records")
    return totals


def pareto_front(cost: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Places of the points than which none is both cheaper and better, the cheapest first."""
    # Of equal costs the better score first, so that the worse ones are not below all before them.
    order = np.lexsort((score, cost))
    best = np.minimum.accumulate(np.concatenate([[np.inf], score[order][:-1]]))
    return order[score[order] < best]


# --- the plot of a choice between models ---


@default_arithmetic
@once_axes
def plot_model_choice(choice: ModelChoice, *, ax: Any = None) -> np.ndarray:
    """Posterior probabilities with errors, the confusion table, and shares against probabilities.

    Parameters
    ----------
    choice : ModelChoice
        Of several observations, bars are means over them.
    ax : three matplotlib Axes, optional

    Returns
    -------
    ndarray of matplotlib Axes, shape (3,)

    Raises
    ------
    ValueError
        If another number of axes is given.
    """
    instance("choice", choice, ModelChoice, "a ModelChoice, as `compare_models` makes one")
    axes = drawn_on(ax, 3, (9.6, 3.0))
    places, names = np.arange(len(choice.names)), list(choice.names)
    heights, errors = choice.at_observed.mean(axis=0), choice.errors_at_observed.mean(axis=0)
    axes[0].bar(places, heights, yerr=2 * errors, color=BARS, capsize=3)
    for place, share in zip(places, choice.prior, strict=True):
        axes[0].hlines(share, place - 0.4, place + 0.4, color=RULE, linestyle="--")
    axes[0].plot([], [], color=RULE, linestyle="--", label="prior")
    axes[0].set(xticks=places, xticklabels=names, ylim=(0, 1.05), ylabel="posterior probability")
    axes[0].legend(frameon=False, fontsize=8)
    shares = choice.held_out.confusion()
    axes[1].imshow(shares, cmap=SEQUENTIAL, vmin=0, vmax=1)
    for (row, column), share in np.ndenumerate(shares):
        colour = "black" if share > 0.6 else "white"
        axes[1].text(column, row, f"{share:.0%}", ha="center", va="center", color=colour, fontsize=8)
    axes[1].set(xticks=places, xticklabels=names, yticks=places, yticklabels=names)
    axes[1].set(xlabel="most probable", ylabel="simulated by")
    found = choice.held_out.reliability()
    axes[2].plot([0, 1], [0, 1], color=RULE, linewidth=0.8)
    axes[2].plot(found[:, 0], found[:, 1], color=POSTERIOR, linewidth=0.8)
    axes[2].scatter(found[:, 0], found[:, 1], s=10 + 200 * found[:, 2], color=POSTERIOR)
    axes[2].set(xlabel="probability", ylabel="share of held-out rows", xlim=(0, 1), ylim=(0, 1))
    return axes
