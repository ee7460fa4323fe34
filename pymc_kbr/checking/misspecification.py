"""Is an observation from the model at all? A p-value among the simulations."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.names import by_name, refuse_sets
from pymc_kbr.arrays.refusals import generator_of
from pymc_kbr.arrays.rows import as_points
from pymc_kbr.arrays.scaling import Scaler
from pymc_kbr.arrays.weighted import spread_out
from pymc_kbr.estimators.likelihood.success import refuse_weighted_for_success
from pymc_kbr.hypothesis_tests import mmd_test
from pymc_kbr.kernels import Gaussian, median_heuristic
from pymc_kbr.tables.reference_table import ReferenceTable, check_table


@default_arithmetic
@dataclass(frozen=True, eq=False)
class Misspecification:
    """An observation, or a data set of several, among a table's simulations.

    Parameters
    ----------
    pvalue : float
        Small where the model does not make such data.
    statistic : float
        Of one observation, minus the mean of its kernel values with the rows; of several, the squared
        maximum mean discrepancy.
    references : ndarray of shape (r,)
        The same of rows without themselves, or of permuted samples.
    """

    pvalue: float
    statistic: float
    references: np.ndarray


@default_arithmetic
def misspecification(
    table: ReferenceTable, observed: Any = None, *, random_seed: int | np.random.Generator | None = None
) -> Misspecification:
    """Test whether an observation, or several, are draws of a model's prior predictive distribution.

    Parameters
    ----------
    table : ReferenceTable
        Whose rows are draws of the prior.
    observed : array_like of shape (d,) or (k, d), optional
        One observation, or k, each with parameters of its own; the table's own where left out. Statistics
        that are missing (NaN) in one observation, or in all of several, are left out.
    random_seed : int or numpy.random.Generator, optional
        For the noise of the rows (see `ReferenceTable.noise`), and for permutations of k observations.

    Returns
    -------
    Misspecification

    Raises
    ------
    TypeError, ValueError
        If the table is none, there is no observation, its number of statistics is another, it is not finite,
        or the rows are no draws of the prior.

    Notes
    -----
    Rows and observation together are brought to uncorrelated coordinates of variance one, and each point's
    mean of kernel values with all others is taken: the embedding there, which is the squared maximum mean
    discrepancy between that point and the others but for a constant. The observation is treated as the rows
    are, so that under the model its rank among up to 2,000 of them is uniform: the level is exact.
    Observations of which there are several are compared by `mmd_test`.

    The model is called wrong for what no parameters of the prior make. Data that other parameters than
    the posterior's make pass: `predictive_check` is for these.

    Examples
    --------
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"a": rng.normal(size=300)})
    >>> frame["x"] = frame["a"] + rng.normal(size=300)
    >>> table = ReferenceTable.from_dataframe(frame, parameters=["a"], statistics=["x"])
    >>> misspecification(table, [0.3]).pvalue > 0.05, misspecification(table, [30.0]).pvalue < 0.01
    (True, True)
    """
    check_table("table", table)
    refuse_sets(table)
    if observed is not None:
        observed = by_name(observed, table.statistic_names, gaps=True)
    given = table.observed if observed is None else observed
    if given is None:
        raise ValueError("the reference table has no observation; give one, or set it with `with_observed`")
    if table.prior_ratio is not None:
        raise ValueError(
            "the rows of the table are no draws of the prior but carry weights (`prior_ratio`), so that "
            "ranks among them are no p-values; simulate a table of the prior, with `simulate`"
        )
    refuse_weighted_for_success(table, "ranks among them are no p-values")
    given = np.atleast_2d(given)
    missing = np.isnan(given).all(axis=0) if given.shape[-1] == table.statistics.shape[1] else np.array(False)
    if np.all(missing):
        raise ValueError("all statistics of the observation are missing (NaN); give some of them")
    if np.any(missing):
        table = table.with_statistics([table.statistic_names[i] for i in np.flatnonzero(~missing)])
        given = given[:, ~missing]
    points = as_points("the observation", given, least=1, squared=False)
    d = table.statistics.shape[1]
    if points.shape[1] != d:
        raise ValueError(f"the observation has {points.shape[1]} statistics; the table has {d}")
    return among_rows(table, points, generator_of(random_seed))


def among_rows(
    table: ReferenceTable,
    points: np.ndarray,
    rng: np.random.Generator,
    *,
    # Evenly spread rows that the observation is compared with.
    most_rows: int = 2000,
) -> Misspecification:
    """The same of observations (k, d) that were checked, and a table whose rows are draws of the prior."""
    rows = table.statistics[spread_out(len(table), most_rows)]
    rows = rows + table.noise * rng.normal(size=rows.shape)
    white = _whitened(np.vstack([points, rows]))
    kernel = Gaussian(median_heuristic(white))
    if len(points) > 1:
        found = mmd_test(white[: len(points)], white[len(points) :], kernel=kernel, random_seed=rng)
        return Misspecification(found.pvalue, found.statistic, found.null)
    gram = kernel(white)
    # Without each point's own kernel value of one; negative, so that what is far from the others is large.
    scores = -(gram.sum(axis=1) - 1) / len(rows)
    # Ties differ by rounding. The observation is one of those counted, so that no p-value is zero.
    pvalue = np.mean(scores >= scores[0] - 1e-12)
    return Misspecification(float(pvalue), float(scores[0]), scores[1:])


def _whitened(
    points: np.ndarray,
    *,
    # Variance, over the largest one, of directions in which scaled statistics do not vary.
    least_variance: float = 1e-6,
) -> np.ndarray:
    """Points (n, d) in uncorrelated coordinates of variance one, without columns that do not vary."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # constant statistics are reported when an estimator is fitted
        scaled = Scaler.fit(points).transform(points)
    values, vectors = np.linalg.eigh(np.cov(scaled.T).reshape(scaled.shape[1], -1))
    return scaled @ vectors / np.sqrt(np.maximum(values, least_variance * values[-1]))
