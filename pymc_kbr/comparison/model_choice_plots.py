"""A choice among models as a picture: probabilities, confusion and reliability."""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.pictures.axes import drawn_on, once_axes
from pymc_kbr.arrays.pictures.palette import BARS, POSTERIOR, RULE, SEQUENTIAL
from pymc_kbr.arrays.refusals import instance
from pymc_kbr.selection.model_choice.model_choice import ModelChoice


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
