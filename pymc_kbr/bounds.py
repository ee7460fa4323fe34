"""Bounds on parameters that close in on those which are likely."""

from __future__ import annotations

import numpy as np

from pymc_kbr.bijections import Interval
from pymc_kbr.emulator import Emulator
from pymc_kbr.reference_table import ReferenceTable
from pymc_kbr.simulation import Forward, Within
from pymc_kbr.support import Support

PILOT = 4_000
"""Rows drawn for that each time."""

DEVIATIONS = 4.5
"""Of the noise, by which a row may be less likely than the likeliest one and is kept."""

ENOUGH = 0.8
"""Share of its range to which a parameter must shrink to have been narrowed."""

MARGIN, FEW_MARGIN, FEW = 0.05, 0.5, 100
"""What is added to the range of likely rows on each side, as a share of it; of fewer than so many rows."""


def likely_bounds(
    emulator: Emulator,
    table: ReferenceTable,
    forward: Forward,
    seed: int,
    within: Within | None,
    noise: np.ndarray,
) -> tuple[bool, Within]:
    """Bounds around the parameters that are likely, and whether they are much narrower than those so far.

    Parameters
    ----------
    emulator : Emulator
        Fitted to `table`, its error in units of `noise`.
    table : ReferenceTable
        With an observation.
    forward : Forward
        Of its model.
    seed : int
    within : dict of str to pair of ndarray, optional
        The bounds so far.
    noise : ndarray of shape (d,)
        Standard deviations of the normal noise on the observation.
    """
    parameters, _ = forward.draw(PILOT, seed, within, even=True)
    away = np.linalg.norm((emulator(parameters) - table.observed) / noise, axis=1)
    # An error of the emulator moves the likelihood by as many deviations as it is long, at most.
    reach = DEVIATIONS + emulator.error * np.sqrt(len(noise))
    kept = 10 + 2 * parameters.shape[1]
    most_away = max(np.hypot(away.min(), reach), np.partition(away, kept)[kept])
    likely = parameters[away <= most_away]
    added = (MARGIN if len(likely) >= FEW else FEW_MARGIN) * np.ptp(likely, axis=0)
    return closed_in(likely.min(axis=0) - added, likely.max(axis=0) + added, parameters, within, table)


def closed_in(
    lower: np.ndarray, upper: np.ndarray, parameters: np.ndarray, within: Within | None, table: ReferenceTable
) -> tuple[bool, Within]:
    """New bounds inside the old ones, and whether some are much narrower.

    Parameters
    ----------
    lower, upper : ndarray of shape (p,)
        The new bounds, which may lie outside the old ones.
    parameters : ndarray of shape (n, p)
        Draws between the old bounds, whose range is taken for these where there are none.
    within : dict of str to pair of ndarray, optional
        The old bounds.
    table : ReferenceTable
        Whose parameters they are.
    """
    least, most = parameters.min(axis=0), parameters.max(axis=0)
    if within is not None:
        least, most = (np.concatenate([np.ravel(pair[i]) for pair in within.values()]) for i in (0, 1))
    lower, upper = np.maximum(lower, least), np.minimum(upper, most)
    # Where a parameter is not much narrower its bounds stay: chance alone would move them inwards.
    narrowed = upper - lower < ENOUGH * (most - least)
    lower, upper = np.where(narrowed, lower, least), np.where(narrowed, upper, most)
    return bool(narrowed.any()), by_name(lower, upper, table)


def bounds_of(support: Support, table: ReferenceTable) -> Within:
    """The bounds of a table that was simulated between bounds."""
    steps = support.blocks[0].steps
    if len(support.blocks) > 1 or len(steps) != 1 or not isinstance(steps[0], Interval):
        raise ValueError(
            "the table's support is neither that of the model's prior nor bounds on each parameter; give the "
            "model that the table was simulated from"
        )
    interval = steps[0]
    return by_name(np.array(interval.lower), np.array(interval.upper), table)


def by_name(lower: np.ndarray, upper: np.ndarray, table: ReferenceTable) -> Within:
    """Bounds of a table's parameter columns, each (p,), by the names of its variables."""
    sides = [table.parameter_columns.split(side[None]) for side in (lower, upper)]
    return {name: (sides[0][name][0], sides[1][name][0]) for name in sides[0]}
