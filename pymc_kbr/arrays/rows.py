"""Whatever a user gives as rows of numbers, as a float array; what would lose something is refused."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pymc_kbr.arrays.labelled import Labelled, labels_of_columns, labels_of_rows, read, rows_first, texts
from pymc_kbr.arrays.labelled import in_order as by_label
from pymc_kbr.arrays.refusals import SHORTEST
from pymc_kbr.arrays.threads import silence
from pymc_kbr.arrays.users_line import users_line

LARGEST = 1e300
"""The largest number that is taken: sums of 1e8 of them, and their differences, are still floats."""


def as_rows(name: str, value: Any) -> np.ndarray:
    """Rows of numbers as a float array, from arrays, data frames, nested sequences and the like."""
    return read(name, value).values


def as_pairs(parameters: Any, statistics: Any) -> tuple[np.ndarray, np.ndarray]:
    """Parameters and statistics as float arrays whose rows belong together."""
    one, other = read_pair(parameters, statistics)
    return one.values, other.values


def read_pair(parameters: Any, statistics: Any) -> tuple[Labelled, Labelled]:
    """Both sides of a table with the labels of their columns: see `as_pairs`."""
    parameters, statistics = rows_first(parameters, statistics), rows_first(statistics, parameters)
    refuse_unlike_labels("the parameters", parameters, "the statistics", statistics)
    return read("the parameters", parameters), read("the statistics", statistics)


def refuse_unlike_labels(first: str, one: Any, second: str, other: Any) -> None:
    """Refuse two sides whose rows belong together, and have labels that say otherwise."""
    labels = labels_of_rows(one), labels_of_rows(other)
    if labels[0] is None or labels[1] is None or len(labels[0]) != len(labels[1]):
        return  # sides of unequal length are refused as such where they are compared
    if not labels[0].equals(labels[1]):
        raise ValueError(
            f"the rows of {first} and of {second} have other labels, or another order; bring them into one "
            "order, as by `second.loc[first.index]`, or drop the labels: `to_numpy()`"
        )


def check_range(name: str, array: np.ndarray, columns: Sequence[str] | None = None) -> None:
    """Refuse numbers whose sums no float holds."""
    # Shapes: array (n, d).
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


# --- samples of points ---


def as_points(name: str, value: Any, least: int = 2, squared: bool = True) -> np.ndarray:
    """A sample as rows of columns, of which a vector is one."""
    # Shapes: value (n,) or (n, d); returned: (n, d).
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
            f"all {len(points)} rows in {name} are the same point; nothing can be learned from them"
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
    """A sample with its columns in the order of some names, where it has labels and there are names."""
    own = column_names(value)
    if names is None or own == names:
        return value
    if own is None:  # of an array of xarray another axis may have the names
        return by_label(name, value, texts(names), f"those of {of}")
    if Counter(own) != Counter(names) or len(set(own)) < len(own):
        raise ValueError(
            f"the columns are {list(names)} in {of} and {list(own)} in {name}; give both the same names, "
            "each once"
        )
    return as_rows(name, value)[:, [own.index(label) for label in names]]


# --- constant statistics ---


LEAST_RANGE = 1e-12
"""Of a column, over its largest value: what varies by rounding alone is constant."""


class ConstantWarning(UserWarning):
    """Statistics are the same in all rows, and are dropped."""


def varying(lowest: np.ndarray, highest: np.ndarray) -> np.ndarray:
    """Which columns, of these ranges (d,), vary, shape (d,)."""
    return highest - lowest > LEAST_RANGE * np.maximum(np.abs(lowest), np.abs(highest))


def words_of_constant(lowest: np.ndarray, highest: np.ndarray) -> str:
    """What there is to say where no column of these ranges (d,) varies by more than rounding."""
    if np.all(lowest == highest):
        return "all statistics are constant in the reference table; they say nothing"
    column = int(np.argmax(highest - lowest))
    return (
        f"all statistics vary by less than {LEAST_RANGE:g} of their size, which may be rounding: that in "
        f"column {column} lies between {lowest[column]:.17g} and {highest[column]:.17g}; {OFFSET}"
    )


OFFSET = "subtract a constant from it where it is simulated, and from the data"
"""What to do about a statistic whose mean is very large beside its deviation."""


def warn_of_constant(names: Sequence[str] | None, lowest: np.ndarray, highest: np.ndarray) -> None:
    """Say which columns, of these ranges (d,), are dropped, by their names where there are some."""
    dropped, same = ~varying(lowest, highest), lowest == highest

    def called(columns: np.ndarray) -> str:
        numbers = np.flatnonzero(columns).tolist()
        return f"in columns {numbers}" if names is None else ", ".join(repr(names[i]) for i in numbers)

    words = []
    if np.any(dropped & same):
        words.append(f"the statistics {called(dropped & same)} are constant in the reference table; they")
    if np.any(dropped & ~same):
        first = int(np.flatnonzero(dropped & ~same)[0])
        words.append(
            f"the statistics {called(dropped & ~same)} vary by less than {LEAST_RANGE:g} of their size (the "
            f"first from {lowest[first]:.17g} to {highest[first]:.17g}), which may be rounding ({OFFSET}, if "
            "it says something); they"
        )
    for one in words:
        warnings.warn(f"{one} are dropped", ConstantWarning, stacklevel=users_line())


_SILENT = silence(ConstantWarning)


@contextmanager
def constants_named(statistics: np.ndarray, names: Sequence[str]) -> Iterator[None]:
    """Within it no fit warns of constant statistics: it is done before, once and by their names."""
    # Shapes: statistics (n, d).
    lowest, highest = statistics.min(axis=0), statistics.max(axis=0)
    kept = varying(lowest, highest)
    if np.all(kept) or not np.any(kept):  # where none varies there will be an error
        yield
        return
    warn_of_constant(names, lowest, highest)
    with _SILENT:
        yield
