"""Which columns depend on others, so that the rest can be left out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import chi2, norm, rankdata


class _Functions(NamedTuple):
    """Functions of some columns: of unit mean square and mean zero (n, c * k), and how many differ (c,)."""

    values: np.ndarray
    counts: np.ndarray

    @property
    def degree(self) -> int:
        """The largest number of functions of a column."""
        return self.values.shape[1] // len(self.counts)


def depend_on(
    statistics: np.ndarray,
    parameters: np.ndarray,
    *,
    # Rows that are tested, at most, spread evenly over the table.
    rows_tested: int = 10_000,
    # Level of the test of one column against all parameters, and of all pairs of columns together.
    level: float = 0.01,
) -> np.ndarray:
    """Which statistics (n, d) depend on parameters (n, q), or on another statistic that does, shape (d,)."""
    n, d = statistics.shape
    rows = np.linspace(0, n - 1, min(n, rows_tested)).astype(int)
    of_columns, of_parameters = _functions(statistics[rows]), _with_products(_functions(parameters[rows]))
    by_parameter = _pvalues(of_columns, of_parameters)
    pvalues = np.min(by_parameter, axis=1) * by_parameter.shape[1]
    together = _pvalues(of_columns, of_columns) * d * (d - 1) / 2 < level
    # From one that is kept by chance all would follow that depend on each other.
    kept = pvalues * d < level
    while np.any(more := ~kept & np.any(together[:, kept], axis=1)):
        kept |= more
    kept |= pvalues < level
    return kept


def independence_pvalue(
    one: np.ndarray,
    other: np.ndarray,
    besides: np.ndarray | None = None,
    *,
    # Rows that are tested, at most, spread evenly over the table.
    rows_tested: int = 10_000,
) -> float:
    """Of the independence of a column (n,) from another (n,), of which columns (n, c) are independent."""
    # What these explain of the first, by polynomials of ranks, is taken off first, so that it hides less.
    rows = np.linspace(0, len(one) - 1, min(len(one), rows_tested)).astype(int)
    column = one[rows, None]
    if besides is not None and besides.shape[1]:
        column = norm.ppf(rankdata(column, axis=0) / (len(rows) + 1))
        explained = _functions(besides[rows]).values
        column = column - explained @ np.linalg.lstsq(explained, column, rcond=None)[0]
    return float(_pvalues(_functions(column), _functions(other[rows, None]))[0, 0])


def _functions(
    columns: np.ndarray,
    *,
    # Of the polynomials whose correlations are tested: places, spreads, skews and tails.
    degree: int = 4,
) -> _Functions:
    """Polynomials of the ranks of columns (n, c)."""
    n, c = columns.shape
    values, counts = np.zeros((n, c, degree)), np.empty(c, dtype=int)
    for j, column in enumerate(columns.T):
        ranks = 2 * rankdata(column) / (n + 1) - 1
        # A column of two values has one function, and no more.
        counts[j] = min(degree, len(np.unique(column)) - 1)
        powers = np.polynomial.legendre.legvander(ranks, counts[j])
        values[:, j, : counts[j]] = np.sqrt(n) * np.linalg.qr(powers)[0][:, 1:]
    return _Functions(values.reshape(n, -1), counts)


def _with_products(
    of_parameters: _Functions,
    *,
    # Of more parameters no products of two are tested.
    most_paired_parameters: int = 10,
) -> _Functions:
    """The same with the products of the first functions of any two parameters, as columns of their own."""
    n, q = len(of_parameters.values), len(of_parameters.counts)
    if not 1 < q <= most_paired_parameters:
        return of_parameters
    first = of_parameters.values[:, :: of_parameters.degree]
    i, k = np.triu_indices(q, 1)
    products = first[:, i] * first[:, k]
    products = products - products.mean(axis=0)
    of_pairs = np.zeros((n, len(i), of_parameters.degree))
    of_pairs[:, :, 0] = products / np.maximum(products.std(axis=0), 1e-300)
    values = np.hstack([of_parameters.values, of_pairs.reshape(n, -1)])
    return _Functions(values, np.concatenate([of_parameters.counts, np.ones(len(i), dtype=int)]))


def _pvalues(one: _Functions, other: _Functions) -> np.ndarray:
    """Of independence, of each column of one and each of the other."""
    n = len(one.values)
    squares = (one.values.T @ other.values / n) ** 2
    sums = n * squares.reshape(len(one.counts), one.degree, len(other.counts), other.degree).sum(axis=(1, 3))
    degrees = np.outer(one.counts, other.counts)
    # What does not vary has no function, and depends on nothing.
    return np.where(degrees > 0, chi2.sf(sums, np.maximum(degrees, 1)), 1.0)
