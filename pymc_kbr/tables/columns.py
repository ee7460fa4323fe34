"""How the variables of a model lie side by side as the columns of one array."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Variable:
    """A named array of any shape.

    Parameters
    ----------
    name : str
    shape : tuple of int
        ``()`` for a scalar.
    discrete : bool
        Whether its values are whole numbers.
    labels : tuple of str, optional
        One label an entry, in C order; indices where left out.
    set_columns : int
        Numbers in a row of the data sets that it holds (see `DataSets.padded`); zero where it holds none.
    set_labels : tuple of str, optional
        Names of the columns of these data sets.
    """

    name: str
    shape: tuple[int, ...] = ()
    discrete: bool = False
    labels: tuple[str, ...] | None = None
    set_columns: int = 0
    set_labels: tuple[str, ...] | None = None

    @property
    def size(self) -> int:
        """Number of columns it takes up."""
        return math.prod(self.shape)

    @property
    def column_names(self) -> list[str]:
        """Name of each of its columns."""
        if not self.shape:
            return [self.name]
        labels = self.labels or [", ".join(map(str, index)) for index in np.ndindex(self.shape)]
        return [f"{self.name}[{label}]" for label in labels]


@dataclass(frozen=True)
class Columns:
    """Variables in order, and the columns that each takes up.

    Examples
    --------
    >>> columns = Columns((Variable("mean"), Variable("effect", (2,))))
    >>> columns.names
    ['mean', 'effect[0]', 'effect[1]']
    >>> columns.split(np.array([[1.0, 2.0, 3.0]]))["effect"]
    array([[2., 3.]])
    """

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
            values = array[:, part].reshape(len(array), *variable.shape)
            # Floats carry whole numbers exactly, but a weighted mean of them is none.
            parts[variable.name] = np.rint(values).astype(np.int64) if variable.discrete else values
        return parts

    def stack(self, values: list[np.ndarray]) -> np.ndarray:
        """The inverse of `split`, for arrays (n, *shape) in the variables' order."""
        return np.hstack([np.asarray(v, dtype=float).reshape(len(v), -1) for v in values])

    def to_json(self) -> list[dict[str, Any]]:
        """Plain lists and strings."""
        return [
            {
                "name": v.name,
                "shape": list(v.shape),
                "discrete": v.discrete,
                "labels": None if v.labels is None else list(v.labels),
                **({"set_columns": v.set_columns} if v.set_columns else {}),
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
                    None if v.get("set_labels") is None else tuple(v["set_labels"]),
                )
                for v in document
            )
        )
