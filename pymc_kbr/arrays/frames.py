"""Data frames of polars, pyarrow, dask, duckdb and others, by narwhals; imported for these alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np

from pymc_kbr.arrays.refusals import of_type, shown


def columns_of_frame(what: str, value: Any, asked: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """The columns of a data frame; what is missing is NaN."""
    if hasattr(value, "dask") and hasattr(value, "compute"):
        value = value.compute()  # a data frame of pandas, for which narwhals needs no package beside it
    try:
        frame: Any = nw.from_native(value)
    except Exception as error:
        raise TypeError(
            f"{what}: {of_type(value)} is given, and narwhals does not read it as a data frame "
            f"({shown(error)}); give an array, or a data frame"
        ) from None
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    schema = frame.collect_schema()
    wrong = {
        name: str(kind) for name, kind in schema.items() if not (kind.is_numeric() or kind == nw.Boolean)
    }
    others = set() if asked is None else wrong.keys() - set(asked)
    wrong = {name: kind for name, kind in wrong.items() if name not in others}
    if wrong:
        raise TypeError(
            f"no real numbers in some columns of {what}: {shown(wrong)}; convert them, or leave them out"
        )
    return {
        name: np.array(frame[name].to_list(), dtype=object) if name in others else _numbers(frame[name], kind)
        for name, kind in schema.items()
    }


def _numbers(column: Any, kind: Any) -> np.ndarray:
    if kind.is_integer() and not column.is_null().any():
        return np.asarray(column.to_numpy())  # whole numbers, which are looked at before they become floats
    return np.asarray(column.cast(nw.Float64).to_numpy(), dtype=float)
