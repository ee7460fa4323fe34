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
    # Each value stands in the middle of its weight: quantiles are the same counted from either end.
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
    """Covariance (p, p) of points (m, p) under weights (m,) of sum one.

    Points are given over powers of two, `units_of` them: their squares are then in range.
    """
    centred = points - weights @ points
    return (weights[:, None] * centred).T @ centred


def covariance(points: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Covariance (p, p) of points (m, p), in any units, under weights (m,) of sum one.

    Raises
    ------
    ValueError
        If no float holds it.
    """
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
