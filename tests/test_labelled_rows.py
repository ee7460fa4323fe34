"""Rows with labels, of pandas and xarray, at the door: see `tests/arrays/test_rows.py` for arrays."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from pymc_kbr.arrays.rows import as_pairs, as_rows

NUMBERS = np.array([[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    "value",
    [
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


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (pd.DataFrame(NUMBERS, columns=["a", "b"]).assign(b=[1j, 2j]), "'b': 'complex128'"),
        (pd.DataFrame(NUMBERS, columns=["a", "b"]).assign(a=["x", "y"]), "'a'"),
        (pd.Series([1j, 2j]), "complex128"),
    ],
)
def test_columns_that_are_no_numbers_are_refused_by_name(value, words):
    with pytest.raises(TypeError, match=words) as caught:
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
