"""The reference table: every simulation that was paid for, in one value that never changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.data_sets import DataSets
from pymc_kbr.arrays.refusals import instance
from pymc_kbr.arrays.support import Support
from pymc_kbr.tables.appended import appended
from pymc_kbr.tables.checks import checked
from pymc_kbr.tables.columns import Columns
from pymc_kbr.tables.conversions import Conversions
from pymc_kbr.tables.failures import Failures, meaning_of_failures
from pymc_kbr.tables.of_sets import observation_of, sets_of, with_columns
from pymc_kbr.tables.origin import Origin
from pymc_kbr.tables.selected import of_statistics, without_missing


@default_arithmetic
@dataclass(frozen=True, eq=False, repr=False)
class ReferenceTable(Conversions):
    """Simulated parameters and statistics, with all that is needed to condition on an observation.

    Parameters
    ----------
    parameters : ndarray of shape (n, p)
        Draws from the prior, in the units of the user's model.
    statistics : ndarray of shape (n, d)
        What was simulated with them, row by row.
    observed : ndarray of shape (d,), optional
        The statistics of the data; NaN where they are missing.
    parameter_columns, statistic_columns : Columns
        Names, shapes and order of the variables on either side.
    support : Support
        The bijection from the prior's support to a space without edges.
    failures : Failures
        Draws whose simulation failed and which are therefore not rows of the table.
    seed : int, optional
        Entropy from which every random stream of the simulation was made.
    observed_data : dict of str to ndarray
        The data as the user's model holds them, before `sum_stat`.
    provenance : dict of str to str
        Versions of the software, and how the simulations were run: to be read by people.
    timings : dict of str to float
        Seconds of each stage.
    origin : Origin
        What code asks of the provenance.
    prior_ratio : ndarray of shape (n,), optional
        Density of the prior, times likelihoods that are known (`origin.known`), over the density that the
        rows were drawn from, up to a constant: the `ratio` of `Estimator.fit`.

    Raises
    ------
    TypeError
        If parameters or statistics are complex, or no numbers.
    ValueError
        If there are fewer than two rows, the shapes or the row labels of data frames disagree, a value is
        masked, not finite or beyond what can be summed, all of the observation is missing or some infinite, a
        parameter is constant or lies outside the support, the support is so wide that rows cannot be told
        apart in it, or `prior_ratio` is not one number for each row, none negative and not all zero.
    """

    parameters: np.ndarray
    statistics: np.ndarray
    observed: np.ndarray | None
    parameter_columns: Columns
    statistic_columns: Columns
    support: Support
    failures: Failures
    seed: int | None = None
    observed_data: dict[str, np.ndarray] = field(default_factory=dict)
    provenance: dict[str, str] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)
    origin: Origin = field(default_factory=Origin)
    prior_ratio: np.ndarray | None = None

    def __post_init__(self) -> None:
        for name, array in checked(self).items():
            # Estimators keep views of these arrays, so a later change would change what they have fitted.
            if array is not None:
                array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def simulations(self) -> int:
        """How many were run: rows, failures, and rows that `zoom` left outside of its last bounds."""
        run = self.origin.simulations
        return len(self) + len(self.failures) if run is None else run

    @property
    def noise(self) -> np.ndarray:
        """Deviations (d,) of normal noise on the observation that the table is without, told to `zoom`."""
        return np.broadcast_to(np.array(self.origin.noise or 0.0), (self.statistic_columns.size,))

    @property
    def seeds(self) -> tuple[int | None, ...]:
        """Of the tables that make up this one; a table that was not simulated here has None."""
        return self.origin.seeds or (self.seed,)

    @property
    def parameter_names(self) -> list[str]:
        """Name of each parameter column."""
        return self.parameter_columns.names

    @property
    def statistic_names(self) -> list[str]:
        """Name of each statistic column."""
        return self.statistic_columns.names

    @property
    def set_names(self) -> list[str]:
        """Name of each statistic that holds data sets, of which `SetFeatures` makes columns."""
        return self.statistic_columns.set_names

    def __len__(self) -> int:
        return len(self.parameters)

    def __repr__(self) -> str:
        failed = f", {len(self.failures)} failed" if len(self.failures) else ""
        return (
            f"ReferenceTable({len(self)} rows{failed}; parameters {_shorten(self.parameter_names)}; "
            f"statistics {_shorten(self.statistic_names)}; "
            f"{'no observation' if self.observed is None else 'observed'})"
        )

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.to_dataframe().describe().T.to_html(max_rows=20)}"

    def with_observed(self, observed: Mapping[str, float] | Sequence[Any] | np.ndarray) -> ReferenceTable:
        """The same simulations with another observation.

        Parameters
        ----------
        observed : mapping or sequence of float, length d, or array_like of shape (m, q)
            The statistics by name or in the order of `statistic_names`, NaN where one is missing; a data set
            where the table holds such.

        Returns
        -------
        ReferenceTable

        Raises
        ------
        TypeError, ValueError
            If a statistic is lacking, they are not d numbers, all are missing or some infinite, or a data
            set has gaps, other columns, or more rows than there is room for.
        """
        return dataclasses.replace(self, observed=observation_of(self, observed), observed_data={})

    def append(self, other: ReferenceTable) -> ReferenceTable:
        """The rows of both tables, those of this one first; neither table changes.

        Parameters
        ----------
        other : ReferenceTable
            Simulations of the same model.

        Returns
        -------
        ReferenceTable
            Of n rows and those of `other`.

        Raises
        ------
        ValueError
            If `other` has other columns, or another support, observation or noise, has the same seed (the
            same simulations again), or rows of either are no draws of the prior.
        """
        return appended(self, other)

    def with_on_failure(self, meaning: str) -> ReferenceTable:
        """The same simulations with another meaning of those that failed.

        Parameters
        ----------
        meaning : {"drop", "condition"}
            See `simulate`: an outcome that was not observed, or a condition on the data.

        Returns
        -------
        ReferenceTable

        Raises
        ------
        ValueError
            If there is no such meaning.
        """
        return dataclasses.replace(self, **meaning_of_failures(self, meaning))

    def with_statistics(self, names: Sequence[str]) -> ReferenceTable:
        """The same simulations with some of their statistics, in the order that is given.

        Parameters
        ----------
        names : sequence of str
            Of columns, as in `statistic_names`, or of whole variables.

        Returns
        -------
        ReferenceTable

        Raises
        ------
        TypeError, ValueError
            If a name is unknown or there twice, there is none, or data sets are named in part.
        """
        return of_statistics(self, names)

    def without_missing(self) -> ReferenceTable:
        """The same simulations with the statistics that the observation has, where it has gaps (NaN).

        Returns
        -------
        ReferenceTable
            Itself where nothing is missing.
        """
        return without_missing(self)  # type: ignore[no-any-return]

    def data_sets(self, variable: str | None = None) -> DataSets:
        """The data sets of a statistic.

        Parameters
        ----------
        variable : str, optional
            Which, where several hold data sets.

        Returns
        -------
        DataSets
            Of length n, one a simulation.

        Raises
        ------
        ValueError
            If the table holds none, none of that name, or several and no name is given.
        """
        return sets_of(self, variable)

    def with_features(self, features: Any, variable: str | None = None) -> ReferenceTable:
        """The same simulations with columns in place of their data sets, also of the observed one.

        Parameters
        ----------
        features : SetFeatures
            Fitted, or a function of data sets with `names_` of its columns.
        variable : str, optional
            Which, where several hold data sets.

        Returns
        -------
        ReferenceTable

        Raises
        ------
        TypeError, ValueError
            As `data_sets`, and as `features` where data sets have other columns than it was fitted to.
        """
        return with_columns(self, features, variable)


def check_table(name: str, value: Any) -> None:
    """Refuse what is no reference table in memory.

    Raises
    ------
    TypeError
    """
    advice = "a ReferenceTable, as `simulate` makes one (of a StoredTable, some rows: `stored.load(20_000)`)"
    instance(name, value, ReferenceTable, advice)


def _shorten(names: list[str]) -> str:
    return str(names) if len(names) <= 8 else f"[{', '.join(map(repr, names[:6]))}, ... {len(names)} in all]"
