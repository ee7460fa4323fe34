"""Numbers that are refused: what was got, what is allowed."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import Any

import numpy as np

SHORTEST = 1e-100
"""Length below which, and above whose inverse, squares leave the range of floats."""

MOST = np.iinfo(np.int64).max
"""Of a count: more has no array."""

LARGEST_FLOAT = int(np.finfo(float).max)

LONGEST = 120
"""Characters of a value in a message."""


def shown(value: Any) -> str:
    """A value in the words of a message, on one line and short, whatever it is.

    Examples
    --------
    >>> shown(10**100), shown("x"), shown(2.5), shown(float("nan"))
    ('1e+100', "'x'", '2.5', 'nan')
    """
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, int | np.integer):
        return str(value) if abs(int(value)) < 10**16 else _far(int(value))
    if isinstance(value, float | np.floating):
        return repr(float(value))
    if isinstance(value, BaseException):
        text = str(value)
    elif isinstance(value, str | bytes | type) or value is None:
        text = repr(value)
    elif isinstance(value, dict | list | tuple | set):
        short = reprlib.Repr()
        short.maxdict = short.maxlist = short.maxtuple = short.maxset = 6
        short.maxother = short.maxstring = LONGEST
        text = short.repr(value)
    elif hasattr(value, "shape") or hasattr(value, "__array__"):
        # Of arrays and data frames the kind says more than the first numbers.
        text = f"a {type(value).__name__}"
    else:
        text = repr(value)
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def times(ratio: float, digits: int = 2) -> str:
    """A ratio in the words of a message: beyond a million its digits say nothing.

    Examples
    --------
    >>> times(3.14159), times(309782715462657.3)
    ('3.1 times', 'more than a million times')
    """
    return f"{ratio:.{digits}g} times" if ratio <= 1e6 else "more than a million times"


def _far(value: int) -> str:
    """A whole number of many digits."""
    try:
        return f"{value:.3g}"
    except OverflowError:
        return f"a whole number of {value.bit_length()} bits"


def positive(name: str, value: float) -> None:
    """Refuse a number that is not positive and finite."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise TypeError(f"{name} is {shown(value)}; it must be a number above zero")
    if not 0 < value < np.inf or (isinstance(value, int) and value > LARGEST_FLOAT):
        raise ValueError(f"{name} is {shown(value)}; it must be a finite number above zero")


def squarable(name: str, value: float) -> None:
    """Refuse a number that is not positive, or whose square is so small or large that it is no float."""
    positive(name, value)
    if not SHORTEST < float(value) < 1 / SHORTEST:
        raise ValueError(
            f"{name} is {shown(value)}; it must lie between {SHORTEST} and {1 / SHORTEST}, so that its square is a "
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
                f"{name} is {shown(value)}; it may be {', '.join(map(repr, names))}, or a number above zero"
            )
    else:
        squarable(name, value)


def probability(name: str, value: float) -> None:
    """Refuse what is no number between zero and one."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise TypeError(f"{name} is {shown(value)}; it must be a number between 0 and 1")
    if not 0 < value < 1:
        raise ValueError(f"{name} is {shown(value)}; it must lie between 0 and 1")


def whole(name: str, value: int, most: int | None = None) -> None:
    """Refuse a count that is not whole, below one, or above the number of rows where that is given."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} is {shown(value)}; it must be a whole number")
    if most is None and value > MOST:
        raise ValueError(f"{name} is {shown(value)}; no machine holds as many")
    if value < 1 or (most is not None and value > most):
        allowed = "be at least 1" if most is None else f"lie between 1 and the number of rows, {most}"
        raise ValueError(f"{name} is {shown(value)}; it must {allowed}")
