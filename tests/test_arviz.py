import json
import warnings

import arviz as az
import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_kbr as pk
from pymc_kbr.posterior.arviz import ARVIZ_MAJOR
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


def test_the_result_is_of_the_kind_that_this_arviz_uses(idata):
    kind = az.InferenceData if ARVIZ_MAJOR == 0 else xr.DataTree
    assert type(idata) is kind


def test_the_posterior_has_the_models_names_dims_and_coords(idata):
    posterior = group(idata, "posterior")
    assert set(posterior.data_vars) == {"mean", "effect", "count", "share", "total"}
    assert posterior["effect"].dims == ("chain", "draw", "group")
    assert posterior["group"].values.tolist() == GROUP_COORDS
    assert posterior["share"].dims == ("chain", "draw", "share_dim_0")
    assert dict(posterior.sizes) == {"chain": 1, "draw": 300, "group": 2, "share_dim_0": 3}
    assert posterior["count"].dtype.kind == "i"
    np.testing.assert_allclose(posterior["total"], posterior["mean"] + posterior["effect"])


def test_draws_are_inside_the_support(idata):
    posterior = group(idata, "posterior")
    assert float(abs(posterior["effect"]).max()) <= 1
    np.testing.assert_allclose(posterior["share"].sum("share_dim_0"), 1)
    assert float(posterior["share"].min()) >= 0


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


def test_the_observed_data_are_there(idata):
    np.testing.assert_array_equal(group(idata, "observed_data")["y"], models.DATA)


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
    assert json.loads(attributes["provenance"])["pymc"] == pm.__version__
    stages = ("simulate", "fit", "condition", "draw")
    assert all(attributes[f"seconds_{stage}"] >= 0 for stage in stages)
    assert attributes["sampling_time"] >= sum(attributes[f"seconds_{stage}"] for stage in stages)
    assert "independent" in attributes["note"]


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


@pytest.mark.skipif(ARVIZ_MAJOR > 0, reason="a DataTree has no to_dataframe")
def test_the_draws_become_a_data_frame(idata, tmp_path):
    idata.to_netcdf(str(tmp_path / "idata.nc"))
    for result in (idata, az.from_netcdf(str(tmp_path / "idata.nc"))):
        frame = result.to_dataframe()
        assert len(frame) == 300
        assert {"chain", "draw", "mean", "count"} <= set(frame.columns)
        np.testing.assert_array_equal(frame["mean"], group(idata, "posterior")["mean"].values.ravel())


def test_it_goes_to_netcdf_and_back(idata, tmp_path):
    idata.to_netcdf(str(tmp_path / "idata.nc"))
    load = az.from_netcdf if hasattr(az, "from_netcdf") else xr.open_datatree
    back = load(str(tmp_path / "idata.nc"))
    for name in ("posterior", "weighted_atoms_data", "observed_data"):
        xr.testing.assert_allclose(group(back, name), group(idata, name))
    assert group(back, "posterior").attrs["estimator"] == "Localised"


def test_pymc_draws_posterior_predictions_from_it(idata, made):
    with made:
        predicted = pm.sample_posterior_predictive(idata, progressbar=False, random_seed=1)
    y = group(predicted, "posterior_predictive")["y"]
    assert y.shape[:2] == (1, 300)
    assert float(y.mean()) == pytest.approx(models.DATA.mean(), abs=0.5)


def test_a_table_without_a_model_gives_a_result_too(small_table):
    idata = pk.sample_abc(40, reference_table=small_table, estimator=pk.Rejection(5), random_seed=1)
    posterior = group(idata, "posterior")
    assert set(posterior.data_vars) == {"a", "b"}
    assert 0 <= float(posterior["a"].min()) <= float(posterior["a"].max()) <= 1
    assert group(idata, "observed_data")["s"].item() == 0.5
    assert group(idata, "posterior").attrs["simulations"] == 10


def test_a_saved_table_gives_the_same_result_with_its_model(made, idata, tmp_path):
    table = models.table(1500, made, random_seed=4)
    loaded = pk.ReferenceTable.load(table.save(tmp_path / "table.nc"))
    again = pk.sample_abc(300, reference_table=loaded, model=made, estimator="localised", random_seed=4)
    xr.testing.assert_allclose(group(again, "posterior"), group(idata, "posterior"))


def test_an_unrelated_model_on_the_stack_does_not_matter(small_table):
    with models.model():
        idata = pk.sample_abc(10, reference_table=small_table, estimator=pk.Rejection(5), random_seed=1)
    assert set(group(idata, "posterior").data_vars) == {"a", "b"}


def test_the_seed_decides_the_result(made):
    first, second = (
        pk.sample_abc(
            20, simulations=600, model=made, estimator="localised", random_seed=9, progressbar=False
        )
        for _ in range(2)
    )
    xr.testing.assert_equal(group(first, "posterior"), group(second, "posterior"))


def test_a_posterior_goes_to_arviz_by_itself(made):
    table = models.table(600, made, random_seed=4)
    posterior = (
        pk.Localised(100).fit(table.parameters, table.statistics, table.support).condition(table.observed)
    )
    named = posterior.to_arviz(50, random_seed=2, table=table, model=made)
    assert group(named, "posterior")["total"].dims == ("chain", "draw", "group")
    np.testing.assert_allclose(
        table.parameter_columns.split(posterior.draw(50, 2))["mean"], group(named, "posterior")["mean"][0]
    )
    bare = posterior.to_arviz(posterior.draw(50, 2))
    assert group(bare, "posterior")["theta_0"].shape == (1, 50)
    assert "weight" in group(bare, "weighted_atoms_data")
