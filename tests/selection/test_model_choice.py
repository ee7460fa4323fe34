"""Probabilities of models against exact ones, their errors, calibration and what is refused."""

import dataclasses
import warnings

import arviz as az
import matplotlib
import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_kbr as pk
from case_studies.model_choice.toys import TOYS
from pymc_kbr.posterior.arviz import pack
from pymc_kbr.selection.model_choice.classifiers import LocalLogistic, Logistic, NearestRows
from pymc_kbr.selection.model_choice.held_out import HeldOutProbabilities
from pymc_kbr.selection.model_choice.methods import EmbeddedIndex, Evidence, Forest
from pymc_kbr.selection.model_choice.rows import Rows
from pymc_kbr.tables.origin import Failures

matplotlib.use("Agg")
TOY = TOYS["variance known or not"]()
HALVES = np.array([0.5, 0.5])
QUICK = {"method": "kernel_logistic", "random_seed": 1}


@pytest.fixture(scope="module")
def tables():
    return TOY.tables(2000, np.random.default_rng(0))


@pytest.fixture(scope="module")
def observations():
    return TOY.observations(150, np.random.default_rng(1))


@pytest.fixture(scope="module")
def choice(tables, observations):
    return pk.compare_models(tables, observations[0], **QUICK)


@pytest.fixture(scope="module")
def one(tables, observations):
    """At a single observation."""
    return pk.compare_models(tables, observations[0][3], **QUICK)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("classifier", "most"),
    [
        (NearestRows(), 0.12),
        (LocalLogistic(), 0.05),
        (EmbeddedIndex(), 0.12),
        (Logistic("linear"), 0.25),
        (Logistic("quadratic"), 0.05),
        (Logistic("kernel"), 0.03),
        (Evidence(), 0.06),
        (Forest(50), 0.25),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, float) else "",
)
def test_each_method_is_near_the_exact_probabilities(classifier, most, tables, observations):
    statistics, _, exact = observations
    dear = isinstance(classifier, Evidence)
    some = slice(None, None, 25 if dear else 10)
    rows = Rows.joined({name: _first(table, 500 if dear else 1200) for name, table in tables.items()}, HALVES)
    found = classifier.fit(rows, np.random.default_rng(0)).probabilities(statistics[some])
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert found.min() >= 0
    assert np.abs(found - exact[some]).mean() < most


@pytest.mark.statistical
def test_stated_errors_are_the_errors(choice, observations):
    """The mean distance to the exact probabilities, as large as normal errors of the stated size make it."""
    error = np.abs(choice.at_observed - observations[2]).mean()
    stated = np.sqrt(2 / np.pi) * choice.errors_at_observed.mean()
    assert error < 0.03
    assert 0.4 < error / stated < 2.5


def test_probabilities_of_one_and_of_many_observations(choice, one, tables, observations):
    assert choice.probabilities.shape == (300, 2)
    assert list(choice.probabilities) == ["known", "unknown"]
    assert isinstance(one.probabilities, pd.Series)
    np.testing.assert_allclose(one.probabilities, choice.probabilities.iloc[3], rtol=1e-6)
    named = pd.Series(observations[0][3][::-1], index=["s1", "s0"])
    np.testing.assert_array_equal(pk.compare_models(tables, named, **QUICK).at_observed, one.at_observed)


def test_held_out_rows_are_calibrated_and_confused_as_they_should(choice):
    assert len(choice.held_out.model) == 4000
    assert choice.calibration_error < 3 * choice.calibration_noise
    assert np.allclose(choice.confusion.sum(axis=1), 1)
    weighted = np.diag(choice.confusion) @ choice.prior
    assert weighted == pytest.approx(choice.held_out.accuracy)
    assert np.isclose(choice.reliability()["share_of_rows"].sum(), 1)


def test_which_statistic_decides(choice):
    """The variance tells the models apart, and the mean hardly."""
    found = choice.deciding_statistics()
    assert found.index[0] == "s1"
    assert found["s1"] > 10 * abs(found["s0"])


def test_prior_odds_multiply_the_bayes_factor(one, tables, observations):
    told = {"known": 0.9, "unknown": 0.1}
    moved = one.with_prior(told)
    np.testing.assert_allclose(moved.bayes_factors, one.bayes_factors)
    odds = one.at_observed[0, 0] / one.at_observed[0, 1] * 9
    assert moved.probabilities["known"] == pytest.approx(odds / (1 + odds))
    anew = pk.compare_models(tables, observations[0][3], told, **QUICK)
    np.testing.assert_array_equal(anew.at_observed, moved.at_observed)
    exact = observations[2][3] * [0.9, 0.1]
    assert anew.probabilities["known"] == pytest.approx(exact[0] / exact.sum(), abs=0.1)


def test_numbers_of_rows_play_no_part(tables, observations):
    """A table half as long says the same, with more noise."""
    shorter = dict(tables)
    shorter["known"] = _first(tables["known"], 700)
    found = pk.compare_models(shorter, observations[0], **QUICK)
    assert abs(np.mean(found.at_observed - observations[2], axis=0)[0]) < 0.02
    plain = pk.compare_models(shorter, observations[0], method="nearest_rows", random_seed=1)
    assert abs(np.mean(plain.at_observed - observations[2], axis=0)[0]) < 0.05


@pytest.mark.statistical
def test_rows_that_are_no_draws_of_the_prior_are_weighted(tables, observations):
    """Rows kept by a probability that the ratio undoes."""
    table = tables["unknown"]
    high = table.parameters[:, 1] > 1
    kept = ~high | (np.random.default_rng(0).random(len(high)) < 0.4)
    ratio = np.where(high[kept], 2.5, 1.0)
    part = dataclasses.replace(
        table, parameters=table.parameters[kept], statistics=table.statistics[kept], prior_ratio=ratio
    )
    found, blind = (
        np.abs(
            pk.compare_models({**tables, "unknown": of}, observations[0], **QUICK).at_observed
            - observations[2]
        )
        for of in (part, dataclasses.replace(part, prior_ratio=None))
    )
    assert found.mean() < 0.7 * blind.mean()
    assert found.mean() < 0.05


def test_auto_takes_the_best_on_held_out_rows(tables, observations):
    names = ["nearest_rows", "logistic", "kernel_logistic"]
    found = pk.compare_models(tables, observations[0][:2], method=names, random_seed=1)
    scores = found.method_scores()
    assert found.method == "kernel_logistic" == scores.index[0]
    assert scores["log_score"].is_monotonic_decreasing
    assert scores["standard_error"].iloc[0] == 0 < scores["standard_error"].iloc[1]


def test_the_same_seed_gives_the_same(tables, observations, choice):
    again = pk.compare_models(tables, observations[0], **QUICK)
    np.testing.assert_array_equal(again.at_observed, choice.at_observed)
    np.testing.assert_array_equal(again.errors_at_observed, choice.errors_at_observed)
    assert again.statistics == choice.statistics == ("s0", "s1")


def test_calibration_error_of_probabilities_that_are_too_sure():
    rng = np.random.default_rng(0)
    p = rng.random(20_000)
    model = (rng.random(20_000) > p).astype(int)
    right = np.column_stack([p, 1 - p])
    sure = right**3 / np.sum(right**3, axis=1, keepdims=True)
    weights = np.full(20_000, 1 / 20_000)
    found = HeldOutProbabilities(sure, model, weights)
    expected = np.abs(sure[:, 0] - p).mean()
    assert found.calibration_error(50) == pytest.approx(expected, rel=0.05)
    true = HeldOutProbabilities(right, model, weights)
    assert true.calibration_error() == pytest.approx(true.calibration_noise(rng), abs=0.006)
    assert true.log_score > found.log_score


def normal(rng, mean, size):
    return rng.normal(mean, 1.0, size)


def half_fails(rng, mean, size):
    return rng.laplace(mean, 0.7, size) if mean > 0 else np.full(size, np.nan)


def model_of(simulator):
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1)
        pm.Simulator("y", simulator, mean, sum_stat="sort", observed=[0.3, 1.2, 2.0, 0.5])
    return model


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    models = {"normal": model_of(normal), "Laplace": model_of(half_fails)}
    folder = tmp_path_factory.mktemp("models")
    how = {"on_failure": "drop", "batched": False, "progressbar": False}
    return models, folder, pk.simulate_models(models, 150, random_seed=3, store=folder, **how)


def test_each_model_has_its_store_its_seed_and_its_failures(simulated):
    models, folder, tables = simulated
    assert {path.name for path in folder.iterdir()} == {"normal.zarr", "Laplace.zarr"}
    assert len(tables["normal"].failures) == 0 < len(tables["Laplace"].failures)
    alone = pk.simulate_models(
        {"normal": models["normal"]}, {"normal": 150}, random_seed=3, progressbar=False, batched=False
    )
    np.testing.assert_array_equal(alone["normal"].statistics, tables["normal"].statistics)
    assert tables["normal"].seed != tables["Laplace"].seed


def test_failures_are_told_and_the_tables_observation_is_taken(simulated):
    _, _, tables = simulated
    with pytest.warns(UserWarning, match="failed more often"):
        found = pk.compare_models(tables, **QUICK)
    assert found.failed[0] == 0
    assert found.failed[1] == pytest.approx(len(tables["Laplace"].failures) / 150)
    assert "failed" in found.summary()


def result_of(**variables):
    dataset = az.convert_to_dataset({name: np.asarray(value) for name, value in variables.items()})
    return pack({"posterior": dataset})


def test_draws_are_mixed_by_the_probabilities(one):
    share = one.probabilities["known"]
    rng = np.random.default_rng(0)
    results = {
        "known": result_of(mean=np.zeros((2, 500)), effect=rng.normal(size=(2, 500, 3))),
        "unknown": result_of(mean=np.ones((2, 500)), variance=np.ones((2, 500))),
    }
    mixed = one.average(results, random_seed=1)["posterior"]
    assert set(mixed.data_vars) == {"mean", "model"}
    assert float(1 - mixed["mean"].mean()) == pytest.approx(share, abs=1e-3)
    np.testing.assert_array_equal(mixed["mean"], mixed["model"])
    assert dict(mixed.sizes) == {"chain": 2, "draw": 500}
    with pytest.raises(ValueError, match="not in all models"):
        one.average(results, parameters=["variance"])
    with pytest.raises(ValueError, match="give one for each"):
        one.average({"known": results["known"]})
    with pytest.raises(TypeError, match="results is list; give a dict of model names"):
        one.average(list(results.values()))
    with pytest.raises(TypeError, match="the result of 'unknown' is int without a group `posterior`"):
        one.average({**results, "unknown": 3})
    with pytest.raises(TypeError, match=r"give a list of names: \['mean'\]"):
        one.average(results, parameters="mean")
    with pytest.raises(ValueError, match=r"parameters names nothing; the models share \['mean'\]"):
        one.average(results, parameters=[])
    with pytest.raises(ValueError, match="share no parameter"):
        one.average({"known": results["known"], "unknown": result_of(other=np.ones((2, 500)))})


def test_of_several_observations_nothing_is_averaged(choice):
    with pytest.raises(ValueError, match="at one of them"):
        choice.average({})


def test_an_observation_that_no_model_makes_is_told(tables, observations):
    with pytest.warns(pk.PosteriorWarning, match="1 of 2 observations"):
        pk.compare_models(tables, [[0.0, 1.0], [1e3, 1.0]], method="logistic", random_seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pk.compare_models(tables, observations[0][:150], method="logistic", random_seed=1)


def test_models_may_be_numbered(tables, observations):
    """Their names are texts then, in the prior as in the tables."""
    numbered = dict(zip((1, 2), tables.values(), strict=True))
    found = pk.compare_models(
        numbered, observations[0][0], {1: 0.3, 2: 0.7}, method="logistic", random_seed=1
    )
    assert list(found.probabilities.index) == ["1", "2"]
    np.testing.assert_array_equal(found.prior, [0.3, 0.7])
    results = {number: result_of(mean=np.full((2, 50), float(number))) for number in numbered}
    mixed = found.average(results, random_seed=1)["posterior"]
    np.testing.assert_array_equal(mixed["mean"], mixed["model"] + 1)


def test_refusals(tables, observations):
    x = observations[0][0]
    renamed = dataclasses.replace(
        tables["known"], statistic_columns=type(tables["known"].statistic_columns).scalars(["s0", "other"])
    )
    for wrong, words in (
        ({"known": tables["known"]}, "two or more"),
        ({**tables, "known": renamed}, "they must be the same"),
        (
            {**tables, "known": dataclasses.replace(_first(tables["known"], 20), failures=Failures.none(1))},
            "at least 50",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            pk.compare_models(wrong, x)
    with pytest.raises(TypeError, match="a dict of model names"):
        pk.compare_models(list(tables.values()), x)
    for prior in ({"known": 0.7, "unknown": 0.7}, {"known": 1.2, "unknown": -0.2}, {"known": 1.0}):
        with pytest.raises(ValueError, match="prior"):
            pk.compare_models(tables, x, prior)
    for value in (True, "half"):
        with pytest.raises(TypeError, match="probabilities are numbers"):
            pk.compare_models(tables, x, {"known": value, "unknown": 0.5})
    with pytest.raises(ValueError, match="two of them alike"):
        pk.compare_models({1: tables["known"], "1": tables["unknown"]}, x)
    with pytest.raises(ValueError, match="method is 'guess'"):
        pk.compare_models(tables, x, method="guess")
    with pytest.raises(ValueError, match="values of the observations are infinite"):
        pk.compare_models(tables, [np.inf, 1.0])
    with pytest.raises(TypeError, match="method is None; it may be auto"):
        pk.compare_models(tables, x, method=None)
    for all_missing in ([np.nan, np.nan], [[0.0, 1.0], [np.nan, np.nan]]):
        with pytest.raises(ValueError, match=r"all statistics are missing \(NaN\) in 1 of"):
            pk.compare_models(tables, all_missing)
    with pytest.raises(ValueError, match="with 2 patterns of gaps; compare those of one pattern together"):
        pk.compare_models(tables, [[0.0, np.nan], [np.nan, 1.0]])
    with pytest.raises(ValueError, match="have shape"):
        pk.compare_models(tables, np.empty((0, 2)))
    with pytest.raises(ValueError, match="no observation"):
        pk.compare_models(tables)
    other = {"known": tables["known"].with_observed(x), "unknown": tables["unknown"].with_observed(x + 1)}
    with pytest.raises(ValueError, match="different observations"):
        pk.compare_models(other)


def _first(table, n):
    return dataclasses.replace(table, parameters=table.parameters[:n], statistics=table.statistics[:n])


def test_refusals_of_models():
    with pytest.raises(TypeError, match="a dict of names"):
        pk.simulate_models([], 10)
    with pytest.raises(ValueError, match="give a number for each"):
        pk.simulate_models({"a": model_of(normal)}, {"b": 10})
    with pytest.raises(TypeError, match="model's own seed is made of it"):
        pk.simulate_models({"a": model_of(normal)}, 10, random_seed=np.random.default_rng(1))
    with pytest.raises(ValueError, match="must not be negative"):
        pk.simulate_models({"a": model_of(normal)}, 10, random_seed=-1)
    with pytest.raises(ValueError, match="folders"):
        pk.simulate_models({"a/b": model_of(normal)}, 10, store="somewhere")
    with pytest.raises(TypeError, match=r"give a pymc\.Model"):
        pk.simulate_models({"a": model_of(normal), "b": 3}, 10)
    with pm.Model() as other:
        pm.Simulator("z", normal, pm.Normal("mean", 0, 1), observed=[0.3, 1.2, 2.0, 0.5])
    with pytest.raises(ValueError, match="'b' has the statistics"):
        pk.simulate_models({"a": model_of(normal), "b": other}, 10)
    with pytest.raises(ValueError, match="all observed values of 'y' are missing"), pm.Model():
        pk.vector_simulator("y", normal, pm.Normal("mean", 0, 1), observed=np.full(3, np.nan))
