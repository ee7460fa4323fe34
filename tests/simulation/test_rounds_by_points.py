"""Rounds that are given an estimator whose posteriors are single rows."""

import numpy as np
import pymc as pm

import pymc_kbr as pk


def normal(rng, mean, size):
    return rng.normal(mean, 0.1, size)


def test_posteriors_of_one_row_are_not_widened_without_end():
    with pm.Model():
        pm.Simulator("y", normal, pm.HalfNormal("mean"), observed=[1.0])
        given = {"rounds": 2, "random_seed": 1, "progressbar": False}
        of_one = pk.refine(200, estimator="rejection", **given)  # one row of a hundred
        table = pk.refine(200, estimator=pk.Rejection(20), **given)
    assert np.isfinite(of_one.parameters).all()
    assert table.parameters.max() < 10
