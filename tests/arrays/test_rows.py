"""Rows at the door: what is an array of numbers passes as it is, what would lose something is refused."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from pymc_kbr.arrays.rows import LARGEST, as_pairs, as_rows, check_range

NUMBERS = np.array([[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    "value",
    [
        NUMBERS,
        NUMBERS.tolist(),
        NUMBERS.astype(np.float32),
        NUMBERS.astype(int),
        np.ma.array(NUMBERS, mask=False),
        pd.DataFrame(NUMBERS),
        pd.DataFrame(NUMBERS).astype("Int64"),
        xr.DataArray(NUMBERS),
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
        (NUMBERS.astype("datetime64[s]"), TypeError, "astype"),
        ([[1.0], [2.0, 3.0]], ValueError, "one length"),
        (pd.DataFrame(NUMBERS, columns=["a", "b"]).assign(b=[1j, 2j]), TypeError, "'b': 'complex128'"),
        (pd.DataFrame(NUMBERS, columns=["a", "b"]).assign(a=["x", "y"]), TypeError, "'a'"),
        (pd.Series([1j, 2j]), TypeError, "complex128"),
    ],
)
def test_what_would_lose_something_is_refused_by_name(value, error, words):
    with pytest.raises(error, match=words) as caught:
        as_rows("the lengths", value)
    assert "the lengths" in str(caught.value)


def test_missing_values_of_pandas_are_nan():
    rows = as_rows("the rows", pd.DataFrame({"a": [1, None]}, dtype="Int64"))
    assert np.array_equal(rows, [[1.0], [np.nan]], equal_nan=True)


@pytest.mark.parametrize("labels", [[1, 0], ["a", "b"]])
def test_rows_with_other_labels_are_not_paired(labels):
    with pytest.raises(ValueError, match="one order"):
        as_pairs(pd.DataFrame(NUMBERS), pd.DataFrame(NUMBERS, index=labels))
    with pytest.raises(ValueError, match="one order"):
        as_pairs(
            xr.DataArray(NUMBERS, dims=("row", "p"), coords={"row": [0, 1]}),
            xr.DataArray(NUMBERS, dims=("row", "d"), coords={"row": labels}),
        )


def test_rows_with_the_same_labels_or_with_none_are_paired():
    for labels in ([1, 0], ["a", "b"]):
        one, two = as_pairs(pd.DataFrame(NUMBERS, index=labels), pd.DataFrame(NUMBERS + 1, index=labels))
        assert np.array_equal(one + 1, two)
    assert np.array_equal(as_pairs(pd.DataFrame(NUMBERS, index=[1, 0]), NUMBERS)[1], NUMBERS)
    assert np.array_equal(as_pairs(xr.DataArray(NUMBERS), NUMBERS)[0], NUMBERS)


def test_numbers_whose_sums_are_infinite_are_refused_by_column():
    rows = np.array([[1.0, -LARGEST, 2.0], [LARGEST, 1.0, -1e307]])
    check_range("the rows", rows[:, :2])
    with pytest.raises(ValueError, match=r"the rows, columns \['c'\]"):
        check_range("the rows", rows, ["a", "b", "c"])
