"""Numbers that are refused: what was got, what is allowed."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Sequence, Set
from os import PathLike
from pathlib import Path
from types import UnionType
from typing import Any

import numpy as np

SHORTEST = 1e-100
"""Length below which, and above whose inverse, squares leave the range of floats."""

MOST = np.iinfo(np.int64).max
"""Of a count: more has no array."""

LARGEST_FLOAT = int(np.finfo(float).max)


def shown(
    value: Any,
    *,
    # Characters of a value in a message.
    longest: int = 120,
) -> str:
    """A value in the words of a message, on one line and short, whatever it is."""
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
        short.maxother = short.maxstring = longest
        text = short.repr(value)
    elif hasattr(value, "shape") or hasattr(value, "__array__"):
        # Of arrays and data frames the kind says more than the first numbers.
        text = of_type(value)
    else:
        text = repr(value)
    text = " ".join(text.split())
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def of_type(value: Any) -> str:
    """The type of a value with its article."""
    name = type(value).__name__
    # The letters of `ndarray` are spoken one by one.
    return f"an {name}" if name[0] in "aeioAEIO" or name.startswith("nd") else f"a {name}"


def times(ratio: float, digits: str = ".2g") -> str:
    """A ratio in the words of a message: beyond a million its digits say nothing."""
    return f"{ratio:{digits}} times" if ratio <= 1e6 else "more than a million times"


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
            f"{name} is {shown(value)}; it must lie between {SHORTEST} and {1 / SHORTEST}, so that its "
            "square is a float: change the units of the data"
        )


def squarable_or(names: Sequence[str], name: str, value: Any) -> None:
    """Refuse what is neither one of some names nor a `squarable` number."""
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


def generator_of(random_seed: Any, name: str = "random_seed") -> np.random.Generator:
    """The generator that a user has given, or one of a seed."""
    check_seed(random_seed, name)
    return np.random.default_rng(random_seed)


def check_seed(random_seed: Any, name: str = "random_seed") -> None:
    """Refuse what is no seed: see `generator_of`."""
    if isinstance(random_seed, np.random.Generator | np.random.SeedSequence | np.random.BitGenerator | None):
        return
    several = isinstance(random_seed, list | tuple | np.ndarray) and np.size(random_seed)
    numbers = list(random_seed) if several else [random_seed]
    if any(isinstance(one, bool) or not isinstance(one, int | np.integer) for one in numbers):
        raise TypeError(
            f"{name} is {shown(random_seed)}; give None, a whole number, several of them or a "
            "numpy.random.Generator"
        )
    if any(one < 0 for one in numbers):
        raise ValueError(f"{name} is {shown(random_seed)}; it must not be negative")


def instance(name: str, value: Any, kind: type | UnionType, advice: str) -> None:
    """Refuse what is no object of a class."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {named(value)}; give {advice}")


def named(value: Any) -> str:
    """A value with its type, in the words of a message."""
    words, kind = shown(value), of_type(value)
    return words if words == kind or value is None else f"{words}, {kind}"


def path_of(name: str, value: Any, of: str = "a folder") -> Path:
    """A path from a text or a path."""
    if not isinstance(value, str | PathLike) or not str(value):
        raise TypeError(
            f"{name} is {shown(value)}; it must be the path of {of}, not of the type {type(value).__name__}"
        )
    return Path(value)


def flag(name: str, value: Any) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} is {shown(value)}; it may be True or False")


def one_of(name: str, value: Any, allowed: Sequence[str]) -> None:
    """Refuse what is none of some names."""
    if not isinstance(value, str) or value not in allowed:
        between = " or " if len(allowed) == 2 else ", "
        raise ValueError(f"{name} is {shown(value)}; it may be {between.join(map(repr, allowed))}")


def names_of(name: str, value: Any, kinds: type | UnionType = str) -> list[Any]:
    """A list of names, which are texts or of other kinds. A single text is a sequence of letters, too."""
    if isinstance(value, str):
        raise TypeError(f"{name} is {shown(value)}; give a list of names: [{shown(value)}]")
    # A set has no order, and columns would come in another one in each process.
    if not isinstance(value, Iterable) or isinstance(value, Mapping | Set) or hasattr(value, "dtypes"):
        raise TypeError(f"{name} is {shown(value)}; give a list of names")
    found = list(value)
    wrong = [one for one in found if not isinstance(one, kinds)]
    if wrong:
        raise TypeError(f"{name} has the entry {shown(wrong[0])}; give a list of names, which are texts")
    return found


def whole(name: str, value: int, most: int | None = None) -> None:
    """Refuse a count that is not whole, below one, or above the number of rows where that is given."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} is {shown(value)}; it must be a whole number")
    if most is None and value > MOST:
        raise ValueError(f"{name} is {shown(value)}; no machine holds as many")
    if value < 1 or (most is not None and value > most):
        allowed = "be at least 1" if most is None else f"lie between 1 and the number of rows, {most}"
        raise ValueError(f"{name} is {shown(value)}; it must {allowed}")
