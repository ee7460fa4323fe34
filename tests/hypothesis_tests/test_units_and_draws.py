"""Units of what is conditioned on, the least rows of a block, and draws of a power curve."""

from types import SimpleNamespace

import pytest

from pymc_kbr.hypothesis_tests import conditional_hsic_test, hsic_test, power_curve


def test_units_of_what_is_conditioned_on_do_not_matter(rng):
    z = rng.normal(size=(60, 2))
    x, y = z.sum(axis=1) + rng.normal(size=60), z[:, 0] + rng.normal(size=60)
    one, other = (
        conditional_hsic_test(x, y, given, permutations=19, random_seed=1)
        for given in (z, z * [1e3, 1e-3] + [7.0, -2.0])
    )
    assert other.statistic == pytest.approx(one.statistic, rel=1e-6)
    assert other.pvalue == one.pvalue


def test_blocks_of_four_rows_have_no_unbiased_dependence(rng):
    x, y = rng.normal(size=(2, 200, 1))
    assert hsic_test(x, y, form="block", block=5, random_seed=1).form == "block"
    with pytest.raises(ValueError, match="at least 5 rows"):
        hsic_test(x, y, form="block", block=4, random_seed=1)


def test_each_repetition_has_a_sample_and_a_seed_of_its_own():
    seeds = []

    def test(sample, random_seed):
        seeds.append(random_seed.random())
        return SimpleNamespace(pvalue=sample)

    found = power_curve(test, lambda setting, rng: (rng.random(),), [0, 1], repeats=5, random_seed=3)
    assert len({*found.pvalues.ravel(), *seeds}) == 20
