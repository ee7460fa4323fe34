"""A part of many rows: spread evenly, or by weight."""

from __future__ import annotations

import numpy as np

ROWS_FOR_CHOICES = 1000
"""Rows of a table, spread evenly over it, on which bandwidths and ridges are chosen."""


def spread_out(n: int, most: int) -> np.ndarray:
    """At most `most` row numbers, evenly spread over n rows: a subsample without randomness."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(int))


def spread_out_by_weight(weights: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """At most `most` row numbers, and weights of these: those of the rows, or how often each was taken.

    With many rows they are taken at even steps of the summed weights, as systematic resampling does,
    so that a table that is weighted for another prior is represented by rows of that prior.
    """
    if len(weights) <= most:
        return np.arange(len(weights)), weights
    if np.ptp(weights) == 0:
        rows = spread_out(len(weights), most)
        return rows, np.ones(len(rows))
    steps = (np.arange(most) + 0.5) / most
    rows, counts = np.unique(np.searchsorted(np.cumsum(weights) / weights.sum(), steps), return_counts=True)
    return rows, counts.astype(float)
