"""The estimator for a table and its observation."""

import pytest

from pymc_kbr.selection.fitted_for import warn_of_few


def test_an_effective_sample_size_of_a_hundred_is_enough(recwarn):
    warn_of_few(100.0, 1500)
    assert not recwarn
    with pytest.warns(UserWarning, match="size of 99 among 1500 rows"):
        warn_of_few(99.4, 1500)
