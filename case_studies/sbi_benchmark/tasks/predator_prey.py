"""Log-populations of predators and prey, by Runge-Kutta of fixed step for many parameters at once.

With u = log x and v = log y the equations x' = a x - b x y, y' = -c y + d x y become

    u' = a - b exp(v),    v' = -c + d exp(u),

which stay accurate where a population nearly dies out. An epidemic is the special case a = 0, b = d.
"""

from __future__ import annotations

import numpy as np

BLOCK = 4096
"""Parameters taken at once, so that they stay in the processor's cache."""


def log_populations(
    rates: np.ndarray, start: tuple[float, float], interval: float, times: int, step: float
) -> np.ndarray:
    """Logarithms of both populations at 0, interval, ..., (times - 1) interval.

    Parameters
    ----------
    rates : ndarray of shape (n, 4)
        a, b, c and d for each solution.
    start : tuple of float
        Both populations at time zero.
    interval : float
        Between the times that are kept.
    times : int
        How many times are kept.
    step : float
        Longest step; the interval is divided evenly.

    Returns
    -------
    ndarray of shape (n, 2, times)
    """
    kept = np.empty((len(rates), 2, times))
    for first in range(0, len(rates), BLOCK):
        rows = slice(first, first + BLOCK)
        kept[rows] = _solve(rates[rows].T, start, interval, times, step)
    return kept


def _solve(
    rates: np.ndarray, start: tuple[float, float], interval: float, times: int, step: float
) -> np.ndarray:
    """Of one block; rates (4, n) to (n, 2, times)."""
    a, b, c, d = rates
    constant, factor = np.stack([a, -c]), np.stack([-b, d])
    steps = int(np.ceil(interval / step))
    h = interval / steps

    def slope(z: np.ndarray) -> np.ndarray:
        return constant + factor * np.exp(z[::-1])

    z = np.repeat(np.log(start)[:, None], rates.shape[1], axis=1)
    kept = np.empty((rates.shape[1], 2, times))
    kept[:, :, 0] = z.T
    for time in range(1, times):
        for _ in range(steps):
            first = slope(z)
            second = slope(z + 0.5 * h * first)
            third = slope(z + 0.5 * h * second)
            z = z + h / 6 * (first + 2 * (second + third) + slope(z + h * third))
        kept[:, :, time] = z.T
    return kept
