import numpy as np
import pytest

from pymc_kbr.arrays.outliers import beyond_power_law, outliers, outliers_too

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(("n", "value"), [(50, 1e300), (300, 1e6), (10_000, -1e12)])
def test_a_row_that_makes_up_the_deviation_is_named(n, value):
    table = np.random.default_rng(n).normal(size=(n, 3))
    table[7, 1] = value
    (found,) = outliers(table)
    assert (found.column, found.rows.tolist()) == (1, [7])
    assert found.of_the_rest == pytest.approx(np.delete(table[:, 1], 7).std(), rel=0.05)
    assert found.deviation > 10 * found.of_the_rest


@pytest.mark.parametrize("n", [3, 50, 20_000])
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


LAWS = {
    "cauchy": lambda rng, n: rng.standard_cauchy(n),
    "half_cauchy": lambda rng, n: np.abs(rng.standard_cauchy(n)),
    "pareto": lambda rng, n: rng.pareto(0.5, n),
    "inverse_gamma": lambda rng, n: 1 / rng.gamma(1.0, size=n),
    "lognormal": lambda rng, n: rng.lognormal(0, 3, n),
    "half_normal": lambda rng, n: np.abs(rng.normal(size=n)),
    "counts": lambda rng, n: rng.poisson(2.0, n).astype(float),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("n", [50, 1000])
def test_heavy_tails_are_not_taken_for_rows_that_went_wrong(law, n):
    rng, tables = np.random.default_rng(n), 200
    found = sum(bool(beyond_power_law(LAWS[law](rng, n)[:, None])) for _ in range(tables))
    assert 0.001 * tables == 0.2
    assert found <= 3  # of a Poisson number of mean 0.2 more are there once in 17,000 times


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("n", "value"), [(50, 1e300), (10_000, 1e12), (10_000, -1e12)])
def test_a_row_that_went_wrong_is_apart_from_any_tail(law, n, value):
    if law == "pareto" and abs(value) < 1e100:
        return
    table = np.random.default_rng(n).normal(size=(n, 2))
    table[:, 1] = LAWS[law](np.random.default_rng(1), n)
    table[7, 1] = value
    (found,) = beyond_power_law(table)
    assert (found.column, found.rows.tolist()) == (1, [7])
    assert found.deviation > 10 * found.of_the_rest


def test_all_rows_beyond_the_gap_are_named_in_any_unit():
    table = np.random.default_rng(5).standard_cauchy((5000, 1))
    table[[3, 5, 9], 0] = 1e12, -2e13, 1e14
    for unit in (1e-280, 1.0, 1e280):
        (found,) = beyond_power_law(table * unit)
        assert found.rows.tolist() == [3, 5, 9]


def test_rows_beside_ones_that_are_nearly_all_the_same_have_no_tail():
    table = np.zeros((1000, 1))
    table[:20, 0] = np.arange(20) * 1e3
    assert beyond_power_law(table) == []
    table[500:, 0] = 1.0
    table[:20, 0] = 0.0
    table[7, 0] = 1e12
    assert [found.rows.tolist() for found in beyond_power_law(table)] == [[7]]


def test_outliers_in_another_measure_are_those_of_the_same_columns():
    table = np.random.default_rng(3).normal(size=(2000, 3))
    table[7, 0], table[9, 2] = 1e9, 1e9
    both = outliers(table)
    assert [found.column for found in both] == [0, 2]
    again = table[:, [1, 2]].copy()  # the first column is left out there
    assert outliers_too(both, again, np.array([1, 2])) == [both[1]]
    again[9, 1] = 0.0
    assert outliers_too(both, again, np.array([1, 2])) == []
