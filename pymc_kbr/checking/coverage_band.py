"""Between which shares the coverage of a calibrated estimator lies by chance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import binom

from pymc_kbr.arrays.refusals import shown

CURVES = 2000
"""Of uniform transforms, from which a band for whole curves is."""


def coverage_band(levels: np.ndarray, rows: int, probability: float, *, together: bool) -> np.ndarray:
    """Lowest and highest shares of so many rows, with this probability: see `Calibration.band`.

    Parameters
    ----------
    levels : ndarray of shape (l,)
    rows : int
    probability : float
    together : bool
        At all levels at once.

    Returns
    -------
    ndarray of shape (l, 2)
    """
    if not 0 < probability < 1:
        raise ValueError(f"probability is {shown(probability)}; it lies between 0 and 1, neither included")
    tail = _tail_of_each(levels, rows, 1 - probability) if together else (1 - probability) / 2
    return np.column_stack([binom.ppf(tail, rows, levels), binom.isf(tail, rows, levels)]) / rows


def _tail_of_each(levels: np.ndarray, rows: int, outside: float) -> float:
    """Tail probability at each level beyond which so large a share of calibrated curves goes somewhere."""
    edges = np.concatenate([[0.0], np.sort(levels), [1.0]])
    # A seed of its own: the band belongs to a number of rows, and no call moves it.
    counts = np.random.default_rng(0).multinomial(rows, np.diff(edges), CURVES)[:, :-1].cumsum(axis=1)
    tails = np.minimum(binom.cdf(counts, rows, edges[1:-1]), binom.sf(counts - 1, rows, edges[1:-1]))
    return float(np.quantile(tails.min(axis=1), outside))


def probabilities(levels: float | Sequence[float] | np.ndarray) -> np.ndarray:
    """Levels (l,), refused where one is no probability."""
    asked = np.atleast_1d(np.asarray(levels, dtype=float))
    if np.any(~((asked >= 0) & (asked <= 1))):
        raise ValueError(f"levels are {levels}; probabilities lie in [0, 1]")
    return asked
