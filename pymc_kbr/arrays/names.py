"""Names of columns, of tables and of data frames, and observations that are put in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard

import numpy as np

from pymc_kbr.arrays.labelled import in_order, is_labelled, labels_of_columns, made_up, texts
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
    # By what it has: tables themselves are in a layer above.
    return all(hasattr(value, name) for name in ("parameters", "statistics", "support", "prior_ratio"))


@dataclass(frozen=True)
class Names:
    """Names of both sides' columns, None where they have none; and numbers of some of all statistics."""

    parameters: tuple[str, ...] | None = None
    statistics: tuple[str, ...] | None = None
    numbers: tuple[int, ...] | None = None

    @classmethod
    def of_table(cls, table: Table) -> Names:
        """Those of a table."""
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


def refuse_sets(table: Any) -> None:
    """Refuse a table that holds data sets where columns are needed."""
    names = getattr(table, "set_names", [])
    if names:
        raise ValueError(
            f"the statistics {names} are data sets of many rows; summarise them by columns: "
            "table.with_features(pk.SetFeatures().fit(table))"
        )


def labels_of(value: Any) -> tuple[str, ...] | None:
    """Labels of the columns of a container; None where there are none, or those that containers make up."""
    labels = labels_of_columns(value)
    return None if made_up(labels) else texts(labels)


def by_name(
    observed: Any, names: Sequence[str] | None, what: str = "the observation", *, gaps: bool = False
) -> np.ndarray:
    """An observation, or several, with its statistics in the order of the names of a table."""
    # Shapes: observed (d,) or (k, d), or labelled container.
    return in_order(what, observed, names, "the names of the statistics", gaps=gaps)


def one_by_name(observed: Any, names: Sequence[str] | None, *, more: bool = False) -> np.ndarray:
    """One observation in the order of the names of a table; a data frame of one row is one, too."""
    found = in_order("the observation", observed, names, "the names of the statistics", gaps=True, more=more)
    return found[0] if found.ndim == 2 and len(found) == 1 and is_labelled(observed) else found


def parameters_by_name(
    parameters: Any, names: Sequence[str] | None, what: str = "the parameters"
) -> np.ndarray:
    """Parameters in the order of the names of a table: see `by_name`."""
    return in_order(what, parameters, names, "the names of the parameters")
