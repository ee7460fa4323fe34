"""Statistics that are the same in all rows: which, and what is said of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from pymc_kbr.arrays.process_wide import silence
from pymc_kbr.arrays.users_line import users_line

LEAST_RANGE = 1e-12
"""Of a column, over its largest value: what varies by rounding alone is constant."""


class ConstantWarning(UserWarning):
    """Statistics are the same in all rows, and are dropped."""


def varying(lowest: np.ndarray, highest: np.ndarray) -> np.ndarray:
    """Which columns, of these ranges (d,), vary, shape (d,)."""
    kept: np.ndarray = highest - lowest > LEAST_RANGE * np.maximum(np.abs(lowest), np.abs(highest))
    return kept


def words_of_constant(lowest: np.ndarray, highest: np.ndarray) -> str:
    """What there is to say where no column of these ranges (d,) varies by more than rounding."""
    if np.all(lowest == highest):
        return "all statistics are constant in the reference table; they say nothing"
    column = int(np.argmax(highest - lowest))
    return (
        f"all statistics vary by less than {LEAST_RANGE:g} of their size, which may be rounding: "
        f"that in column {column} lies between {lowest[column]:.17g} and {highest[column]:.17g}; "
        f"{OFFSET}"
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
def constants_told(statistics: np.ndarray, names: Sequence[str]) -> Iterator[None]:
    """Within it no fit warns of constant statistics: it is done before, once and by their names.

    Parameters
    ----------
    statistics : ndarray of shape (n, d)
    names : sequence of str, length d
    """
    lowest, highest = statistics.min(axis=0), statistics.max(axis=0)
    kept = varying(lowest, highest)
    if np.all(kept) or not np.any(kept):  # where none varies there will be an error
        yield
        return
    warn_of_constant(names, lowest, highest)
    with _SILENT:
        yield
