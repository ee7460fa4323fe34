"""Summaries of weighted values."""

from __future__ import annotations

import numpy as np

from pymc_kbr.arrays.scaling import units_of


def effective_sample_size(weights: np.ndarray) -> float:
    """(sum w)^2 / sum w^2 (Kish 1965)."""
    return float(weights.sum() ** 2 / np.sum(weights**2))


def weighted_quantile(values: np.ndarray, weights: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Quantiles of values (m,) with non-negative weights (m,) at levels (k,), by linear interpolation."""
    order = np.argsort(values)
    ordered = weights[order]
    # A row without weight would still be one of the points that are interpolated between.
    carried = ordered > 0
    # Each value is in the middle of its weight: quantiles are the same counted from either end.
    middle = (np.cumsum(ordered) - 0.5 * ordered)[carried] / ordered.sum()
    unit = units_of(values[:, None])[0]  # differences of values of 1e308 are beyond the largest number
    return np.interp(levels, middle, values[order][carried] / unit) * unit


def column_quantiles(rows: np.ndarray, levels: list[float], weights: np.ndarray | None = None) -> np.ndarray:
    """Quantiles (l, p) of each column of rows (n, p), with weights (n,), up to a constant, where given."""
    if weights is None:
        return np.quantile(rows, levels, axis=0)
    share, at = weights / weights.sum(), np.array(levels)
    return np.stack([weighted_quantile(column, share, at) for column in rows.T], axis=1)


def weighted_covariance(points: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Covariance (p, p) of points (m, p) under weights (m,) of sum one."""
    centred = points - weights @ points
    return (weights[:, None] * centred).T @ centred


def covariance(points: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Covariance (p, p) of points (m, p), in any units, under weights (m,) of sum one."""
    units = units_of(points)
    with np.errstate(over="ignore"):
        found = weighted_covariance(points / units, weights) * units[:, None] * units
    large = np.flatnonzero(np.isinf(found).any(axis=0))
    if len(large):
        raise ValueError(
            f"parameters in columns {large.tolist()} go up to {np.abs(points[:, large]).max():.2g}, and no "
            "float holds the squares of their deviations; give them in larger units, or ask for quantiles"
        )
    return found


# --- subsamples of rows ---


def spread_out(n: int, most: int) -> np.ndarray:
    """At most `most` row numbers, evenly spread over n rows: a subsample without randomness."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(int))


def spread_out_varied(points: np.ndarray, most: int) -> np.ndarray:
    """The same of points (n, d), with rows among them that differ, where any do."""
    rows = spread_out(len(points), most)
    if np.any(np.ptp(points[rows], axis=0) > 0):
        return rows
    _, first = np.unique(points, axis=0, return_index=True)
    if len(first) == 1 or most < 2:
        return rows
    few = np.sort(first)[spread_out(len(first), max(2, most // 2))]
    return np.unique(np.concatenate([few, spread_out(len(points), max(0, most - len(few)))]))


def spread_out_by_weight(weights: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """At most `most` row numbers, and weights of these: those of the rows, or how often each was taken."""
    if len(weights) <= most:
        return np.arange(len(weights)), weights
    # The rows of a table without weights, so that a ratio of one changes nothing.
    if np.ptp(weights) == 0:
        rows = spread_out(len(weights), most)
        return rows, np.ones(len(rows))
    # Even steps, not random ones: the same table gives the same choice of bandwidth.
    steps = (np.arange(most) + 0.5) / most
    rows, counts = np.unique(np.searchsorted(np.cumsum(weights) / weights.sum(), steps), return_counts=True)
    return rows, counts.astype(float)
