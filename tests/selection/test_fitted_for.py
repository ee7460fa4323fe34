"""The estimator for a table and its observation."""

import numpy as np
import pandas as pd
import pytest

import pymc_kbr as pk
from pymc_kbr.selection.fitted_for import warn_of_few


def test_an_effective_sample_size_of_a_hundred_is_enough(recwarn):
    warn_of_few(100.0, 1500)
    assert not recwarn
    with pytest.warns(UserWarning, match="size of 99 among 1500 rows"):
        warn_of_few(99.4, 1500)


def with_outlier(n):
    x = np.random.default_rng(3).normal(size=(n, 2))
    x[7, 1] = 1e12
    frame = pd.DataFrame(np.hstack([x[:, :1], x]), columns=["a", "s0", "s1"])
    return pk.ReferenceTable.from_dataframe(frame, parameters=["a"], statistics=["s0", "s1"])


@pytest.mark.parametrize("rows", [60, 200])
def test_an_outlier_is_named_where_an_estimator_is_chosen(rows):
    candidates = [pk.Rejection(10), pk.Rejection(20)]
    with pytest.warns(UserWarning, match=rf"1 of {rows} rows \(7\)"):
        pk.select(with_outlier(rows), candidates=candidates, random_seed=1, progressbar=False)


def test_and_where_one_is_calibrated():
    with pytest.warns(UserWarning, match="the statistic in column 1 is that of 1 of 180 rows"):
        pk.calibrate(pk.Rejection(10), with_outlier(200), rows=20, random_seed=1, progressbar=False)
