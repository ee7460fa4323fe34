"""One conditional for all values of a stationary series, given those just before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_kbr.estimators.likelihood.conditional import Conditional, fit_conditional
from pymc_kbr.estimators.likelihood.evidence import Effort
from pymc_kbr.estimators.likelihood.product_kernel import Inputs
from pymc_kbr.estimators.likelihood.screening import screen

LONGEST_LAG = 12
MOST_LAGS = 8
POOLED_ROWS = 25_000
"""Of the pooled regression."""

PROLONGED = 3
"""By how many lags the longest one is exceeded in a trial."""

ROWS_FOR_LAGS = 6000
"""On which lags are screened."""

TRIAL_ROWS = 8000
"""Of one that is compared with single conditionals."""

EFFORT = Effort(400, 2500, 4000, 100, 50)
TRIAL_EFFORT = Effort(200)


@dataclass(frozen=True)
class Series:
    """The same conditional of x_j for all j from `start` on, given some lags and perhaps the time j.

    Attributes
    ----------
    conditional : Conditional
    lags : tuple of int
        Zero stands for the time j itself.
    start, size : int
        First value that it describes, and the number of all.
    centre, scale : ndarray of shape (l,)
    """

    conditional: Conditional
    lags: tuple[int, ...]
    start: int
    size: int
    centre: np.ndarray
    scale: np.ndarray

    def past(self, points: Any, xp: Any = np) -> Any:
        """Standardised inputs (k, r, size - start, l) of points (k, r, size)."""
        # Plus nothing times the values: the time in their shape, of NumPy and of PyTensor.
        times = np.arange(self.start, self.size, dtype=float)
        columns = [
            points[:, :, self.start - lag : self.size - lag]
            if lag
            else times + 0 * points[:, :, self.start :]
            for lag in self.lags
        ]
        return (xp.stack(columns, axis=-1) - self.centre) / self.scale

    def log_densities(self, theta: np.ndarray, points: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Log density of each of the values at some times, of points (k, size): shape (k, times)."""
        past = self.past(points[:, None])
        columns = [
            self.conditional.log_density(theta, points[:, None, j], past[:, :, j - self.start]) for j in times
        ]
        return np.hstack(columns)

    def log_density(self, theta: Any, points: Any, xp: Any = np, *, shared: bool = False) -> Any:
        """Sum of the log densities of the values from `start` on, (k, r)."""
        k, r, length, inputs = points.shape[0], points.shape[1], self.size - self.start, len(self.lags)
        past = self.past(points, xp).reshape((k, r * length, inputs))
        y = points[:, :, self.start :].reshape((k, r * length))
        each = self.conditional.log_density(theta, y, past, xp, shared=shared)
        return xp.sum(each.reshape((theta.shape[0], r, length)), axis=2)

    def extend(self, theta: np.ndarray, drawn: np.ndarray, rng: np.random.Generator) -> None:
        """Draw the values from `start` on into `drawn` (k, size), whose first ones are there."""
        for j in range(self.start, self.size):
            columns = [drawn[:, j - lag] if lag else np.full(len(drawn), float(j)) for lag in self.lags]
            past = (np.column_stack(columns) - self.centre) / self.scale
            drawn[:, j] = self.conditional.draw(theta, past, rng)

    def transforms(self, theta: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Conditional distribution functions (k, size - start) of points (k, size)."""
        past = self.past(points[:, None])[:, 0]
        columns = [
            self.conditional.distribution(theta, points[:, self.start + i], past[:, i])
            for i in range(self.size - self.start)
        ]
        return np.column_stack(columns)


def choose_lags(theta: np.ndarray, points: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Sets of lags that are worth a trial: those that a screening finds, and these filled up and prolonged.

    A memory that fades is longer than what is seen of it in one value at a time.
    """
    n, size = points.shape
    longest = min(LONGEST_LAG, size // 2)
    row, time = (cells[:ROWS_FOR_LAGS] for cells in _pairs(n, longest, size, rng))
    lags = np.arange(longest + 1)
    found = screen(theta[row], _lagged(points, row, time, lags), points[row, time], MOST_LAGS)
    if not len(found) or found.max() == 0:
        return [np.append(lags[found], 1)]
    # Screening sees lags that matter by themselves; a memory that fades is many that hardly do.
    filled = np.arange(1, min(found.max() + PROLONGED, longest) + 1)
    filled = np.concatenate([found[found == 0], filled])
    return [lags[found], filled] if found.max() > 1 and len(filled) > len(found) else [lags[found]]


def fit_series(
    theta: np.ndarray,
    points: np.ndarray,
    lags: np.ndarray,
    rng: np.random.Generator,
    effort: Effort = EFFORT,
    most_rows: int = POOLED_ROWS,
) -> Series:
    """Fit one conditional to the values of all series.

    Parameters
    ----------
    theta : ndarray of shape (n, q)
    points : ndarray of shape (n, e)
    lags : ndarray of shape (l,)
        Of int; zero stands for the time.
    rng : numpy.random.Generator
    effort : Effort
    most_rows : int
        Of the pooled regression.
    """
    n, size = points.shape
    start = int(lags.max())
    # A value of a series is hardly independent of its neighbours: of the pooled ones some at random do.
    row, time = (cells[:most_rows] for cells in _pairs(n, start, size, rng))
    past = _lagged(points, row, time, lags)
    centre, scale = past.mean(axis=0), past.std(axis=0)
    inputs = Inputs(theta[row], (past - centre) / scale)
    conditional = fit_conditional(inputs, points[row, time], rng, effort)
    return Series(conditional, tuple(map(int, lags)), start, size, centre, scale)


def _pairs(n: int, start: int, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows and times of pooled values from `start` on, in random order."""
    length = size - start
    cells = rng.permutation(n * length)
    return cells // length, start + cells % length


def _lagged(points: np.ndarray, row: np.ndarray, time: np.ndarray, lags: np.ndarray) -> np.ndarray:
    return np.column_stack([points[row, time - lag] if lag else time.astype(float) for lag in lags])
