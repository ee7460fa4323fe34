"""`estimator="auto"`, the warnings of `sample_abc`, and the predictive check, end to end."""

import dataclasses
import warnings

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_kbr as pk
from pymc_kbr.arrays.bijections import Simplex
from pymc_kbr.arrays.support import Block
from pymc_kbr.tables.columns import Columns


def skewed(rng, mean, scale, size):
    return rng.normal(mean, scale, size)


def make_model(observed, prior=(0.0, 2.0)):
    with pm.Model() as model:
        mean = pm.Normal("mean", *prior)
        pm.Simulator("y", skewed, mean, 1.0, sum_stat="mean", observed=observed)
    return model


@pytest.fixture(scope="module")
def data():
    return np.random.default_rng(1).normal(0.7, 1.0, 30)


@pytest.fixture(scope="module")
def idata(data):
    with make_model(data), warnings.catch_warnings():
        warnings.simplefilter("error", pk.PosteriorWarning)
        return pk.sample_abc(1000, simulations=800, random_seed=1, progressbar=False)


def test_auto_is_the_default_and_says_what_it_chose(idata):
    attrs = idata["posterior"].attrs
    assert "held-out rows" in attrs["chosen"]
    trials = idata["selection"]
    assert trials.sizes == {"selection": 5}
    assert trials["excess"].values[0] == 0
    assert attrs["warnings"] == ""


def test_what_was_chosen_survives_a_file(idata, tmp_path):
    idata.to_netcdf(str(tmp_path / "result.nc"))
    read = az.from_netcdf(str(tmp_path / "result.nc"))
    assert read["posterior"].attrs["warnings"] == ""
    for name, column in idata["selection"].data_vars.items():
        np.testing.assert_array_equal(read["selection"][name].values, column.values)


def test_its_posterior_is_the_exact_one(idata, data):
    precision = 1 / 4 + 30
    draws = np.asarray(idata["posterior"]["mean"]).ravel()
    deviation = precision**-0.5
    size = idata["posterior"].attrs["effective_sample_size"]
    assert abs(draws.mean() - data.sum() / precision) < deviation * (4 / np.sqrt(size) + 0.05)
    assert draws.std() == pytest.approx(deviation, rel=4 / np.sqrt(2 * size) + 0.05)


def test_an_observation_outside_warns_on_the_screen_and_in_the_result(data):
    with make_model(data + 50.0), pytest.warns(pk.PosteriorWarning, match="outside what was simulated"):
        found = pk.sample_abc(100, simulations=500, estimator="rejection", random_seed=1, progressbar=False)
    assert "outside: " in found["posterior"].attrs["warnings"]


def test_the_predictive_check_accepts_the_model_and_sees_what_the_mean_does_not(idata, data):
    with make_model(data):
        assert pk.predictive_check(idata, draws=60, random_seed=0).p_values["y"] > 0.05
    wide = data.mean() + 4 * (data - data.mean())  # the same mean, another spread
    with make_model(wide):
        found = pk.predictive_check(idata, draws=60, random_seed=0)
    # None of the 60 is as far: as the observation itself counts, the p-value is not zero.
    assert found.p_values["y"] == 1 / 61
    assert found.observed["y"] > found.simulated["y"].max()
    assert found.tests["y"].pvalue < 0.01
    with make_model(wide):
        learnt = pk.predictive_check(idata, draws=20, bandwidth="bayesian", random_seed=0)
        assert learnt.p_values["y"] == 1 / 21
        assert learnt.tests["y"].bandwidths != found.tests["y"].bandwidths
        with pytest.raises(ValueError, match="it may be 'median' or 'bayesian'"):
            pk.predictive_check(idata, bandwidth=2.0)


@pytest.mark.versions
def test_vectors_are_one_point_each():
    def simulate(rng, mean, size):
        return np.array([mean, 2 * mean]) + 0.1 * rng.normal(size=2)

    def model(observed):
        with pm.Model() as made:
            mean = pm.Normal("mean", 0, 1)
            pk.vector_simulator("y", simulate, mean, observed=observed)
        return made

    with model([0.5, 1.0]) as made:
        idata = pk.sample_abc(200, simulations=1000, estimator="adjusted", random_seed=0, progressbar=False)
        check = pk.predictive_check(idata, draws=50, random_seed=0)
        assert check.p_values["y"] > 0.05
        assert check.tests == {}
    with model([0.5, -1.0]):
        assert pk.predictive_check(idata, draws=50, random_seed=0).p_values["y"] < 0.05
    with pytest.raises(ValueError, match="at least 20"):
        pk.predictive_check(idata, model=made, draws=5)


def test_a_calibration_corrects_the_draws_and_says_so(data):
    model = make_model(data)
    table = pk.simulate(2000, model=model, random_seed=1, progressbar=False)
    blunt = pk.Rejection(100)
    calibration = pk.calibrate(blunt, table, rows=100, random_seed=0, progressbar=False)
    arguments = {"reference_table": table, "model": model, "estimator": blunt, "random_seed": 1}
    plain = pk.sample_abc(500, **arguments)
    moved = pk.sample_abc(500, calibration=calibration, **arguments)
    assert "recalibrated" not in plain["posterior"].attrs
    assert "100 held-out rows" in moved["posterior"].attrs["recalibrated"]
    expected = calibration.recalibrated(np.asarray(plain["posterior"]["mean"]).reshape(-1, 1))
    np.testing.assert_allclose(np.asarray(moved["posterior"]["mean"]).ravel(), expected[:, 0])
    small = pk.Calibration(
        calibration.pit, calibration.contraction, calibration.energy_scores, Columns.scalars(["a"]), 10
    )
    with pytest.raises(ValueError, match="calibration is of the parameters"):
        pk.sample_abc(10, calibration=small, **arguments)


def small(observed=(0.4, 0.6), support=None, n=400):
    """A table of two parameters and two statistics without a model."""
    rng = np.random.default_rng(2)
    theta = rng.dirichlet([2.0, 3.0], n)
    x = theta + 0.05 * rng.normal(size=(n, 2))
    frame = pd.DataFrame(np.hstack([theta, x]), columns=["a", "b", "s", "t"])
    made = pk.ReferenceTable.from_dataframe(
        frame, parameters=["a", "b"], statistics=["s", "t"], observed=list(observed)
    )
    return made if support is None else dataclasses.replace(made, support=support)


def test_recalibrated_draws_outside_the_support_are_refused():
    """Parts of one; each moved by itself, they no longer add up to it."""
    table = small(support=pk.Support(2, (Block((0, 1), (Simplex(),)),)))
    calibration = pk.Calibration(
        np.random.default_rng(0).random((200, 2)) ** 2,
        np.zeros((200, 2)),
        np.zeros(200),
        Columns.scalars(["a", "b"]),
        100,
    )
    arguments = {"reference_table": table, "estimator": pk.Rejection(100), "random_seed": 1}
    draws = pk.sample_abc(50, progressbar=False, **arguments)["posterior"]
    np.testing.assert_allclose(np.asarray(draws["a"]) + np.asarray(draws["b"]), 1.0)
    with pytest.raises(ValueError, match="lie on a surface"):
        pk.sample_abc(50, calibration=calibration, progressbar=False, **arguments)


def test_draws_beyond_all_numbers_are_refused_with_their_number():
    """The logarithm of a parameter follows the statistic in a line, far beyond the largest number."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=2000)
    frame = pd.DataFrame({"a": np.exp(a), "s": a + 0.3 * rng.normal(size=2000)})
    linear = pk.Adjusted(adjustment="local_linear")
    for how in ({"estimator": linear}, {"candidates": [linear]}):
        table = pk.ReferenceTable.from_dataframe(
            frame, parameters=["a"], statistics=["s"], observed=[1000.0], bounds={"a": (0, None)}
        )
        with pytest.raises(ValueError, match=r"\d+ of \d+ atoms that carry weight are infinite .*zoom"):
            pk.sample_abc(500, reference_table=table, random_seed=1, progressbar=False, **how)


# --- fitted estimators ---


class Counted(pk.Rejection):
    """Counts its fits, copies' among them."""

    fits: list[int] = []  # noqa: RUF012

    def _fit(self, rng):
        self.fits.append(1)
        super()._fit(rng)


def sampled(table, estimator, **how):
    return pk.sample_abc(100, estimator=estimator, reference_table=table, progressbar=False, **how)


@pytest.mark.filterwarnings("ignore::pymc_kbr.PosteriorWarning")
def test_a_fitted_estimator_is_fitted_again_only_where_something_has_changed():
    table = small()
    estimator = Counted(50).fit(table)
    del Counted.fits[:]
    sampled(table, estimator, random_seed=1)
    sampled(table.with_observed([0.1, 0.2]), estimator, random_seed=1)
    assert not Counted.fits
    assert estimator.is_fitted_to(table)
    others = [
        dataclasses.replace(table, statistics=table.statistics + 1.0),
        dataclasses.replace(table, parameters=table.parameters[:, ::-1].copy()),
        dataclasses.replace(table, prior_ratio=np.linspace(0.5, 1.5, len(table))),
        small(n=399),
    ]
    for number, other in enumerate(others, 1):
        sampled(other, estimator, random_seed=1)
        assert len(Counted.fits) == number
    sampled(table, estimator.set_params(accepted=60), random_seed=1)
    sampled(table, estimator.set_params(accepted=50), random_seed=1, prior=table.parameters[:200])
    assert len(Counted.fits) == len(others) + 2
    assert estimator.is_fitted_to(table)  # what was given stays as it is


def test_an_estimator_that_is_not_fitted_stays_so_and_a_seed_repeats_its_draws():
    table, estimator = small(), pk.KernelLikelihood("location_scale", particles=50)
    once, again = (sampled(table, estimator, random_seed=3)["posterior"] for _ in range(2))
    assert not hasattr(estimator, "table_")
    fitted = estimator.fit(table, random_seed=0)
    one, two, other = (sampled(table, fitted, random_seed=seed)["posterior"] for seed in (3, 3, 4))
    for name in once:
        np.testing.assert_array_equal(once[name], again[name])
        np.testing.assert_array_equal(one[name], two[name])
        assert not np.array_equal(one[name], other[name])


def test_an_estimator_with_conditions_is_refused_before_any_simulation():
    estimator = pk.KernelLikelihood(conditions=["mean"])
    with pytest.raises(ValueError, match=r"conditions \['mean'\].*condition\(observed, conditions"):
        pk.sample_abc(10, model=pm.Model(), simulations=10**9, estimator=estimator)


def test_the_estimator_of_a_result_conditions_as_the_result_was_made(idata):
    fitted = pk.estimator_of(idata)
    assert fitted.selection_.chosen.label.split("(")[0] == type(fitted).__name__
    table = pk.ReferenceTable.from_arviz(idata)
    posterior = fitted.condition(table.observed)
    drawn = np.ravel(idata["posterior"]["mean"])
    error = drawn.std() * np.sqrt(2 / min(len(drawn), 1000))
    assert abs(posterior.mean()[0] - drawn.mean()) < 4 * error
    with pytest.raises(ValueError, match="did not return in this process"):
        pk.estimator_of(idata.copy())
    with pytest.raises(ValueError, match="a NoneType is given"):
        pk.estimator_of(None)
