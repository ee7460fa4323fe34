"""Statistics that are exact functions of the parameters: given these they have no density."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement
from math import comb

import numpy as np

MOST_ROWS_FOR_EXACT, MOST_PRODUCTS, LARGEST_DEGREE = 1500, 250, 16
"""Rows that are looked at; products of parameters that a polynomial has, and its degree, at most."""

EXACT_ERROR, EXACT_SHARE = 1e-5, 0.9
"""Share of the interquartile range below which an error is rounding, and the share of rows that have such.

Noise of a hundredth of a thousandth of a statistic's spread hardly any simulator has.
"""


class FunctionOfParameters(ValueError):
    """A statistic that is an exact function of the parameters.

    Parameters
    ----------
    column : int
        Its number.
    name : str, optional
    simulator : str, optional
        Whose statistic it is.
    """

    def __init__(self, column: int, name: str | None = None, simulator: str | None = None) -> None:
        self.column = column
        which = f"in column {column}" if name is None else repr(name)
        whose = "" if simulator is None else f" of the simulator {simulator!r}"
        noise = "add the noise that data have to the simulator"
        if simulator is not None:
            noise += ", such as that of its `epsilon`, which is not learnt"
        super().__init__(
            f"the statistic {which}{whose} is an exact function of the parameters: given these it has no "
            f"spread, and no density; {noise}, leave the statistic out, or take an estimator by nearest "
            "rows, such as 'localised'"
        )
        self._told = column, name, simulator

    def __reduce__(self) -> tuple[type, tuple[int, str | None, str | None]]:
        return type(self), self._told  # other processes make it anew, of its arguments


def exact_statistic(theta: np.ndarray, points: np.ndarray) -> int | None:
    """The first column of points (n, e) that is an exact function of parameters theta (n, q), or None.

    Of smooth functions: polynomials of all parameters, fitted to half of the rows, and, of one parameter,
    what lies between the rows next to each. Errors are those of rows that were not fitted to, which noise
    cannot make small; functions that neither comes close to are not found.
    """
    # Any rows of an array that may be sorted.
    rows = np.linspace(0, len(theta) - 1, min(len(theta), MOST_ROWS_FOR_EXACT)).astype(int)
    theta, points = theta[rows], points[rows]
    lower, middle, upper = np.quantile(points, [0.25, 0.5, 0.75], axis=0)
    # Of a statistic of few values most neighbours are the same, whatever the noise.
    columns = np.array([j for j, x in enumerate(points.T) if 2 * len(np.unique(x)) > len(x)], dtype=int)
    columns = columns[upper[columns] > lower[columns]]
    y = (points[:, columns] - middle[columns]) / (upper - lower)[columns]
    exact = np.zeros(len(columns), dtype=bool)
    for errors in (_of_polynomial(theta, y), *(_between_neighbours(values, y) for values in theta.T)):
        if len(errors):
            exact |= np.mean(np.abs(errors) < EXACT_ERROR, axis=0) >= EXACT_SHARE
    return int(columns[exact][0]) if exact.any() else None


def _of_polynomial(theta: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Errors of every second row, by the polynomial that is fitted to the others."""
    n, q = theta.shape
    least = min(n // 8, MOST_PRODUCTS)
    degree = max((k for k in range(1, LARGEST_DEGREE + 1) if comb(q + k, k) <= least), default=1)
    features = _products(theta, degree)
    fitted, *_ = np.linalg.lstsq(features[::2], y[::2], rcond=1e-14)
    errors: np.ndarray = y[1::2] - features[1::2] @ fitted
    return errors


def _products(theta: np.ndarray, degree: int) -> np.ndarray:
    """Products (n, m) of Chebyshev's polynomials of each parameter, of that degree together."""
    low, high = theta.min(axis=0), theta.max(axis=0)
    scaled = (2 * theta - low - high) / np.where(high > low, high - low, 1.0)
    each = np.polynomial.chebyshev.chebvander(scaled, degree)  # (n, q, degree + 1)
    degrees = _degrees(theta.shape[1], degree)
    return np.stack([np.prod(each[:, range(len(d)), d], axis=1) for d in degrees], axis=1)


def _degrees(q: int, degree: int) -> Sequence[Sequence[int]]:
    """Degrees in each of q parameters, of no more than `degree` together."""
    # A product of `degree` factors, each of them a parameter or one (number q).
    chosen = combinations_with_replacement(range(q + 1), degree)
    return [[factors.count(place) for place in range(q)] for factors in chosen]


def _between_neighbours(values: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Errors of every row, by the cubic through two rows below and two above it in one parameter."""
    order = np.argsort(values, kind="stable")
    x, y = values[order], y[order]
    around = np.stack([x[:-4], x[1:-3], x[3:-1], x[4:]])
    inner = np.stack([around[i] < around[i + 1] for i in range(3)]).all(axis=0)
    # Of a parameter with few values, or rows that were copied, nothing lies between.
    if inner.sum() < len(values) // 2:
        return np.empty((0, y.shape[1]))
    errors = y[2:-2].copy()
    for i, beyond in enumerate((y[:-4], y[1:-3], y[3:-1], y[4:])):
        others = [j for j in range(4) if j != i]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.prod([(x[2:-2] - around[j]) / (around[i] - around[j]) for j in others], axis=0)
            errors -= share[:, None] * beyond
    return errors[inner]
