"""A part of many rows: spread evenly, or by weight, or at random by it."""

from __future__ import annotations

import numpy as np

ROWS_FOR_CHOICES = 1000
"""Rows of a table, spread evenly over it, on which bandwidths and ridges are chosen."""


def spread_out(n: int, most: int) -> np.ndarray:
    """At most `most` row numbers, evenly spread over n rows: a subsample without randomness."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(int))


def spread_out_varied(points: np.ndarray, most: int) -> np.ndarray:
    """The same of points (n, d), with rows among them that differ, where any do.

    Of points nearly all of which coincide, such as counts of what is rare, those that are spread out may be
    alike. Half of them then make room for the others, each of which is taken once.
    """
    rows = spread_out(len(points), most)
    if np.any(np.ptp(points[rows], axis=0) > 0):
        return rows
    _, first = np.unique(points, axis=0, return_index=True)
    if len(first) == 1 or most < 2:
        return rows
    few = np.sort(first)[spread_out(len(first), max(2, most // 2))]
    return np.unique(np.concatenate([few, spread_out(len(points), max(0, most - len(few)))]))


def spread_out_by_weight(weights: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """At most `most` row numbers, and weights of these: those of the rows, or how often each was taken.

    With many rows they are taken at even steps of the summed weights, as systematic resampling does,
    so that a table that is weighted for another prior is represented by rows of that prior.
    """
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


def weighted_order(ratio: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Row numbers as they are drawn one after the other, each with a probability in proportion to its ratio.

    Parameters
    ----------
    ratio : ndarray of shape (n,)
        Positive: the prior's density over that of which the rows were drawn.
    rng : numpy.random.Generator

    Notes
    -----
    Each row waits for an exponential time of rate `ratio`, and the shortest times come first [1]_. In the
    rows' own order the first twenty may have the weight of two or three, where most were simulated near an
    observation and the prior is wide.

    References
    ----------
    .. [1] P. S. Efraimidis, P. G. Spirakis, Weighted random sampling with a reservoir, Information Processing
       Letters 97 (2006), 181-185.
    """
    # In logarithms: over a ratio near zero, as far from known data, a time is beyond all floats.
    return np.argsort(np.log(rng.exponential(size=len(ratio))) - np.log(ratio))
