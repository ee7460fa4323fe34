"""Statistics against loops, permutation moments against all permutations, and p-values of both."""

from itertools import combinations, permutations

import numpy as np
import pytest
from scipy.stats import skew

from pymc_kbr.hypothesis_tests import hsic_test, mmd_test
from pymc_kbr.hypothesis_tests.blocks import Blocks, Traces, centred, gamma_null, labels, moments
from pymc_kbr.hypothesis_tests.hsic import Dependences, Side
from pymc_kbr.hypothesis_tests.mmd import Discrepancies, FactorSums, GramSums
from pymc_kbr.hypothesis_tests.result import by_permutation
from pymc_kbr.kernels import Gaussian, Laplace, Linear, median_heuristic


@pytest.fixture
def pair(rng):
    return rng.normal(size=(6, 2)), rng.normal(0.5, 1.5, size=(5, 2))


def mmd_by_loops(x, y, kernel, biased):
    def mean(a, b, same):
        values = [
            kernel(p[None], q[None])[0, 0]
            for i, p in enumerate(a)
            for j, q in enumerate(b)
            if biased or not (same and i == j)
        ]
        return np.mean(values)

    return mean(x, x, True) + mean(y, y, True) - 2 * mean(x, y, False)


def hsic_by_quadruples(x, y, kernel, other):
    """The U-statistic over all ordered quadruples of different rows."""
    k, m = kernel(x), other(y)
    terms = [k[i, j] * (m[i, j] + m[q, r] - 2 * m[i, q]) for i, j, q, r in permutations(range(len(x)), 4)]
    return np.mean(terms)


@pytest.mark.parametrize("kernel", [Gaussian(0.9), Laplace(1.1), Linear()], ids=repr)
@pytest.mark.parametrize("biased", [True, False])
def test_discrepancy_is_that_of_loops(biased, kernel, pair):
    x, y = pair
    found = mmd_test(x, y, kernel=kernel, statistic="biased" if biased else "unbiased", permutations=9)
    assert found.statistic == pytest.approx(mmd_by_loops(x, y, kernel, biased))


@pytest.mark.parametrize("kernel", [Gaussian(0.9), Linear()], ids=repr)
def test_unbiased_dependence_is_the_u_statistic(kernel, rng):
    x, y = rng.normal(size=(7, 2)), rng.normal(size=(7, 1))
    found = hsic_test(x, y, kernel=(kernel, Laplace(0.8)), permutations=9)
    assert found.statistic == pytest.approx(hsic_by_quadruples(x, y, kernel, Laplace(0.8)))


def test_biased_dependence_is_the_trace(rng):
    x, y = rng.normal(size=(9, 2)), rng.normal(size=(9, 1))
    centring = np.eye(9) - 1 / 9
    found = hsic_test(x, y, bandwidth=(0.7, [1.2]), statistic="biased", permutations=9)
    wanted = np.trace(Gaussian(0.7)(x) @ centring @ Gaussian(1.2)(y) @ centring) / 81
    assert found.statistic == pytest.approx(wanted)
    assert found.bandwidths == (0.7, (1.2,))


@pytest.mark.parametrize("biased", [True, False])
def test_permuted_statistics_are_those_of_permuted_rows(biased, pair, rng):
    pooled, kernel = np.vstack(pair), Gaussian(1.0)
    order = rng.permutation(11)
    first = np.isin(np.arange(11), order[:6])[:, None]
    found = Discrepancies(GramSums(kernel(pooled)), 6, biased)(first)[0]
    assert found == pytest.approx(mmd_by_loops(pooled[first[:, 0]], pooled[~first[:, 0]], kernel, biased))
    few = rng.normal(size=(8, 1)), rng.normal(size=(8, 2))
    order = rng.permutation(8)
    sides = [Side(kernel(points), None) for points in few]
    again = [Side(kernel(few[0]), None), Side(kernel(few[1][order]), None)]
    assert Dependences(*sides, biased)(order) == pytest.approx(Dependences(*again, biased)(np.arange(8)))


@pytest.mark.parametrize("biased", [True, False])
def test_factors_represent_their_matrices(biased, rng):
    factor, other = rng.normal(size=(12, 3)), rng.normal(size=(12, 2))
    first = rng.permutation(12)[:, None] < 5
    sums = FactorSums(factor), GramSums(factor @ factor.T)
    np.testing.assert_allclose(*(Discrepancies(each, 5, biased)(first) for each in sums))
    order = rng.permutation(12)
    low = Dependences(Side(None, factor), Side(None, other), biased)
    mixed = Dependences(Side(None, factor), Side(other @ other.T, None), biased)
    assert low(order) == pytest.approx(mixed(order))
    np.testing.assert_allclose(low.first.traces(), Traces.of_gram(factor @ factor.T))
    centring = np.eye(12) - 1 / 12
    centred = centring @ factor @ factor.T @ centring
    wanted = np.trace(centred), np.sum(centred**2), np.sum(np.diag(centred) ** 2)
    np.testing.assert_allclose(low.first.traces(), wanted)


def test_moments_are_those_of_all_permutations(rng):
    x, y = rng.normal(size=(6, 2)), rng.exponential(size=(6, 1))
    sides = Side(Gaussian(1.0)(x), None), Side(Linear()(y), None)
    found = Dependences(*sides, biased=True)
    values = 36 * np.array([found(np.array(order)) for order in permutations(range(6))])
    mean, variance = moments(sides[0].traces(), sides[1].traces(), 6)
    assert mean == pytest.approx(values.mean())
    assert variance == pytest.approx(values.var())
    null = gamma_null(sides[0].traces(), sides[1].traces(), 6, 1 / 36)
    assert null.mean() == pytest.approx(values.mean() / 36)
    assert null.var() == pytest.approx(values.var() / 36**2)


@pytest.mark.statistical
def test_gamma_null_of_two_samples_has_the_moments_of_all_partitions(pair):
    x, y = pair
    pooled, kernel = np.vstack([x, y]), Gaussian(1.0)
    values = [
        mmd_by_loops(pooled[list(rows)], np.delete(pooled, rows, axis=0), kernel, True)
        for rows in combinations(range(11), 6)
    ]
    null = mmd_test(x, y, kernel=kernel, statistic="biased", null="gamma").null
    assert null.mean() == pytest.approx(np.mean(values))
    assert null.var() == pytest.approx(np.var(values))


def test_pvalue_counts_the_sample_itself_and_what_is_equal():
    null = np.array([0.0, 1.0, 2.0, 3.0])
    assert by_permutation(2.0, null) == 3 / 5
    assert by_permutation(2.0 + 1e-13, null) == 3 / 5
    assert by_permutation(9.0, null) == 1 / 5


@pytest.mark.parametrize("shift", [0.0, 0.3])
def test_gamma_and_permutations_agree(shift, rng):
    x, y = rng.normal(size=(150, 2)), rng.normal(shift, 1.0, size=(120, 2))
    options = {"statistic": "biased", "bandwidth": "median", "random_seed": 1}
    by_gamma = mmd_test(x, y, null="gamma", **options).pvalue
    permuted = mmd_test(x, y, permutations=2000, **options).pvalue
    # Five Monte Carlo errors, and a fifth for the gamma's form, of which only two moments are right.
    assert abs(by_gamma - permuted) < 5 * np.sqrt(permuted / 2000) + 0.2 * permuted
    z = shift * x[:120] + y
    by_gamma = hsic_test(x[:120], z, null="gamma", **options).pvalue
    permuted = hsic_test(x[:120], z, permutations=2000, **options).pvalue
    assert abs(by_gamma - permuted) < 5 * np.sqrt(permuted / 2000) + 0.2 * permuted


def test_random_features_tend_to_the_kernel(rng):
    x, y = rng.normal(size=(80, 2)), rng.normal(0.5, 1.0, size=(70, 2))
    exact = mmd_test(x, y, bandwidth=1.0, permutations=9)
    found = mmd_test(
        x, y, bandwidth=1.0, permutations=9, form="random_features", features=4_000, random_seed=1
    )
    # An entry of the matrix is off by 1 / sqrt(2,000); its means over pairs by less.
    assert found.statistic == pytest.approx(exact.statistic, abs=5 / np.sqrt(2_000))
    assert found.form == "random_features"
    z = x[:70] + y
    exact = hsic_test(x[:70], z, bandwidth=1.0, permutations=9)
    found = hsic_test(
        x[:70], z, bandwidth=1.0, permutations=9, form="random_features", features=1_000, random_seed=1
    )
    assert found.statistic == pytest.approx(exact.statistic, abs=5 / np.sqrt(500))


def test_block_statistic_is_the_mean_over_blocks(rng):
    x, y = rng.normal(size=(100, 1)), rng.normal(size=(200, 1))
    kernel = Gaussian(median_heuristic(np.vstack([x, y])))
    found = mmd_test(x, y, form="block", block=5, random_seed=4)
    drawn = np.random.default_rng(4)
    a, b = drawn.permutation(x), drawn.permutation(y)
    values = [mmd_by_loops(a[5 * i : 5 * i + 5], b[10 * i : 10 * i + 10], kernel, False) for i in range(20)]
    assert found.statistic == pytest.approx(np.mean(values))
    found = hsic_test(x, y[:100], form="block", block=5, kernel=(kernel, Laplace(1.0)), random_seed=4)
    order = np.random.default_rng(4).permutation(100)
    rows = [order[i : i + 5] for i in range(0, 100, 5)]
    values = [hsic_by_quadruples(x[r], y[:100][r], kernel, Laplace(1.0)) for r in rows]
    assert found.statistic == pytest.approx(np.mean(values))
    assert found.pvalue == found.null.sf(found.statistic)


def test_variance_of_a_block_is_that_of_all_permutations(rng):
    gram, other = Gaussian(1.0)(rng.normal(size=(6, 1))), Laplace(1.0)(rng.normal(size=(6, 1)))
    first = np.arange(6) < 2
    of_two = [
        mmd_by_loops(
            *(np.flatnonzero(which[list(order)])[:, None] for which in (first, ~first)), At(gram), False
        )
        for order in permutations(range(6))
    ]
    a, b = centred(gram), centred(other)
    of_pairs = [np.vdot(a.matrix, b.matrix[np.ix_(order, order)]) for order in permutations(range(6))]
    for left, values in ((labels(2, 4), of_two), (centred(other), of_pairs)):
        blocks = Blocks(1)
        blocks.add(0, left, a)
        null = blocks.result([Gaussian(1.0)]).null
        assert np.mean(values) == pytest.approx(0.0, abs=1e-12)
        assert null.mean() == pytest.approx(0.0, abs=1e-12)
        assert null.var() == pytest.approx(np.var(values))


class At:
    """A kernel whose values are read from a matrix, of rows by their numbers."""

    def __init__(self, gram):
        self.gram = gram

    def __call__(self, a, b):
        return self.gram[np.ix_(a[:, 0], b[:, 0])]


def test_skewness_of_blocks_is_that_of_permutations():
    rng, draws = np.random.default_rng(1), 20_000
    x, y = rng.normal(size=(2, 60, 1))
    a, b = centred(Gaussian(1.0)(x)), centred(Gaussian(1.5)(y))
    orders = [rng.permutation(60) for _ in range(draws)]
    values = np.array([np.vdot(a.matrix, b.matrix[np.ix_(order, order)]) for order in orders])
    for count in (
        1,
        4,
    ):  # alike, and independent: the mean of four is as skewed as one, over the root of four
        blocks = Blocks(count)
        for i in range(count):
            blocks.add(i, a, b)
        skewness = blocks.result([Gaussian(1.0)]).null.stats("s")
        # An estimate from such draws has a deviation of about root(6 / draws) times what tails of a gamma
        # distribution of skewness two make of it, nine; the limit itself is off by the order of 1 / 60.
        assert float(skewness) * np.sqrt(count) == pytest.approx(
            skew(values), rel=3 / 60, abs=5 * 9 * np.sqrt(6 / draws) / 3
        )


def test_blocks_share_no_order_of_the_rows():
    """Two sorted samples of one distribution: blocks of neighbours would differ more than by chance."""
    draws = np.random.default_rng(6)
    pvalues = [
        mmd_test(*np.sort(draws.normal(size=(2, 200)), axis=1), form="block", random_seed=draws).pvalue
        for _ in range(60)
    ]
    # Sixty uniform p-values have a mean within five deviations of a half.
    assert abs(np.mean(pvalues) - 0.5) < 5 / np.sqrt(12 * 60)
