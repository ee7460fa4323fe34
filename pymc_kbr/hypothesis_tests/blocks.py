"""Statistics averaged over blocks of rows, for samples whose Gram matrix is too large."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import gamma, pearson3

from pymc_kbr.arrays.refusals import whole
from pymc_kbr.arrays.weighted import spread_out
from pymc_kbr.hypothesis_tests.result import TestResult
from pymc_kbr.kernels import Kernel


class Centred(NamedTuple):
    """A matrix (n, n) whose diagonal is zero, as each row's sum is, and the squared norm it had before."""

    matrix: np.ndarray
    before: float

    @property
    def squared(self) -> float:
        """Its squared norm."""
        return float(np.vdot(self.matrix, self.matrix))

    @property
    def cubed(self) -> float:
        """Trace of its third power."""
        return float(np.vdot(self.matrix @ self.matrix, self.matrix))


def centred(gram: np.ndarray) -> Centred:
    """What unbiased statistics see of a Gram matrix (n, n), n > 2: no diagonal, no part of one row alone."""
    n, before = len(gram), float(np.vdot(gram, gram))
    matrix = gram.copy()
    np.fill_diagonal(matrix, 0.0)
    sums = matrix.sum(axis=0)
    shares = (sums - sums.sum() / (2 * (n - 1))) / (n - 2)  # of each row, half of what all have in common off
    matrix -= shares[:, None]
    matrix -= shares
    np.fill_diagonal(matrix, 0.0)
    return Centred(matrix, before)


def labels(m: int, n: int) -> Centred:
    """The matrix (m + n, m + n) whose product with a Gram matrix is the unbiased squared discrepancy."""
    first = np.arange(m + n) < m
    matrix = np.where(first[:, None] & first, 1 / (m * (m - 1)), 1 / (n * (n - 1)))
    matrix[first[:, None] != first] = -1 / (m * n)
    np.fill_diagonal(matrix, 0.0)
    return Centred(matrix, float(np.vdot(matrix, matrix)))


def block_sizes(
    rows: int,
    block: int | None,
    least: int,
    *,
    # Blocks of which a mean is nearly normal.
    fewest: int = 20,
) -> int:
    """How many blocks some rows are cut into."""
    if block is None:
        # Zaremba et al.'s heuristic: larger blocks have more power each, and leave fewer to take the mean of.
        block = max(least, min(int(np.sqrt(rows)), rows // fewest))
    whole("block", block)
    if block < least:
        raise ValueError(f"block is {block}; a block needs at least {least} rows")
    count = rows // block
    if count < fewest:
        raise ValueError(
            f"{rows} rows are {count} blocks of {block}; their mean is normal from about {fewest} on: "
            "take a smaller block, or form='exact'"
        )
    return count


class Blocks:
    """Inner products of centred matrices, block after block, and the distribution of their mean."""

    def __init__(
        self,
        count: int,
        *,
        # Blocks whose third moments are computed: they have one distribution.
        cubed: int = 20,
    ) -> None:
        self._values, self._variances = np.empty(count), np.empty(count)
        self._thirds: list[float] = []
        self._cubed = set(spread_out(count, cubed).tolist())  # blocks are alike
        self._flat = True

    def add(
        self,
        i: int,
        a: Centred,
        b: Centred,
        scale: float = 1.0,
        *,
        # What centring leaves of a constant matrix, over its squared norm.
        rounding_of_norm: float = 1e-28,
    ) -> None:
        """The i-th block, whose statistic is `scale` times <a, b>."""
        size = len(a.matrix) * (len(a.matrix) - 3)
        squares = a.squared, b.squared
        self._flat &= squares[0] <= rounding_of_norm * a.before or squares[1] <= rounding_of_norm * b.before
        self._values[i] = scale * np.vdot(a.matrix, b.matrix)
        self._variances[i] = scale**2 * 2 * squares[0] * squares[1] / size
        if i in self._cubed:
            self._thirds.append(scale**3 * 8 * a.cubed * b.cubed / size**1.5)

    def result(self, kernels: Sequence[Kernel]) -> TestResult:
        """The mean, against its distribution."""
        refuse_equal_statistics(self._flat)
        count, variance = len(self._values), float(np.mean(self._variances))
        skewness = np.mean(self._thirds) / variance**1.5 / np.sqrt(count)
        null = pearson3(skewness, scale=np.sqrt(variance / count))
        mean = float(self._values.mean())
        return TestResult(mean, float(null.sf(mean)), null, tuple(kernels), "block")


# --- moments of the permutation distribution ---


class Traces(NamedTuple):
    """Of a centred matrix A: tr A, tr A^2, and the sum of its squared diagonal."""

    trace: float
    squared: float
    diagonal: float

    @classmethod
    def of_gram(
        cls,
        gram: np.ndarray,
        *,
        # Of the trace: what centring leaves of a matrix that is constant.
        rounding: float = 1e-14,
    ) -> Traces:
        """Of H G H, for a Gram matrix (n, n)."""
        rows = gram.mean(axis=0)
        diagonal = np.diag(gram) - 2 * rows + rows.mean()
        n = len(gram)
        # |H G H|^2 without forming it: the means of rows, and of all, are taken out once each.
        squared = np.einsum("ij,ij->", gram, gram) - 2 * n * (rows @ rows) + (n * rows.mean()) ** 2
        if diagonal.sum() <= rounding * np.trace(gram):
            return cls(0.0, 0.0, 0.0)
        return cls(float(diagonal.sum()), float(squared), float(diagonal @ diagonal))

    @classmethod
    def of_factor(cls, factor: np.ndarray, *, rounding: float = 1e-14) -> Traces:
        """Of H F F' H, for a factor (n, r)."""
        centred = factor - factor.mean(axis=0)
        if np.vdot(centred, centred) <= rounding * np.vdot(factor, factor):
            return cls(0.0, 0.0, 0.0)
        inner, diagonal = centred.T @ centred, np.einsum("ij,ij->i", centred, centred)
        return cls(float(np.trace(inner)), float(np.sum(inner**2)), float(diagonal @ diagonal))


def moments(a: Traces, b: Traces, n: int) -> tuple[float, float]:
    """Mean and variance of sum_ij A_ij B_pi(i)pi(j) over all permutations pi of n >= 4 rows."""
    mean = a.trace * b.trace / (n - 1)
    spread = [(n - 1) * c.squared - c.trace**2 for c in (a, b)]
    peaked = [n * (n + 1) * c.diagonal - (n - 1) * (c.trace**2 + 2 * c.squared) for c in (a, b)]
    variance = 2 * spread[0] * spread[1] / ((n - 1) ** 2 * (n + 1) * (n - 2))
    variance += peaked[0] * peaked[1] / ((n + 1) * n * (n - 1) * (n - 2) * (n - 3))
    return mean, variance


def gamma_null(
    a: Traces,
    b: Traces,
    n: int,
    scale: float,
    *,
    # A variance of permutations below this share of the squared mean is rounding: their statistics are equal.
    rounding: float = 1e-12,
) -> Any:
    """The gamma distribution with the mean and variance of `scale` times that sum, as one of SciPy."""
    mean, variance = moments(a, b, n)
    refuse_equal_statistics(variance <= rounding * mean**2)
    return gamma(mean**2 / variance, scale=scale * variance / mean)


def refuse_equal_statistics(equal: bool) -> None:
    """Refuse permutations that have the same statistic, but for rounding."""
    if equal:
        raise ValueError(
            "all permutations have the same statistic, and no gamma distribution approximates them: the "
            "bandwidth is far below or above all distances; take another one, or form='exact' with "
            "null='permutation'"
        )
