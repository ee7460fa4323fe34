"""Accuracy against seconds as a picture."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.pictures.axes import drawn_on, once_axes
from pymc_kbr.arrays.pictures.palette import BARS, COLOURS, DASHES, MARKERS, PAPER
from pymc_kbr.arrays.refusals import shown


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
    """Mean seconds and score of each estimator and budget, with standard errors: what is drawn.

    See `plot_accuracy_runtime`. Lines whose estimator failed are left out and named in
    ``attrs["failed"]`` of the result.
    """
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
