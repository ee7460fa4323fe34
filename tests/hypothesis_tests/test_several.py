"""Several bandwidths in one test."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from scipy.stats import binom

from pymc_kbr.hypothesis_tests import conditional_hsic_test, hsic_test, mmd_test
from pymc_kbr.hypothesis_tests.choices import kernels_of, of_pooled, of_several, of_side
from pymc_kbr.kernels import Gaussian, Laplace, median_heuristic

KERNELS = [(Gaussian(1.0),), (Gaussian(2.0),), (Gaussian(3.0),)]


def pool(seed=0, rows=20):
    return np.random.default_rng(seed).gamma(2.0, [1.0, 10.0, 0.1], size=(rows, 3))


def test_the_statistic_is_the_largest_in_deviations_of_the_pool():
    pooled = pool()
    found = of_several(pooled[0], pooled[1:], KERNELS, "exact")
    standard = (pooled - pooled.mean(axis=0)) / pooled.std(axis=0)
    assert found.statistic == pytest.approx(standard[0].max())
    np.testing.assert_allclose(found.null, standard[1:].max(axis=1))
    assert found.kernels == KERNELS[int(np.argmax(standard[0]))]
    assert found.pvalue == np.mean(standard.max(axis=1) >= standard[0].max())


def test_the_sample_counts_like_one_of_its_permutations():
    """What makes the level exact: whichever line is the sample's, all lines have the same statistics."""
    pooled = pool(1)
    for line in (0, 7, 19):
        found = of_several(pooled[line], np.delete(pooled, line, axis=0), KERNELS, "exact")
        first = of_several(pooled[0], pooled[1:], KERNELS, "exact")
        np.testing.assert_allclose(
            np.sort([found.statistic, *found.null]), np.sort([first.statistic, *first.null])
        )


def test_units_of_a_bandwidths_statistic_do_not_matter():
    pooled = pool(2)
    found, other = (of_several(p[0], p[1:], KERNELS, "exact") for p in (pooled, pooled * [1.0, 1e6, 1e-9]))
    assert other.pvalue == found.pvalue
    assert other.kernels == found.kernels


def test_a_bandwidth_at_which_all_are_equal_decides_nothing():
    pooled = pool(3)
    pooled[:, 2] = 1.0 + 1e-16 * np.arange(20)
    found, two = (of_several(p[0], p[1:], KERNELS, "exact") for p in (pooled, pooled[:, :2]))
    # The third one has zero everywhere, which is the largest where both others are below their means.
    assert found.statistic == max(two.statistic, 0.0)
    assert found.pvalue == np.mean([max(x, 0) >= found.statistic for x in [two.statistic, *two.null]])


GIVEN = {"null": "permutation", "form": "exact"}


def test_bandwidths_of_a_side_are_those_about_the_median(rng):
    x = rng.normal(size=(40, 2))
    found = kernels_of(x, "laplace", "aggregated", of_side, **GIVEN)
    assert [type(one) for one in found] == [Laplace] * 4
    wanted = median_heuristic(x) * np.array([1 / 8, 8**-0.5, 1.0, 8**0.5])
    np.testing.assert_allclose([one.bandwidth for one in found], wanted)
    assert kernels_of(x, None, 0.7, of_side, **GIVEN) == [Gaussian(0.7)]


def test_bandwidths_of_two_samples_span_their_distances(rng):
    x = rng.normal(size=(40, 2))
    low, high = np.quantile(pdist(x), [0.01, 0.95])
    found = of_pooled(x)
    np.testing.assert_allclose(found[[0, -1]], [low / 2, 2 * high])
    np.testing.assert_allclose(np.diff(np.log(found)), np.log(found[1] / found[0]))


@pytest.mark.parametrize("bandwidths", [of_pooled, of_side])
def test_bandwidths_do_not_depend_on_the_order_of_rows(bandwidths, rng):
    """Of 2,500 rows some are taken: the same ones, whichever sample they are of."""
    x = rng.standard_t(2, size=(2500, 2))
    np.testing.assert_array_equal(bandwidths(x), bandwidths(x[rng.permutation(2500)]))


@pytest.mark.parametrize("test", [hsic_test, mmd_test])
def test_default_is_aggregated_where_permutations_allow_it(test, rng):
    x, y = rng.normal(size=(2, 300))
    few = {"permutations": 19, "random_seed": 1}
    left_out = test(x, y, **few)
    np.testing.assert_array_equal(left_out.null, test(x, y, bandwidth="aggregated", **few).null)
    for options in ({"null": "gamma", "statistic": "biased"}, {"form": "block"}):
        assert (
            test(x, y, **options, **few).kernels == test(x, y, bandwidth="median", **options, **few).kernels
        )
    assert set(test(x, y, kernel=Gaussian(1.0), **few).kernels) == {Gaussian(1.0)}


@pytest.mark.parametrize("test", [hsic_test, mmd_test])
def test_counts_and_columns_of_two_values_are_taken(test, rng):
    for x, y in (rng.poisson(0.05, size=(2, 200)), rng.integers(2, size=(2, 50))):
        assert 0 < test(x, y, permutations=19, random_seed=1).pvalue <= 1


def test_elongated_clouds_on_a_grid_are_found():
    """Where the median, and the highest maximum of the marginal likelihood, are of the grid itself."""
    cells = 3
    rng = np.random.default_rng(1)
    centres = 14.0 * np.stack(np.meshgrid(*2 * [np.arange(cells)]), axis=-1).reshape(-1, 1, 2)
    turn = np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2)
    x, y = rng.normal(size=(2, cells**2, 60, 2))
    x, y = x + centres, (y * [np.sqrt(6), 1.0]) @ turn + centres
    samples = x.reshape(-1, 2)[: 60 * cells**2], y.reshape(-1, 2)
    found = mmd_test(*samples, permutations=99, random_seed=1)
    assert found.pvalue == 0.01
    assert found.bandwidths[0] < 5
    assert mmd_test(*samples, bandwidth="bayesian", permutations=99, random_seed=1).pvalue > 0.05


def test_one_of_two_samples_may_have_several(rng):
    x, y = rng.normal(size=(2, 30))
    found = hsic_test(x, y, bandwidth=("aggregated", 0.5), permutations=9, random_seed=1)
    assert found.bandwidths[1] == 0.5
    assert found.bandwidths[0] in of_side(x[:, None])


def test_a_wave_that_the_median_does_not_see_is_found(rng):
    """Both tests have 99 permutations, of which none is as large by chance in one of a hundred samples."""
    x = rng.uniform(-1, 1, size=120)
    y = np.cos(4 * np.pi * x) + 0.4 * rng.normal(size=120)
    found = hsic_test(x, y, bandwidth="aggregated", permutations=99, random_seed=1)
    assert found.pvalue == 0.01
    assert found.bandwidths[0] < median_heuristic(x[:, None])
    assert hsic_test(x, y, bandwidth="median", permutations=99, random_seed=1).pvalue > 0.05
    comb = np.round(2 * rng.normal(size=150)) / 2 + 0.04 * rng.normal(size=150)
    smooth = np.sqrt(1 + 0.29**2 / 4) * rng.normal(size=150)
    assert mmd_test(comb, smooth, bandwidth="aggregated", permutations=99, random_seed=1).pvalue == 0.01


@pytest.mark.parametrize("test", [hsic_test, mmd_test])
def test_level(test):
    """Of 150 nulls of heavy tails, one in ten is rejected at that level: within three binomial deviations."""
    rng, count = np.random.default_rng(7), 150
    rejected = sum(
        test(*rng.standard_t(2, size=(2, 16)), bandwidth="aggregated", permutations=19, random_seed=i).pvalue
        <= 0.1 + 1e-12
        for i in range(count)
    )
    low, high = binom.ppf([0.00135, 0.99865], count, 0.1)
    assert low <= rejected <= high


def test_residuals_are_tested_by_several(rng):
    z = rng.normal(size=120)
    x = np.sin(z) + 0.3 * rng.normal(size=120)
    wave = np.cos(8 * (x - np.sin(z))) + 0.1 * rng.normal(size=120)
    assert (
        conditional_hsic_test(x, wave, z, bandwidth="aggregated", permutations=99, random_seed=1).pvalue
        < 0.05
    )


@pytest.mark.parametrize("test", [hsic_test, mmd_test])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"null": "gamma", "statistic": "biased"}, "compared by their permutations"),
        ({"form": "block"}, "compared by their permutations"),
        ({"kernel": Gaussian(1.0)}, "which has its own"),
    ],
)
def test_refusals(test, options, words, rng):
    with pytest.raises(ValueError, match=words):
        test(rng.normal(size=30), rng.normal(size=30), bandwidth="aggregated", **options)
