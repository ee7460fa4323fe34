"""Filtered states with labels: xarray, and ArviZ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pymc_kbr.arrays.refusals import whole

if TYPE_CHECKING:
    from pymc_kbr.filtering.filtered_states import FilteredStates


def to_xarray(states: FilteredStates, probability: float = 0.9) -> xr.Dataset:
    """Summaries of filtered states.

    Parameters
    ----------
    states : FilteredStates
    probability : float
        Of the intervals.

    Returns
    -------
    xarray.Dataset
        ``mean``, ``sd``, ``lower`` and ``upper`` of dimensions (time, state), ``effective_sample_size`` and
        ``total_weight`` of (time), ``weight`` of (time, atom), ``atoms`` of (atom, state).
    """
    interval = states.interval(probability)
    variances = np.diagonal(states.cov(), axis1=1, axis2=2)
    side = ("time", "state")
    return xr.Dataset(
        {
            "mean": (side, states.mean()),
            "sd": (side, np.sqrt(variances)),
            "lower": (side, interval[:, 0]),
            "upper": (side, interval[:, 1]),
            "effective_sample_size": ("time", states.effective_sample_size),
            "total_weight": ("time", states.total_weight),
            "weight": (("time", "atom"), states.weights),
            "atoms": (("atom", "state"), states.atoms.points),
        },
        coords={"time": states.times, "state": list(states.names)},
        attrs={"kind": states.kind, "probability": probability},
    )


def to_arviz(
    states: FilteredStates, draws: int, chains: int, random_seed: int | np.random.Generator | None
) -> Any:
    """Filtered states for ArviZ.

    Returns
    -------
    arviz.InferenceData (ArviZ 0.x) or xarray.DataTree (ArviZ 1.x)
        Group ``posterior`` with ``state`` of dimensions (chain, draw, time, state), drawn at each time by
        itself; group ``weighted_atoms_data`` with the training states and their signed weights.
    """
    from pymc_kbr.posterior.arviz import WEIGHTED_ATOMS, pack

    whole("draws", draws)
    whole("chains", chains)
    # Draws first, which are then cut into chains.
    drawn = states.draw(draws * chains, random_seed).transpose(1, 0, 2)
    shape = (chains, draws, *drawn.shape[1:])
    dims = ("chain", "draw", "time", "state_dim")
    coords = {"time": states.times, "state_dim": list(states.names)}
    attrs = {
        "inference_library": "pymc_kbr",
        "kind": states.kind,
        "note": "draws are independent at each time: they are no paths",
    }
    posterior = xr.Dataset(
        {"state": (dims, drawn.reshape(shape))},
        coords={"chain": np.arange(chains), "draw": np.arange(draws), **coords},
        attrs=attrs,
    )
    weighted = xr.Dataset(
        {
            "state": (("atom", "state_dim"), states.atoms.points),
            "weight": (("time", "atom"), states.weights),
        },
        coords=coords,
        attrs=attrs,
    )
    return pack({"posterior": posterior, WEIGHTED_ATOMS: weighted})
