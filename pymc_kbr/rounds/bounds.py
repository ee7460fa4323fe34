"""Bounds on parameters that close in: around the nearest rows, or around predicted likely ones."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from pymc_kbr.arrays.bijections import Interval
from pymc_kbr.arrays.neighbours import neighbours_of
from pymc_kbr.arrays.support import Support
from pymc_kbr.estimators import Rejection
from pymc_kbr.rounds.emulator import ROWS_FOR_SETTINGS_OF_A_ROUND, Emulator
from pymc_kbr.simulation import ForwardModel, Within
from pymc_kbr.tables.reference_table import ReferenceTable

ROWS_IN_BOUNDS = 10
"""Rows, and twice as many a parameter, whose range is kept."""


METRICS = (False, True, "linear_posterior_mean")
"""In which rows may be near: the statistics' own units, standard deviations, linear estimates."""


NARROWED_TO = 0.8
"""Share of its range to which a parameter must shrink to have been narrowed."""


def narrower(
    table: ReferenceTable,
    bounds: Within | None,
    scale: bool | str | None,
    *,
    # Share of the rows near the observation whose own parameters a metric must keep.
    sound_coverage: float = 0.95,
) -> tuple[bool, Within]:
    """Bounds around the rows nearest to the observation, and whether some are much narrower than before."""
    table, kept = table.without_missing(), ROWS_IN_BOUNDS + 2 * table.parameters.shape[1]
    if len(table) < 2 * kept:
        raise ValueError(
            f"a round has {len(table)} rows without failures, and {2 * kept} are needed to have near rows to "
            "go by; give more draws, or fewer rounds"
        )
    metrics = METRICS if scale is None else (scale,)
    ranges = [found for metric in metrics for found in _ranges(table, kept, metric)]
    # Rows can be moved out of the bounds that they lie in. Those of rows as they are never lie beyond.
    least, most = table.parameters.min(axis=0), table.parameters.max(axis=0)
    ranges = [r for r in ranges if np.all((r.lower < most) & (r.upper > least))]
    sound = [r for r in ranges if r.covered >= sound_coverage] or [max(ranges, key=lambda r: r.covered)]
    lower, upper = min(sound, key=lambda r: r.size)[:2]
    return closed_in(lower, upper, table.parameters, bounds, table)


def narrower_with_noise(
    table: ReferenceTable,
    bounds: Within | None,
    scale: bool | str | None,
    forward: ForwardModel,
    noise: np.ndarray,
    seed: int,
    *,
    # Errors of predicted statistics, in standard deviations of all noise together, below which bounds are
    # drawn by them where these narrow, and below which they are enough by themselves.
    usable_error: float = 20.0,
    sufficient_error: float = 1.0,
) -> tuple[bool, Within, bool]:
    """The same for a simulator without noise: by predicted statistics where they are good, or with noise."""
    # Shapes: noise (d,).
    rng = np.random.default_rng(seed)
    emulator = Emulator.fit(table, noise, rng, most=ROWS_FOR_SETTINGS_OF_A_ROUND)
    error = emulator.error * np.sqrt(len(noise))
    if error < usable_error:
        narrowed, closer = likely_bounds(emulator, table, forward, seed, bounds, noise)
        if narrowed or error < sufficient_error:
            return narrowed, closer, error < sufficient_error
    noisy = table.statistics + noise * rng.normal(size=table.statistics.shape)
    return *narrower(dataclasses.replace(table, statistics=noisy), bounds, scale), False


class _NearBounds(NamedTuple):
    """Bounds around the nearest rows; and how often, and how wide, those of simulated rows hold."""

    lower: np.ndarray
    upper: np.ndarray
    covered: float
    size: float


def _ranges(
    table: ReferenceTable,
    kept: int,
    metric: bool | str,
    *,
    # What is added on each side to the range of near rows, as a share of it: as they are, and moved.
    near_margin: float = 0.75,
    moved_margin: float = 0.4,
    # Of the rows that are kept, how many times as many are moved by a local regression on them.
    regression_factor: int = 5,
    # Rows near the observation at which a metric is tried.
    checked_rows: int = 100,
) -> list[_NearBounds]:
    """Bounds from the rows that are nearest in a metric, as they are and moved by a local regression."""
    fitted = Rejection(kept, scale=metric).fit(table.parameters, table.statistics)
    near = neighbours_of(fitted.table_.statistics)
    observed = fitted.table_.scaler.transform(table.observed[None])  # type: ignore[index]
    most = min(regression_factor * kept, len(table) - 1)
    rows = near.query(observed, min(max(checked_rows, most), len(table)))[1][0]
    checked = rows[:checked_rows]
    others = near.query(fitted.table_.statistics[checked], most + 1)[1][:, 1:]  # without the row itself
    groups = np.vstack([rows[:most][None], others])
    at = np.vstack([observed, fitted.table_.statistics[checked]])
    sides = [_wider(table.parameters[groups[:, :kept]], near_margin)]
    if fitted.table_.statistics.shape[1] < kept:
        moved = _moved(table.parameters[groups], fitted.table_.statistics[groups] - at[:, None])
        sides.append(_wider(moved, moved_margin))
    ranges = []
    for lower, upper in sides:
        truth = table.parameters[checked]
        inside = np.all((truth >= lower[1:]) & (truth <= upper[1:]), axis=1)
        # Volumes by their logarithms: a product of many small sides is no float.
        size = float(np.mean(np.sum(np.log(upper[1:] - lower[1:]), axis=1)))
        ranges.append(_NearBounds(lower[0], upper[0], float(inside.mean()), size))
    return ranges


def _moved(parameters: np.ndarray, away: np.ndarray) -> np.ndarray:
    """Parameters (g, k, p) of groups, each group moved by its regression on statistics (g, k, d)."""
    design = np.concatenate([np.ones((*away.shape[:2], 1)), away], axis=2)
    slopes = (np.linalg.pinv(design) @ parameters)[:, 1:]
    return parameters - away @ slopes


def _wider(parameters: np.ndarray, margin: float) -> tuple[np.ndarray, np.ndarray]:
    """The range of rows (..., k, p) with a margin on both sides."""
    lower, upper = parameters.min(axis=-2), parameters.max(axis=-2)
    added = margin * (upper - lower)
    return lower - added, upper + added


def likely_bounds(
    emulator: Emulator,
    table: ReferenceTable,
    forward: ForwardModel,
    seed: int,
    within: Within | None,
    noise: np.ndarray,
    *,
    # Rows drawn to find the likely ones.
    pilot_rows: int = 4_000,
    # Of the noise, by which a row may be less likely than the likeliest one and is kept.
    likely_deviations: float = 4.5,
    # What is added on each side to the range of likely rows, as a share of it, and where these are few.
    margin: float = 0.05,
    margin_of_few: float = 0.5,
    few_rows: int = 100,
) -> tuple[bool, Within]:
    """Bounds around the parameters that are likely, and whether they are much narrower than those so far."""
    # Shapes: noise (d,).
    parameters, _ = forward.draw(pilot_rows, seed, within, even=True)
    away = np.linalg.norm(np.nan_to_num((emulator(parameters) - table.observed) / noise), axis=1)
    # An error of the emulator moves the likelihood by as many deviations as it is long, at most.
    reach = likely_deviations + emulator.error * np.sqrt(len(noise))
    kept = 10 + 2 * parameters.shape[1]
    # Squared distances add up: at the hypotenuse a row is so many deviations less likely than the likeliest.
    most_away = max(np.hypot(away.min(), reach), np.partition(away, kept)[kept])
    likely = parameters[away <= most_away]
    added = (margin if len(likely) >= few_rows else margin_of_few) * np.ptp(likely, axis=0)
    return closed_in(likely.min(axis=0) - added, likely.max(axis=0) + added, parameters, within, table)


def closed_in(
    lower: np.ndarray, upper: np.ndarray, parameters: np.ndarray, within: Within | None, table: ReferenceTable
) -> tuple[bool, Within]:
    """New bounds inside the old ones, and whether some are much narrower."""
    # Shapes: lower, upper (p,); parameters (n, p).
    least, most = parameters.min(axis=0), parameters.max(axis=0)
    if within is not None:
        least, most = (np.concatenate([np.ravel(pair[i]) for pair in within.values()]) for i in (0, 1))
    lower, upper = np.maximum(lower, least), np.minimum(upper, most)
    # Where a parameter is not much narrower its bounds stay: chance alone would move them inwards.
    narrowed = upper - lower < NARROWED_TO * (most - least)
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
