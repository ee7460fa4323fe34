"""Whatever a user gives as rows of numbers, as a float array; what would lose something is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

LARGEST = 1e300
"""The largest number that is taken: sums of 1e8 of them, and their differences, are still floats."""


def as_rows(name: str, value: Any) -> np.ndarray:
    """Rows of numbers as a float array, from arrays, data frames, nested sequences and the like.

    Parameters
    ----------
    name : str
        What they are, for the words of an error.
    value : array_like
        Of any shape; neither its number of dimensions nor its values are looked at.

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
    # NumPy takes the numbers under a mask for values, also where masked rows stand in a list.
    parts = value if isinstance(value, list | tuple) else [value]
    masked = sum(int(np.ma.count_masked(part)) for part in parts if isinstance(part, np.ma.MaskedArray))
    if masked:
        raise ValueError(
            f"{masked} masked entries in {name}; leave their rows out, or fill them: a mask is not kept"
        )
    _check_columns(name, value)
    try:
        array = np.asarray(value if not is_frame(value) else value.to_numpy(dtype=float))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"no array of numbers can be made of {name} ({error}); give rows of one length, of numbers alone"
        ) from None
    check_kind(name, array.dtype)
    return np.asarray(array, dtype=float)


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
    refuse_unlike_labels("the parameters", parameters, "the statistics", statistics)
    return as_rows("the parameters", parameters), as_rows("the statistics", statistics)


def refuse_unlike_labels(first: str, one: Any, second: str, other: Any) -> None:
    """Refuse two sides whose rows belong together, and have labels that say otherwise.

    Raises
    ------
    ValueError
        If both have labels for their rows, as data frames do, and these differ or stand in another order.
    """
    labels = _labels(one), _labels(other)
    if labels[0] is not None and labels[1] is not None and not labels[0].equals(labels[1]):
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


def check_kind(name: str, kind: np.dtype) -> None:
    """Refuse a type of numbers that are not real, or of what is no number."""
    if kind.kind not in "fiub":
        raise TypeError(f"the type of {name} is {kind}; {_advice(kind.kind)}")


def is_frame(value: Any) -> bool:
    """Whether it is a data frame or a column of pandas, which need not be installed."""
    return hasattr(value, "to_numpy") and hasattr(value, "index") and hasattr(value, "iloc")


def _labels(value: Any) -> Any:
    """The labels of rows, as an index of pandas, or None."""
    if is_frame(value):
        return value.index
    if hasattr(value, "indexes") and hasattr(value, "dims"):  # an array of xarray
        return value.indexes.get(value.dims[0]) if value.dims else None
    return None


def _check_columns(name: str, value: Any) -> None:
    """Refuse columns of a data frame that hold no numbers, by name."""
    if not is_frame(value):
        return
    columns = value.items() if hasattr(value, "columns") else [(value.name, value)]
    kinds = {str(column): str(held.dtype) for column, held in columns if _kind(held) not in "fiub"}
    if kinds:
        raise TypeError(
            f"no real numbers in some columns of {name}: {kinds}; convert them, or leave them out"
        )


def _kind(column: Any) -> str:
    """The kind of a column's numbers; categories and other types of pandas' own are objects."""
    return getattr(column.dtype, "kind", "O")


def _advice(kind: str) -> str:
    if kind == "c":
        return "the imaginary part would be lost: give real and imaginary parts as columns"
    return "give real numbers, as by `astype(float)`"


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
