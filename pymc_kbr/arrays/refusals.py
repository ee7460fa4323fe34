"""Numbers that are refused: what was got, what is allowed."""

from __future__ import annotations

import numpy as np


def positive(name: str, value: float) -> None:
    """Refuse a number that is not positive and finite."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise TypeError(f"{name} is {value!r}; it must be a number above zero")
    if not (np.isfinite(value) and value > 0):
        raise ValueError(f"{name} is {value!r}; it must be a finite number above zero")


def whole(name: str, value: int, most: int | None = None) -> None:
    """Refuse a count that is not whole, below one, or above the number of rows where that is given."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} is {value!r}; it must be a whole number")
    if value < 1 or (most is not None and value > most):
        allowed = "be at least 1" if most is None else f"lie between 1 and the number of rows, {most}"
        raise ValueError(f"{name} is {value}; it must {allowed}")
