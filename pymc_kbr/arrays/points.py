"""Whatever a user gives as a sample of points, as rows; what tells nothing is refused."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from pymc_kbr.arrays.labelled import in_order as by_label
from pymc_kbr.arrays.labelled import labels_of_columns, texts
from pymc_kbr.arrays.refusals import SHORTEST
from pymc_kbr.arrays.rows import as_rows, check_finite, check_range


def as_points(name: str, value: Any, least: int = 2, squared: bool = True) -> np.ndarray:
    """A sample as rows of columns, of which a vector is one.

    Parameters
    ----------
    name : str
        What it is, for the words of an error.
    value : array_like of shape (n,) or (n, d)
        Data frames and columns of pandas, too.
    least : int
        Rows that are needed.
    squared : bool
        Whether squares of their distances are taken as they are, not of what is scaled first.

    Returns
    -------
    ndarray of shape (n, d)

    Raises
    ------
    TypeError, ValueError
        If it is no array of finite numbers, or has too few rows or no column, or numbers whose squares are no
        floats.
    """
    points = as_rows(name, value)
    if points.ndim not in (1, 2) or (points.ndim == 2 and points.shape[1] == 0):
        raise ValueError(f"the shape of {name} is {points.shape}; it must be (n,) or (n, d)")
    if points.ndim == 1:
        points = points[:, None]
    if len(points) < least:
        raise ValueError(f"there are {len(points)} rows in {name}; at least {least} are needed")
    check_finite(name, points)
    check_range(name, points)
    largest = float(np.abs(points).max(initial=0.0))
    if squared and largest > 1 / SHORTEST:
        raise ValueError(
            f"there are numbers as large as {largest:g} in {name}, whose squares are no floats; give them in "
            "larger units"
        )
    return points


def refuse_constant(name: str, points: np.ndarray) -> None:
    """Refuse points (n, d) of which a column is the same in all rows."""
    constant = np.flatnonzero(np.ptp(points, axis=0) == 0)
    if len(constant) == points.shape[1]:
        raise ValueError(
            f"all {len(points)} rows in {name} are the same point; nothing can be told from them"
        )
    if len(constant):
        raise ValueError(
            f"the columns {constant.tolist()} in {name} are the same in all {len(points)} rows; "
            "leave them out"
        )


def refuse_unequal_columns(first: str, x: np.ndarray, second: str, y: np.ndarray) -> None:
    """Refuse samples whose points have other numbers of columns."""
    if x.shape[1] != y.shape[1]:
        raise ValueError(
            f"there are {x.shape[1]} columns in {first} and {y.shape[1]} in {second}; both must have the same"
        )


def refuse_unequal_rows(first: str, x: np.ndarray, second: str, y: np.ndarray) -> None:
    """Refuse samples whose rows cannot belong together."""
    if len(x) != len(y):
        raise ValueError(
            f"there are {len(x)} rows in {first} and {len(y)} in {second}; a row of one belongs to a row of "
            "the other"
        )


def column_names(value: Any) -> tuple[Any, ...] | None:
    """Labels of the columns of a sample; None where there are none, or it is a single column."""
    labels = None if getattr(value, "ndim", 2) == 1 else labels_of_columns(value)
    if labels is None or not any(isinstance(label, tuple) for label in labels):
        return labels
    return texts(labels)


def in_order(name: str, value: Any, of: str, names: tuple[Any, ...] | None) -> Any:
    """A sample with its columns in the order of some names, where it has labels and there are names.

    Raises
    ------
    ValueError
        If it has other names; the number 1 and the text "1" are not the same.
    """
    own = column_names(value)
    if names is None or own == names:
        return value
    if own is None:  # of an array of xarray another axis may have the names
        return by_label(name, value, texts(names), f"those of {of}")
    if Counter(own) != Counter(names) or len(set(own)) < len(own):
        raise ValueError(
            f"the columns are {list(names)} in {of} and {list(own)} in {name}; name them alike, each once"
        )
    return as_rows(name, value)[:, [own.index(label) for label in names]]
