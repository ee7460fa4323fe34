import numpy as np
import pymc as pm
import pytest

import pymc_kbr as pk
from pymc_kbr.simulation.sample_smc import run_smc, with_data

pytestmark = pytest.mark.versions

DATA = np.random.default_rng(0).normal(1.0, 1.0, 30)


def fn(rng, mean, size=None):
    return rng.normal(mean, 1.0, size=size)


def model(observed=DATA, data=False):
    with pm.Model() as m:
        mean = pm.Normal("mean", 0, 3)
        held = pm.Data("held", observed) if data else observed
        pm.Simulator("y", fn, mean, sum_stat="mean", epsilon=0.1, observed=held)
    return m


def test_other_data_are_observed_by_a_copy():
    m = model(data=True)
    copied = with_data(m, {"y": DATA + 5})
    np.testing.assert_allclose(copied.rvs_to_values[copied["y"]].eval(), DATA + 5)
    np.testing.assert_allclose(m.rvs_to_values[m["y"]].eval(), DATA)


def test_sample_smc_runs_on_other_data_and_is_counted():
    m, calls = model(), []

    def counting(rng, mean, size=None):
        calls.append(1)
        return fn(rng, mean, size)

    type(m["y"].owner.op).fn = counting
    run = run_smc(m, {"y": DATA + 2}, draws=100, chains=1, random_seed=1)
    assert run.simulations == len(calls) > 200
    assert run.draws.shape == (100, 1)
    assert run.seconds > 0
    # The exact posterior's mean is 0.997 times the data's; 100 draws of deviation 0.18 + epsilon 0.1.
    assert abs(run.draws.mean() - (DATA.mean() + 2)) < 0.2
    assert type(m["y"].owner.op).fn is counting


def test_what_is_not_observed_is_refused():
    with pytest.raises(ValueError, match="the model observes"):
        run_smc(model(), {"z": DATA})
    with pytest.raises(ValueError, match="data of shape"):
        run_smc(model(), {"y": DATA[:3]})


def test_sample_smc_is_compared_on_the_same_held_out_data():
    found = pk.compare(
        model(),
        estimators={
            "rejection": "rejection",
            "smc": pk.SampleSMC(draws=100, chains=1, cores=1, observations=2),
        },
        budgets=[500],
        repetitions=1,
        observations=5,
        random_seed=3,
        progressbar=False,
    ).set_index("estimator")
    assert (found["note"] == "").all(), found["note"].tolist()
    assert found.loc["rejection", "amortised"]
    assert not found.loc["smc", "amortised"]
    assert found.loc["smc", "observations"] == 2
    assert found.loc["smc", "simulations"] > 200
    assert found.loc["smc", "seconds_simulate"] == 0 < found.loc["smc", "seconds_condition"]
    assert found.loc["smc", "rmse"] < 0.5  # the prior's deviation is 1 in this unit
    with pytest.raises(ValueError, match="needs a model"):
        pk.compare(
            model(), estimators=["sample_smc"], held_out=(np.zeros((2, 1)), np.zeros((2, 1))), random_seed=1
        )
