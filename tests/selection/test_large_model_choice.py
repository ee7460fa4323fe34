"""Model choice with more rows than are learnt from: some of all, and all near the observations."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import pymc_kbr as pk
from pymc_kbr.selection.model_choice.classifiers import LocalLogistic
from pymc_kbr.selection.model_choice.methods import EmbeddedIndex, choose_method
from pymc_kbr.selection.model_choice.rows import Rows, screened

NAMES = ["s", "t"]


def draws(model, n, rng):
    """Two normal statistics, whose means and deviations the models have different."""
    return rng.normal([0.3 * model, 0.5 * model], [1 + 0.4 * model, 1], (n, 2))


def log_density(model, x):
    return norm.logpdf(x, [0.3 * model, 0.5 * model], [1 + 0.4 * model, 1]).sum(axis=1)


def exact(x, models=3, prior=None):
    logs = np.column_stack([log_density(model, x) for model in range(models)])
    found = np.exp(logs - logs.max(axis=1, keepdims=True)) * (1 if prior is None else np.array(prior))
    return found / found.sum(axis=1, keepdims=True)


def table(model, n, seed):
    rng = np.random.default_rng(seed)
    x = draws(model, n, rng)
    frame = pd.DataFrame({"a": rng.normal(size=n), "s": x[:, 0], "t": x[:, 1]})
    return pk.ReferenceTable.from_dataframe(frame, parameters=["a"], statistics=NAMES)


def tables(sizes):
    return {f"m{model}": table(model, n, model) for model, n in enumerate(sizes)}


def test_rows_near_the_observation_are_all_there_and_some_of_the_others():
    held, at = tables([4000, 6000]), np.array([[2.5, -1.0]])
    some, near = screened(held, at, most=1000)
    assert [len(one) for one in some.values()] == [250, 250]
    rows = Rows.joined(some, np.array([0.5, 0.5]), at, near)
    together = np.vstack([one.statistics for one in held.values()])
    lower, upper = np.quantile(np.vstack([one.statistics for one in some.values()]), [1 / 6, 5 / 6], axis=0)
    away = np.linalg.norm((together - at) / ((upper - lower) / 2), axis=1)
    nearest = {tuple(row) for row in together[np.argsort(away)[:500]]}
    assert nearest <= {tuple(row) for row in rows.statistics}
    assert len({tuple(row) for row in rows.statistics}) == len(rows)  # none is there twice
    for model, one in enumerate(some.values()):
        mine = rows.own[(rows.model == model) & (rows.own >= 0)]
        np.testing.assert_array_equal(mine, np.arange(len(one)))
    assert np.all((rows.scored > 0) == (rows.own >= 0))


@pytest.mark.parametrize("sizes", [[40_000, 40_000], [60_000, 3_000]])
def test_weights_of_screened_rows_are_those_of_all_rows_wherever_they_are(sizes):
    at = np.array([[0.5, 0.5]])
    held = tables(sizes)
    some, near = screened(held, at, most=8000)
    rows = Rows.joined(some, np.array([0.5, 0.5]), at, near)
    whole = Rows.joined(held, np.array([0.5, 0.5]), at)
    for inside in (  # near the observation, and far from it
        lambda x: np.linalg.norm(x - at, axis=1) < 0.15,
        lambda x: np.linalg.norm(x - at, axis=1) > 1.5,
    ):
        odds = []
        for found in (rows, whole):
            there = inside(found.statistics)
            mass = np.bincount(found.model[there], found.weights[there], minlength=2)
            count = np.bincount(found.model[there], minlength=2)
            odds.append((np.log(mass[1] / mass[0]), np.sqrt(np.sum(1 / count))))
        (one, error), (other, error_of_all) = odds
        assert abs(one - other) < 4 * np.hypot(error, error_of_all)
    np.testing.assert_allclose(np.bincount(rows.model, rows.scored), len(rows) / 2)


def test_probabilities_of_a_large_table_are_exact_at_the_observation_and_on_held_out_rows(set_default):
    set_default(screened, most=3000)
    at = np.array([[1.0, 0.5], [-1.0, 1.0]])
    choice = pk.compare_models(tables([7_500] * 3), at, random_seed=1)
    # Of 750 rows near each.
    np.testing.assert_allclose(choice.at_observed, exact(at), atol=4 * np.sqrt(0.25 / 750))
    rng = np.random.default_rng(9)
    x = np.vstack([draws(model, 40_000, rng) for model in range(3)])
    best = np.log(exact(x)[np.arange(len(x)), np.repeat(np.arange(3), 40_000)])
    error = best.std() / np.sqrt(len(choice.held_out.model))
    assert abs(choice.held_out.log_score - best.mean()) < 4 * error + 0.005
    assert len(choice.held_out.model) <= 3000


def test_a_prior_and_unequal_tables_count_as_they_do_with_few_rows(set_default):
    set_default(screened, most=3000)
    at = np.array([[1.0, 0.5]])
    prior = {"m0": 0.2, "m1": 0.8}
    found = pk.compare_models(tables([7_500, 1_125]), at, prior=prior, random_seed=1)
    np.testing.assert_allclose(found.at_observed, exact(at, 2, [0.2, 0.8]), atol=0.03 * np.sqrt(2))


def test_a_store_is_read_a_part_at_a_time_and_gives_the_same(tmp_path, set_default):
    import pymc as pm

    def model(shift):
        with pm.Model() as made:
            a = pm.Normal("a", shift, 1)
            pk.vector_simulator("y", _normal, a, observed=[0.4, 0.1])
        return made

    stored = {
        name: pk.simulate_to_store(
            1500, tmp_path / f"{name}.zarr", model=model(shift), random_seed=1, progressbar=False
        )
        for name, shift in (("one", 0.0), ("two", 1.0))
    }
    loaded = {name: one.load() for name, one in stored.items()}
    set_default(screened, most=1000)
    how = {"random_seed": 2, "method": "quadratic_logistic"}
    found, other = (pk.compare_models(of, **how) for of in (stored, loaded))
    np.testing.assert_array_equal(found.at_observed, other.at_observed)
    assert found.held_out.log_score == other.held_out.log_score


def _normal(rng, a, size=None):
    return np.stack([a + rng.normal(size=np.shape(a)), a**2 + rng.normal(size=np.shape(a))], axis=-1)


def test_a_slow_method_far_behind_is_asked_for_few_rows():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(3000, 30)), columns=[f"s{i}" for i in range(30)])
    frame["model"] = np.repeat(["a", "b"], 1500)
    frame.loc[frame["model"] == "b", "s0"] += 1.0
    choice = pk.compare_models(
        frame,
        np.zeros(30),
        model="model",
        statistics=[f"s{i}" for i in range(30)],
        method=["logistic", "local_logistic"],
        random_seed=1,
    )
    assert choice.method == "logistic"
    assert choice.method_scores().loc["local_logistic", "rows"] == 100


def test_local_regressions_on_correlated_statistics_are_those_on_uncorrelated_ones():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    model = (rng.random(400) < 1 / (1 + np.exp(-x @ [1.0, -1.0]))).astype(int)
    weights = rng.random(400)
    mixed = x @ np.array([[1.0, 1.0], [1e-3, -1e-3]])
    one, other = (LocalLogistic()._regressed(of, model, weights) for of in (x, mixed))
    np.testing.assert_allclose(one, other, atol=1e-3)
    # Without any statistic that varies, what is left are shares.
    np.testing.assert_allclose(
        LocalLogistic()._regressed(np.zeros((400, 2)), model, weights),
        np.bincount(model, weights) / weights.sum(),
    )


def test_the_index_is_predicted_without_a_weight_for_each_row_and_observation():
    held = tables([300, 300])
    rows = Rows.joined(held, np.array([0.5, 0.5]))
    fitted = EmbeddedIndex().fit(rows, np.random.default_rng(1))
    x = np.random.default_rng(2).normal(size=(7, 2))
    told = np.eye(2)[rows.model]
    by_weights = fitted._mean.weights(rows.curves.transform(x)) @ told
    raised = np.maximum(by_weights, 1e-3)
    np.testing.assert_allclose(
        fitted.probabilities(x), raised / raised.sum(axis=1, keepdims=True), rtol=1e-8, atol=1e-10
    )


def test_folds_have_the_settings_that_were_chosen_on_all_rows():
    rows = Rows.joined(tables([300, 300]), np.array([0.5, 0.5]))
    fitted = EmbeddedIndex().fit(rows, np.random.default_rng(1))
    again = fitted.again().fit(rows.part(np.arange(0, 600, 2)), np.random.default_rng(1))
    assert again._mean.kernel_ == fitted._mean.kernel_
    assert again._mean.regularisation_ == fitted._mean.regularisation_


def test_an_observation_without_a_logarithm_leaves_that_of_the_other_statistics():
    rng = np.random.default_rng(3)
    made = {}
    for name, shift in (("one", 0.0), ("two", 1.0)):
        frame = pd.DataFrame({"a": rng.normal(size=2000)})
        frame["s"] = np.exp(frame["a"] + shift + rng.normal(size=2000))
        frame["t"] = np.exp(frame["a"] + rng.normal(size=2000))
        made[name] = pk.ReferenceTable.from_dataframe(frame, parameters=["a"], statistics=NAMES)
    rows = Rows.joined(made, np.array([0.5, 0.5]), np.array([[0.0, 1.0]]))
    assert rows.curves.curves[0].kind != "log"
    assert rows.curves.refused[0][1] == "log"
    assert rows.curves.curves[1].kind == "log"
    assert np.all(np.isfinite(rows.curves.transform(np.array([[0.0, 1.0]]))))
    assert choose_method(["logistic"], rows, np.random.default_rng(0))[0].method == "logistic"
