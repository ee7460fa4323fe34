"""How the variables of a model lie side by side as the columns of one array."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Variable:
    """A named array of any shape."""

    name: str
    shape: tuple[int, ...] = ()
    discrete: bool = False
    labels: tuple[str, ...] | None = None
    set_columns: int = 0
    sources: tuple[int, ...] | None = None
    constants: tuple[float, ...] = ()
    set_labels: tuple[str, ...] | None = None

    @property
    def size(self) -> int:
        """Number of columns it takes up."""
        return math.prod(self.shape) if self.sources is None else 1 + max(self.sources)

    @property
    def kept(self) -> list[int]:
        """The entry of each column, by its number in C order."""
        sources = range(self.size) if self.sources is None else self.sources
        return [sources.index(column) for column in range(self.size)]

    def whole(self, columns: np.ndarray) -> np.ndarray:
        """All entries (n, *shape) from the columns (n, size)."""
        if self.sources is not None:
            constants = np.broadcast_to(self.constants[::-1], (len(columns), len(self.constants)))
            # A negative source counts from the end.
            columns = np.hstack([columns, constants])[:, list(self.sources)]
        return columns.reshape(len(columns), *self.shape)

    def columns_of(self, values: np.ndarray) -> np.ndarray:
        """The columns (n, size) of all entries (n, *shape), refused where others do not follow from them."""
        flat = np.asarray(values, dtype=float).reshape(len(values), -1)
        if self.sources is None:
            return flat
        columns = flat[:, self.kept]
        if not np.allclose(self.whole(columns).reshape(flat.shape), flat, rtol=1e-9, atol=1e-12):
            raise ValueError(
                f"some entries of {self.name!r} were constant, or equal to other entries, in the first "
                "draws, and in later ones they are not; make entries that vary so rarely a variable of "
                "their own"
            )
        return columns

    @property
    def column_names(self) -> list[str]:
        """Name of each of its columns."""
        if not self.shape:
            return [self.name]
        labels = self.labels or [", ".join(map(str, index)) for index in np.ndindex(self.shape)]
        return [f"{self.name}[{labels[entry]}]" for entry in self.kept]


@dataclass(frozen=True)
class Columns:
    """Variables in order, and the columns that each takes up."""

    variables: tuple[Variable, ...]

    @classmethod
    def scalars(cls, names: list[str]) -> Columns:
        """One scalar variable a name."""
        return cls(tuple(Variable(name) for name in names))

    @property
    def names(self) -> list[str]:
        """Name of each column."""
        return [name for variable in self.variables for name in variable.column_names]

    @property
    def size(self) -> int:
        """Number of columns."""
        return sum(variable.size for variable in self.variables)

    @property
    def set_names(self) -> list[str]:
        """Name of each variable that holds data sets."""
        return [variable.name for variable in self.variables if variable.set_columns]

    def slices(self) -> dict[str, slice]:
        """The columns of each variable."""
        slices, start = {}, 0
        for variable in self.variables:
            slices[variable.name] = slice(start, start + variable.size)
            start += variable.size
        return slices

    def split(self, array: np.ndarray) -> dict[str, np.ndarray]:
        """An array (n, size) as one array (n, *shape) a variable, whole numbers as integers."""
        parts = {}
        for variable, part in zip(self.variables, self.slices().values(), strict=True):
            values = variable.whole(array[:, part])
            # Floats carry whole numbers exactly, but a weighted mean of them is none.
            parts[variable.name] = np.rint(values).astype(np.int64) if variable.discrete else values
        return parts

    def stack(self, values: list[np.ndarray]) -> np.ndarray:
        """The inverse of `split`, for arrays (n, *shape) in the variables' order."""
        parts = zip(self.variables, values, strict=True)
        return np.hstack([variable.columns_of(np.asarray(v, dtype=float)) for variable, v in parts])

    def to_json(self) -> list[dict[str, Any]]:
        """Plain lists and strings."""
        return [
            {
                "name": v.name,
                "shape": list(v.shape),
                "discrete": v.discrete,
                "labels": None if v.labels is None else list(v.labels),
                **({"set_columns": v.set_columns} if v.set_columns else {}),
                **(
                    {"sources": list(v.sources), "constants": list(v.constants)}
                    if v.sources is not None
                    else {}
                ),
                **({} if v.set_labels is None else {"set_labels": list(v.set_labels)}),
            }
            for v in self.variables
        ]

    @classmethod
    def from_json(cls, document: list[Mapping[str, Any]]) -> Columns:
        """The inverse of `to_json`."""
        return cls(
            tuple(
                Variable(
                    v["name"],
                    tuple(v["shape"]),
                    v["discrete"],
                    None if v["labels"] is None else tuple(v["labels"]),
                    v.get("set_columns", 0),
                    tuple(v["sources"]) if "sources" in v else None,
                    tuple(v.get("constants", ())),
                    None if v.get("set_labels") is None else tuple(v["set_labels"]),
                )
                for v in document
            )
        )
