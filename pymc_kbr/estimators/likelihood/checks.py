"""What a learned likelihood refuses at the door."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from pymc_kbr.arrays.exchangeable import FEWEST_ROWS_ALIKE, look_exchangeable
from pymc_kbr.arrays.refusals import shown, whole
from pymc_kbr.arrays.rows import as_rows
from pymc_kbr.arrays.threads import side_by_side
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.estimators.likelihood.exact import FunctionOfParameters, exact_statistic

FEWEST_FOR_FORM, ROWS_A_COLUMN = 50, 5
"""Rows that means, spreads and a mixture take: at least, and for each parameter and statistic."""

SINGULAR = 1e-10
"""Share of a statistic's variance that the others leave, below which it is a function of them."""

ROWS_LOOKED_AT, SMALL_STEP, GROWTH = range(1000, 2001), 1e-4, 50.0
"""Rows in which functions are looked for: with fewer, steps are as large as the noise of near-singular laws.

Squared steps, in variances, and how ten steps exceed one.
"""


STEPS_LOOKED_AT = 100
"""Of these rows' steps, to begin with."""


def fewest_rows(parameters: int, statistics: int) -> int:
    """Rows that a likelihood of so many statistics given so many parameters takes."""
    return max(FEWEST_FOR_FORM, ROWS_A_COLUMN * (parameters + statistics))


def check_rows(
    theta: np.ndarray, points: np.ndarray, kept: np.ndarray, *, draws: bool = False, seen: bool = False
) -> None:
    """Refuse too few rows, constant parameters, and statistics that are functions of them or of others.

    Parameters
    ----------
    theta : ndarray of shape (n, q)
    points : ndarray of shape (n, e)
    kept : ndarray of bool, shape (d,)
        Which of the table's statistics `points` are, where there are as many.
    draws : bool
        Whether statistics are draws of one law: all tell of it, and sorted ones nearly follow each other.
    seen : bool
        Whether at least half of these rows have been checked: where these were enough to look for functions
        of one another, that is not done again.
    """
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
    exact = None if seen else exact_statistic(theta, points)
    if exact is not None:
        raise FunctionOfParameters(int(numbers[exact]))
    if draws:
        return
    centred = points - points.mean(axis=0)
    units = np.sqrt(np.mean(centred**2, axis=0))
    # Squared diagonals of R: what of each column's variance those before it leave.
    left = np.diag(np.linalg.qr(centred / units / np.sqrt(n), mode="r")) ** 2
    bad = np.flatnonzero(left < SINGULAR)
    if len(bad):
        raise ValueError(
            f"the statistic in column {numbers[bad[0]]} is a linear function of those before it: together "
            "they have no density; leave it out"
        )
    if n < ROWS_LOOKED_AT[0] or (seen and n >= 2 * ROWS_LOOKED_AT[0]):
        return
    pair = function_of_another(points[: ROWS_LOOKED_AT[-1]])
    if pair is not None:
        raise ValueError(
            f"the statistic in column {numbers[pair[1]]} is a function of that in column {numbers[pair[0]]}: "
            "together they have no density; leave one of them out"
        )


def warn_unlike(points: np.ndarray, theta: np.ndarray) -> None:
    """Say where statistics (n, e) that are to be draws of one law, of parameters (n, q), are none."""
    if len(points) >= FEWEST_ROWS_ALIKE and not look_exchangeable(points, theta):
        warnings.warn(
            "the statistics do not look like independent draws of one law: their means, spreads or "
            "covariances, among them or with a parameter, differ from column to column, and what is in their "
            "order is lost, or they are sorted and as evenly spaced as quantiles are; take another form",
            UserWarning,
            stacklevel=users_line(),
        )


def function_of_another(points: np.ndarray) -> tuple[int, int] | None:
    """Columns i, j of points (n, e) of which the second is a smooth function of the first.

    Sorted by the first, the second then moves in small steps: ten times as far in ten steps as in one. Noise
    moves it as far in one step as in ten.
    """
    variances = points.var(axis=0)
    steps = np.linspace(0, len(points) - 2, STEPS_LOOKED_AT).astype(int)

    def function_of(i: int) -> int | None:
        order = np.argsort(points[:, i], kind="stable")
        # Of columns that move slowly there are few: a few steps tell where all of them are worth a look.
        few = (points[order[steps + 1]] - points[order[steps]]) ** 2 < SMALL_STEP * variances
        slow = np.flatnonzero(4 * np.count_nonzero(few, axis=0) > len(steps))
        slow = slow[slow != i]
        ordered = points[np.ix_(order, slow)]
        small = (ordered[1:] - ordered[:-1]) ** 2 < SMALL_STEP * variances[slow]
        of_most = 2 * np.count_nonzero(small, axis=0) > len(small)
        slow, ordered = slow[of_most], ordered[:, of_most]
        one, ten = (np.median((ordered[k:] - ordered[:-k]) ** 2, axis=0) for k in (1, 10))
        smooth = slow[ten > GROWTH * one]
        return int(smooth[0]) if len(smooth) else None

    with side_by_side(points.shape[1]) as map_:
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
