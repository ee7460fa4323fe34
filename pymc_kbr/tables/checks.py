"""What a reference table refuses, and the words it does so with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_kbr.tables.columns import Columns

if TYPE_CHECKING:
    import pandas as pd


def check_side(side: str, array: np.ndarray, columns: Columns) -> None:
    """Refuse parameters or statistics of the wrong shape, with names twice, or with gaps."""
    if array.ndim != 2 or array.shape[1] != columns.size:
        raise ValueError(
            f"the {side}s have shape {array.shape}; they need two dimensions and {columns.size} columns"
        )
    names = columns.names
    if not names:
        raise ValueError(f"there is no {side}; name at least one column")
    twice = repeated(names)
    if twice:
        raise ValueError(f"the {side} names {twice} stand more than once; rename them")
    bad = ~np.isfinite(array).all(axis=1)
    if np.any(bad):
        row = np.flatnonzero(bad)[0]
        column = names[int(np.flatnonzero(~np.isfinite(array[row]))[0])]
        raise ValueError(
            f"{bad.sum()} row(s) of {side}s are missing or infinite, the first of them row {row} "
            f"in {column!r}; leave those rows out, and mind that this conditions the prior on success"
        )


def repeated(names: Iterable[str]) -> list[str]:
    """Names that stand more than once."""
    return sorted(name for name, times in Counter(names).items() if times > 1)


def check_columns(df: pd.DataFrame, parameters: list[str], statistics: list[str]) -> None:
    """Refuse names that are missing, stand twice or on both sides, or are of columns without numbers."""
    asked = [*parameters, *statistics]
    for side, names in (("parameters", parameters), ("statistics", statistics)):
        if not names:
            raise ValueError(f"no {side} are named; name at least one column of {list(df.columns)}")
    twice = repeated(asked)
    if twice:
        raise ValueError(f"the columns {twice} are named more than once; name each once, on one side")
    missing = [name for name in asked if name not in df.columns]
    if missing:
        raise ValueError(f"the data frame has no column {missing}; it has {list(df.columns)}")
    ambiguous = sorted(set(asked) & set(repeated(df.columns)))
    if ambiguous:
        raise ValueError(f"the data frame has more than one column called {ambiguous}; rename them")
    import pandas as pd

    wrong = [
        name
        for name in asked
        if not pd.api.types.is_numeric_dtype(df[name]) or pd.api.types.is_complex_dtype(df[name])
    ]
    if wrong:
        kinds = {name: str(df[name].dtype) for name in wrong}
        raise ValueError(f"the columns {kinds} are not numeric; convert or leave them out")


def observation(
    observed: Mapping[str, float] | Sequence[float] | None, names: list[str]
) -> np.ndarray | None:
    """The observed statistics in the order of `names`, from a mapping, a Series or a sequence."""
    if observed is None:
        return None
    if hasattr(observed, "keys"):
        values: Any = observed
        missing = [name for name in names if name not in values.keys()]  # noqa: SIM118  (a Series iterates over values)
        if missing:
            raise ValueError(f"the observation lacks {missing}; the statistics are {names}")
        observed = [values[name] for name in names]
    try:
        return np.array(observed, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(
            f"the observation {observed!r} is not numeric; give one number a statistic"
        ) from None
