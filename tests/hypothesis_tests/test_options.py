"""What the tests do with their options: forms, blocks, seeds and numbers of permutations."""

from itertools import permutations as orders

import numpy as np
import pytest

from pymc_kbr.hypothesis_tests import conditional_hsic_test, hsic_test, mmd, mmd_test, power_curve, witness
from pymc_kbr.hypothesis_tests.blocks import block_sizes
from pymc_kbr.hypothesis_tests.hsic import Dependences, Side
from pymc_kbr.kernels import Gaussian, Laplace

X, Y = (np.random.default_rng(seed).normal(0.4 * seed, 1.0, size=(30, 2)) for seed in (0, 1))


@pytest.mark.parametrize(("test", "rows"), [(mmd_test, 60), (hsic_test, 30)])
def test_rows_beyond_what_a_matrix_holds_are_compared_by_random_features(test, rows):
    for most, form in ((rows, "exact"), (rows - 1, "random_features")):
        found = test(X, Y, permutations=5, features=20, random_seed=1, exact_rows=most)
        assert found.form == form
        asked = test(X, Y, permutations=5, features=20, random_seed=1, form=form)
        assert found.statistic == asked.statistic


def test_permutations_in_parts_are_as_many_as_asked_for_and_all_their_own(set_default):
    set_default(mmd.Discrepancies.permuted, entries_at_once=4 * 60)
    found = mmd_test(X, Y, permutations=10, random_seed=1)
    assert len(found.null) == len(np.unique(found.null)) == 10


def test_null_of_independence_is_of_permutations_and_not_of_rows_drawn_again():
    x, y = X[:5], Y[:5]
    sides = [Side(Gaussian(1.0)(points), None) for points in (x, y)]
    possible = [Dependences(*sides, biased=False)(np.array(order)) for order in orders(range(5))]
    null = hsic_test(x, y, bandwidth=1.0, permutations=30, random_seed=1).null
    assert np.abs(null[:, None] - np.array(possible)).min(axis=1).max() < 1e-12
    assert len(np.unique(np.round(null, 12))) > 10


def test_the_smaller_sample_decides_on_the_number_of_blocks():
    few, many = np.random.default_rng(2).normal(size=(40, 1)), np.random.default_rng(3).normal(size=(90, 1))
    found = [mmd_test(*pair, form="block", block=2) for pair in ((few, many), (many, few))]
    assert [one.form for one in found] == ["block", "block"]
    assert np.all(np.isfinite([one.statistic for one in found]))


@pytest.mark.parametrize(
    ("rows", "block", "least", "count"), [(900, None, 2, 30), (40, 2, 2, 20), (100, 5, 5, 20)]
)
def test_blocks_of_the_root_of_the_rows(rows, block, least, count):
    assert block_sizes(rows, block, least) == count


@pytest.mark.parametrize(("rows", "block", "least"), [(39, 2, 2), (400, 4, 5), (300, 1, 2)])
def test_too_few_blocks_and_too_small_ones_are_refused(rows, block, least):
    with pytest.raises(ValueError, match="block"):
        block_sizes(rows, block, least)


def test_gamma_null_is_of_whole_samples_and_independence_needs_five_rows():
    long = np.random.default_rng(1).normal(size=(100, 1))
    with pytest.raises(ValueError, match="a block needs at least 5 rows"):
        hsic_test(long, long, form="block", block=4)
    with pytest.raises(ValueError, match="gamma"):
        mmd_test(X, Y, null="gamma", statistic="biased", form="block", block=2)
    with pytest.raises(ValueError, match="4 rows in x"):
        hsic_test(X[:4], Y[:4])


def test_both_sides_are_freed_of_the_third_whatever_its_units():
    rng = np.random.default_rng(3)
    z = rng.normal(size=(40, 2))
    x, y = z[:, :1] ** 2 + 0.3 * rng.normal(size=(40, 1)), np.sin(z[:, :1]) + 0.3 * rng.normal(size=(40, 1))
    options = {"null": "gamma", "statistic": "biased", "random_seed": 1}
    one, mirrored, scaled = (
        conditional_hsic_test(*sides, **options)
        for sides in ((x, y, z), (y, x, z), (x, y, z * [1e3, 1.0] - 7))
    )
    assert mirrored.statistic == pytest.approx(one.statistic, rel=0.1)
    assert scaled.statistic == pytest.approx(one.statistic, rel=1e-6)
    same, other = (conditional_hsic_test(x, y, z, permutations=7, random_seed=s).null for s in (1, 2))
    assert len(same) == 7
    np.testing.assert_array_equal(same, conditional_hsic_test(x, y, z, permutations=7, random_seed=1).null)
    # Of other orders of the rows, and not of regressions that differ a little.
    assert np.corrcoef(same, other)[0, 1] < 0.9


class Found:
    def __init__(self, pvalue):
        self.pvalue = pvalue


def test_power_is_of_fresh_data_by_the_seed_with_the_options_that_are_given():
    of_tests = []

    def test(value, random_seed, offset=0.0):
        of_tests.append(random_seed.random())
        return Found(value + offset)

    def simulate(setting, rng):
        return [setting + rng.random()]

    curves = [power_curve(test, simulate, [0, 5], repeats=3, random_seed=s, offset=2.0) for s in (1, 1, 2)]
    at_level = power_curve(lambda v, random_seed: Found(v), lambda s, rng: [s], [0.1], repeats=5, level=0.1)
    np.testing.assert_array_equal(at_level.power, [1.0])
    np.testing.assert_allclose(at_level.interval(0.9), [[0.05 ** (1 / 5), 1.0]])
    one, same, other = (curve.pvalues for curve in curves)
    np.testing.assert_array_equal(one, same)
    assert not np.any(one == other)
    assert len(np.unique(one)) == len(np.unique(of_tests[:6])) == 6
    assert one.min() >= 2


def test_witness_of_drawn_lengthscales_uses_all_of_them_and_the_seed():
    at = np.array([[0.0, 0.0], [1.0, 1.0]])
    lengthscales = np.array([[0.5]] * 10 + [[2.0]] * 10)
    one, same, other = (witness(X, Y, at, lengthscale=lengthscales, random_seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.mean, same.mean)
    assert not np.array_equal(one.mean, other.mean)
    assert np.all((one.lower < one.mean) & (one.mean < one.upper))
    short, long = (witness(X, Y, at, lengthscale=lengthscales[[i] * 10], random_seed=1) for i in (0, 10))
    spread = [w.upper - w.lower for w in (short, long)]
    # Half of the functions are those of each lengthscale, whose means are apart.
    between = (short.mean + long.mean) / 2
    assert np.all(np.abs(one.mean - between) < 0.5 * np.maximum(*spread) / 1.28)


def test_each_side_may_have_a_kernel_of_its_own():
    kernels = hsic_test(X, Y, kernel=(Gaussian(1.0), Laplace(2.0)), permutations=2).kernels
    assert kernels == (Gaussian(1.0), Laplace(2.0))
