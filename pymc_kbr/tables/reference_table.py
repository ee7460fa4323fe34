"""The reference table: every simulation that was paid for, in one value that never changes."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.bijections import ends_of
from pymc_kbr.arrays.constraints import check_constraints, never_broken
from pymc_kbr.arrays.data_sets import DataSets
from pymc_kbr.arrays.labelled import columns_of, is_pandas, labels_of_columns, texts
from pymc_kbr.arrays.refusals import instance, named, names_of, one_of, path_of, shown, whole
from pymc_kbr.arrays.rows import as_rows
from pymc_kbr.arrays.support import Support
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.tables import file as table_file
from pymc_kbr.tables.checks import (
    check_bounds,
    check_columns,
    check_observed,
    check_support,
    checked,
    describe,
    observation,
)
from pymc_kbr.tables.columns import Columns, Variable
from pymc_kbr.tables.file import arrays_of, documents_of, fields_from, held_by
from pymc_kbr.tables.origin import ON_FAILURE, Failures, Origin, provenance_with

if TYPE_CHECKING:
    import pandas as pd

# --- reading a data frame ---


def fields_of(
    df: pd.DataFrame,
    parameters: Sequence[str],
    statistics: Sequence[str],
    observed: Mapping[str, float] | Sequence[float] | None,
    bounds: Mapping[str, tuple[float | None, float | None]] | None,
    discrete: Sequence[str] | None,
    constraints: Sequence[str] | None = None,
) -> dict[str, Any]:
    """The fields of a table, for the arguments of `ReferenceTable.from_dataframe`, with its errors."""
    parameters, statistics = _names("parameters", parameters), _names("statistics", statistics)
    df = as_pandas(df, [*parameters, *statistics])
    check_columns(df, parameters, statistics)
    return {
        **_parameters_of(df, parameters, bounds, discrete, constraints),
        # A copy: a table makes its arrays read-only, and the data frame is the user's.
        "statistics": np.array(as_rows("the statistics", df[statistics])),
        "observed": observation(observed, statistics),
        "statistic_columns": Columns.scalars(statistics),
    }


def as_pandas(df: Any, asked: list[str] | None = None) -> pd.DataFrame:
    """A data frame of any package, or a dict of columns, as one of pandas with texts for names."""
    import pandas as pd

    if is_pandas(df) and hasattr(df, "columns"):
        return df.set_axis(list(texts(labels_of_columns(df)) or ()), axis=1)
    columns = columns_of("the data frame", df, asked)
    if columns is None:
        advice = "a data frame, a column for each parameter and each statistic, or a dict of columns"
        raise TypeError(f"df is {named(df)}; give {advice}")
    wrong = {name: column.shape for name, column in columns.items() if column.ndim != 1}
    if wrong or len({len(column) for column in columns.values()}) > 1:
        raise ValueError(
            f"the columns of df have the shapes {shown({n: c.shape for n, c in columns.items()})}; all "
            "must be of one length, with one number a row"
        )
    return pd.DataFrame(columns)


def _names(side: str, names: Any) -> list[str]:
    """Names of columns as a list of texts."""
    return list(texts(tuple(names_of(side, names, str | tuple | int | np.integer))) or ())


def _parameters_of(
    df: pd.DataFrame,
    parameters: list[str],
    bounds: Mapping[str, tuple[float | None, float | None]] | None,
    discrete: Sequence[str] | None,
    constraints: Sequence[str] | None = None,
) -> dict[str, Any]:
    """The fields of a table that are not about its statistics."""
    check_bounds(bounds)
    counts = _whole_numbers(df, parameters) if discrete is None else _checked(df, parameters, discrete)
    values = np.array(as_rows("the parameters", df[parameters]))
    if counts and bounds and np.all(np.isfinite(values)):
        # Within the support discrete columns have no bounds: they are never moved.
        check_support(Support.from_bounds(bounds, parameters), values, parameters)
    if constraints is None:
        _propose(never_broken(values, parameters))
    given = [] if constraints is None else constraints
    support = Support.from_bounds(bounds, parameters, counts, given)
    if support.constraints and np.all(np.isfinite(values)):
        ends = [ends_of(name, (bounds or {}).get(name, (None, None))) for name in parameters]
        check_constraints(support.constraints, values, parameters, ends)
    return {
        "parameters": values,
        "parameter_columns": Columns(tuple(Variable(name, discrete=name in counts) for name in parameters)),
        "support": support,
        "failures": Failures.none(len(parameters)),
        "provenance": {"simulated_by": "a data frame"},
    }


def _propose(orders: list[str]) -> None:
    """Say which orders of parameters the rows never break."""
    if orders:
        warnings.warn(
            f"no row breaks {', '.join(orders)}, though the values overlap; if the prior says so, give "
            f"constraints={orders}, and no draw breaks them either, else constraints=[]",
            UserWarning,
            stacklevel=users_line(),
        )


def _whole_numbers(df: pd.DataFrame, parameters: list[str]) -> list[str]:
    """Parameters that are integers or truth values by their type, or nothing but zeros and ones."""
    kinds = {name: df[name].dtype.kind for name in parameters}
    return [name for name, kind in kinds.items() if kind in "iub" or set(df[name].unique()) == {0, 1}]


def _checked(df: pd.DataFrame, parameters: list[str], discrete: Sequence[str]) -> list[str]:
    """The discrete parameters that were named, refused where they are none."""
    discrete = _names("discrete", discrete)
    unknown = [name for name in discrete if name not in parameters]
    if unknown:
        raise ValueError(f"discrete names {unknown}; the parameters are {parameters}: name some of these")
    for name in discrete:
        values = df[name].to_numpy(dtype=float)
        broken = np.flatnonzero(np.isfinite(values) & (values != np.rint(values)))
        if len(broken):
            raise ValueError(
                f"discrete names {name!r}, which is {values[broken[0]]} in row {broken[0]}; a discrete "
                "parameter has whole numbers only: round it, or leave it out of `discrete`"
            )
    return list(discrete)


# --- what a table in memory and one on the disk share ---


def _replaced(table: Any, **fields: Any) -> Any:
    return dataclasses.replace(table, **fields)


class AnyTable:
    """Columns of a table by their names, and the same simulations seen in another way."""

    parameter_columns: Any
    statistic_columns: Any
    observed: np.ndarray | None
    _meaning: Any
    _with_columns: Any

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

    def with_observed(self, observed: Mapping[str, float] | Sequence[Any] | np.ndarray) -> Self:
        """The same simulations with another observation.

        Parameters
        ----------
        observed : mapping or sequence of float, length d, or array_like of shape (m, q)
            The statistics by name or in the order of `statistic_names`, NaN where one is missing; a data set
            where the table holds such.

        Returns
        -------
        ReferenceTable or StoredTable

        Raises
        ------
        TypeError, ValueError
            If a statistic is lacking, they are not d numbers, all are missing or some infinite, or a data
            set has gaps, other columns, or more rows than `largest`.
        """
        return _replaced(self, observed=observation_of(self, observed), observed_data={})

    def with_on_failure(self, meaning: str) -> Self:
        """The same simulations with another meaning of those that failed.

        Parameters
        ----------
        meaning : {"drop", "condition"}
            See `simulate`: an outcome that was not observed, or a condition on the data.

        Returns
        -------
        ReferenceTable or StoredTable

        Raises
        ------
        ValueError
            If there is no such meaning.
        """
        one_of("the meaning of failures", meaning, ON_FAILURE[1:])
        return _replaced(self, **self._meaning(meaning))

    def with_statistics(self, names: Sequence[str]) -> Self:
        """The same simulations with some of their statistics, in the order that is given.

        Parameters
        ----------
        names : sequence of str
            Of columns, as in `statistic_names`, or of whole variables.

        Returns
        -------
        ReferenceTable or StoredTable

        Raises
        ------
        TypeError, ValueError
            If a name is unknown or there twice, there is none, or data sets are named in part.
        """
        chosen = columns_named(names, self.statistic_columns)
        columns = columns_by_name(chosen, self.statistic_columns)
        observed = None if self.observed is None else self.observed[chosen]
        return _replaced(self, observed=observed, observed_data={}, **self._with_columns(chosen, columns))

    def without_missing(self) -> Self:
        """The same simulations with the statistics that the observation has, where it has gaps (NaN).

        Returns
        -------
        ReferenceTable or StoredTable
            Itself where nothing is missing.
        """
        if self.observed is None or not np.any(np.isnan(self.observed)):
            return self
        both = zip(self.statistic_names, self.observed, strict=True)
        return self.with_statistics([name for name, value in both if not np.isnan(value)])


# --- the reference table ---


@default_arithmetic
@dataclass(frozen=True, eq=False, repr=False)
class ReferenceTable(AnyTable):
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
        parameter is constant or lies outside the support, the support is so wide that rows cannot be
        distinguished in it, or `prior_ratio` is not one number for each row, none negative and not all zero.
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

    @classmethod
    def from_dataframe(
        cls,
        df: pd.DataFrame,
        *,
        parameters: Sequence[str],
        statistics: Sequence[str],
        observed: Mapping[str, float] | Sequence[float] | None = None,
        bounds: Mapping[str, tuple[float | None, float | None]] | None = None,
        discrete: Sequence[str] | None = None,
        constraints: Sequence[str] | None = None,
    ) -> Self:
        """A table of simulations made elsewhere.

        Parameters
        ----------
        df : pandas.DataFrame
            One simulation a row. A data frame of polars, pyarrow, dask or duckdb, a dict of columns or an
            xarray.Dataset will do.
        parameters, statistics : sequence of str
            Its columns on either side.
        observed : mapping or sequence of float, optional
            The observed statistics, by name in any container that labels them, or in the order of
            `statistics`; a row of another data frame (a Series) will do. NaN where one is missing.
        bounds : mapping of str to (lower, upper), optional
            The prior's support; None where it has no end. Parameters left out are taken to be unbounded, and
            their smoothed draws may go beyond the simulated values.
        discrete : sequence of str, optional
            Parameters that are whole numbers, and so are draws of them, within the simulated values and on
            their lattice. Where left out, those whose type is integer or bool, and those of nothing but
            zeros and ones; ``[]`` for none.
        constraints : sequence of str, optional
            Linear inequalities that the prior satisfies, such as ``"ta < ts"``, ``"t1 < t2 < t3"`` or
            ``"2 * ta + 10 <= ts"``: no draw breaks them. Where left out, a warning proposes the orders that
            100,000 rows never break; ``[]`` for none.

        Returns
        -------
        ReferenceTable

        Raises
        ------
        TypeError, ValueError
            If a name is missing, occurs twice or is on both sides, a value is missing, infinite or not a
            number, or a parameter lies outside its bounds, or is discrete and no whole number; or if a
            constraint is no linear inequality, a row breaks it, or constraints contradict each other.

        Warns
        -----
        UserWarning
            If `constraints` is left out, and 100,000 rows or more never break an order of two parameters.

        Examples
        --------
        >>> import pandas as pd
        >>> from pymc_kbr import ReferenceTable
        >>> df = pd.DataFrame({"rate": [0.1, 0.4, 0.9], "count": [1, 5, 8]})
        >>> ReferenceTable.from_dataframe(
        ...     df, parameters=["rate"], statistics=["count"], observed={"count": 4}, bounds={"rate": (0, 1)}
        ... )
        ReferenceTable(3 rows; parameters ['rate']; statistics ['count']; observed)
        """
        return cls(**fields_of(df, parameters, statistics, observed, bounds, discrete, constraints))

    @classmethod
    def from_sets(
        cls,
        df: pd.DataFrame,
        sets: Sequence[Any],
        *,
        observed: Any = None,
        bounds: Mapping[str, tuple[float | None, float | None]] | None = None,
        discrete: Sequence[str] | None = None,
        constraints: Sequence[str] | None = None,
        largest: int | None = None,
    ) -> Self:
        """A table of data sets that were simulated elsewhere, whose columns `SetFeatures` makes.

        Parameters
        ----------
        df : pandas.DataFrame
            One simulation a row; all of its columns are parameters.
        sets : sequence of array_like of shape (n_i, q) or (n_i,)
            The raw data of each simulation.
        observed : array_like of shape (m, q) or (m,), optional
        bounds, discrete, constraints
            As in `from_dataframe`.
        largest : int, optional
            The most rows that a data set may have; that of these where left out.

        Returns
        -------
        ReferenceTable

        Raises
        ------
        TypeError, ValueError
            As `from_dataframe`, and if a data set is empty, has gaps or other columns than the others.
        """
        df = as_pandas(df)
        check_columns(df, list(df.columns))
        data = DataSets.of(sets)
        most = int(data.sizes.max()) if largest is None else largest
        whole("largest", most)
        if most < data.sizes.max():
            raise ValueError(f"largest is {largest}; a data set has {data.sizes.max()} rows: give as many")
        shape = (1 + most * data.columns,)
        data_set = Variable("data", shape, set_columns=data.columns, set_labels=data.names)
        return cls(
            **_parameters_of(df, list(df.columns), bounds, discrete, constraints),
            statistics=data.padded(most),
            observed=None if observed is None else observed_set(observed, data_set),
            statistic_columns=Columns((data_set,)),
        )

    def to_dataframe(self) -> pd.DataFrame:
        """One row a simulation, for other software.

        Returns
        -------
        pandas.DataFrame of shape (n, p + d)
            Parameters first, with the columns `parameter_names` and `statistic_names`. Discrete parameters
            are integers, by which `from_dataframe` knows them again.
        """
        import pandas as pd

        names = [*self.parameter_names, *self.statistic_names]
        frame = pd.DataFrame(np.hstack([self.parameters, self.statistics]), columns=names)
        discrete = [n for v in self.parameter_columns.variables if v.discrete for n in v.column_names]
        return frame.astype(dict.fromkeys(discrete, np.int64))

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the table to one NetCDF file, which appears under its name when it is complete.

        Parameters
        ----------
        path : str or Path
            Where to; ``.nc`` is the usual ending.
        overwrite : bool
            Whether an existing file may be replaced.

        Returns
        -------
        Path

        Raises
        ------
        FileExistsError
            If the file, or a folder of that name, is there already and `overwrite` is not set.
        FileNotFoundError
            If its folder is not there.
        ValueError
            If `path` is a folder, and `overwrite` is set.
        """
        table_file.write(
            path_of("path", path, "a file"), arrays_of(self), documents_of(self), overwrite=overwrite
        )
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a table that `save` wrote.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        ReferenceTable

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If it is no reference table, is damaged, is a store, or was written by another format version.
        """
        arrays, documents = table_file.read(path_of("path", path, "a file"))
        try:
            return cls(**fields_from(arrays, documents))
        except Exception as error:  # whatever is lacking in a file that has the marks of a table
            raise ValueError(f"{path} holds no reference table ({describe(error)})") from error

    @classmethod
    def from_arviz(cls, idata: Any) -> Self:
        """The table behind a result of `sample_abc`, also one that went to a file and back.

        Parameters
        ----------
        idata : arviz.InferenceData (ArviZ 0.x) or xarray.DataTree (ArviZ 1.x)
            A result of `sample_abc`, or of `to_arviz` with a table.

        Returns
        -------
        ReferenceTable

        Raises
        ------
        ValueError
            If no table is in it; of one that stayed in a store the error names the store.
        """
        return cls(**fields_from(*held_by(idata)))

    @property
    def simulations(self) -> int:
        """How many were run: rows, failures, and rows that `zoom` left outside of its last bounds."""
        run = self.origin.simulations
        return len(self) + len(self.failures) if run is None else run

    @property
    def noise(self) -> np.ndarray:
        """Deviations (d,) of normal noise on the observation, which the table lacks, as given to `zoom`."""
        return np.broadcast_to(np.array(self.origin.noise or 0.0), (self.statistic_columns.size,))

    @property
    def seeds(self) -> tuple[int | None, ...]:
        """Of the tables that make up this one; a table that was not simulated here has None."""
        return self.origin.seeds or (self.seed,)

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
        instance("other", other, type(self), "a ReferenceTable")
        for what, mine, theirs in (
            ("parameters", self.parameter_names, other.parameter_names),
            ("statistics", self.statistic_names, other.statistic_names),
        ):
            if mine != theirs:
                raise ValueError(
                    f"the table to append has {what} {theirs}; this one has {mine}; "
                    "only tables of the same model and statistics can be joined"
                )
        if self.support != other.support:
            raise ValueError("the table to append has another prior support; both must come from one prior")
        if self.prior_ratio is not None or other.prior_ratio is not None:
            raise ValueError(
                "the rows of one of the tables are no draws of the prior (it has a prior_ratio), and of both "
                "together the density is not known; give `refine` more draws instead"
            )
        # Rows of one seed are the same simulations: a second time they would only look like more data.
        twice = [seed for seed in self.seeds if seed is not None and seed in other.seeds]
        if twice:
            raise ValueError(
                f"both tables were simulated with the seed {twice[0]}, so their rows repeat each "
                "other; simulate the second one with another random_seed"
            )
        if not _same(self.observed, other.observed):
            raise ValueError(
                "the table to append has another observation; set the same one with `with_observed`"
            )
        seconds = set(self.timings) | set(other.timings)
        origin = dataclasses.replace(
            self.origin,
            simulations=self.simulations + other.simulations,
            noise=_noise(self, other),
            between_bounds=self.origin.between_bounds or other.origin.between_bounds,
            seeds=self.seeds + other.seeds,
            on_failure=_on_failure(self, other),
            prior_mass=self.origin.prior_mass if self.origin.prior_mass == other.origin.prior_mass else None,
        )
        copies = 0 if None not in (*self.seeds, *other.seeds) else _copies(self, other)
        if copies:
            raise ValueError(
                f"{copies} row(s) of the table to append are in this one, too, to the last digit: a second "
                "time they would only look like more simulations; leave them out, or simulate others"
            )
        return dataclasses.replace(
            self,
            parameters=np.vstack([self.parameters, other.parameters]),
            statistics=np.vstack([self.statistics, other.statistics]),
            failures=Failures(
                np.concatenate([self.failures.rows, other.failures.rows]),
                np.vstack([self.failures.parameters, other.failures.parameters]),
                self.failures.messages + other.failures.messages,
            ),
            # There is no single one any more: `origin.seeds` has both.
            seed=None,
            provenance={**self.provenance, **origin.words},
            timings={k: self.timings.get(k, 0.0) + other.timings.get(k, 0.0) for k in sorted(seconds)},
            origin=origin,
        )

    def _meaning(self, meaning: str) -> dict[str, Any]:
        origin = dataclasses.replace(self.origin, on_failure=meaning)
        return {"origin": origin, "provenance": provenance_with(self.provenance, origin)}

    def _with_columns(self, chosen: np.ndarray, columns: Columns) -> dict[str, Any]:
        noise = tuple(self.noise[chosen]) if self.origin.noise else self.origin.noise
        origin = dataclasses.replace(self.origin, noise=noise)
        return {"statistics": self.statistics[:, chosen], "statistic_columns": columns, "origin": origin}

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
        chosen = set_variable(self, variable)
        part = self.statistics[:, self.statistic_columns.slices()[chosen.name]]
        return dataclasses.replace(DataSets.of_padded(part, chosen.set_columns), names=chosen.set_labels)

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
        chosen = set_variable(self, variable)
        whole, place = self.statistic_columns, self.statistic_columns.slices()[chosen.name]

        def replaced(statistics: np.ndarray) -> np.ndarray:
            sets = DataSets.of_padded(statistics[:, place], chosen.set_columns)
            sets = dataclasses.replace(sets, names=chosen.set_labels)
            return np.hstack([statistics[:, : place.start], features(sets), statistics[:, place.stop :]])

        made = Variable(chosen.name, (len(features.names_),), labels=tuple(features.names_))
        return dataclasses.replace(
            self,
            statistics=replaced(self.statistics),
            observed=None if self.observed is None else replaced(self.observed[None])[0],
            statistic_columns=Columns(tuple(made if one is chosen else one for one in whole.variables)),
        )


def check_table(name: str, value: Any) -> None:
    """Refuse what is no reference table in memory."""
    advice = "a ReferenceTable, as `simulate` makes one (of a StoredTable, some rows: `stored.load(20_000)`)"
    instance(name, value, ReferenceTable, advice)


def _shorten(names: list[str]) -> str:
    return str(names) if len(names) <= 8 else f"[{', '.join(map(repr, names[:6]))}, ... {len(names)} in all]"


# --- appending one table to another ---


def _on_failure(one: Any, other: Any) -> str:
    """What failures mean, of which there are some in both tables, in one or in none."""
    meanings = {table.origin.on_failure for table in (one, other) if len(table.failures)}
    if len(meanings) > 1:
        raise ValueError(
            f"failures of this table have on_failure={one.origin.on_failure!r}, and those of the table to "
            f"append {other.origin.on_failure!r}; give both the same meaning: "
            f"`other.with_on_failure({one.origin.on_failure!r})`"
        )
    return meanings.pop() if meanings else str(one.origin.on_failure)


def _noise(one: Any, other: Any) -> tuple[float, ...]:
    """Deviations of the noise on the observation, which both tables have and rows of neither."""
    known = {table.origin.noise for table in (one, other)} - {()}
    if len(known) > 1:
        raise ValueError(
            f"the tables are without noise of the deviations {one.origin.noise} and {other.origin.noise} on "
            "the observation; only tables that were made for the same noise can be joined"
        )
    return known.pop() if known else ()


def _copies(one: Any, other: Any) -> int:
    """How many rows of a table are those of another one. Whole numbers alone may agree by chance."""
    mine, theirs = (np.hstack([table.parameters, table.statistics]) for table in (one, other))
    if np.array_equal(mine, theirs):
        return len(theirs)
    smooth = [column for block in one.support.blocks if block.smooth for column in block.columns]
    if not smooth or not np.any(np.isin(theirs[:, smooth[0]], mine[:, smooth[0]])):
        return 0
    known = {row.tobytes() for row in mine}
    return sum(row.tobytes() in known for row in theirs)


def _same(one: np.ndarray | None, two: np.ndarray | None) -> bool:
    if one is None or two is None:
        return one is two
    return np.array_equal(one, two, equal_nan=True)


# --- choosing some of the statistics ---


def columns_named(names: Sequence[str], columns: Columns) -> np.ndarray:
    """Numbers of the columns that are named, by themselves or by their variable."""
    names = names_of("statistics", names)
    of_variables, start = {}, 0
    for variable in columns.variables:
        of_variables[variable.name] = list(range(start, start + variable.size))
        start += variable.size
    known = {name: [i] for i, name in enumerate(columns.names)} | of_variables
    unknown = [name for name in names if name not in known]
    if unknown or not len(names):
        few = columns.names if len(columns.names) <= 20 else [*columns.names[:20], "..."]
        raise ValueError(f"statistics names {unknown or 'nothing'}; the table has {few}")
    found = [column for name in names for column in known[name]]
    twice = sorted({columns.names[i] for i in found if found.count(i) > 1})
    if twice:
        raise ValueError(f"statistics names {twice} twice; name each column once")
    return np.array(found)


def columns_by_name(chosen: np.ndarray, whole: Columns) -> Columns:
    """Some columns, each a variable of its own; data sets stay whole."""
    owners = [variable for variable in whole.variables for _ in variable.column_names]
    slices, kept, at = whole.slices(), list[Variable](), 0
    while at < len(chosen):
        owner, place = owners[chosen[at]], slices[owners[chosen[at]].name]
        taken = owner.size if owner.set_columns else 1
        if not owner.set_columns:
            kept.append(Variable(whole.names[chosen[at]], discrete=owner.discrete))
        elif np.array_equal(chosen[at : at + taken], np.arange(place.start, place.stop)):
            kept.append(owner)
        else:
            raise ValueError(
                f"statistics names {whole.names[chosen[at]]!r}, which is part of the data sets "
                f"{owner.name!r}; name {owner.name!r}, or leave it out"
            )
        at += taken
    return Columns(tuple(kept))


# --- data sets in a table, and columns that summarise them ---


def observed_set(observed: Any, variable: Variable) -> np.ndarray:
    """An observed data set as the entries (d,) of a table's variable."""
    # One entry is the data set's size, the others are its rows.
    data = DataSets.of([observed], variable.set_columns, variable.set_labels)
    most = (variable.size - 1) // variable.set_columns
    if data.sizes[0] > most:
        raise ValueError(
            f"the observed data set has {data.sizes[0]} rows, and those of {variable.name!r} at most {most}; "
            "simulate larger ones, or allow for it by `from_sets(largest=...)`"
        )
    return data.padded(most)[0]


def observation_of(table: Any, observed: Any) -> np.ndarray | None:
    """See `ReferenceTable.with_observed`."""
    columns = table.statistic_columns
    if table.set_names and len(columns.variables) == 1:
        return observed_set(observed, columns.variables[0])
    found = observation(observed, columns.names)
    if found is not None:
        check_observed(found, columns)
    return found


def set_variable(table: Any, name: str | None) -> Variable:
    """The variable of a table that holds data sets."""
    names = table.set_names
    if not names:
        raise ValueError(
            f"the table holds no data sets, but the statistics {table.statistic_names[:8]}; data sets are "
            "simulated by `set_simulator`, or given to `ReferenceTable.from_sets`"
        )
    if name is None and len(names) > 1:
        raise ValueError(f"the table has data sets of {names}; name one of them: variable={names[0]!r}")
    if name is not None and name not in names:
        raise ValueError(f"variable is {shown(name)}; the table has data sets of {names}")
    chosen = names[0] if name is None else name
    return next(one for one in table.statistic_columns.variables if one.name == chosen)
