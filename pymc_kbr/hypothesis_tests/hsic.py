"""Two columns or groups of columns: are they independent?"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import gamma

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.refusals import generator_of, whole
from pymc_kbr.arrays.rows import as_points, refuse_constant, refuse_unequal_rows, refuse_unlike_labels
from pymc_kbr.arrays.scaling import unit_deviations
from pymc_kbr.gram import AS_EXACT, pivoted_cholesky
from pymc_kbr.hypothesis_tests.blocks import Blocks, Traces, block_sizes, centred, gamma_null
from pymc_kbr.hypothesis_tests.choices import (
    Bandwidth,
    check_choices,
    features_of,
    for_both,
    kernels_of,
    of_several,
    of_side,
)
from pymc_kbr.hypothesis_tests.result import TestResult, by_permutation
from pymc_kbr.kernels import Gaussian, Kernel, median_heuristic
from pymc_kbr.regression.kernel_ridge import KernelRegression


@default_arithmetic
def hsic_test(
    x: Any,
    y: Any,
    *,
    kernel: str | Kernel | tuple[Any, Any] | None = None,
    bandwidth: Bandwidth | tuple[Bandwidth | None, Bandwidth | None] | None = None,
    statistic: str = "unbiased",
    null: str = "permutation",
    permutations: int = 1000,
    form: str = "auto",
    exact_rows: int = 5000,
    features: int = 100,
    block: int | None = None,
    random_seed: int | np.random.Generator | None = None,
) -> TestResult:
    """Test whether two samples whose rows belong together are independent, by the Hilbert-Schmidt criterion.

    Parameters
    ----------
    x, y : array_like of shape (n, d) and (n, e), or (n,)
    kernel : str or Kernel or pair of these, optional
        "gaussian" (where left out), "laplace", "matern", or a kernel with its own bandwidth; a pair (a tuple)
        has one for x and one for y.
    bandwidth : "aggregated", "median", "bayesian" or float, or pair of these or of lists, optional
        Of each sample four of its own, an eighth to nearly three times the median of its distances, of which
        the pair counts at which the samples stand out most from their permutations; by its median heuristic
        or maximum marginal likelihood; or given, of a list one for each column. Left out, it is as of
        `mmd_test`. Aggregation finds waves, for which a kernel of median bandwidth is too wide, and takes
        longer.
    statistic : "unbiased" or "biased"
    null : "permutation" or "gamma"
        p-values by permuting the rows of y against those of x, or by the gamma distribution with the mean and
        variance of all permutations, for the biased statistic. A thousand permutations of 100,000 rows take
        minutes, the gamma approximation seconds.
    permutations : int
    form : "auto", "exact", "random_features" or "block"
        All pairs; cosines and sines in place of the kernels; or the mean over blocks of rows that are put
        together at random, without permutations: see `mmd_test`. "auto" is exact up to `exact_rows`, random
        features above.
    exact_rows : int
        Rows up to which "auto" is exact.
    features : int
        Of "random_features", of each kernel, an even number.
    block : int, optional
        Rows in a block; their number's square root where left out, or what makes twenty blocks if that is
        less.
    random_seed : int or numpy.random.Generator, optional

    Returns
    -------
    TestResult
        With "aggregated", `statistic` and `null` are in deviations of the permutations, and `kernels` those
        at which the samples stand out most.

    Raises
    ------
    TypeError, ValueError
        If there are fewer than five rows, or not the same number of both, NaN, a constant column, or an
        argument out of range.

    Notes
    -----
    Biased: tr(K H L H) / n^2 [1]_; unbiased: the U-statistic of [2]_. The permutation test's level is exact.
    Gram matrices of low rank are worked with by their pivoted Cholesky factors, with a residual of 1e-9 of
    the trace: kernels themselves, for which the level is as exact.

    References
    ----------
    .. [1] A. Gretton, K. Fukumizu, C. H. Teo, L. Song, B. Schölkopf, A. Smola, A kernel statistical test of
       independence, NIPS 20 (2007).
    .. [2] L. Song, A. Smola, A. Gretton, J. Bedo, K. Borgwardt, Feature selection via dependence
       maximization, JMLR 13 (2012), 1393-1434.

    Examples
    --------
    >>> x = np.random.default_rng(1).normal(size=100)
    >>> hsic_test(x, x**2, random_seed=1).pvalue < 0.01
    True
    """
    check_choices(form, statistic, null, permutations, features)
    whole("exact_rows", exact_rows)
    refuse_unlike_labels("x", x, "y", y)
    x, y = as_points("x", x, least=5), as_points("y", y, least=5)
    refuse_unequal_rows("x", x, "y", y)
    refuse_constant("x", x)
    refuse_constant("y", y)
    rng = generator_of(random_seed)
    bandwidth_x, bandwidth_y = for_both("bandwidth", bandwidth)
    kernel_x, kernel_y = for_both("kernel", kernel)
    if form == "auto":
        form = "exact" if len(x) <= exact_rows else "random_features"
    of_x = kernels_of(x, kernel_x, bandwidth_x, of_side, null, form)
    of_y = kernels_of(y, kernel_y, bandwidth_y, of_side, null, form)
    kernels = [(one, other) for one in of_x for other in of_y]
    if form == "block":
        return _by_blocks(x, y, kernels[0], block, rng)
    first, second = (
        [
            Side.exact(points, one) if form == "exact" else Side.approximate(points, one, features, rng)
            for one in several
        ]
        for points, several in ((x, of_x), (y, of_y))
    )
    found = [Dependences(one, other, statistic == "biased") for one in first for other in second]
    values = np.array([each(np.arange(len(x))) for each in found])
    if null == "gamma":
        distribution, value = found[0].gamma_null(), float(values[0])
        return TestResult(value, float(distribution.sf(value)), distribution, kernels[0], form)
    permuted = np.empty((permutations, len(found)))
    for line in permuted:
        # One order for all bandwidths: the largest of their statistics is then one of this permutation.
        order = rng.permutation(len(x))
        line[:] = [each(order) for each in found]
    if len(kernels) > 1:
        return of_several(values, permuted, kernels, form)
    value, alone = float(values[0]), permuted[:, 0]
    return TestResult(value, by_permutation(value, alone), alone, kernels[0], form)


class Side:
    """A Gram matrix (n, n), or a factor (n, r) of it, with what permutations do not change."""

    # Shapes: gram (n, n); factor (n, r).
    def __init__(self, gram: np.ndarray | None, factor: np.ndarray | None) -> None:
        self.gram, self.factor = gram, factor
        self._order, self._reordered = np.empty(0), np.empty((0, 0))
        if factor is not None:
            self.diagonal = np.einsum("ij,ij->i", factor, factor)
            self.sums = factor @ factor.sum(axis=0)
        else:
            assert gram is not None
            self.diagonal, self.sums = np.diag(gram).copy(), gram.sum(axis=1)
        # Row sums of a permuted matrix are its row sums permuted: only tr(K L) is made anew each time.
        self.off_diagonal = self.sums - self.diagonal

    @classmethod
    def exact(
        cls,
        points: np.ndarray,
        kernel: Kernel,
        *,
        # Rank over rows: with a higher rank, products take longer than the matrix with its rows permuted.
        largest_rank_share: float = 0.3,
    ) -> Side:
        """Of points (n, d) under a kernel."""
        rank = max(1, int(largest_rank_share * len(points)))
        factor, _ = pivoted_cholesky(kernel, points, rank, AS_EXACT)
        # One of full rank was ended by its rank, not by its residual: it replaces no matrix.
        if factor.shape[1] < rank:
            return cls(None, factor)
        return cls(kernel(points), None)

    @classmethod
    def approximate(cls, points: np.ndarray, kernel: Kernel, features: int, rng: np.random.Generator) -> Side:
        """The same by random features."""
        return cls(None, features_of(kernel, points, features, rng))

    def whole(self) -> np.ndarray:
        """The matrix, shape (n, n)."""
        if self.gram is None:
            assert self.factor is not None
            self.gram = self.factor @ self.factor.T
        return self.gram

    def reordered(self, order: np.ndarray) -> np.ndarray:
        """The matrix, rows and columns in an order (n,), kept for the next kernel of the other side."""
        if self._order is not order:
            # Whole rows first: a fifth of the time of `np.ix_`.
            self._order, self._reordered = order, np.take(self.whole()[order], order, axis=1)
        return self._reordered

    def traces(self) -> Traces:
        """Of the centred matrix."""
        if self.factor is not None:
            return Traces.of_factor(self.factor)
        return Traces.of_gram(self.whole())


class Dependences:
    """The criterion between a sample and another one whose rows are permuted."""

    def __init__(self, first: Side, second: Side, biased: bool) -> None:
        self.first, self.second, self.biased = first, second, biased

    def __call__(self, order: np.ndarray) -> float:
        """For rows of the second sample in an order (n,)."""
        first, second, n = self.first, self.second, len(order)
        if first.factor is not None and second.factor is not None:
            # tr(F F' E E') is the squared norm of F' E: no matrix of n columns is formed.
            cross = first.factor.T @ second.factor[order]
            inner = float(np.vdot(cross, cross))
        else:
            inner = float(np.vdot(first.whole(), second.reordered(order)))
        if self.biased:
            by_rows = float(first.sums @ second.sums[order])
            total = float(first.sums.sum() * second.sums.sum())
            return inner / n**2 - 2 * by_rows / n**3 + total / n**4
        inner -= float(first.diagonal @ second.diagonal[order])
        by_rows = float(first.off_diagonal @ second.off_diagonal[order])
        total = float(first.off_diagonal.sum() * second.off_diagonal.sum())
        return (inner + total / ((n - 1) * (n - 2)) - 2 * by_rows / (n - 2)) / (n * (n - 3))

    def gamma_null(self) -> Any:
        """The gamma distribution of the biased statistic."""
        n = len(self.first.diagonal)
        return gamma_null(self.first.traces(), self.second.traces(), n, 1 / n**2)


def _by_blocks(
    x: np.ndarray, y: np.ndarray, kernels: tuple[Kernel, Kernel], block: int | None, rng: np.random.Generator
) -> TestResult:
    """The mean of the unbiased statistic over blocks of rows."""
    count = block_sizes(len(x), block, least=5)
    blocks = Blocks(count)
    for i, rows in enumerate(np.array_split(rng.permutation(len(x)), count)):
        n = len(rows)
        first, second = (centred(each(p[rows])) for p, each in zip((x, y), kernels, strict=True))
        blocks.add(i, first, second, 1 / (n * (n - 3)))
    return blocks.result(kernels)


# --- conditional independence ---


@default_arithmetic
def conditional_hsic_test(
    x: Any, y: Any, z: Any, *, random_seed: int | np.random.Generator | None = None, **options: Any
) -> TestResult:
    """Test whether two samples are independent given a third, by their regressions' residuals.

    Parameters
    ----------
    x, y, z : array_like of shape (n, d), (n, e) and (n, f), or (n,)
    random_seed : int or numpy.random.Generator, optional
    **options
        Of `hsic_test`, for the residuals.

    Returns
    -------
    TestResult

    Raises
    ------
    TypeError, ValueError
        As of `hsic_test`, for any of the three; at least 20 rows are needed.

    Notes
    -----
    Both are regressed on z by kernel ridge regression, each row's residual predicted from all the others,
    and the residuals tested for independence [1]_. That is conditional independence where noise is added to
    functions of z, and does not depend on it; noise whose spread changes with z in both is a dependence of
    the residuals, which the test finds: there take `kci_test`, which keeps its level. What the regressions
    leave of the functions makes the level larger than the nominal one in small samples with steep functions.

    References
    ----------
    .. [1] S. Flaxman, D. Neill, A. Smola, Gaussian processes for independence tests with non-iid data in
       causal inference, ACM Transactions on Intelligent Systems and Technology 7 (2015).
    """
    rng = generator_of(random_seed)
    first, second, _ = _residuals(x, y, z, rng)
    return hsic_test(first, second, random_seed=rng, **options)


def _residuals(x: Any, y: Any, z: Any, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What regressions on z leave of x and y, each row left out for its own, and z in its deviations."""
    refuse_unlike_labels("x", x, "y", y)
    refuse_unlike_labels("x", x, "z", z)
    x, y, z = (as_points(name, value, least=20) for name, value in (("x", x), ("y", y), ("z", z)))
    refuse_unequal_rows("x", x, "y", y)
    refuse_unequal_rows("x", x, "z", z)
    for name, points in (("x", x), ("y", y), ("z", z)):
        refuse_constant(name, points)
    # The regressions have one lengthscale for all columns of z, whatever their units.
    given = (z - z.mean(axis=0)) / unit_deviations(z)
    first, second = (KernelRegression(given, points, rng).residuals for points in (x, y))
    return first, second, given


@default_arithmetic
def kci_test(x: Any, y: Any, z: Any, *, random_seed: int | np.random.Generator | None = None) -> TestResult:
    """Test whether two samples are independent given a third, whose noise may depend on the third.

    Parameters
    ----------
    x, y, z : array_like of shape (n, d), (n, e) and (n, f), or (n,)
    random_seed : int or numpy.random.Generator, optional
        For the low-rank factors of the regressions.

    Returns
    -------
    TestResult
        Compared with a gamma distribution.

    Raises
    ------
    TypeError, ValueError
        As of `conditional_hsic_test`; at least 20 rows are needed.

    Notes
    -----
    The kernel test of conditional independence of [1]_: not only x and y, but all functions of them in the
    spaces of Gaussian kernels are regressed on z, those of x together with those of z, and the test is
    whether what is left of them is correlated. The gamma distribution has two moments of the weighted sum of
    chi-squares under the null hypothesis, whose weights are of products of what is left in each row: the
    spread of x and of y may change with z. Here x and y are the residuals of `conditional_hsic_test` from the
    start, and each row is left out of the regressions that it is compared with. With several columns of z
    and few rows the regressions leave some of the functions, and the level is larger than the nominal one.

    References
    ----------
    .. [1] K. Zhang, J. Peters, D. Janzing, B. Schölkopf, Kernel-based conditional independence test and
       application in causal discovery, UAI (2011).

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> z, noise = rng.normal(size=150), rng.normal(size=(2, 150))
    >>> x, y = z + z**2 * noise
    >>> kci_test(x, y, z, random_seed=1).pvalue > 0.05
    True
    >>> kci_test(x, y + x, z, random_seed=1).pvalue < 0.01
    True
    """
    rng = generator_of(random_seed)
    x, y, z = _residuals(x, y, z, rng)
    widths = [(median_heuristic(points),) * points.shape[1] for points in (x, y, z)]
    sides = (np.hstack([x, z]), Gaussian(widths[0] + widths[2])), (y, Gaussian(widths[1]))
    products = np.ones((len(z), len(z)))
    for points, kernel in sides:
        # As accurate as the regressions on z.
        features, _ = pivoted_cholesky(kernel, points, min(len(points), 600), 1e-5)
        left = KernelRegression(z, features, rng).residuals
        products *= left @ left.T
    null = weighted_chi_squares(products)
    statistic = float(products.sum())
    return TestResult(statistic, float(null.sf(statistic)), null, (sides[0][1], sides[1][1]), "exact")


def weighted_chi_squares(products: np.ndarray) -> Any:
    """A gamma distribution with the moments of g' A g for g standard normal and a matrix A (n, n)."""
    mean, variance = float(np.trace(products)), 2 * float(np.vdot(products, products))
    if not mean > 0:
        raise ValueError("regressions on z leave nothing of x or y, which are functions of it")
    return gamma(mean**2 / variance, scale=variance / mean)
