"""Numbers that are refused: what was got, what is allowed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

SHORTEST = 1e-100
"""Length below which, and above whose inverse, squares leave the range of floats."""


def positive(name: str, value: float) -> None:
    """Refuse a number that is not positive and finite."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise TypeError(f"{name} is {value!r}; it must be a number above zero")
    if not (np.isfinite(value) and value > 0):
        raise ValueError(f"{name} is {value}; it must be a finite number above zero")


def squarable(name: str, value: float) -> None:
    """Refuse a number that is not positive, or whose square is so small or large that it is no float."""
    positive(name, value)
    if not SHORTEST < float(value) < 1 / SHORTEST:
        raise ValueError(
            f"{name} is {value}; it must lie between {SHORTEST} and {1 / SHORTEST}, so that its square is a "
            "float: change the units of the data"
        )


def squarable_or(names: Sequence[str], name: str, value: Any) -> None:
    """Refuse what is neither one of some names nor a `squarable` number.

    Raises
    ------
    TypeError, ValueError
        That lists the names.
    """
    if isinstance(value, str):
        if value not in names:
            raise ValueError(
                f"{name} is {value!r}; it may be {', '.join(map(repr, names))}, or a number above zero"
            )
    else:
        squarable(name, value)


def probability(name: str, value: float) -> None:
    """Refuse what is no number between zero and one."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise TypeError(f"{name} is {value!r}; it must be a number between 0 and 1")
    if not 0 < value < 1:
        raise ValueError(f"{name} is {value}; it must lie between 0 and 1")


def whole(name: str, value: int, most: int | None = None) -> None:
    """Refuse a count that is not whole, below one, or above the number of rows where that is given."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} is {value!r}; it must be a whole number")
    if value < 1 or (most is not None and value > most):
        allowed = "be at least 1" if most is None else f"lie between 1 and the number of rows, {most}"
        raise ValueError(f"{name} is {value}; it must {allowed}")
