"""`sample_abc`: every stage draws by the one seed."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_kbr as pk
from pymc_kbr.gram import Nystroem

pytestmark = pytest.mark.versions


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    theta = rng.normal(size=(300, 1))
    frame = pd.DataFrame(np.hstack([theta, theta + rng.normal(size=(300, 1))]), columns=["a", "s"])
    return pk.ReferenceTable.from_dataframe(frame, parameters=["a"], statistics=["s"], observed=[0.5])


def check(make):
    one = make(1)
    np.testing.assert_array_equal(make(1), one)
    np.testing.assert_array_equal(make(np.random.default_rng(1)), one)
    assert not np.array_equal(make(2), one)


@pytest.mark.parametrize("estimator", [pk.Rejection(100), pk.ConditionalMean(1.0, 1e-3, solver=Nystroem(20))])
def test_draws_are_by_the_seed(table, estimator):
    def drawn(seed):
        found = pk.sample_abc(40, estimator=estimator, reference_table=table, random_seed=seed)
        return found["posterior"]["a"].values

    check(drawn)


def test_simulations_are_by_the_seed():
    with pm.Model():
        mean = pm.Normal("mean", 0, 1)
        pm.Simulator("y", lambda rng, m, size: rng.normal(m, 1, size), mean, observed=np.array([0.5]))

        def drawn(seed):
            found = pk.sample_abc(
                30, estimator=pk.Rejection(100), simulations=200, random_seed=seed, progressbar=False
            )
            return found["posterior"]["mean"].values

        one = drawn(1)
        np.testing.assert_array_equal(drawn(1), one)
        assert not np.array_equal(drawn(2), one)
        for seed in (1, 2):
            table = pk.simulate(200, random_seed=seed, progressbar=False)
            found = pk.sample_abc(30, estimator=pk.Rejection(100), reference_table=table, random_seed=1)
            assert np.array_equal(found["posterior"]["mean"].values, one) == (seed == 1)
