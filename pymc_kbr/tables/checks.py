"""What a reference table refuses, and the words it does so with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_kbr.arrays.labelled import in_order
from pymc_kbr.arrays.names import one_by_name
from pymc_kbr.arrays.refusals import shown
from pymc_kbr.arrays.rows import as_rows, check_range, refuse_unlike_labels
from pymc_kbr.arrays.scaling import deviations
from pymc_kbr.arrays.support import Support
from pymc_kbr.tables.columns import Columns, Variable

if TYPE_CHECKING:
    import pandas as pd


def checked(table: Any) -> dict[str, np.ndarray | None]:
    """The arrays of a `ReferenceTable`, by the names of its fields, refused where they are no table."""
    parameters, statistics = table.parameters, table.statistics
    refuse_unlike_labels("the parameters", parameters, "the statistics", statistics)
    parameters = in_order("the parameters", parameters, table.parameter_names, "the names of its columns")
    statistics = in_order("the statistics", statistics, table.statistic_names, "the names of its columns")
    observed = table.observed
    if observed is not None:
        of = "the names of its columns"
        observed = in_order("the observation", observed, table.statistic_names, of, gaps=True)
    check_side("parameter", parameters, table.parameter_columns)
    check_side("statistic", statistics, table.statistic_columns)
    check_pairs(parameters, statistics, table.parameter_names, table.statistic_names)
    check_varies(parameters, table.parameter_columns)
    if observed is not None:
        check_observed(observed, table.statistic_columns)
    check_support(table.support, parameters, table.parameter_names)
    ratio = None if table.prior_ratio is None else as_rows("the prior's ratio", table.prior_ratio)
    if ratio is not None:
        check_prior_ratio(ratio, len(parameters))
    return {"parameters": parameters, "statistics": statistics, "observed": observed, "prior_ratio": ratio}


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
        raise ValueError(f"the {side} names {twice} are there more than once; rename them")
    # Rows with gaps are not dropped here: that would condition the prior without a word.
    bad = ~np.isfinite(array).all(axis=1)
    if np.any(bad):
        row = np.flatnonzero(bad)[0]
        column = names[int(np.flatnonzero(~np.isfinite(array[row]))[0])]
        raise ValueError(
            f"{bad.sum()} row(s) of {side}s are missing or infinite, the first of them row {row} "
            f"in {column!r}; leave those rows out, and mind that this conditions the prior on success"
        )

    check_range(f"the {side}s", array, names)


def check_variable_names(
    parameters: Mapping[str, Sequence[str]], others: Mapping[str, Sequence[str]]
) -> None:
    """Refuse variables that no result of ArviZ can hold, by their names and those of their dimensions."""
    of_results = {"chain": "chains", "draw": "draws", "sample": "the draws of all chains"}
    dims = {**others, **parameters}
    for name in dims:
        # An observed variable called "sample" is in groups of its own, which nothing stacks.
        if name in of_results and (name != "sample" or name in parameters):
            raise ValueError(
                f"a variable is called {name!r}, which in results of ArviZ is the dimension of "
                f"{of_results[name]}; rename it"
            )
        having = [other for other, own in dims.items() if name in own]
        if having:
            raise ValueError(
                f"the variable {name!r} has the name of a dimension of {having[0]!r}, and no result of ArviZ "
                "can hold both; rename one of them"
            )
    for name, own in parameters.items():
        if "atom" in own:
            raise ValueError(
                f"a dimension of the parameter {name!r} is called 'atom', which in results is the dimension "
                "of the table's rows; rename it"
            )


def usual_dims(variable: Variable) -> tuple[str, ...]:
    """The dimensions that ArviZ gives to a variable without any."""
    return tuple(f"{variable.name}_dim_{i}" for i in range(len(variable.shape)))


def check_varies(parameters: np.ndarray, columns: Columns) -> None:
    """Refuse parameters that are the same in all rows."""
    for variable, part in zip(columns.variables, columns.slices().values(), strict=True):
        values = parameters[:, part]
        if len(values) > 1 and not variable.discrete and np.all(values == values[0]):
            raise ValueError(
                f"the parameter {variable.name!r} is {np.unique(values[0]).tolist()} in all rows, so that "
                "there is nothing to infer about it; give it a prior with a deviation above zero, or make it "
                "a constant of the model"
            )


def check_pairs(
    parameters: np.ndarray, statistics: np.ndarray, parameter_names: list[str], statistic_names: list[str]
) -> None:
    """Refuse sides that do not belong together, and tables that are too short."""
    if len(parameters) != len(statistics):
        raise ValueError(
            f"there are {len(parameters)} rows of parameters and {len(statistics)} rows "
            "of statistics; each simulation is one row of both"
        )
    if len(parameters) < 2:
        raise ValueError(
            f"a reference table of {len(parameters)} row(s) says nothing about a posterior; "
            "give at least two rows"
        )
    both = set(parameter_names) & set(statistic_names)
    if both:
        raise ValueError(f"{sorted(both)} name both a parameter and a statistic; rename one of them")


def check_observed(observed: np.ndarray, columns: Columns) -> None:
    """Refuse an observation of another shape than (d,), infinite, all missing, or data sets with gaps."""
    names = columns.names
    if observed.shape != (len(names),):
        raise ValueError(
            f"the observation has shape {observed.shape}; the table has {len(names)} statistics: {names}"
        )
    if np.any(np.isinf(observed)):
        bad = [names[i] for i in np.flatnonzero(np.isinf(observed))]
        raise ValueError(f"the observation is infinite in {bad}; give NaN for a statistic that is missing")
    missing = np.isnan(observed)
    if np.all(missing):
        raise ValueError(
            f"all {len(names)} statistics of the observation are missing (NaN): its posterior is the prior; "
            "leave the observation out, or give one of the statistics"
        )
    for variable, part in zip(columns.variables, columns.slices().values(), strict=True):
        if variable.set_columns and np.any(missing[part]):
            raise ValueError(
                f"the observed data set {variable.name!r} has gaps; leave its rows with missing values out"
            )
    check_range("the observation", np.where(missing, 0.0, observed)[None], names)


def check_prior_ratio(ratio: np.ndarray, rows: int) -> None:
    """Refuse a density ratio that is not one number (n,) for each row, none negative and not all zero."""
    if ratio.shape != (rows,):
        raise ValueError(f"prior_ratio has shape {ratio.shape}; there are {rows} rows, and each has one")
    if not (np.all(np.isfinite(ratio)) and np.all(ratio >= 0) and np.any(ratio > 0)):
        raise ValueError(
            "prior_ratio is negative, missing or infinite in a row, or zero in all of them; give the density "
            "of the prior over that of the draws"
        )


def check_bounds(bounds: Mapping[str, Any] | None) -> None:
    """Refuse bounds that are no pairs of numbers."""
    if bounds is not None and not isinstance(bounds, Mapping):
        raise TypeError(f"bounds are {shown(bounds)}; give a mapping of parameter names to (lower, upper)")
    for name, pair in (bounds or {}).items():
        if isinstance(pair, str) or not hasattr(pair, "__len__") or len(pair) != 2:
            raise ValueError(
                f"the bounds of {name!r} are {shown(pair)}; give a pair (lower, upper), with None for an "
                "end that is open"
            )
        for end in pair:
            if end is not None and (isinstance(end, bool) or not isinstance(end, int | float | np.number)):
                raise TypeError(f"the bounds of {name!r} are {shown(pair)}; they must be numbers, or None")
            if end is not None and (isinstance(end, np.complexfloating) or np.isnan(end)):
                raise ValueError(
                    f"the bounds of {name!r} are {shown(pair)}; they must be real numbers, or None"
                )


def check_support(support: Support, parameters: np.ndarray, names: list[str]) -> None:
    """Refuse rows outside of a support, and a support in which they cannot be told from each other."""
    outside = ~support.contains(parameters)
    if np.any(outside):
        raise ValueError(
            f"{outside.sum()} row(s) of parameters lie outside the given bounds, the first of "
            f"them row {np.flatnonzero(outside)[0]}; correct the bounds or leave those rows out"
        )
    # A few rows tell: what is lost is lost in all that are not on the bounds themselves.
    rows = parameters[np.unique(np.linspace(0, len(parameters) - 1, 200).astype(int))]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        free = support.forward(rows)
        rows = rows[np.isfinite(free).all(axis=1)]
        there_and_back = support.backward(support.forward(rows))
        deviation = deviations(rows) if len(rows) else np.zeros(len(names))
        lost = ~(np.abs(there_and_back - rows) <= 1e-3 * deviation).all(axis=0) & (deviation > 0)
    if np.any(lost):
        named = [names[i] for i in np.flatnonzero(lost)]
        raise ValueError(
            f"the bounds of {named} are so wide that the parameters between them cannot be distinguished; "
            " leave these bounds out, or give those of the prior"
        )


def repeated(names: Iterable[str]) -> list[str]:
    """Names that stand more than once."""
    return sorted(name for name, times in Counter(names).items() if times > 1)


def check_columns(df: pd.DataFrame, parameters: list[str], statistics: list[str] | None = None) -> None:
    """Refuse names that are missing, stand twice or on both sides, or are of columns without numbers."""
    asked = [*parameters, *(statistics or [])]
    for side, names in (("parameters", parameters), ("statistics", statistics)):
        if names is not None and not names:
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

    types = pd.api.types
    wrong = [
        name
        for name in asked
        if not (types.is_numeric_dtype(df[name]) or types.is_bool_dtype(df[name]))
        or types.is_complex_dtype(df[name])
    ]
    if wrong:
        kinds = {name: str(df[name].dtype) for name in wrong}
        raise ValueError(f"the columns {kinds} are not numeric; convert or leave them out")


def observation(observed: Any, names: list[str]) -> np.ndarray | None:
    """The observed statistics (d,) in the order of `names`, from whatever labels them, or a sequence."""
    if observed is None:
        return None
    # A copy, as the table makes it read-only.
    return np.array(one_by_name(observed, names, more=True))


# --- exceptions quoted in messages ---


def describe(error: BaseException) -> str:
    """An exception's type and the first line of its message; PyTensor appends pages to it."""
    lines = str(error).strip().splitlines()
    return shortened(f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__)


def shortened(text: str, most: int = 500) -> str:
    """A text of at most `most` characters, with an ellipsis where it was longer."""
    return text if len(text) <= most else text[: most - 3] + "..."
