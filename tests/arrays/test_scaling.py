"""Scales of columns, in any units."""

import numpy as np
import pytest

from pymc_kbr.arrays.rows import ConstantWarning
from pymc_kbr.arrays.scaling import Scaler, deviations, nonzero, unit_deviations, units_of

HUGE, TINY = 1e307, 1e-307
UNITS = np.array([1.0, HUGE, TINY, 3e5])


@pytest.fixture
def rows(rng):
    return rng.normal(2.0, 1.0, size=(50, 4))


def test_units_are_powers_of_two_near_the_largest_value():
    units = units_of(np.array([[0.0, -5.0, 1.0], [0.0, 3.0, 0.25]]))
    np.testing.assert_array_equal(units, [1.0, 4.0, 1.0])
    np.testing.assert_array_equal(units_of(np.empty((0, 2))), [1.0, 1.0])
    largest = np.abs(UNITS)
    units = units_of(UNITS[None])
    assert np.all((units <= largest) & (largest < 2 * units))
    np.testing.assert_array_equal(np.frexp(units)[0], 0.5)


def test_deviations_hold_in_any_units(rows):
    np.testing.assert_allclose(deviations(rows), rows.std(axis=0), rtol=1e-12)
    np.testing.assert_allclose(deviations(rows * UNITS) / UNITS, rows.std(axis=0), rtol=1e-12)


def test_what_does_not_vary_has_deviation_one_to_divide_by(rows):
    rows[:, 1] = 7.0
    np.testing.assert_array_equal(nonzero(np.array([0.0, 2.0])), [1.0, 2.0])
    expected = rows.std(axis=0)
    expected[1] = 1.0
    np.testing.assert_allclose(unit_deviations(rows), expected)


def test_scaled_columns_have_mean_zero_and_deviation_one_in_any_units(rows):
    expected = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    scaled = Scaler.fit(rows * UNITS).transform(rows * UNITS)
    np.testing.assert_allclose(scaled, expected, rtol=1e-9, atol=1e-12)
    assert Scaler.fit(rows).size == 4


def test_unscaled_columns_keep_their_units_and_lose_their_mean(rows):
    scaler = Scaler.fit(rows, scaled=False)
    np.testing.assert_array_equal(scaler.scale, 1.0)
    np.testing.assert_allclose(scaler.transform(rows), rows - rows.mean(axis=0))


@pytest.mark.parametrize("value", [0.0, 7.0, -1e9])
def test_constant_columns_are_left_out_with_a_warning(rows, value):
    rows[:, 2] = value
    with pytest.warns(UserWarning, match=r"columns \[2\] are constant"):
        scaler = Scaler.fit(rows)
    assert scaler.size == 4
    assert scaler.scale[2] == 1.0
    np.testing.assert_allclose(
        scaler.transform(rows), Scaler.fit(rows[:, [0, 1, 3]]).transform(rows[:, [0, 1, 3]])
    )


def test_rounding_is_no_variation(rows):
    rows[:, 0] = 1.0
    rows[0, 0] += 1e-13
    with pytest.warns(UserWarning, match=r"columns \[0\]"):
        assert Scaler.fit(rows).kept.tolist() == [False, True, True, True]
    rows[:, 0] = -1.0
    rows[0, 0] -= 1e-11
    assert Scaler.fit(rows).kept.all()


def test_statistics_that_are_all_constant_are_refused():
    with pytest.raises(ValueError, match="say nothing"):
        Scaler.fit(np.ones((5, 2)))


def test_an_offset_that_hides_what_varies_is_distinguished_from_a_constant():
    rows = 1e15 + np.arange(8.0)[:, None] / 8
    with pytest.raises(ValueError, match=r"vary by less than 1e-12 of their size.* subtract a constant"):
        Scaler.fit(rows)
    with pytest.raises(ValueError, match="all statistics are constant"):
        Scaler.fit(np.ones((8, 2)))


def test_a_statistic_of_a_large_offset_is_not_called_constant():
    rng = np.random.default_rng(1)
    x = np.column_stack([rng.normal(size=50), 1e15 + rng.normal(size=50), np.ones(50)])
    with pytest.warns(ConstantWarning) as caught:
        Scaler.fit(x)
    constant, offset = (str(one.message) for one in caught)
    assert "[2] are constant" in constant
    assert "[1] vary by less than" in offset
    assert "subtract a constant" in offset
