"""`compare_models`: which of several models the data speak for, by the tables simulated from them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.names import by_name
from pymc_kbr.arrays.refusals import generator_of
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.posterior.posterior import PosteriorWarning
from pymc_kbr.selection.model_choice.held_out import cross_validate
from pymc_kbr.selection.model_choice.methods import METHODS, check_methods, choose_method
from pymc_kbr.selection.model_choice.model_choice import ModelChoice
from pymc_kbr.selection.model_choice.rows import (
    Rows,
    as_statistics,
    check_prior,
    check_tables,
    columns_by_model,
    screened,
    tables_of_frame,
)
from pymc_kbr.tables.reference_table import ReferenceTable
from pymc_kbr.tables.stored_table import StoredTable

if TYPE_CHECKING:
    import pandas as pd


@default_arithmetic
def compare_models(
    tables: Mapping[str, ReferenceTable | StoredTable] | pd.DataFrame,
    observed: Any = None,
    prior: Mapping[str, float] | None = None,
    *,
    model: str | None = None,
    statistics: Sequence[str] | None = None,
    method: str | Sequence[str] = "auto",
    random_seed: int | np.random.Generator | None = None,
) -> ModelChoice:
    """Posterior probabilities of models, from the reference tables that were simulated from them.

    Parameters
    ----------
    tables : dict of str to ReferenceTable or StoredTable, or pandas.DataFrame
        By the models' names. They may differ in parameters and numbers of rows, not in statistics. Or one
        data frame of the simulations of all models, one a row, with the columns `model` and `statistics`;
        others, such as parameters, which may be missing, are not read.
    observed : array_like of shape (d,) or (k, d), or labelled rows, optional
        One observation, or k; that of the tables where left out. Statistics that are missing (NaN), the same
        in all, are left out: `ModelChoice.statistics` names those that were used. Of tables of data sets, one
        of any size, (m, q) or (m,), or several as `pymc_kbr.arrays.data_sets.DataSets`.
    prior : dict of str to float, optional
        Prior probability of each model; equal ones where left out. How many rows a table has plays no part.
    model, statistics : str and sequence of str, optional
        Columns of the data frame: which model a row is of, and its statistics.
    method : str or sequence of str
        "nearest_rows" (rejection), "local_logistic" (multinomial regression on the nearest tenth of the
        rows: "mnlogistic" of the R package abc), "conditional_mean" (kernel ridge regression of the model's
        index), "logistic", "quadratic_logistic", "kernel_logistic", "wide_kernel_logistic" (multinomial
        regression on all rows: on the statistics, their squares and products, and random features of a
        Gaussian kernel), "evidence" (of a `KernelLikelihood` for each model; minutes), "forest" (votes of a
        random forest). Of several, the one with the best log score on held-out rows is taken; "auto" tries
        all but the last two.
    random_seed : int or numpy.random.Generator, optional

    Returns
    -------
    ModelChoice

    Raises
    ------
    TypeError, ValueError
        If a data frame comes without `model` and `statistics`, has no such columns, gaps in them, or is asked
        for its "evidence", which needs tables; if there are fewer than two tables, one has fewer than 50
        rows, or is of rounds, between bounds or weighted by known densities, their statistics differ, the
        tables have no observation or different ones, the observation does not fit or is infinite, several
        have different gaps or one has no statistic, a method is unknown, or the prior probabilities are not
        of these models, negative or of another sum than one.

    Warns
    -----
    UserWarning
        If simulations of one model failed more often than those of another.
    PosteriorWarning
        If an observation is far from the simulations of all models.

    Notes
    -----
    Probabilities are those of a classifier that learns the model's index from the statistics, each model's
    rows of the same weight in all: with the log score as loss it tends to p(model | statistics), which the
    prior odds then multiply. Data sets become the features of
    `SetFeatures`, without estimates of parameters, which differ between models.
    Where simulations failed, the probability of the data is that of success and of the data together; with
    ``on_failure="condition"`` it is that of the data given success, on both sides of Bayes' rule.
    These are probabilities given the statistics, which can differ from those given the data [1]_.
    Of more than 25,000 rows in all as many are learnt from: half spread evenly over the tables, by which
    methods are chosen and scored, and half the nearest to the observations, in units of the middle two thirds
    of each statistic. Tables are read for these once, a part at a time.
    Standard errors are by the jackknife over five parts of the rows, which also give the probabilities of
    rows that were not learnt from.

    References
    ----------
    .. [1] C. Robert, J.-M. Cornuet, J.-M. Marin, N. Pillai, Lack of confidence in approximate Bayesian
       computation model choice, PNAS 108 (2011), 15112-15117.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> def table(draws):
    ...     rate = rng.gamma(2, 1, 300)
    ...     data = draws(rate[:, None])
    ...     frame = {"rate": rate, "mean": data.mean(axis=1), "deviation": data.std(axis=1)}
    ...     return ReferenceTable.from_dataframe(
    ...         pd.DataFrame(frame), parameters=["rate"], statistics=["mean", "deviation"]
    ...     )
    >>> import pandas as pd
    >>> counts = table(lambda rate: rng.poisson(rate, (300, 20)))
    >>> waits = table(lambda rate: rng.geometric(1 / (1 + rate), (300, 20)) - 1)
    >>> choice = compare_models({"Poisson": counts, "geometric": waits}, [2.0, 1.3], random_seed=1)
    >>> choice.probabilities.idxmax()
    'Poisson'
    """
    if model is not None or statistics is not None or not isinstance(tables, Mapping):
        tables = tables_of_frame(tables, model, statistics, method)
    held = check_tables(tables)
    names = list(held)
    shares = check_prior(prior, names)
    methods = check_methods(method)
    held, x, single = _without_gaps(held, *_observations(held, observed))
    failed = _failed(held)
    rng = generator_of(random_seed)
    of_sets = any(table.set_names for table in held.values())  # without distances before they are columns
    held, near = (held, None) if of_sets else screened(held, x)
    held, x = columns_by_model(held, x)
    # Learnt at even odds, the prior multiplied afterwards: a rare model has as many rows to be learnt from.
    equal = np.full(len(names), 1 / len(names))
    rows = Rows.joined(held, equal, x, near)
    _warn_of_far(rows, x)
    scores = choose_method(methods, rows, rng)
    chosen = scores[0].method
    fitted = METHODS[chosen]().fit(rows, rng)
    validated = cross_validate(fitted.again, rows, x, rng)
    choice = ModelChoice(
        names=tuple(names),
        prior=equal,
        at_observed=fitted.probabilities(x),
        errors_at_observed=validated.errors(),
        single=single,
        method=chosen,
        scores=tuple(scores),
        held_out=validated.held_out,
        statistics=tuple(next(iter(held.values())).statistic_names),
        importance=validated.importance,
        failed=failed,
    )
    return choice if prior is None else choice.with_prior(dict(zip(names, shares, strict=True)))


def _observations(tables: dict[str, ReferenceTable], observed: Any) -> tuple[np.ndarray, bool]:
    """Observations (k, d), and whether one was given."""
    statistics = next(iter(tables.values())).statistic_names
    if observed is None:
        return _own_observation(tables)[None], True
    observed = as_statistics(next(iter(tables.values())), observed)
    x = by_name(observed, statistics, "the observations", gaps=True)
    single = x.ndim == 1
    x = np.atleast_2d(x)
    if x.ndim != 2 or x.shape[1] != len(statistics) or len(x) == 0:
        raise ValueError(
            f"the observations have shape {x.shape}; the tables have {len(statistics)} statistics, so give "
            f"({len(statistics)},), or (k, {len(statistics)}) of k observations"
        )
    if np.any(np.isinf(x)):
        raise ValueError(
            f"{np.sum(np.isinf(x))} values of the observations are infinite; give NaN for what is missing"
        )
    return x, single


def _without_gaps(
    tables: dict[str, ReferenceTable], x: np.ndarray, single: bool
) -> tuple[dict[str, ReferenceTable], np.ndarray, bool]:
    """Tables and observations (k, d) with the statistics that are there, the same of all observations."""
    missing = np.isnan(x)
    if not np.any(missing):
        return tables, x, single
    empty = missing.all(axis=1)
    if np.any(empty):
        raise ValueError(
            f"all statistics are missing (NaN) in {np.sum(empty)} of {len(x)} observations (the first is in "
            f"row {np.argmax(empty)}), which say nothing of the models; leave them out"
        )
    if np.any(missing != missing[0]):
        raise ValueError(
            f"statistics are missing (NaN) in {np.sum(missing.any(axis=1))} of {len(x)} observations, with "
            f"{len(np.unique(missing, axis=0))} patterns of gaps; compare those of one pattern together"
        )
    names = next(iter(tables.values())).statistic_names
    there = [name for name, gap in zip(names, missing[0], strict=True) if not gap]
    return {name: table.with_statistics(there) for name, table in tables.items()}, x[:, ~missing[0]], single


def _own_observation(tables: dict[str, ReferenceTable]) -> np.ndarray:
    """That of the tables, on which they must agree."""
    found = [(name, table.observed) for name, table in tables.items() if table.observed is not None]
    if not found:
        raise ValueError("the tables have no observation; give `observed`")
    (first, one), *others = found
    assert one is not None
    for name, other in others:
        if other is None or not np.array_equal(one, other, equal_nan=True):
            raise ValueError(
                f"the tables of {first!r} and {name!r} have different observations; give `observed`"
            )
    return one


def _warn_of_far(rows: Rows, observed: np.ndarray) -> None:
    """Say which observations none of the models makes."""
    far = np.flatnonzero(rows.far(observed))
    if len(far):
        warnings.warn(
            f"{len(far)} of {len(observed)} observations are farther from the simulations of all models than "
            f"these are from each other (the first is in row {far[0]}): perhaps none makes such data, and "
            "the model probabilities are extrapolated beyond the simulations; look at `observation_support`",
            PosteriorWarning,
            stacklevel=users_line(),
        )


def _failed(tables: dict[str, ReferenceTable], *, least_difference: float = 0.01) -> np.ndarray:
    """Share of each model's simulations that failed; a warning where they differ."""
    shares = {name: len(t.failures) / (len(t) + len(t.failures)) for name, t in tables.items()}
    if max(shares.values()) - min(shares.values()) > least_difference:
        words = ", ".join(f"{name} {share:.1%}" for name, share in shares.items())
        condition = any(t.origin.on_failure == "condition" for t in tables.values() if len(t.failures))
        meaning = (
            "the probabilities are conditional on success (on_failure='condition'), so how often a model "
            "fails does not count; if a failure is an outcome that was not observed, take "
            "`with_on_failure('drop')` of each table"
            if condition
            else "the data were observed, so a model that fails more often is less probable "
            "(on_failure='drop'); if a failure says nothing about the model, take "
            "`with_on_failure('condition')` of each table, or mend the simulator"
        )
        warnings.warn(
            f"simulations failed more often in some models ({words}): {meaning}",
            UserWarning,
            stacklevel=users_line(),
        )
    return np.array(list(shares.values()))
