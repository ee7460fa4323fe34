import dataclasses
import warnings

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr

import pymc_kbr as pk
from pymc_kbr.posterior.arviz import ARVIZ_MAJOR
from pymc_kbr.simulation.prior.new_prior import NewPrior
from tests import models

GROUP_COORDS = ["x", "y"]


@pytest.fixture(scope="module")
def made():
    with pm.Model(coords={"group": GROUP_COORDS}) as model:
        mean = pm.Normal("mean", 0, 1)
        effect = pm.Uniform("effect", -1, 1, dims="group")
        count = pm.Poisson("count", 2)
        share = pm.Dirichlet("share", np.ones(3))
        pm.Deterministic("total", mean + effect, dims="group")
        pm.Simulator("y", models.normal, mean + effect.sum() + count, share[0], observed=models.DATA)
    return model


@pytest.fixture(scope="module")
def idata(made):
    return pk.sample_abc(
        300, simulations=1500, model=made, estimator="localised", random_seed=4, progressbar=False
    )


def group(idata, name):
    data = idata[name]
    return data if isinstance(data, xr.Dataset) else data.to_dataset()


@pytest.mark.versions
def test_the_posterior_has_the_models_names_dims_and_coords(idata):
    posterior = group(idata, "posterior")
    assert set(posterior.data_vars) == {"mean", "effect", "count", "share", "total"}
    assert posterior["effect"].dims == ("chain", "draw", "group")
    assert posterior["group"].values.tolist() == GROUP_COORDS
    assert posterior["share"].dims == ("chain", "draw", "share_dim_0")
    assert dict(posterior.sizes) == {"chain": 2, "draw": 300, "group": 2, "share_dim_0": 3}
    assert posterior["count"].dtype.kind == "i"
    np.testing.assert_allclose(posterior["total"], posterior["mean"] + posterior["effect"])


def test_atoms_and_signed_weights_are_kept(idata, made):
    atoms = group(idata, "weighted_atoms_data")
    table = models.table(1500, made, random_seed=4)
    posterior = pk.Localised().fit(table.parameters, table.statistics).condition(table.observed)
    np.testing.assert_allclose(atoms["weight"], posterior.weights, atol=1e-12)
    assert float(atoms["weight"].min()) < 0
    np.testing.assert_allclose(atoms["weight"] @ atoms["mean"], posterior.mean()[0])
    assert float(atoms["simplex_weight"].min()) >= 0
    assert float(atoms["simplex_weight"].sum()) == pytest.approx(1)
    assert atoms["effect"].dims == ("atom", "group")


@pytest.mark.versions
def test_the_account_of_the_work_is_in_the_attributes(idata):
    attributes = group(idata, "posterior").attrs
    assert attributes["inference_library"] == "pymc_kbr"
    assert attributes["estimator"] == "Localised"
    assert attributes["simulations"] == 1500
    assert attributes["simulations_failed"] == 0
    assert attributes["seed"] == "4"
    assert attributes["neighbours"] == 500
    assert attributes["bandwidth"] > 0
    assert attributes["regularisation"] > 0
    assert 0 < attributes["effective_sample_size"] < 500
    assert 0 < attributes["negative_share"] < 0.5
    stages = ("simulate", "fit", "condition", "draw")
    assert attributes["sampling_time"] >= sum(attributes[f"seconds_{stage}"] for stage in stages)


@pytest.mark.versions
def test_arviz_summarises_and_plots_it(idata):
    import matplotlib

    matplotlib.use("Agg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        summary = az.summary(idata)
        plot = az.plot_posterior if ARVIZ_MAJOR == 0 else az.plot_dist
        plot(idata, var_names=["mean", "effect"])
    assert {"mean", "effect[x]", "share[2]", "total[y]"} <= set(summary.index)
    draws = group(idata, "posterior")["effect"].sel(group="x")
    assert float(summary.loc["effect[x]", "mean"]) == pytest.approx(float(draws.mean()), abs=0.006)


@pytest.mark.versions
def test_it_goes_to_netcdf_and_back(idata, tmp_path):
    idata.to_netcdf(str(tmp_path / "idata.nc"))
    load = az.from_netcdf if hasattr(az, "from_netcdf") else xr.open_datatree
    back = load(str(tmp_path / "idata.nc"))
    for name in ("posterior", "weighted_atoms_data", "observed_data", "prior", "prior_predictive"):
        xr.testing.assert_allclose(group(back, name), group(idata, name))
    assert group(back, "posterior").attrs["estimator"] == "Localised"


@pytest.mark.versions
def test_pymc_draws_posterior_predictions_from_it(idata, made):
    with made:
        predicted = pm.sample_posterior_predictive(idata, progressbar=False, random_seed=1)
    y = group(predicted, "posterior_predictive")["y"]
    assert y.shape[:2] == (2, 300)
    assert float(y.mean()) == pytest.approx(models.DATA.mean(), abs=0.5)


def test_a_saved_table_gives_the_same_result_with_its_model(made, idata, tmp_path):
    table = models.table(1500, made, random_seed=4)
    loaded = pk.ReferenceTable.load(table.save(tmp_path / "table.nc"))
    again = pk.sample_abc(300, reference_table=loaded, model=made, estimator="localised", random_seed=4)
    xr.testing.assert_allclose(group(again, "posterior"), group(idata, "posterior"))


@pytest.mark.versions
def test_a_posterior_goes_to_arviz_by_itself(made):
    table = models.table(600, made, random_seed=4)
    posterior = (
        pk.Localised(100).fit(table.parameters, table.statistics, table.support).condition(table.observed)
    )
    named = posterior.to_arviz(50, random_seed=2, table=table, model=made)
    assert group(named, "posterior")["total"].dims == ("chain", "draw", "group")
    np.testing.assert_allclose(
        table.parameter_columns.split(posterior.draw(100, 2))["mean"],
        group(named, "posterior")["mean"].values.ravel(),
    )
    bare = posterior.to_arviz(posterior.draw(51, 2), chains=1)
    assert group(bare, "posterior")["theta_0"].shape == (1, 51)
    assert "weight" in group(bare, "weighted_atoms_data")
    assert "prior" not in bare.children if ARVIZ_MAJOR else "prior" not in bare.groups()
    with pytest.raises(ValueError, match="51 draws are given, which are no 2 chains"):
        posterior.to_arviz(posterior.draw(51, 2))
    with pytest.raises(ValueError, match="chains is 0"):
        posterior.to_arviz(50, chains=0)


@pytest.mark.versions
def test_rows_of_the_table_are_the_prior_and_what_it_predicts(idata, made):
    table = models.table(1500, made, random_seed=4)
    prior, predicted = group(idata, "prior"), group(idata, "prior_predictive")
    assert prior["effect"].dims == ("chain", "draw", "group")
    np.testing.assert_array_equal(prior["mean"][0], table.parameters[:, 0])
    statistics = table.statistic_columns.split(table.statistics)
    assert set(predicted.data_vars) == set(statistics) == {"y"}
    np.testing.assert_array_equal(predicted["y"][0], statistics["y"])
    assert prior.attrs["rows"] == "rows of the reference table, as drawn"


@pytest.mark.versions
def test_the_reference_table_is_in_the_result(idata, made, tmp_path):
    table = models.table(1500, made, random_seed=4)
    idata.to_netcdf(str(tmp_path / "idata.nc"))
    load = az.from_netcdf if hasattr(az, "from_netcdf") else xr.open_datatree
    for result in (idata, load(str(tmp_path / "idata.nc"))):
        held = pk.ReferenceTable.from_arviz(result)
        np.testing.assert_array_equal(held.parameters, table.parameters)
        np.testing.assert_array_equal(held.statistics, table.statistics)
        np.testing.assert_array_equal(held.observed, table.observed)
        np.testing.assert_array_equal(held.observed_data["y"], models.DATA)
        assert held.parameter_columns == table.parameter_columns
        assert held.support == table.support
    one, again = (pk.Rejection(20).fit(t).condition(t.observed).draw(5, 1) for t in (table, held))
    np.testing.assert_array_equal(one, again)
    bare = pk.Rejection(20).fit(table).condition(table.observed).to_arviz(10)
    assert set(group(bare, "posterior").data_vars) == set(table.parameter_names)
    with pytest.raises(ValueError, match="holds no reference table"):
        pk.ReferenceTable.from_arviz(bare)


def test_rows_that_are_no_draws_of_the_prior_are_resampled(small_table):
    ratio = np.array([3.0, 1.0] + 8 * [0.0])
    table = dataclasses.replace(small_table, prior_ratio=ratio)
    result = pk.to_arviz(pk.Rejection(2).fit(table).condition([0.5, 0.5]), 10, table=table)
    a = group(result, "prior")["a"].values[0]
    values, counts = np.unique(a, return_counts=True)
    expected = dict(zip(small_table.parameters[:2, 0], [7.5, 2.5], strict=True))
    assert {v: abs(c - expected[v]) <= 0.5 for v, c in zip(values, counts, strict=True)} == dict.fromkeys(
        expected, True
    )
    assert "of which 2 are effective" in group(result, "prior").attrs["rows"]  # 16 / 10
    # A likelihood that is known is no part of a prior, and rows that it alone weights are draws of that.
    known = dataclasses.replace(table, origin=dataclasses.replace(table.origin, known=("z",)))
    plain = pk.to_arviz(pk.Rejection(2).fit(known).condition([0.5, 0.5]), 10, table=known)
    np.testing.assert_array_equal(group(plain, "prior")["a"][0], small_table.parameters[:, 0])


@pytest.mark.parametrize("known", [True, False])
def test_another_prior_is_the_prior_of_the_result(small_table, known):
    draws, ratio = np.full((40, 2), 0.5), np.array([0.0, 1.0] + 8 * [0.0])
    new = NewPrior(draws, small_table.support, ratio if known else None)
    posterior = pk.Rejection(5).fit(small_table).condition([0.5, 0.5])
    result = posterior.to_arviz(10, table=small_table, prior=new)
    prior = group(result, "prior")
    np.testing.assert_array_equal(prior["a"][0], small_table.parameters[1, 0] if known else 0.5)
    assert ("prior_predictive" in (result.children if ARVIZ_MAJOR else result.groups())) == known


def test_a_table_or_model_of_other_parameters_is_refused(rng):
    frame = pd.DataFrame(rng.normal(size=(50, 2)), columns=["a", "s"])
    table = pk.ReferenceTable.from_dataframe(frame, parameters=["a"], statistics=["s"], observed=[0.1])
    posterior = pk.Rejection(10).fit(table).condition([0.1])
    other = pk.ReferenceTable.from_dataframe(
        frame.rename(columns={"a": "b"}), parameters=["b"], statistics=["s"]
    )
    with pytest.raises(ValueError, match=r"the table has the parameters \['b'\]; the posterior has \['a'\]"):
        pk.to_arviz(posterior, 5, table=other)
    with pm.Model() as model:
        pm.Normal("b")
    with pytest.raises(ValueError, match=r"the model has no variables \['a'\]"):
        pk.to_arviz(posterior, 5, table=table, model=model)
    for weights in (np.ones(49), np.full(50, np.nan), -np.ones(50)):
        with pytest.raises(ValueError, match="weights have shape"):
            pk.to_arviz(posterior, 5, table=table, weights=weights)
    with pytest.raises(ValueError, match="no table is given"):
        pk.to_arviz(posterior, 5, weights=np.ones(50))
