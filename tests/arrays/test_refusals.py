import numpy as np
import pytest

from pymc_kbr.arrays.refusals import positive, shown, whole
from pymc_kbr.arrays.rows import as_points


@pytest.mark.parametrize("value", [1, 1e-9, np.float32(2.0), np.int64(3)])
def test_positive_numbers_pass(value):
    assert positive("size", value) is None


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (0, ValueError),
        (-1.0, ValueError),
        (np.inf, ValueError),
        (np.nan, ValueError),
        (True, TypeError),
        ("1", TypeError),
    ],
)
def test_what_is_not_positive_is_refused_by_name(value, error):
    with pytest.raises(error, match=r"size is .*above zero"):
        positive("size", value)


@pytest.mark.parametrize(("value", "most"), [(1, None), (10**9, None), (np.int64(7), 7), (1, 1)])
def test_whole_numbers_in_range_pass(value, most):
    assert whole("count", value, most) is None


@pytest.mark.parametrize(
    ("value", "most", "error", "words"),
    [
        (0, None, ValueError, "at least 1"),
        (-3, 5, ValueError, "between 1 and the number of rows, 5"),
        (6, 5, ValueError, "between 1 and the number of rows, 5"),
        (2.0, None, TypeError, "whole number"),
        (True, None, TypeError, "whole number"),
        ("2", None, TypeError, "whole number"),
    ],
)
def test_counts_out_of_range_are_refused(value, most, error, words):
    with pytest.raises(error, match=words):
        whole("count", value, most)


def test_numbers_whose_squares_are_no_floats_are_refused():
    with pytest.raises(ValueError, match=r"as large as 2e\+101 in x, whose squares are no floats"):
        as_points("x", [1.0, -2e101])
    np.testing.assert_array_equal(as_points("x", [1.0, 2e101], squared=False), [[1.0], [2e101]])


@pytest.mark.parametrize(
    ("value", "words"),
    [(10**400, "a whole number of 1329 bits"), ("x" * 500, "'xxx"), (np.zeros((100, 100)), "an ndarray")],
)
def test_values_in_messages_are_short(value, words):
    assert shown(value).startswith(words)
    assert len(shown(value)) <= 120


def test_a_number_that_no_float_is_is_refused():
    with pytest.raises(ValueError, match=r"size is a whole number of 1329 bits; it must be a finite"):
        positive("size", 10**400)
    with pytest.raises(ValueError, match=r"count is 1e\+30; no machine"):
        whole("count", 10**30)
