"""Where the prior of a table of rounds ends, and where its last bounds may cut a posterior off."""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_kbr.arrays.bijections import Interval
from pymc_kbr.arrays.support import Support
from pymc_kbr.arrays.weighted import column_quantiles
from pymc_kbr.rounds.proposing import ends_of_parts, reach_of
from pymc_kbr.simulation import Proposal
from pymc_kbr.tables.origin import EDGE_TAIL

DEVIATIONS_NEAR = 1.0
"""From the last bounds, within which draws are near them. Those of a normal posterior are four from its mean,
and a thousandth of it is so near; were a hundredth of it beyond bounds, near them would be eight of the rest.
"""


def edges_of(
    proposal: Proposal, parameters: np.ndarray, ratio: np.ndarray, region: Support, least: int
) -> dict[str, Any]:
    """What an `Origin` holds of these edges.

    Parameters
    ----------
    proposal : Proposal
        Of the last round.
    parameters : ndarray of shape (n, p)
        Of all rows, those that are left out among them.
    ratio : ndarray of shape (n,)
        The prior's density over theirs, without any likelihood.
    region : Support
        With the last bounds: see `region_of`.
    least : int
        See `region_of`.

    Returns
    -------
    dict
        `prior_edges` and `cut_edges`.
    """
    prior = column_quantiles(parameters, [EDGE_TAIL, 1 - EDGE_TAIL], ratio)
    reach = reach_of(proposal, parameters, least)
    bounds, near = (ends_of_parts(proposal, at) for at in (reach, reach - DEVIATIONS_NEAR))
    narrowed = _narrowed(region, proposal.support)
    # Beyond the prior's own edge there is little that could be cut off.
    cuts = narrowed & (bounds[0] > prior[0]), narrowed & (bounds[1] < prior[1])
    cut = tuple(
        tuple(float(end) if there else None for end, there in zip(ends, which, strict=True))
        for ends, which in zip(near, cuts, strict=True)
    )
    return {"prior_edges": tuple(map(tuple, prior.tolist())), "cut_edges": cut}


def _narrowed(region: Support, whole: Support) -> np.ndarray:
    """Which columns (p,) have other bounds than those of the prior."""
    found = np.zeros(whole.size, dtype=bool)
    for block, own in zip(region.blocks, whole.blocks, strict=True):
        if block != own:
            step, before = block.steps[0], own.steps[0] if own.steps else None
            assert isinstance(step, Interval)
            columns = list(block.columns)
            if before is None:
                found[columns] = np.isfinite(step.lower)
            else:
                assert isinstance(before, Interval)
                found[columns] = np.not_equal(step.lower, before.lower) | np.not_equal(
                    step.upper, before.upper
                )
    return found
