"""Data of a model that were changed after a table was simulated from it."""

import warnings

import numpy as np
import pymc as pm
import pytest

import pymc_kbr as pk

pytestmark = pytest.mark.versions


def noisy(rng, theta, size=None):
    return rng.normal(theta, 0.5, size)


@pytest.fixture(scope="module")
def simulated():
    with pm.Model() as model:
        data = pm.Data("data", np.zeros(4))
        theta = pm.Normal("theta", 0, 1)
        pm.Simulator("y", noisy, theta, sum_stat="mean", observed=data)
    return model, pk.simulate(1000, model=model, random_seed=1, progressbar=False)


def mean_of(model, table, **given):
    result = pk.sample_abc(
        500,
        model=model,
        reference_table=table,
        estimator="adjusted",
        random_seed=1,
        progressbar=False,
        **given,
    )
    return float(result["posterior"]["theta"].mean()), result["observed_data"]["y"].values


def test_the_data_of_the_model_as_they_are_now_are_conditioned_on(simulated):
    model, table = simulated
    with model:
        pm.set_data({"data": np.ones(4)})
    with pytest.warns(UserWarning, match=r"data of \['y'\] were changed in the model"):
        mean, observed = mean_of(model, table)
    # Of a normal mean: one, shrunk by 1 / (1 + 1/16).
    assert abs(mean - 16 / 17) < 0.06
    np.testing.assert_array_equal(observed, np.ones(4))


def test_what_was_given_to_the_table_stays(simulated):
    model, table = simulated
    with model:
        pm.set_data({"data": np.ones(4)})
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        mean, _ = mean_of(model, table.with_observed([-1.0]))
    assert abs(mean + 16 / 17) < 0.06


def test_data_that_did_not_change_say_nothing(simulated):
    model, table = simulated
    with model:
        pm.set_data({"data": np.zeros(4)})
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        mean, _ = mean_of(model, table)
    assert abs(mean) < 0.06


def test_data_of_another_size_are_refused(simulated):
    model, table = simulated
    with model:
        pm.set_data({"data": np.zeros(6)})
    with pytest.raises(ValueError, match="another size"):
        mean_of(model, table)


@pytest.mark.parametrize("changed", ["factor", "centre"])
def test_inputs_of_the_simulator_or_the_prior_that_were_changed_are_refused(changed, tmp_path):
    with pm.Model() as model:
        factor, centre = pm.Data("factor", 1.0), pm.Data("centre", np.zeros(2))
        pm.Data("unused", 0.0)
        theta = pm.Normal("theta", centre[0], 1)
        pm.Simulator("y", noisy, theta * factor, sum_stat="mean", observed=np.zeros(4))
    how = {"model": model, "random_seed": 1, "progressbar": False}
    table = pk.simulate(200, **how)
    stored = pk.simulate(200, store=tmp_path / "t.zarr", **how)
    kept = pk.ReferenceTable.load(table.save(tmp_path / "t.nc"))
    with model:
        pm.set_data({"unused": 5.0})
    mean_of(model, table)
    with model:
        pm.set_data({changed: {"factor": 3.0, "centre": np.ones(2)}[changed]})
    for one in (table, kept, stored):
        with pytest.raises(
            ValueError, match=rf"the data of \['{changed}'\], which the model is simulated with"
        ):
            mean_of(model, one)
    with model:
        pm.set_data({changed: {"factor": 1.0, "centre": np.zeros(2)}[changed]})
    mean_of(model, table)
