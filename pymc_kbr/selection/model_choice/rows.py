"""The simulations of several models as one set of labelled rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_kbr.arrays.chunks import Chunks
from pymc_kbr.arrays.data_sets import DataSets
from pymc_kbr.arrays.neighbours import Tree, neighbours_of
from pymc_kbr.arrays.refusals import names_of, shown
from pymc_kbr.arrays.scaling import Scaler, unit_deviations
from pymc_kbr.arrays.weighted import spread_out
from pymc_kbr.estimators.likelihood.success import weighting_of
from pymc_kbr.estimators.sets import SetFeatures
from pymc_kbr.estimators.summaries import Transformed
from pymc_kbr.tables.columns import Columns, Variable
from pymc_kbr.tables.reference_table import ReferenceTable, as_pandas, fields_of
from pymc_kbr.tables.stored_table import StoredTable


@dataclass(frozen=True, eq=False)
class Rows:
    """Simulations of all models together."""

    # `own` are their numbers in the tables; those near the observations that these lack have -1. `scored` are
    # the weights by which rows stand for all data, that of these rows zero.

    # Shapes: statistics (n, d); model (n,); weights (n,); own (n,); scored (n,).
    statistics: np.ndarray
    model: np.ndarray
    weights: np.ndarray
    own: np.ndarray
    tables: tuple[ReferenceTable, ...]
    curves: Transformed | Scaler
    scored: np.ndarray

    def __len__(self) -> int:
        return len(self.model)

    @property
    def models(self) -> int:
        """How many there are."""
        return len(self.tables)

    def far(
        self,
        observed: np.ndarray,
        *,
        # Of the table, whose distances to their neighbours are usual.
        most: int = 1000,
        # An observation is far where its mean distance to so many rows
        nearest: int = 10,
        # is so many times that
        times: float = 4.0,
        # of nearly all rows.
        share: float = 0.995,
    ) -> np.ndarray:
        """Which observations (k, d) are far from their nearest rows, as nearly no row is, bool (k,)."""
        x = self.curves.transform(self.statistics)
        unit = unit_deviations(x)
        tree = Tree(x / unit, nearest)
        some = spread_out(len(x), most)
        # A row is its own nearest, and is left out.
        own = tree.query(x[some] / unit, nearest + 1)[0][:, 1:].mean(axis=1)
        away = tree.query(self.curves.transform(observed) / unit, nearest)[0].mean(axis=1)
        return away > times * np.quantile(own, share)

    def part(self, rows: np.ndarray) -> Rows:
        """Some of the rows, each model's share in the prior kept."""
        return dataclasses.replace(
            self,
            statistics=self.statistics[rows],
            model=self.model[rows],
            weights=self._shared(self.weights, rows),
            own=self.own[rows],
            scored=self._shared(self.scored, rows),
        )

    def _shared(self, weights: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Weights of some of the rows, of mean one, each model's share in them that in all."""
        model, some = self.model[rows], weights[rows]
        shares = np.bincount(self.model, weights, minlength=self.models)
        left = np.bincount(model, some, minlength=self.models)
        # A model may have lost more of its weight than others by chance.
        some = some * (shares / np.where(left > 0, left, 1.0))[model]
        total = some.sum()
        return some * len(some) / total if total > 0 else some

    @classmethod
    def joined(
        cls,
        tables: Mapping[str, ReferenceTable],
        prior: np.ndarray,
        observed: np.ndarray | None = None,
        near: Sequence[Near] | None = None,
    ) -> Rows:
        """The rows of tables, weighted so that each model has its prior probability."""
        # Rows `near` the observations are all that the models made there, the tables some of what they made.
        # Shapes: prior (models,); observed (k, d).
        held = tuple(tables.values())
        beside = [Near.none(table) for table in held] if near is None else near
        weights, scored = [], []
        for table, share, close in zip(held, prior, beside, strict=True):
            ratio = weighting_of(table).ratio
            ratio = np.ones(len(table)) if ratio is None else ratio
            # However many rows a table has.
            mine = share * success_share(table) * ratio / ratio.sum()
            lacking = len(close.statistics)
            scored.append(np.append(mine, np.zeros(lacking)))
            # A row counts once as one of some that stand for all, and once as one of all that are near: what
            # it counts hangs on its statistics, not on its model.
            all_of_it = share * success_share(table) * close.ratio / (ratio.sum() * close.times)
            mine = mine + np.where(close.there, mine / close.times, 0.0) / close.share
            weights.append(np.append(mine, all_of_it / close.share))
        lengths = [len(mine) for mine in weights]
        together, of_all = np.concatenate(weights), np.concatenate(scored)
        statistics = np.vstack(
            [
                rows
                for table, close in zip(held, beside, strict=True)
                for rows in (table.statistics, close.statistics)
            ]
        )
        model = np.repeat(np.arange(len(held)), lengths)
        own = [
            np.append(np.arange(len(t)), np.full(n - len(t), -1)) for t, n in zip(held, lengths, strict=True)
        ]
        return cls(
            statistics,
            model,
            together * len(together) / together.sum(),
            np.concatenate(own),
            held,
            _curves(statistics, np.eye(len(held))[model][:, 1:], observed),
            of_all * len(together) / of_all.sum(),
        )


def success_share(table: ReferenceTable) -> float:
    """The probability of success under a model's prior, as far as it says something of the model."""
    success = weighting_of(table).success
    return 1.0 if success is None or success.condition else success.share


def _curves(
    statistics: np.ndarray, parameters: np.ndarray, observed: np.ndarray | None
) -> Transformed | Scaler:
    """The curves of statistics (n, d), by what tells the models apart (n, models - 1)."""
    # Observations may be beyond all rows, where a logarithm or a root has no value.
    return Transformed.fit(statistics, parameters, lowest=None if observed is None else observed.min(axis=0))


# --- rows near the observations, of tables with too many ---


@dataclass(frozen=True, eq=False)
class Near:
    """What a model made near the observations, of a table of which some rows are kept."""

    # `there` are the rows of those kept that are near, too, `times` how many rows there were for one that is
    # kept, `share` what share of all models' rows is kept.

    # Shapes: statistics (m, d); ratio (m,); there (n,).
    statistics: np.ndarray
    ratio: np.ndarray
    there: np.ndarray
    times: float = 1.0
    share: float = 1.0

    @classmethod
    def none(cls, table: ReferenceTable) -> Near:
        """No row of a table that is kept as a whole."""
        none = np.empty((0, table.statistics.shape[1]))
        return cls(none, np.empty(0), np.zeros(len(table), dtype=bool))


def screened(
    tables: Mapping[str, ReferenceTable | StoredTable],
    observed: np.ndarray,
    *,
    # On these all methods take ten seconds together, with two or three statistics.
    most: int = 25_000,
) -> tuple[dict[str, ReferenceTable], list[Near] | None]:
    """Half of so many rows spread evenly over the tables, and the nearest to the observations (k, d)."""
    # Tables are read once, a part at a time. With no more rows than that, all of them are taken, and no
    # others.
    total = sum(len(table) for table in tables.values())
    if total <= most:
        return {name: _some_rows(table, np.arange(len(table))) for name, table in tables.items()}, None
    each = most // 2 // len(tables)
    # As `StoredTable.load` takes them.
    kept = {
        name: np.linspace(0, len(table) - 1, min(each, len(table))).astype(int)
        for name, table in tables.items()
    }
    some = {name: _some_rows(table, kept[name]) for name, table in tables.items()}
    units = _units(np.vstack([table.statistics for table in some.values()]))
    count = max(1, most // 2 // len(observed))
    found = []
    for table in tables.values():
        points = Chunks(table.statistics, lambda rows: rows / units)
        found.append(neighbours_of(points).query(observed / units, min(count, len(table))))
    # The nearest of all models together: how many a model has among them is what tells it from others.
    edges = np.sort(np.hstack([distances for distances, _ in found]), axis=1)[:, count - 1]
    share = sum(map(len, some.values())) / total
    near = []
    for (name, table), (distances, rows) in zip(tables.items(), found, strict=True):
        chosen = np.unique(rows[distances <= edges[:, None]])
        lacking = np.setdiff1d(chosen, kept[name])
        ratio = np.ones(len(table)) if table.prior_ratio is None else table.prior_ratio
        there = np.isin(kept[name], chosen)
        times = len(table) / len(kept[name])
        near.append(Near(_read(table.statistics, lacking), ratio[lacking], there, times, share))
    return some, near


def _some_rows(table: ReferenceTable | StoredTable, rows: np.ndarray) -> ReferenceTable:
    """Rows that are spread evenly over a table, with as many of its failures."""
    if isinstance(table, StoredTable):
        return table.load(len(rows))
    if len(rows) == len(table):
        return table
    failed = len(table.failures)
    return dataclasses.replace(
        table,
        parameters=table.parameters[rows],
        statistics=table.statistics[rows],
        prior_ratio=None if table.prior_ratio is None else table.prior_ratio[rows],
        failures=table.failures.some(spread_out(failed, round(failed * len(rows) / len(table)))),
    )


def _read(statistics: Any, rows: np.ndarray) -> np.ndarray:
    """Some rows (m, d), ascending, of an array or of a store."""
    return statistics.at(rows) if hasattr(statistics, "at") else statistics[rows]


def _units(statistics: np.ndarray) -> np.ndarray:
    """Half of the middle two thirds of statistics (n, d), which no tail widens; infinite of constants."""
    lower, upper = np.quantile(statistics, [1 / 6, 5 / 6], axis=0)
    units = np.where(upper > lower, (upper - lower) / 2, statistics.std(axis=0))
    return np.where(units > 0, units, np.inf)


def check_tables(
    tables: Any,
    *,
    # Rows of each model.
    fewest: int = 50,
) -> dict[str, Any]:
    """Tables by the name of their model, refused where they cannot be compared."""
    if not isinstance(tables, Mapping):
        raise TypeError(f"tables is {type(tables).__name__}; give a dict of model names to reference tables")
    if len(tables) < 2:
        raise ValueError(f"there is {len(tables)} model; to compare, give the tables of two or more")
    for name, table in tables.items():
        if not isinstance(table, ReferenceTable | StoredTable):
            raise TypeError(
                f"the table of {name!r} is {type(table).__name__}; it must be a ReferenceTable or a "
                "StoredTable"
            )
        if isinstance(table, StoredTable) and table.set_names:
            raise ValueError(
                f"the table of {name!r} stays on the disk, and its data sets {table.set_names} become "
                "columns in memory; give some of its rows: `stored.load(20_000)`"
            )
        if len(table) < fewest:
            raise ValueError(f"the table of {name!r} has {len(table)} rows; at least {fewest} are needed")
        if not table.origin.whole_prior:
            raise ValueError(
                f"the table of {name!r} is not one of draws of the whole prior alone: rounds and bounds "
                "leave a share of it out, and weights by known densities have no scale; give a table of "
                "`simulate`, whose only observed variables are simulators"
            )
    meanings = {table.origin.on_failure for table in tables.values() if len(table.failures)}
    if len(meanings) > 1:
        raise ValueError(
            "some tables have on_failure='drop' and others on_failure='condition', and their evidences "
            "cannot be compared; give all tables one meaning of failures by `with_on_failure`"
        )
    named = {str(name): table for name, table in tables.items()}
    if len(named) < len(tables):
        raise ValueError(f"models are named {list(tables)}, two of them alike as texts; rename one")
    named = of_one_width(named)
    (first, one), *others = named.items()
    for name, table in others:
        if table.statistic_names != one.statistic_names:
            raise ValueError(
                f"the table of {name!r} has the statistics {_few(table)} and that of {first!r} {_few(one)}; "
                "they must be the same, in the same order"
            )
    return named


def tables_of_frame(
    frame: Any, model: str | None, statistics: Sequence[str] | None, method: Any
) -> dict[str, ReferenceTable]:
    """A table for each model of a data frame; its only parameter is the model's number."""
    if isinstance(frame, Mapping) and all(isinstance(one, ReferenceTable) for one in frame.values()):
        raise TypeError(
            "model and statistics name columns of a data frame, and tables are given; leave them out"
        )
    if model is None or statistics is None:
        raise TypeError(
            f"tables is {shown(frame)}; give a dict of model names to reference tables, or a data frame with "
            "`model`, its column of the models, and `statistics`, its columns of statistics"
        )
    if "evidence" in ([method] if isinstance(method, str) else list(method)):
        raise ValueError(
            "method names 'evidence', which needs the parameters of each model; give a dict of model names "
            "to reference tables"
        )
    names = names_of("statistics", statistics, str | tuple | int | np.integer)
    if model in names:
        raise ValueError(f"statistics names {model!r}, the column of the models; leave it out there")
    df = as_pandas(frame, [model, *names])
    if str(model) not in df.columns or np.ndim(df[str(model)]) != 1:
        raise ValueError(f"model is {shown(model)}; the data frame has the columns {shown(list(df.columns))}")
    column = df[str(model)]
    gaps = np.flatnonzero(column.isna())
    if len(gaps):
        raise ValueError(f"{len(gaps)} row(s) have no model, the first of them row {gaps[0]}; leave them out")
    if column.dtype.kind == "f" and np.all(column == np.rint(column)):
        column = column.astype(np.int64)
    labels = column.astype(str).to_numpy()
    models, numbers = np.unique(labels, return_inverse=True)
    models = models[np.argsort([np.argmax(labels == one) for one in models])]  # as they come in the frame
    fields = fields_of(df.assign(**{str(model): numbers}), [str(model)], names, None, None, [str(model)], [])
    return {
        str(one): ReferenceTable(
            **{**fields, **{side: fields[side][labels == one] for side in ("parameters", "statistics")}}
        )
        for one in models
    }


def check_prior(prior: Mapping[str, float] | None, names: list[str]) -> np.ndarray:
    """Prior probabilities in the order of names; equal ones where none are given."""
    if prior is None:
        return np.full(len(names), 1 / len(names))
    given = prior.to_dict() if hasattr(prior, "to_dict") else prior
    if isinstance(given, Mapping):
        given = {str(name): value for name, value in given.items()}  # as `check_tables` names models
    if not isinstance(given, Mapping) or set(given) != set(names):
        raise ValueError(f"the prior is {shown(given)}; give a probability for each of the models {names}")
    wrong = [
        value
        for value in given.values()
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number)
    ]
    if wrong:
        raise TypeError(f"the prior has {wrong!r}; probabilities are numbers")
    found = np.array([float(given[name]) for name in names])
    if not np.all(found > 0) or abs(found.sum() - 1) > 1e-8:
        raise ValueError(
            f"the prior probabilities are {dict(given)}, of sum {found.sum():.6g}; they must be above zero "
            "and sum to one (leave out the table of a model that is impossible)"
        )
    return found / found.sum()


def _few(table: ReferenceTable) -> str:
    """The names of its statistics, of data sets with the number of their columns."""
    sets = {one.name: one.set_columns for one in table.statistic_columns.variables if one.set_columns}
    if sets:
        return ", ".join(f"{name!r}, data sets of {q} column(s)" for name, q in sets.items())
    names = table.statistic_names
    return str(names) if len(names) <= 6 else f"[{', '.join(map(repr, names[:4]))}, ... {len(names)} in all]"


# --- data sets of all models as columns ---


Tables = dict[str, ReferenceTable]


def of_one_width(tables: Tables) -> Tables:
    """Tables whose data sets have as many columns as the largest of any table, where they have some."""
    widths: dict[tuple[str, int], int] = {}
    for table in tables.values():
        for one in table.statistic_columns.variables:
            if one.set_columns:
                key = one.name, one.set_columns
                widths[key] = max(widths.get(key, 0), one.size)
    return {name: _widened(table, widths) for name, table in tables.items()} if widths else tables


def _widened(table: ReferenceTable, widths: dict[tuple[str, int], int]) -> ReferenceTable:
    variables, parts, added = [], [], []
    for one, place in zip(
        table.statistic_columns.variables, table.statistic_columns.slices().values(), strict=True
    ):
        size = widths.get((one.name, one.set_columns), one.size)
        variables.append(one if size == one.size else dataclasses.replace(one, shape=(size,)))
        parts.append(place)
        added.append(size - one.size)
    if not any(added):
        return table

    def padded(rows: np.ndarray) -> np.ndarray:
        return np.hstack(
            [np.pad(rows[:, place], ((0, 0), (0, more))) for place, more in zip(parts, added, strict=True)]
        )

    return dataclasses.replace(
        table,
        statistics=padded(table.statistics),
        observed=None if table.observed is None else padded(table.observed[None])[0],
        statistic_columns=Columns(tuple(variables)),
    )


def as_statistics(table: ReferenceTable, observed: Any) -> Any:
    """Observed data sets, one or several as `DataSets`, as statistics (d,) or (k, d) of a table."""
    if not table.set_names:
        return observed
    if len(table.statistic_columns.variables) > 1:
        raise ValueError(
            f"the tables have the statistics {[one.name for one in table.statistic_columns.variables]}, of "
            f"which {table.set_names} are data sets; give the models the observation, and leave `observed` "
            "out"
        )
    if not isinstance(observed, DataSets):
        if isinstance(observed, list | tuple) and len({np.shape(one) for one in observed}) > 1:
            raise ValueError(
                f"observed has {len(observed)} parts of different shapes; give one data set, or several as "
                "`pymc_kbr.arrays.data_sets.DataSets.of(observed)`"
            )
        return table.with_observed(observed).observed
    return np.array([table.with_observed(observed[i]).observed for i in range(len(observed))])


def columns_by_model(tables: Tables, observed: np.ndarray) -> tuple[Tables, np.ndarray]:
    """Tables and observations (k, d) with columns in place of data sets, the same functions in all tables."""
    lengths = [len(table) for table in tables.values()]
    ends = np.cumsum(lengths)[:-1]
    for variable in next(iter(tables.values())).set_names:
        parts = [table.data_sets(variable) for table in tables.values()]
        sets = DataSets(np.vstack([part.rows for part in parts]), np.concatenate([p.sizes for p in parts]))
        features = SetFeatures(estimates=False).fit(sets)
        made = np.split(features(sets), ends)
        columns = Variable(variable, (len(features.names_),), labels=tuple(features.names_))
        place = next(iter(tables.values())).statistic_columns.slices()[variable]
        there = DataSets.of_padded(observed[:, place], sets.columns)
        observed = _put(observed, place, features(there))
        tables = {
            name: _with(table, place, part, columns)
            for (name, table), part in zip(tables.items(), made, strict=True)
        }
    return tables, observed


def _put(rows: np.ndarray, place: slice, columns: np.ndarray) -> np.ndarray:
    return np.hstack([rows[:, : place.start], columns, rows[:, place.stop :]])


def _with(table: ReferenceTable, place: slice, part: np.ndarray, made: Variable) -> ReferenceTable:
    """A table with columns (n, q) in the place of a variable; its observation, which is read, left out."""
    variables = table.statistic_columns.variables
    return dataclasses.replace(
        table,
        statistics=_put(table.statistics, place, part),
        observed=None,
        observed_data={},
        statistic_columns=Columns(tuple(made if one.name == made.name else one for one in variables)),
    )
