"""Whatever a user gives as rows of numbers, as a float array; what would lose something is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pymc_kbr.arrays.labelled import Labelled, labels_of_rows, read, rows_first

LARGEST = 1e300
"""The largest number that is taken: sums of 1e8 of them, and their differences, are still floats."""


def as_rows(name: str, value: Any) -> np.ndarray:
    """Rows of numbers as a float array, from arrays, data frames, nested sequences and the like.

    Parameters
    ----------
    name : str
        What they are, for the words of an error.
    value : array_like
        Of any shape; neither its number of dimensions nor its values are looked at. See `labelled.read`.

    Returns
    -------
    ndarray
        The array itself where it is one of floats already, otherwise a copy.

    Raises
    ------
    TypeError
        If the entries are complex, texts, dates or objects.
    ValueError
        If entries are masked, or the rows are of unequal length.

    Examples
    --------
    >>> as_rows("the parameters", [[1, 2], [3, 4]])
    array([[1., 2.],
           [3., 4.]])
    """
    return read(name, value).values


def as_pairs(parameters: Any, statistics: Any) -> tuple[np.ndarray, np.ndarray]:
    """Parameters and statistics as float arrays whose rows belong together.

    Raises
    ------
    TypeError, ValueError
        As `as_rows`; and if both have labels for their rows, as data frames do, and these differ.

    Examples
    --------
    >>> import pandas as pd
    >>> mean, y = pd.DataFrame({"mean": [0.1, 0.2]}), pd.DataFrame({"y": [2.0, 1.0]}, index=[1, 0])
    >>> as_pairs(mean, y.loc[mean.index])[1]
    array([[1.],
           [2.]])
    """
    one, other = read_pair(parameters, statistics)
    return one.values, other.values


def read_pair(parameters: Any, statistics: Any) -> tuple[Labelled, Labelled]:
    """Both sides of a table with the labels of their columns: see `as_pairs`."""
    parameters, statistics = rows_first(parameters, statistics), rows_first(statistics, parameters)
    refuse_unlike_labels("the parameters", parameters, "the statistics", statistics)
    return read("the parameters", parameters), read("the statistics", statistics)


def refuse_unlike_labels(first: str, one: Any, second: str, other: Any) -> None:
    """Refuse two sides whose rows belong together, and have labels that say otherwise.

    Raises
    ------
    ValueError
        If both have labels for their rows, as data frames do, and these differ or stand in another order.
    """
    labels = labels_of_rows(one), labels_of_rows(other)
    if labels[0] is None or labels[1] is None or len(labels[0]) != len(labels[1]):
        return  # sides of unequal length are refused as such where they are compared
    if not labels[0].equals(labels[1]):
        raise ValueError(
            f"the rows of {first} and of {second} have other labels, or another order; bring them into one "
            "order, as by `second.loc[first.index]`, or drop the labels: `to_numpy()`"
        )


def check_range(name: str, array: np.ndarray, columns: Sequence[str] | None = None) -> None:
    """Refuse numbers whose sums no float holds.

    Parameters
    ----------
    name : str
    array : ndarray of shape (n, d)
        Finite.
    columns : sequence of str, length d, optional
        Their names; numbers where left out.

    Raises
    ------
    ValueError
        That names the columns.
    """
    # Both ends, and not absolute values, which would take the memory of another table.
    largest = np.maximum(array.max(axis=0, initial=0.0), -array.min(axis=0, initial=0.0))
    beyond = np.flatnonzero(largest > LARGEST)
    if len(beyond):
        named = [columns[i] if columns is not None else i for i in beyond.tolist()]
        raise ValueError(
            f"numbers beyond {LARGEST:g} in {name}, columns {named}: no float holds their sums; give them in "
            "larger units, or their logarithms"
        )


def check_shapes(parameters: Any, statistics: Any) -> None:
    """Refuse what is not two or more rows of parameters and of statistics, side by side."""
    for name, side in (("parameters", parameters), ("statistics", statistics)):
        if len(side.shape) != 2 or side.shape[1] == 0:
            raise ValueError(
                f"{name} have shape {tuple(side.shape)}; they must be rows of at least one column"
            )
    if parameters.shape[0] != statistics.shape[0]:
        raise ValueError(
            f"there are {parameters.shape[0]} rows of parameters and {statistics.shape[0]} rows of "
            "statistics; each simulation is one row of both"
        )
    if parameters.shape[0] < 2:
        raise ValueError(f"there is {parameters.shape[0]} row; an estimator needs at least two")


def check_finite(name: str, array: np.ndarray) -> None:
    """Refuse rows that hold gaps."""
    bad = ~np.isfinite(array).all(axis=1)
    if np.any(bad):
        raise ValueError(
            f"{bad.sum()} row(s) of {name} hold NaN or infinity, the first of them row "
            f"{np.flatnonzero(bad)[0]}; leave those rows out"
        )
