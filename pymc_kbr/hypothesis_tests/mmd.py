"""Two samples: are they from the same distribution?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.refusals import generator_of, whole
from pymc_kbr.arrays.rows import as_points, column_names, in_order, refuse_constant, refuse_unequal_columns
from pymc_kbr.hypothesis_tests.blocks import Blocks, Traces, block_sizes, centred, gamma_null, labels
from pymc_kbr.hypothesis_tests.choices import (
    Bandwidth,
    check_choices,
    features_of,
    kernels_of,
    of_pooled,
    of_several,
)
from pymc_kbr.hypothesis_tests.result import TestResult, by_permutation
from pymc_kbr.kernels import Kernel


@default_arithmetic
def mmd_test(
    x: Any,
    y: Any,
    *,
    kernel: str | Kernel | None = None,
    bandwidth: Bandwidth | None = None,
    statistic: str = "unbiased",
    null: str = "permutation",
    permutations: int = 1000,
    form: str = "auto",
    exact_rows: int = 6000,
    features: int = 200,
    block: int | None = None,
    strata: tuple[Any, Any] | None = None,
    random_seed: int | np.random.Generator | None = None,
) -> TestResult:
    """Test whether two samples are from the same distribution, by the maximum mean discrepancy.

    Parameters
    ----------
    x, y : array_like of shape (m, d) and (n, d), or (m,) and (n,)
        Data frames, too: the columns of `y` are put in the order of those of `x`.
    kernel : str or Kernel, optional
        "gaussian" (where left out), "laplace", "matern", or a kernel with its own bandwidth.
    bandwidth : "aggregated", "median", "bayesian...", float or sequence of float, length d, optional
        "aggregated": of six, from half the 1% quantile of the distances to twice the 95% one, that at which
        the samples stand out most from their permutations. Or one, by the median heuristic or the maximum
        marginal likelihood of both samples together, or given; of several local maxima "bayesian" takes the
        highest, "bayesian_shortest" that of the shortest lengthscale, "bayesian_all" the sum of all kernels:
        the highest need not be where samples differ. Left out, it is "aggregated", or "median" where
        p-values are not by permutation.
    statistic : "unbiased" or "biased"
        Without or with the pairs of a point with itself.
    null : "permutation" or "gamma"
        p-values by permuting which rows are of which sample, or by the gamma distribution with the mean and
        variance of all permutations, for the biased statistic.
    permutations : int
    form : "auto", "exact", "random_features" or "block"
        All pairs; cosines and sines in place of the kernel; or the mean over blocks of rows that are put
        together at random, without permutations. "auto" is exact up to `exact_rows`, random features above.
    exact_rows : int
        Rows of both samples together up to which "auto" is exact.
    features : int
        Of "random_features", an even number.
    block : int, optional
        Rows of the smaller sample in a block; their number's square root where left out, or what makes twenty
        blocks if that is less.
    strata : pair of array_like, shapes (m,) and (n,), optional
        Labels of the rows of x and of y, where so many of each label were drawn by design: rows are then
        permuted among those of their label alone.
    random_seed : int or numpy.random.Generator, optional

    Returns
    -------
    TestResult
        With "aggregated", `statistic` and `null` are in deviations of the permutations, and `kernels` those
        at which the samples stand out most.

    Raises
    ------
    TypeError, ValueError
        If a sample has one row, NaN, or another number of columns than the other, all rows are one point, a
        column is constant in both, or an argument is out of range.

    Notes
    -----
    The squared discrepancy of [1]_: mean of k(x, x'), plus that of k(y, y'), less twice that of k(x, y). The
    level of the permutation test is exact for any kernel that is chosen on both samples together, and, as in
    [3]_, for the largest of several statistics, each in deviations of its own permutations. Of samples
    with fixed numbers of rows in each stratum, as of strata that are simulated one by one, the statistic
    varies less than under permutations of all rows: without `strata` the test then hardly rejects. Blocks
    are those of [2]_; their mean is compared with a shifted gamma distribution that has its variance under
    permutations within blocks, and the skewness of their limit.

    References
    ----------
    .. [1] A. Gretton, K. Borgwardt, M. Rasch, B. Schölkopf, A. Smola, A kernel two-sample test, JMLR 13
       (2012), 723-773.
    .. [2] W. Zaremba, A. Gretton, M. Blaschko, B-test: a non-parametric, low variance kernel two-sample test,
       NIPS 26 (2013).
    .. [3] A. Schrab, I. Kim, M. Albert, B. Laurent, B. Guedj, A. Gretton, MMD aggregated two-sample test,
       JMLR 24 (2023), 1-81.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> found = mmd_test(rng.normal(size=100), rng.normal(1.0, size=80), random_seed=1)
    >>> found.pvalue < 0.01
    True
    """
    check_choices(form, statistic, null, permutations, features)
    whole("exact_rows", exact_rows)
    y = as_points("y", in_order("y", y, "x", column_names(x)))
    x = as_points("x", x)
    refuse_unequal_columns("x", x, "y", y)
    pooled = np.vstack([x, y])
    refuse_constant("x and y together", pooled)
    parts = as_strata(strata, len(x), len(y))
    if parts is not None and (null == "gamma" or form == "block"):
        raise ValueError(
            f"strata are given with null={null!r} and form={form!r}; take null='permutation' and "
            "form='exact' or 'random_features'"
        )
    rng = generator_of(random_seed)
    # Of all rows, whichever sample they are of, or permutations would not be exchangeable with the sample.
    if form == "auto":
        form = "exact" if len(pooled) <= exact_rows else "random_features"
    kernels = kernels_of(pooled, kernel, bandwidth, of_pooled, null, form)
    if form == "block":
        return _by_blocks(x, y, kernels[0], block, rng)
    biased, first = statistic == "biased", np.arange(len(pooled))[:, None] < len(x)
    found = [Discrepancies(_sums(pooled, each, form, features, rng), len(x), biased) for each in kernels]
    values = np.array([float(each(first)[0]) for each in found])
    if null == "gamma":
        distribution, value = found[0].gamma_null(), float(values[0])
        return TestResult(value, float(distribution.sf(value)), distribution, (kernels[0],), form)
    if len(kernels) > 1:
        # Of one seed: the same permutations at all bandwidths.
        seed = int(rng.integers(2**63))
        permuted = [each.permuted(permutations, np.random.default_rng(seed), parts) for each in found]
        return of_several(values, np.column_stack(permuted), [(each,) for each in kernels], form)
    value, alone = float(values[0]), found[0].permuted(permutations, rng, parts)
    return TestResult(value, by_permutation(value, alone), alone, (kernels[0],), form)


def _sums(
    pooled: np.ndarray, kernel: Kernel, form: str, features: int, rng: np.random.Generator
) -> GramSums | FactorSums:
    """Of all pairs of rows, or by random features."""
    if form == "exact":
        return GramSums(kernel(pooled))
    return FactorSums(features_of(kernel, pooled, features, rng))


@dataclass(frozen=True, eq=False)
class GramSums:
    """Sums over a Gram matrix (N, N)."""

    gram: np.ndarray

    def __call__(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Over pairs of chosen rows, and of a chosen row and any: both (p,), for each of p columns."""
        products = self.gram @ chosen
        return np.einsum("ij,ij->j", chosen, products), products.sum(axis=0)

    @property
    def diagonal(self) -> np.ndarray:
        """The matrix's diagonal, shape (N,)."""
        return np.diag(self.gram)

    def traces(self) -> Traces:
        """Of the centred matrix."""
        return Traces.of_gram(self.gram)


@dataclass(frozen=True, eq=False)
class FactorSums:
    """The same sums, of F F' with F of shape (N, r)."""

    factor: np.ndarray

    def __call__(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As of `GramSums`."""
        products = self.factor.T @ chosen
        return np.einsum("ij,ij->j", products, products), self.factor.sum(axis=0) @ products

    @property
    def diagonal(self) -> np.ndarray:
        """The diagonal of F F', shape (N,)."""
        return np.einsum("ij,ij->i", self.factor, self.factor)

    def traces(self) -> Traces:
        """Of the centred matrix."""
        return Traces.of_factor(self.factor)


class Discrepancies:
    """Squared maximum mean discrepancies between some rows and the others."""

    def __init__(self, sums: GramSums | FactorSums, m: int, biased: bool) -> None:
        self.sums, self.m, self.biased = sums, m, biased
        self._diagonal = sums.diagonal
        self._size = len(self._diagonal)
        self._total = float(sums(np.ones((self._size, 1)))[0][0])

    def __call__(self, first: np.ndarray) -> np.ndarray:
        """For indicators (N, p) of the rows of the first sample, shape (p,)."""
        chosen, m, n = first.astype(float), self.m, self._size - self.m
        within, with_all = self.sums(chosen)
        between = with_all - within
        # Pairs of the other rows are all pairs less those that have a chosen row: no second product with the
        # matrix.
        others = self._total - 2 * with_all + within
        if self.biased:
            return within / m**2 + others / n**2 - 2 * between / (m * n)
        own = self._diagonal @ chosen
        within, others = within - own, others - (self._diagonal.sum() - own)
        return within / (m * (m - 1)) + others / (n * (n - 1)) - 2 * between / (m * n)

    def permuted(
        self,
        count: int,
        rng: np.random.Generator,
        strata: np.ndarray | None = None,
        *,
        # Of the indicators of permuted samples.
        entries_at_once: int = 5_000_000,
    ) -> np.ndarray:
        """Those of samples of the same sizes, drawn from all rows, or from those of each stratum (N,)."""
        first = np.arange(self._size) < self.m
        step = max(1, entries_at_once // self._size)
        found = []
        for done in range(0, count, step):
            inline = np.tile(first[:, None], min(step, count - done))
            if strata is None:
                # Unlike `permutation`, which keeps rows together, this shuffles each column, a sample, by
                # itself.
                inline = rng.permuted(inline, axis=0)
            else:
                for rows in (np.flatnonzero(strata == label) for label in np.unique(strata)):
                    inline[rows] = rng.permuted(inline[rows], axis=0)
            found.append(self(inline))
        return np.concatenate(found)

    def gamma_null(self) -> Any:
        """The gamma distribution of the biased statistic: a quadratic form in 1 / m and -1 / n."""
        m, n = self.m, self._size - self.m
        # These numbers l sum to zero, so that l l' is centred already: its traces are sums of l^2 and l^4.
        labels = Traces(1 / m + 1 / n, (1 / m + 1 / n) ** 2, 1 / m**3 + 1 / n**3)
        return gamma_null(self.sums.traces(), labels, self._size, 1.0)


def _by_blocks(
    x: np.ndarray, y: np.ndarray, kernel: Kernel, block: int | None, rng: np.random.Generator
) -> TestResult:
    """The mean of the unbiased statistic over blocks of both samples."""
    count = block_sizes(min(len(x), len(y)), block, least=2)
    blocks = Blocks(count)
    # Rows may stand in some order, which the blocks of two samples would share.
    parts = zip(*(np.array_split(rng.permutation(points), count) for points in (x, y)), strict=True)
    for i, (a, b) in enumerate(parts):
        blocks.add(i, labels(len(a), len(b)), centred(kernel(np.vstack([a, b]))))
    return blocks.result((kernel,))


# --- permutations within strata ---


def as_strata(strata: Any, m: int, n: int) -> np.ndarray | None:
    """The part of each of m + n rows as a whole number, shape (m + n,); None where there are no parts."""
    # Shapes: strata (m,) and (n,), or None.
    if strata is None:
        return None
    if not isinstance(strata, tuple) or len(strata) != 2:
        raise ValueError(
            "strata must be a pair (a tuple): the labels of the rows of x, and of those of y; it is "
            f"{type(strata).__name__}"
        )
    labels = [np.asarray(each) for each in strata]
    for name, each, rows in zip("xy", labels, (m, n), strict=True):
        if each.shape != (rows,):
            raise ValueError(
                f"the strata of {name} have shape {each.shape}; give one label for each of its {rows} rows"
            )
    together = np.concatenate(labels)
    if any(label is None or label != label for label in together.tolist()):  # NaN is not itself
        raise ValueError("some strata are missing (NaN or None); give every row a label")
    _, codes = np.unique(together, return_inverse=True)
    codes = codes.reshape(-1)
    if not np.intersect1d(codes[:m], codes[m:]).size:
        raise ValueError(
            "no stratum has rows of both x and y, so that no permutation within strata changes anything; "
            "give both samples the same labels, or leave strata out"
        )
    return codes
