"""Draws at the edge of the prior, of bounds that it was drawn between, or of the rows that rounds kept."""

from __future__ import annotations

import numpy as np

from pymc_kbr.checking.signs import Signs

EDGE_SHARE, BOUNDED_SHARE = 0.1, 0.02
"""A posterior touches an edge when this share of draws lies beyond it; the latter where the prior was drawn
between bounds: beyond these there may be more of the posterior.
"""

CUT_SHARE = 0.05
"""Share of draws near bounds of rounds from which they may cut the posterior off: half a hundredth of a
normal posterior is then beyond them.
"""


def edge_messages(draws: np.ndarray, seen: Signs) -> list[str]:
    """What there is to say of edges.

    Parameters
    ----------
    draws : ndarray of shape (m, p)
    seen : Signs

    Returns
    -------
    list of str
    """
    touching = BOUNDED_SHARE if seen.between_bounds else EDGE_SHARE
    why = (
        "the bounds between which the prior was drawn may cut the posterior off; simulate between wider "
        "bounds, unless this is the prior's own edge"
        if seen.between_bounds
        else "the posterior touches the prior's edge, which decides where it ends; widen the prior if it is "
        "not meant to, and simulate again"
    )
    found = []
    for j, (name, drawn) in enumerate(zip(seen.parameter_names, draws.T, strict=True)):
        below, above = _shares_beyond(drawn, seen.cut[:, j])
        for side, share in (("lower", below), ("upper", above)):
            if share >= CUT_SHARE:
                found.append(
                    f"{share:.0%} of the draws of {name!r} lie near the {side} end of the rows that the last "
                    "round kept, and the posterior may be cut off there; simulate more, or in more rounds"
                )
        # A discrete parameter may have both quantiles at one value, and no edge to lie beyond.
        if not seen.edges[0, j] < seen.edges[1, j]:
            continue
        below, above = _shares_beyond(drawn, seen.edges[:, j])
        for side, share in (("lower", below), ("upper", above)):
            if share >= touching:
                where = f"{share:.0%} of the draws of {name!r} lie in the {side} {seen.tail:.0%} of the prior"
                found.append(f"{where}: {why}")
    return found


def _shares_beyond(drawn: np.ndarray, ends: np.ndarray) -> tuple[float, float]:
    """Of draws (m,), those below the first end and above the second."""
    return float(np.mean(drawn < ends[0])), float(np.mean(drawn > ends[1]))
