"""Rounds that a store holds belong to the observation that they closed in on."""

import numpy as np
import pymc as pm
import pytest

import pymc_kbr as pk


def normal(rng, mean, size):
    return rng.normal(mean, 0.1, size)


def refined(observed, store):
    with pm.Model():
        pm.Simulator("y", normal, pm.Normal("mean"), observed=[observed])
        return pk.refine(
            120,
            rounds=2,
            estimator=pk.Adjusted(pk.Rejection(30), "local_linear"),
            random_seed=1,
            store=store,
            progressbar=False,
        )


def test_rounds_of_another_observation_are_refused(tmp_path):
    first = refined(0.5, tmp_path)
    with pytest.raises(ValueError, match=r"of another call, with .*0\.5.* and now .*1\.5"):
        refined(1.5, tmp_path)
    again = refined(0.5, tmp_path)
    np.testing.assert_array_equal(again.parameters, first.parameters)
