"""Names of columns, of tables and of data frames, and observations that are put in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard

import numpy as np

from pymc_kbr.arrays.rows import is_frame
from pymc_kbr.arrays.support import Support


class Table(Protocol):
    """Simulations with their names, such as a `ReferenceTable` or a `StoredTable`."""

    @property
    def parameters(self) -> Any:
        """Shape (n, p), in memory or read a part at a time."""

    @property
    def statistics(self) -> Any:
        """Shape (n, d)."""

    @property
    def parameter_names(self) -> list[str]:
        """Of the p columns."""

    @property
    def statistic_names(self) -> list[str]:
        """Of the d columns."""

    @property
    def support(self) -> Support:
        """The prior's."""

    @property
    def prior_ratio(self) -> np.ndarray | None:
        """Density of the prior over that of the rows, shape (n,); None where these are draws of it."""


def is_table(value: Any) -> TypeGuard[Table]:
    """Whether a value brings both sides of a table."""
    # By what it has: tables themselves are on the floor above.
    return all(hasattr(value, name) for name in ("parameters", "statistics", "support", "prior_ratio"))


@dataclass(frozen=True)
class Names:
    """Names of both sides' columns, None where they have none; and numbers of some of all statistics."""

    parameters: tuple[str, ...] | None = None
    statistics: tuple[str, ...] | None = None
    numbers: tuple[int, ...] | None = None

    @classmethod
    def of_table(cls, table: Table) -> Names:
        """Those of a table.

        Raises
        ------
        ValueError
            If a statistic holds data sets: their rows are no columns.
        """
        refuse_sets(table)
        return cls(tuple(table.parameter_names), tuple(table.statistic_names))

    def of_statistics(self, columns: np.ndarray | Sequence[int]) -> Names:
        """Those of some of the statistics, by their numbers."""
        names, numbers = self.statistics, self.numbers
        return Names(
            self.parameters,
            None if names is None else tuple(names[i] for i in columns),
            tuple(int(i) if numbers is None else numbers[i] for i in columns),
        )

    def statistic(self, column: int) -> str:
        """What a statistic is called in a message: its name, or its column among all of the table's."""
        if self.statistics is not None:
            return repr(self.statistics[column])
        return f"in column {column if self.numbers is None else self.numbers[column]}"

    @classmethod
    def of_sides(cls, parameters: Any, statistics: Any) -> Names:
        """Those of two data frames; arrays have none."""
        return cls(labels_of(parameters), labels_of(statistics))


def refuse_sets(table: Any) -> None:
    """Refuse a table that holds data sets where columns are needed.

    Raises
    ------
    ValueError
        That says how columns are made.
    """
    names = getattr(table, "set_names", [])
    if names:
        raise ValueError(
            f"the statistics {names} are data sets of many rows; make columns that stand for them: "
            "table.with_features(pk.SetFeatures().fit(table))"
        )


def labels_of(value: Any) -> tuple[str, ...] | None:
    """Labels of a data frame's columns, or of a Series' entries; None where there are no texts among them."""
    if not is_frame(value):
        return None
    labels = list(value.columns if hasattr(value, "columns") else value.index)
    # Labels that are all numbers are those pandas makes up, and name nothing.
    return tuple(map(str, labels)) if any(isinstance(label, str) for label in labels) else None


def by_name(observed: Any, names: Sequence[str] | None) -> Any:
    """An observation, or several, with its statistics in the order of the names of a table.

    Parameters
    ----------
    observed : array_like of shape (d,) or (k, d)
        A Series or a data frame of pandas that is labelled with texts is put in order. Anything else is
        taken to be in order, and so is everything where there are no names.
    names : sequence of str, length d, optional

    Returns
    -------
    array_like
        An array where it was put in order, otherwise what was given.

    Raises
    ------
    ValueError
        If a name is missing, unknown, or there twice.

    Examples
    --------
    >>> import pandas as pd
    >>> by_name(pd.Series({"sd": 2.0, "mean": 1.0}), ["mean", "sd"])
    array([1., 2.])
    """
    labels = labels_of(observed)
    if labels is None or names is None:
        return observed
    wrong = _wrong(labels, names)
    if wrong:
        raise ValueError(
            f"the observation {wrong}; its labels must be the names of the statistics that the "
            f"estimator was fitted on, {_some(names)}, in any order: choose these, as by "
            "`observed[table.statistic_names]`, or give an array in their order (`to_numpy()`)"
        )
    return observed.to_numpy()[..., [labels.index(name) for name in names]]


def parameters_by_name(parameters: Any, names: Sequence[str] | None, what: str = "the parameters") -> Any:
    """Parameters in the order of the names of a table.

    Parameters
    ----------
    parameters : array_like of shape (k, p)
        A data frame that is labelled with texts is put in order. Anything else is taken to be in order, and
        so is everything where there are no names.
    names : sequence of str, length p, optional
    what : str
        What they are, for the words of an error.

    Returns
    -------
    array_like
        What was given, with its columns in another order where they were labelled.

    Raises
    ------
    ValueError
        If a name is missing, unknown, or there twice.

    Examples
    --------
    >>> import pandas as pd
    >>> list(parameters_by_name(pd.DataFrame({"sd": [2.0], "mean": [1.0]}), ["mean", "sd"]))
    ['mean', 'sd']
    """
    labels = labels_of(parameters)
    if labels is None or names is None:
        return parameters
    wrong = _wrong(labels, names)
    if wrong:
        raise ValueError(
            f"the frame of {what} {wrong}; its labels must be the names of the parameters that the estimator "
            f"was fitted on, {_some(names)}, in any order: choose these, or give an array in their order "
            "(`to_numpy()`)"
        )
    places = [labels.index(name) for name in names]
    return parameters.iloc[:, places] if hasattr(parameters, "columns") else parameters.iloc[places]


def _wrong(labels: Sequence[str], names: Sequence[str]) -> str:
    """How labels differ from names, whatever their order; empty where they do not."""
    missing = [name for name in names if name not in labels]
    unknown = [label for label in labels if label not in names]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    wrong = {"lacks": missing, "has the unknown": unknown, "has twice": twice}
    return " and ".join(f"{what} {_some(which)}" for what, which in wrong.items() if which)


def _some(names: Sequence[str]) -> str:
    """At most eight names."""
    return str(list(names)) if len(names) <= 8 else f"[{', '.join(map(repr, names[:6]))}, ... {len(names)}]"
