"""The first two moments of a permutation distribution in closed form, and the gamma distribution of these."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import gamma

ROUNDING_OF_TRACE = 1e-14
"""Of a matrix's trace: what centring leaves of one that is constant."""

ALIKE = 1e-12
"""Of the squared mean: a variance of permutations below that is of statistics that are all the same."""


class Traces(NamedTuple):
    """Of a centred matrix A: tr A, tr A^2, and the sum of its squared diagonal."""

    trace: float
    squared: float
    diagonal: float

    @classmethod
    def of_gram(cls, gram: np.ndarray) -> Traces:
        """Of H G H, for a Gram matrix (n, n)."""
        rows = gram.mean(axis=0)
        diagonal = np.diag(gram) - 2 * rows + rows.mean()
        n = len(gram)
        # |H G H|^2 without forming it: the means of rows, and of all, are taken out once each.
        squared = np.einsum("ij,ij->", gram, gram) - 2 * n * (rows @ rows) + (n * rows.mean()) ** 2
        if diagonal.sum() <= ROUNDING_OF_TRACE * np.trace(gram):
            return cls(0.0, 0.0, 0.0)
        return cls(float(diagonal.sum()), float(squared), float(diagonal @ diagonal))

    @classmethod
    def of_factor(cls, factor: np.ndarray) -> Traces:
        """Of H F F' H, for a factor (n, r)."""
        centred = factor - factor.mean(axis=0)
        if np.vdot(centred, centred) <= ROUNDING_OF_TRACE * np.vdot(factor, factor):
            return cls(0.0, 0.0, 0.0)
        inner, diagonal = centred.T @ centred, np.einsum("ij,ij->i", centred, centred)
        return cls(float(np.trace(inner)), float(np.sum(inner**2)), float(diagonal @ diagonal))


def moments(a: Traces, b: Traces, n: int) -> tuple[float, float]:
    """Mean and variance of sum_ij A_ij B_pi(i)pi(j) over all permutations pi of n >= 4 rows.

    Notes
    -----
    Exact, for symmetric matrices whose rows sum to zero [1]_.

    References
    ----------
    .. [1] F. Kazi-Aoual, S. Hitier, R. Sabatier, J.-D. Lebreton, Refined approximations to permutation tests
       for multivariate inference, Computational Statistics and Data Analysis 20 (1995), 643-656.
    """
    mean = a.trace * b.trace / (n - 1)
    spread = [(n - 1) * c.squared - c.trace**2 for c in (a, b)]
    peaked = [n * (n + 1) * c.diagonal - (n - 1) * (c.trace**2 + 2 * c.squared) for c in (a, b)]
    variance = 2 * spread[0] * spread[1] / ((n - 1) ** 2 * (n + 1) * (n - 2))
    variance += peaked[0] * peaked[1] / ((n + 1) * n * (n - 1) * (n - 2) * (n - 3))
    return mean, variance


def gamma_null(a: Traces, b: Traces, n: int, scale: float) -> Any:
    """The gamma distribution with the mean and variance of `scale` times that sum, as one of SciPy.

    The gamma form is that of Gretton et al. 2007; the moments are those of the permutations, not their
    limits for many rows.

    Raises
    ------
    ValueError
        If all permutations have the same statistic, but for rounding.
    """
    mean, variance = moments(a, b, n)
    refuse_alike(variance <= ALIKE * mean**2)
    return gamma(mean**2 / variance, scale=scale * variance / mean)


def refuse_alike(alike: bool) -> None:
    """Refuse permutations that have the same statistic, but for rounding."""
    if alike:
        raise ValueError(
            "all permutations have the same statistic, and no gamma distribution stands for them: the "
            "bandwidth is far below or above all distances; take another one, or form='exact' with "
            "null='permutation'"
        )
