"""What a learned likelihood refuses before any work."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import combinations_with_replacement
from math import comb
from typing import Any

import numpy as np

from pymc_kbr.arrays.exchangeable import seems_exchangeable
from pymc_kbr.arrays.refusals import shown, whole
from pymc_kbr.arrays.rows import as_rows
from pymc_kbr.arrays.threads import parallel_map
from pymc_kbr.arrays.users_line import users_line

LEAST_LEFT = 1e-10
"""Share of a statistic's variance that the others leave, below which it is a function of them."""


def fewest_rows(
    parameters: int,
    statistics: int,
    *,
    # Rows that means, spreads and a mixture take, at least,
    fewest_for_form: int = 50,
    # and for each parameter and statistic.
    rows_a_column: int = 5,
) -> int:
    """Rows that a likelihood of so many statistics given so many parameters takes."""
    return max(fewest_for_form, rows_a_column * (parameters + statistics))


def check_rows(
    theta: np.ndarray,
    points: np.ndarray,
    kept: np.ndarray,
    *,
    draws: bool = False,
    # With fewer, steps are as large as the noise of near-singular distributions.
    rows_looked_at: range = range(1000, 2001),
) -> None:
    """Refuse too few rows, constant parameters, and statistics that are functions of them or of others."""
    # Shapes: theta (n, q); points (n, e); kept (d,).
    n, e = points.shape
    least = fewest_rows(theta.shape[1], 1 if draws else e)
    if n < least:
        raise ValueError(
            f"the table has {n} rows; a likelihood of {e} statistics given {theta.shape[1]} parameters takes "
            f"at least {least}: simulate more"
        )
    constant = np.flatnonzero(np.ptp(theta, axis=0) == 0)
    if len(constant):
        raise ValueError(
            f"the parameters in columns {constant.tolist()} have the same value in every row; nothing is "
            "learnt of how the statistics depend on them: leave them out"
        )
    numbers = np.flatnonzero(kept) if kept.sum() == e else np.arange(e)
    exact = deterministic_statistic(theta, points)
    if exact is not None:
        raise FunctionOfParameters(int(numbers[exact]))
    if draws:
        return
    centred = points - points.mean(axis=0)
    units = np.sqrt(np.mean(centred**2, axis=0))
    # Squared diagonals of R: what of each column's variance those before it leave.
    left = np.diag(np.linalg.qr(centred / units / np.sqrt(n), mode="r")) ** 2
    bad = np.flatnonzero(left < LEAST_LEFT)
    if len(bad):
        raise ValueError(
            f"the statistic in column {numbers[bad[0]]} is a linear function of those before it: together "
            "they have no density; leave it out"
        )
    if n < rows_looked_at[0]:
        return
    pair = function_of_another(points[: rows_looked_at[-1]])
    if pair is not None:
        raise ValueError(
            f"the statistic in column {numbers[pair[1]]} is a function of that in column {numbers[pair[0]]}: "
            "together they have no density; leave one of them out"
        )


def warn_if_not_exchangeable(
    points: np.ndarray,
    theta: np.ndarray,
    *,
    # From fewer nothing is said: see `seems_exchangeable`.
    fewest_rows: int = 200,
) -> None:
    """Warn of statistics (n, e), given parameters (n, q), that are not draws of one distribution."""
    if len(points) >= fewest_rows and not seems_exchangeable(points, theta):
        warnings.warn(
            "the statistics do not look like independent draws of one distribution: their means, spreads or "
            "covariances, among them or with a parameter, differ from column to column, and what their "
            "order says is lost, or they are sorted and as evenly spaced as quantiles; take another form",
            UserWarning,
            stacklevel=users_line(),
        )


def function_of_another(
    points: np.ndarray,
    *,
    # Steps between sorted rows that are examined first.
    steps_looked_at: int = 100,
    # Squared, in variances,
    small_step: float = 1e-4,
    # and how ten steps exceed one.
    growth: float = 50.0,
) -> tuple[int, int] | None:
    """Columns i, j of points (n, e) of which the second is a smooth function of the first."""
    variances = points.var(axis=0)
    steps = np.linspace(0, len(points) - 2, steps_looked_at).astype(int)

    def function_of(i: int) -> int | None:
        order = np.argsort(points[:, i], kind="stable")
        # Of columns that move slowly there are few: a few steps tell where all of them are worth a look.
        few = (points[order[steps + 1]] - points[order[steps]]) ** 2 < small_step * variances
        slow = np.flatnonzero(4 * np.count_nonzero(few, axis=0) > len(steps))
        slow = slow[slow != i]
        ordered = points[np.ix_(order, slow)]
        small = (ordered[1:] - ordered[:-1]) ** 2 < small_step * variances[slow]
        of_most = 2 * np.count_nonzero(small, axis=0) > len(small)
        slow, ordered = slow[of_most], ordered[:, of_most]
        one, ten = (np.median((ordered[k:] - ordered[:-k]) ** 2, axis=0) for k in (1, 10))
        smooth = slow[ten > growth * one]
        return int(smooth[0]) if len(smooth) else None

    with parallel_map(points.shape[1]) as map_:
        found = map_(function_of, range(points.shape[1]))
    return next(((i, j) for i, j in enumerate(found) if j is not None), None)


def check_parameters(parameters: Any, p: int) -> np.ndarray:
    """Parameters as rows (k, p)."""
    theta = np.atleast_2d(as_rows("the parameters", parameters))
    if theta.ndim != 2 or theta.shape[1] != p:
        raise ValueError(f"the parameters have shape {theta.shape}; give (k, {p}), in the table's order")
    bad = np.argwhere(~np.isfinite(theta))
    if len(bad):
        raise ValueError(
            f"the parameters are NaN or infinite in row {bad[0, 0]}, column {bad[0, 1]}; leave the row out"
        )
    return theta


def check_settings(particles: int, form: str, forms: tuple[str, ...], scale: Any = True) -> None:
    """Refuse arguments of `KernelLikelihood` that are out of range."""
    whole("particles", particles)
    if particles < 10:
        raise ValueError(f"particles is {particles}; it must be at least 10")
    if not isinstance(form, str) or form not in ("auto", *forms):
        raise ValueError(f"form is {shown(form)}; it may be auto, {', '.join(forms)}")
    if form == "exchangeable" and scale is not True:
        raise ValueError(
            f"scale is {shown(scale)}; exchangeable statistics have one unit: with form='exchangeable' "
            "leave it at True"
        )


# --- statistics that are functions of the parameters ---


class FunctionOfParameters(ValueError):
    """A statistic that is an exact function of the parameters."""

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


def deterministic_statistic(
    theta: np.ndarray,
    points: np.ndarray,
    *,
    # Rows of the search, at most.
    most_rows_for_exact: int = 1500,
    # Share of the interquartile range below which an error is rounding: hardly any simulator's noise is so
    # small.
    exact_error: float = 1e-05,
    # Share of rows that must have such errors.
    exact_share: float = 0.9,
) -> int | None:
    """The first column of points (n, e) that is an exact function of parameters theta (n, q), or None."""
    # Any rows of an array that may be sorted.
    rows = np.linspace(0, len(theta) - 1, min(len(theta), most_rows_for_exact)).astype(int)
    theta, points = theta[rows], points[rows]
    lower, middle, upper = np.quantile(points, [0.25, 0.5, 0.75], axis=0)
    # Of a statistic of few values most neighbours are the same, whatever the noise.
    columns = np.array([j for j, x in enumerate(points.T) if 2 * len(np.unique(x)) > len(x)], dtype=int)
    columns = columns[upper[columns] > lower[columns]]
    y = (points[:, columns] - middle[columns]) / (upper - lower)[columns]
    exact = np.zeros(len(columns), dtype=bool)
    for errors in (_of_polynomial(theta, y), *(_between_neighbours(values, y) for values in theta.T)):
        if len(errors):
            exact |= np.mean(np.abs(errors) < exact_error, axis=0) >= exact_share
    return int(columns[exact][0]) if exact.any() else None


def _of_polynomial(
    theta: np.ndarray,
    y: np.ndarray,
    *,
    # Products of parameters in a polynomial, at most.
    most_products: int = 250,
    # Its degree, at most.
    largest_degree: int = 16,
) -> np.ndarray:
    """Errors of every second row, by the polynomial that is fitted to the others."""
    n, q = theta.shape
    least = min(n // 8, most_products)
    degree = max((k for k in range(1, largest_degree + 1) if comb(q + k, k) <= least), default=1)
    features = _products(theta, degree)
    fitted, *_ = np.linalg.lstsq(features[::2], y[::2], rcond=1e-14)
    return y[1::2] - features[1::2] @ fitted


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
