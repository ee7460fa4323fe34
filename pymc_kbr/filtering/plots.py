"""Bands of filtered states against time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_kbr.arrays.pictures.axes import drawn_on, once_axes
from pymc_kbr.arrays.pictures.palette import BAND, OBSERVED, POSTERIOR, TRUTH

if TYPE_CHECKING:
    from pymc_kbr.filtering.filtered_states import FilteredStates


@once_axes
def plot_states(
    states: FilteredStates,
    truth: np.ndarray | None = None,
    *,
    observations: np.ndarray | None = None,
    probability: float = 0.9,
    ax: Any = None,
) -> np.ndarray:
    """Means and bands of each column of the state over time, with the truth where it is known.

    Parameters
    ----------
    states : FilteredStates
    truth : ndarray of shape (T, p), optional
    observations : ndarray of shape (T, p), optional
        Drawn as dots, where they are in the state's own units.
    probability : float
        Of the bands.
    ax : sequence of matplotlib Axes, optional
        One a column of the state.

    Returns
    -------
    ndarray of matplotlib Axes, shape (p,)

    Raises
    ------
    ValueError
        If truth or observations have another shape, or there are other axes than columns.
    """
    means, bands = states.mean(), states.interval(probability)
    p = means.shape[1]
    for name, given in (("truth", truth), ("observations", observations)):
        if given is not None and np.shape(given) != means.shape:
            raise ValueError(f"{name} has shape {np.shape(given)}; the states have {means.shape}")
    axes = drawn_on(ax, p, (8, 2 * p), below=True)
    for i, axis in enumerate(axes):
        label = f"{probability:.0%} band, {states.kind}"
        axis.fill_between(states.times, bands[:, 0, i], bands[:, 1, i], color=BAND, label=label)
        axis.plot(states.times, means[:, i], color=POSTERIOR, label="mean")
        if observations is not None:
            axis.plot(states.times, observations[:, i], ".", color=OBSERVED, markersize=3, label="observed")
        if truth is not None:
            axis.plot(states.times, truth[:, i], color=TRUTH, linewidth=0.8, label="truth")
        axis.set(ylabel=states.names[i])
    axes[-1].set(xlabel="time")
    axes[0].legend(frameon=False, fontsize=8, ncols=4, loc="lower left", bbox_to_anchor=(0, 1))
    return axes
