import numpy as np
import pytest

from pymc_kbr.arrays.outliers import outliers

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("n", [50, 300, 10_000])
@pytest.mark.parametrize("value", [1e6, -1e12, 1e300])
def test_a_row_that_makes_up_the_deviation_is_named(n, value):
    table = np.random.default_rng(n).normal(size=(n, 3))
    table[7, 1] = value
    (found,) = outliers(table)
    assert (found.column, found.rows.tolist()) == (1, [7])
    assert found.of_the_rest == pytest.approx(np.delete(table[:, 1], 7).std(), rel=0.05)
    assert found.deviation > 10 * found.of_the_rest


@pytest.mark.parametrize("n", [3, 50, 2000, 100_000])
def test_long_tails_and_rare_events_are_no_outliers(n):
    rng = np.random.default_rng(n)
    table = np.column_stack(
        [
            rng.lognormal(sigma=1.5, size=n),
            rng.standard_t(3, size=n),
            rng.binomial(1, 0.01, size=n),
            rng.poisson(0.05, size=n),
            np.ones(n),
        ]
    )
    assert not outliers(table)


def test_units_do_not_matter_and_few_rows_may_share_a_deviation():
    table = RNG.normal(size=(5000, 1))
    table[[3, 5, 9], 0] = 1e5, -1e5, 2e5
    for unit in (1e-280, 1.0, 1e280):
        (found,) = outliers(table * unit)
        assert found.rows.tolist() == [3, 5, 9]
        assert found.shown() == "3, 5, 9"
