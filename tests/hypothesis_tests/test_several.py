"""Several bandwidths in one test."""

import numpy as np
import pytest
from scipy.stats import binom

from pymc_kbr.hypothesis_tests import choices as several
from pymc_kbr.hypothesis_tests import conditional_hsic_test, hsic, hsic_test, mmd, mmd_test
from pymc_kbr.hypothesis_tests.choices import SEVERAL_SCALES, kernels_of, of_several
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


def test_bandwidths_are_those_about_the_median(rng):
    x = rng.normal(size=(40, 2))
    found = kernels_of(x, "laplace", "several")
    assert [type(one) for one in found] == [Laplace] * len(SEVERAL_SCALES)
    np.testing.assert_allclose(
        [one.bandwidth for one in found], median_heuristic(x) * np.array(SEVERAL_SCALES)
    )
    assert kernels_of(x, None, 0.7) == [Gaussian(0.7)]


@pytest.mark.parametrize("module", [hsic, mmd])
def test_permutations_are_the_same_at_all_bandwidths(module, rng, monkeypatch):
    monkeypatch.setattr(several, "SEVERAL_SCALES", (1.0, 1.0))
    seen = []
    monkeypatch.setattr(module, "of_several", lambda *given: seen.append(given[1]))
    test = {hsic: hsic_test, mmd: mmd_test}[module]
    test(rng.normal(size=12), rng.normal(size=12), bandwidth="several", permutations=7, random_seed=1)
    np.testing.assert_allclose(seen[0], np.tile(seen[0][:, :1], seen[0].shape[1]), atol=1e-14)
    assert len(np.unique(seen[0][:, 0])) > 3


def test_one_of_two_samples_may_have_several(rng):
    x, y = rng.normal(size=(2, 30))
    found = hsic_test(x, y, bandwidth=("several", 0.5), permutations=9, random_seed=1)
    assert found.bandwidths[1] == 0.5
    assert found.bandwidths[0] in median_heuristic(x[:, None]) * np.array(SEVERAL_SCALES)


def test_a_wave_that_the_median_does_not_see_is_found(rng):
    """Both tests have 99 permutations, of which none is as large by chance in one of a hundred samples."""
    x = rng.uniform(-1, 1, size=120)
    y = np.cos(4 * np.pi * x) + 0.4 * rng.normal(size=120)
    found = hsic_test(x, y, bandwidth="several", permutations=99, random_seed=1)
    assert found.pvalue == 0.01
    assert found.bandwidths[0] < median_heuristic(x[:, None])
    assert hsic_test(x, y, permutations=99, random_seed=1).pvalue > 0.05
    comb = np.round(2 * rng.normal(size=150)) / 2 + 0.04 * rng.normal(size=150)
    smooth = np.sqrt(1 + 0.29**2 / 4) * rng.normal(size=150)
    assert mmd_test(comb, smooth, bandwidth="several", permutations=99, random_seed=1).pvalue == 0.01


@pytest.mark.parametrize("test", [hsic_test, mmd_test])
def test_level(test):
    """Of 150 nulls of heavy tails, one in ten is rejected at that level: within three binomial deviations."""
    rng, count = np.random.default_rng(7), 150
    rejected = sum(
        test(*rng.standard_t(2, size=(2, 16)), bandwidth="several", permutations=19, random_seed=i).pvalue
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
        conditional_hsic_test(x, wave, z, bandwidth="several", permutations=99, random_seed=1).pvalue < 0.05
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
        test(rng.normal(size=30), rng.normal(size=30), bandwidth="several", **options)
