"""Rows at the door: what is an array of numbers passes as it is, what would lose something is refused."""

import numpy as np
import pytest

from pymc_kbr.arrays.rows import LARGEST, as_rows, check_finite, check_range

NUMBERS = np.array([[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    "value",
    [
        NUMBERS,
        NUMBERS.tolist(),
        NUMBERS.astype(np.float32),
        NUMBERS.astype(int),
        np.ma.array(NUMBERS, mask=False),
    ],
)
def test_every_form_of_the_same_numbers_gives_the_same_array(value):
    rows = as_rows("the rows", value)
    assert type(rows) is np.ndarray
    assert rows.dtype == float
    assert np.array_equal(rows, NUMBERS)


def test_an_array_of_floats_is_not_copied():
    assert as_rows("the rows", NUMBERS) is NUMBERS


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (np.ma.masked_greater(NUMBERS, 3), ValueError, "1 masked entries"),
        ([np.ma.masked_greater(row, 1) for row in NUMBERS], ValueError, "3 masked entries"),
        (NUMBERS + 0j, TypeError, "imaginary part"),
        (NUMBERS.astype(object), TypeError, "astype"),
        (NUMBERS.astype(str), TypeError, "astype"),
        (NUMBERS.astype("datetime64[s]"), TypeError, "dates in .*days since"),
        ([[1.0], [2.0, 3.0]], ValueError, "one length"),
    ],
)
def test_what_would_lose_something_is_refused_by_name(value, error, words):
    with pytest.raises(error, match=words) as caught:
        as_rows("the lengths", value)
    assert "the lengths" in str(caught.value)


def test_numbers_whose_sums_are_infinite_are_refused_by_column():
    rows = np.array([[1.0, -LARGEST, 2.0], [LARGEST, 1.0, -1e307]])
    check_range("the rows", rows[:, :2])
    with pytest.raises(ValueError, match=r"the rows, columns \['c'\]"):
        check_range("the rows", rows, ["a", "b", "c"])


def test_rows_with_gaps_are_counted_and_the_first_is_named():
    rows = np.array([[0.0, 1.0], [np.nan, 1.0], [2.0, np.inf]])
    check_finite("statistics", rows[:1])
    with pytest.raises(ValueError, match=r"2 row\(s\) of statistics .* row 1"):
        check_finite("statistics", rows)
