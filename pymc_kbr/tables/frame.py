"""A data frame of simulations as what a `ReferenceTable` is made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_kbr.arrays.data_sets import DataSets
from pymc_kbr.arrays.labelled import columns_of, is_pandas, labels_of_columns, texts
from pymc_kbr.arrays.refusals import named, names_of, shown, whole
from pymc_kbr.arrays.rows import as_rows
from pymc_kbr.arrays.support import Support
from pymc_kbr.tables.checks import check_bounds, check_columns, check_support, observation
from pymc_kbr.tables.columns import Columns, Variable
from pymc_kbr.tables.failures import Failures
from pymc_kbr.tables.of_sets import observed_set

if TYPE_CHECKING:
    import pandas as pd


def frame_of(table: Any) -> pd.DataFrame:
    """A row a simulation of a `ReferenceTable`, parameters first; discrete parameters as integers."""
    import pandas as pd

    names = [*table.parameter_names, *table.statistic_names]
    frame = pd.DataFrame(np.hstack([table.parameters, table.statistics]), columns=names)
    discrete = [n for v in table.parameter_columns.variables if v.discrete for n in v.column_names]
    return frame.astype(dict.fromkeys(discrete, np.int64))


def fields_of(
    df: pd.DataFrame,
    parameters: Sequence[str],
    statistics: Sequence[str],
    observed: Mapping[str, float] | Sequence[float] | None,
    bounds: Mapping[str, tuple[float | None, float | None]] | None,
    discrete: Sequence[str] | None,
) -> dict[str, Any]:
    """The fields of a table, for the arguments of `ReferenceTable.from_dataframe`, with its errors."""
    parameters, statistics = _names("parameters", parameters), _names("statistics", statistics)
    df = _as_pandas(df, [*parameters, *statistics])
    check_columns(df, parameters, statistics)
    return {
        **_parameters_of(df, parameters, bounds, discrete),
        # A copy: a table makes its arrays read-only, and the data frame is the user's.
        "statistics": np.array(as_rows("the statistics", df[statistics])),
        "observed": observation(observed, statistics),
        "statistic_columns": Columns.scalars(statistics),
    }


def fields_of_sets(
    df: pd.DataFrame,
    sets: Sequence[Any],
    observed: Any,
    bounds: Mapping[str, tuple[float | None, float | None]] | None,
    discrete: Sequence[str] | None,
    largest: int | None,
) -> dict[str, Any]:
    """The fields of a table, for the arguments of `ReferenceTable.from_sets`, with its errors."""
    df = _as_pandas(df)
    check_columns(df, list(df.columns))
    data = DataSets.of(sets)
    most = int(data.sizes.max()) if largest is None else largest
    whole("largest", most)
    if most < data.sizes.max():
        raise ValueError(f"largest is {largest}; a data set has {data.sizes.max()} rows: give as many")
    data_set = Variable("data", (1 + most * data.columns,), set_columns=data.columns, set_labels=data.names)
    return {
        **_parameters_of(df, list(df.columns), bounds, discrete),
        "statistics": data.padded(most),
        "observed": None if observed is None else observed_set(observed, data_set),
        "statistic_columns": Columns((data_set,)),
    }


def _as_pandas(df: Any, asked: list[str] | None = None) -> pd.DataFrame:
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
) -> dict[str, Any]:
    """The fields of a table that are not about its statistics."""
    check_bounds(bounds)
    counts = _whole_numbers(df, parameters) if discrete is None else _checked(df, parameters, discrete)
    values = np.array(as_rows("the parameters", df[parameters]))
    if counts and bounds and np.all(np.isfinite(values)):
        # Within the support discrete columns have no bounds: they are never moved.
        check_support(Support.from_bounds(bounds, parameters), values, parameters)
    return {
        "parameters": values,
        "parameter_columns": Columns(tuple(Variable(name, discrete=name in counts) for name in parameters)),
        "support": Support.from_bounds(bounds, parameters, discrete=counts),
        "failures": Failures.none(len(parameters)),
        "provenance": {"simulated_by": "a data frame"},
    }


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
