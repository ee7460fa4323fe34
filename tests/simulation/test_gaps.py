"""Data with missing values, which PyMC takes apart: simulators stay whole, and the gaps stay gaps."""

import warnings

import numpy as np
import pymc as pm
import pytest

import pymc_kbr as pk
from pymc_kbr.simulation.model.read import without_imputation
from tests.models import normal, two_statistics

DATA = np.array([1.0, np.nan, 2.0])
WHOLE = np.where(np.isnan(DATA), 0.5, DATA)
HOW = {"random_seed": 1, "progressbar": False}

pytestmark = pytest.mark.filterwarnings("ignore:Data in .* contains missing values")


def series(rng, mean, scale, size):
    """An autoregression: a part of it is none of that length."""
    noise = rng.normal(np.asarray(mean).item(), scale, size)
    return np.array([np.sum(0.5 ** np.arange(t, -1, -1) * noise[: t + 1]) for t in range(size[0])])


def plain(observed, fn=normal, scale=1.0, **how):
    with pm.Model() as made:
        mean = pm.Normal("mean")
        pm.Deterministic("twice", 2 * mean)
        pm.Simulator("y", fn, mean, scale, observed=observed, **how)
    return made


def vector(observed):
    with pm.Model(coords={"place": list("abc")[: len(observed)]}) as made:
        pk.vector_simulator("y", two_statistics, pm.Normal("mean"), 1.0, observed=observed, dims="place")
    return made


def chained(observed):
    """What depends on the variable with gaps depends on all of it."""
    with pm.Model() as made:
        first = pm.Simulator("first", normal, pm.Normal("mean"), 1.0, observed=observed)
        pm.Simulator("second", normal, first, 0.1, observed=WHOLE)
    return made


def in_several_dimensions(observed):
    with pm.Model() as made:
        pm.MvNormal("y", pm.Normal("mean") * np.ones(3), np.eye(3), observed=observed)
    return made


@pytest.mark.versions
@pytest.mark.parametrize(
    ("made", "observed"),
    [
        (plain, DATA),
        (lambda data: plain(data, scale=np.array([1.0, 2.0, 3.0])), np.array([DATA, [np.nan, 1.0, 2.0]])),
        (lambda data: plain(data, series), DATA),
        (vector, DATA[:2]),
        (chained, DATA),
        (in_several_dimensions, DATA),
    ],
)
def test_simulations_are_those_of_whole_data(made, observed):
    with_gaps = pk.simulate(20, model=made(observed), **HOW)
    whole = pk.simulate(20, model=made(np.nan_to_num(observed, nan=0.5)), **HOW)
    np.testing.assert_array_equal(with_gaps.statistics, whole.statistics)
    np.testing.assert_array_equal(with_gaps.parameters, whole.parameters)
    assert with_gaps.statistic_names == whole.statistic_names
    np.testing.assert_array_equal(np.isnan(with_gaps.observed[: observed.size]), np.isnan(observed).ravel())


def first_two_and_mean(y):
    return np.array([y[0], y[1], np.nanmean(y)])


def test_a_summary_is_taken_of_simulations_with_the_same_gaps():
    whole = pk.simulate(20, model=plain(WHOLE), **HOW).statistics
    ordered = pk.simulate(20, model=plain(DATA, sum_stat="sort"), **HOW)
    np.testing.assert_array_equal(ordered.observed, [1.0, 2.0, np.nan])
    np.testing.assert_allclose(ordered.statistics[:, :2], np.sort(whole[:, [0, 2]], axis=1))
    some = pk.simulate(20, model=plain(DATA, sum_stat=first_two_and_mean), **HOW)
    np.testing.assert_array_equal(some.observed, [1.0, np.nan, 1.5])
    np.testing.assert_allclose(some.statistics[:, [0, 2]].T, [whole[:, 0], whole[:, [0, 2]].mean(axis=1)])
    assert np.all(np.isfinite(some.statistics))


def test_the_posterior_is_that_of_what_is_there():
    made = plain(DATA)
    result = pk.sample_abc(
        500, model=made, estimator=pk.Adjusted(adjustment="local_linear"), simulations=1500, **HOW
    )
    posterior = result["posterior"]
    assert sorted(posterior.data_vars) == ["mean", "twice"]
    assert posterior.attrs["statistics_used"] == "y[0]\ny[2]"
    assert posterior.attrs["warnings"] == ""
    # Two data of variance one under a standard normal prior; 450 rows carry weight, and 1,000 are drawn.
    deviation = np.sqrt(1 / 3)
    tolerance = 4 * deviation * np.sqrt(1 / 450 + 1 / 1000)
    np.testing.assert_allclose(posterior["mean"].mean(), 1.0, atol=tolerance)
    np.testing.assert_allclose(posterior["mean"].std(), deviation, atol=tolerance)
    np.testing.assert_array_equal(result["observed_data"]["y"], DATA)
    table = pk.ReferenceTable.from_arviz(result)
    assert table.statistic_names == ["y[0]", "y[1]", "y[2]"]
    check = pk.predictive_check(result, model=made, draws=20, random_seed=1)
    assert 1 / 21 <= check.p_values["y"] <= 1
    assert np.all(np.isfinite(check.simulated["y"]))
    with made, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drawn = pm.sample_posterior_predictive(result, progressbar=False, random_seed=1)
    assert drawn["posterior_predictive"]["y_observed"].shape == (2, 500, 2)


@pytest.mark.versions
def test_independent_entries_of_a_distribution_are_integrated_out():
    with pm.Model() as made:
        mean = pm.Normal("mean")
        pm.Normal("known", mean, 1.0, observed=DATA)
        pm.Simulator("y", normal, mean, 1.0, observed=WHOLE)
    table = pk.simulate(20, model=made, **HOW)
    theta = table.parameters[:, 0]
    log_likelihood = -0.5 * ((theta - 1) ** 2 + (theta - 2) ** 2)
    np.testing.assert_allclose(np.log(table.prior_ratio), log_likelihood - log_likelihood.max(), atol=1e-9)
    assert table.parameter_names == ["mean"]


@pytest.mark.versions
def test_variables_stay_in_their_order_and_whole_models_are_themselves():
    with pm.Model() as made:
        mean = pm.Normal("mean")
        pm.Simulator("one", normal, mean, 1.0, observed=DATA)
        pm.Simulator("two", normal, mean, 1.0, observed=WHOLE)
    assert [rv.name for rv in without_imputation(made).observed_RVs] == ["one", "two"]
    whole = plain(WHOLE)
    assert without_imputation(whole) is whole


@pytest.mark.filterwarnings("ignore:the effective sample size")
def test_rounds_and_stores_use_what_is_there(tmp_path):
    made = plain(DATA, scale=0.1)
    how = {"model": made, "rounds": 2, "estimator": "adjusted", "store": tmp_path / "rounds", **HOW}
    refined = pk.refine(150, **how)
    again = pk.refine(150, **how)
    np.testing.assert_array_equal(refined.statistics, again.statistics)
    # Both data are within .5 of 1.5, the prior's mean is zero.
    assert np.mean(np.abs(refined.parameters - 1.5) < 0.5) > 0.5
    stored = pk.StoredTable.open(tmp_path / "rounds" / "round_0.zarr")
    result = pk.sample_abc(100, reference_table=stored, model=made, estimator="rejection", **HOW)
    assert result["posterior"].attrs["statistics_used"] == "y[0]\ny[2]"
    zoomed = pk.zoom(400, model=made, rounds=1, **HOW)
    assert np.all(np.abs(zoomed.parameters - 1.5) < 2)


def missing_below(observed):
    with pm.Model() as made:
        below = pm.Normal("below", pm.Normal("mean"), observed=observed)
        pm.Simulator("y", normal, below, 1.0, observed=WHOLE)
    return made


def counts():
    data = np.ma.array([1, 2, 3], mask=[False, True, False])
    return plain(data, lambda rng, mean, scale, size: rng.poisson(np.exp(mean), size), dtype="int64")


@pytest.mark.versions
@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: plain(DATA, sum_stat="mean"), "makes NaN of data of which 1 of 3 values are missing"),
        (
            lambda: plain(WHOLE, sum_stat=lambda y: np.array([y[0], np.nan])),
            r"have no gaps, in entries \[1\]",
        ),
        (lambda: plain(np.full(3, np.nan)), "all observed values of 'y' are missing"),
        (lambda: plain(np.array([1.0, np.nan, np.inf])), "contain infinity"),
        (lambda: missing_below(DATA), "other variables depend on 'below'"),
        (counts, "are whole numbers"),
    ],
)
def test_refusals(made, words):
    with pytest.raises(ValueError, match=words):
        pk.simulate(20, model=made(), **HOW)
