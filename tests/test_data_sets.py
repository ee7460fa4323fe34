"""Data sets of any size: the table, and the columns that stand for them."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy.stats import norm

import pymc_kbr as pk
from pymc_kbr.arrays.data_sets import DataSets
from pymc_kbr.estimators.sets import moments_of, quantiles_of
from pymc_kbr.kernels import Gaussian

RNG = np.random.default_rng(3)
SETS = [RNG.normal(i, 1 + i, (5 + 7 * i, 2)) for i in range(6)]


def normal(rng, mean, scale, size):
    return rng.normal(mean, scale, size)


def model_of(observed, simulator=normal, **how):
    with pm.Model() as model:
        mean, scale = pm.Normal("mean", 0, 1), pm.Uniform("scale", 0.5, 2)
        pk.set_simulator("y", simulator, mean, scale, observed=observed, **how)
    return model


@pytest.fixture(scope="module")
def table():
    data = np.random.default_rng(1).normal(0.5, 1.0, 60)
    return pk.simulate(800, model=model_of(data, sizes=(20, 100)), random_seed=4, progressbar=False)


@pytest.fixture(scope="module")
def features(table):
    return pk.SetFeatures(embedding=12, quantiles=7).fit(table)


def test_padding_loses_nothing():
    sets = DataSets.of(SETS)
    back = DataSets.of_padded(sets.padded(50), 2)
    assert np.array_equal(back.rows, sets.rows)
    assert np.array_equal(back.sizes, sets.sizes)
    assert all(np.array_equal(sets[i], one) for i, one in enumerate(SETS))
    assert np.array_equal(sets[2:4].rows, np.vstack(SETS[2:4]))


def test_quantiles_are_those_of_numpy():
    sets, levels = DataSets.of(SETS), np.array([0, 0.1, 0.5, 0.77, 1])
    expected = [np.quantile(one[:, 1], levels) for one in SETS]
    np.testing.assert_allclose(quantiles_of(sets, sets.rows[:, 1], levels), expected, rtol=1e-13)


def discrepancies(kernel, sets):
    """Squared maximum mean discrepancies between data sets, by all pairs of rows."""
    products = np.array([[kernel(a, b).mean() for b in sets] for a in sets])
    own = np.diag(products)
    return own[:, None] + own - 2 * products


def test_features_are_the_embedding_they_approximate():
    sets = DataSets.of(SETS)
    made = pk.SetFeatures(embedding=15_000, quantiles=0).fit(sets)
    columns = made.features(sets)[:, :15_000]
    normal_scores = _scores(made, sets)
    parts = np.split(normal_scores, sets.starts[1:])
    exact = sum(discrepancies(Gaussian(s), parts) for s in (1, 0.5, 0.25))
    found = ((columns[:, None] - columns[None]) ** 2).sum(axis=2)
    # 2,500 frequencies of each bandwidth, whose cosines of differences have deviation below one.
    np.testing.assert_allclose(found, exact / 3, atol=4 * np.sqrt(2 / 7_500))


def _scores(features, sets):
    """Rows brought to a normal distribution column by column, written out."""
    levels = np.linspace(0, 1, len(features.ranked_))
    columns = []
    for column, ranked in zip(sets.rows.T, features.ranked_.T, strict=True):
        up = np.interp(column, ranked, levels)
        columns.append(norm.ppf(np.clip(up, 1e-7, 1 - 1e-7)))
    return np.clip(np.array(columns).T, norm.ppf(1e-7), -norm.ppf(1e-7))


def test_moments_are_those_of_each_set():
    sets = DataSets.of(SETS)
    found = moments_of(sets, sets.rows)
    for row, one in zip(found, SETS, strict=True):
        expected = [*np.arcsinh(one.mean(axis=0)), *np.log(one.std(axis=0)), np.corrcoef(one.T)[0, 1]]
        np.testing.assert_allclose(row, expected, rtol=1e-4)
    assert np.all(np.isfinite(moments_of(sets, 1e200 * sets.rows)))


def test_estimates_of_the_table_are_without_each_row(table, features):
    columns = table.with_features(features)
    assert columns.statistic_names == ["y[estimate_mean]", "y[estimate_scale]", "y[log_size]"]
    # Half of the sets are no longer those that were fitted: their estimates know their parameters.
    again = features(table.data_sets()[: len(table) // 2])
    truths = table.parameters[: len(again)]

    def unexplained(estimates):
        design = np.column_stack([np.ones(len(truths)), estimates])
        return np.linalg.lstsq(design, truths, rcond=None)[1].sum()

    assert unexplained(again[:, :2]) < unexplained(columns.statistics[: len(again), :2])
    assert np.array_equal(features(table.data_sets()), columns.statistics)


def test_features_themselves_where_no_parameters_are_known(table):
    alone = pk.SetFeatures(estimates=False).fit(table)
    nameless = pk.SetFeatures().fit(table.data_sets())
    assert alone.names_ == nameless.names_ == [*alone.feature_names_, "log_size"]
    with pytest.raises(ValueError, match="rows of parameters and 800 data sets"):
        pk.SetFeatures().fit(table.data_sets(), table.parameters[:3])


def test_features_of_many_sets_are_those_of_each(features, set_default):
    data = [RNG.normal(size=m) for m in (20, 33, 57, 100)]
    together = features.features(data)
    alone = np.vstack([features.features([one]) for one in data])
    np.testing.assert_allclose(together, alone, rtol=1e-12)
    set_default(type(features)._embedding, entries_at_once=12 * 60)  # parts of two data sets
    np.testing.assert_allclose(features.features(data), alone, rtol=1e-12)


def test_table_is_that_of_a_simulator_with_the_sizes_asked_for(table):
    assert table.set_names == ["y"]
    sizes = table.statistics[:, 0]
    assert sizes.min() >= 20
    assert sizes.max() <= 100
    # Even chances of 81 numbers; four standard errors of their mean.
    assert abs(sizes.mean() - 60) < 4 * np.sqrt((81**2 - 1) / 12 / len(sizes))
    sets = DataSets.of_padded(table.statistics, 1)
    z = (np.array([sets[i].mean() for i in range(len(sets))]) - table.parameters[:, 0]) * np.sqrt(sizes)
    assert abs((z / table.parameters[:, 1]).std() - 1) < 4 / np.sqrt(2 * len(sizes))


@pytest.mark.parametrize("rows", [20, 100])
def test_posterior_of_any_size_from_one_table(table, features, rows):
    fitted = pk.Adjusted().fit(table.with_features(features))
    rng = np.random.default_rng(rows)
    data = [rng.normal(rng.normal(0, 0.7), rng.uniform(0.6, 1.6), rows) for _ in range(60)]
    draws = np.array([one.draw(1000, 1)[:, 0] for one in fitted.condition(features(data))])
    # Close to the exact one of the mean: prior N(0, 1), deviation of the data nearly known.
    mean, variance = np.array([(one.mean(), one.var(ddof=1) / rows) for one in data]).T
    shrink = 1 / (1 + variance)
    errors = (draws.mean(axis=1) - shrink * mean) / np.sqrt(variance * shrink)
    widths = draws.std(axis=1) / np.sqrt(variance * shrink)
    # Half a deviation, over many data sets: the rest of a learned posterior's error differs by the platform.
    assert np.sqrt(np.mean(errors**2)) < 0.5
    assert 0.8 < np.median(widths) < 1.5


def test_sample_abc_makes_the_columns_itself():
    data = np.random.default_rng(6).normal(0.8, 0.7, 80)
    model = model_of(data, sizes=(20, 100))
    with model:
        idata = pk.sample_abc(500, estimator=pk.Adjusted(), simulations=400, random_seed=2, progressbar=False)
    assert abs(float(idata["posterior"]["mean"].mean()) - data.mean()) < 0.3
    held = pk.ReferenceTable.from_arviz(idata)
    assert held.set_names == ["y"]
    assert held.statistic_columns.size == 101
    check = pk.predictive_check(idata, model=model, draws=40, random_seed=1)
    assert check.p_values["y"] > 0.05


@pytest.mark.versions
def test_stores_and_files_keep_data_sets(table, features, tmp_path):
    path = tmp_path / "sets.nc"
    table.save(path)
    again = pk.ReferenceTable.load(path)
    assert again.set_names == ["y"]
    assert np.array_equal(again.statistics, table.statistics)
    store = tmp_path / "sets.zarr"
    model = model_of(np.zeros(30), sizes=(20, 40))
    stored = pk.simulate_to_store(300, store, model=model, random_seed=1, progressbar=False)
    assert stored.load().set_names == ["y"]
    with pytest.raises(ValueError, match="SetFeatures"):
        pk.Localised().fit(stored)
    saved = pk.load(pk.save(features, tmp_path / "features.npz"))
    data = [np.linspace(-1, 1, 30)]
    assert np.array_equal(saved(data), features(data))


def test_tables_from_elsewhere():
    df = pd.DataFrame({"mean": RNG.normal(size=200)})
    sets = [RNG.normal(m, 1, (RNG.integers(5, 20), 2)) for m in df["mean"]]
    made = pk.ReferenceTable.from_sets(df, sets, observed=np.zeros((9, 2)), bounds={"mean": (-9, 9)})
    features = pk.SetFeatures(embedding=4, quantiles=3, directions=3).fit(made)
    columns = made.with_features(features)
    assert len(features.feature_names_) == features.features(sets).shape[1] == 4 + 2 * 5 + 3 * 5
    assert columns.statistic_names == ["data[estimate_mean]", "data[log_size]"]
    np.testing.assert_array_equal(columns.statistics, features(sets))
    np.testing.assert_array_equal(columns.observed, features([np.zeros((9, 2))])[0])
    other = made.with_observed(np.ones((7, 2)))
    np.testing.assert_array_equal(other.with_features(features).observed, features([np.ones((7, 2))])[0])


def test_a_simulator_may_decide_on_the_number_of_rows():
    def sites(rng, mean, scale, size):
        return rng.normal(mean, scale, 1 + rng.poisson(5))

    model = model_of(np.zeros(4), sites, largest=40)
    sizes = pk.simulate(200, model=model, random_seed=1, progressbar=False).statistics[:, 0]
    assert len(np.unique(sizes)) > 5
    tight = model_of(np.zeros(4), sites, largest=5)
    with pytest.raises(pk.SimulationError, match="higher `largest`"):
        pk.simulate(200, model=tight, random_seed=1, progressbar=False)


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        ([], "no data sets"),
        ([[1.0], []], "data set 1 is empty"),
        ([[1.0, np.nan]], "missing or infinite"),
        ([np.ones((3, 2)), np.ones((3, 1))], "data set 1 has 1 column"),
        ([np.ones((3, 2, 2))], "3 dimensions"),
        (["abc"], "texts in data set 0"),
        (3.0, "sequence of arrays"),
        ([np.ones((4, 2))], r"columns \[0, 1\] are constant"),
    ],
)
def test_bad_data_sets(sets, words):
    with pytest.raises((TypeError, ValueError), match=words):
        pk.SetFeatures().fit(sets)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"embedding": 3}, "even number"),
        ({"quantiles": 1.5}, "whole number"),
        ({"directions": 0}, "at least 1"),
    ],
)
def test_bad_settings(settings, words):
    with pytest.raises((TypeError, ValueError), match=words):
        pk.SetFeatures(**settings).fit(SETS)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"observed": []}, "empty"),
        ({"observed": np.zeros((3, 2, 2))}, "3 dimensions"),
        ({"observed": [1.0, np.inf]}, "missing or infinite"),
        ({"observed": np.zeros(5), "sizes": (10, 20)}, "has 5 rows, and 10 to 20"),
        ({"observed": np.zeros(5), "sizes": (20, 10)}, "lowest comes first"),
        ({"observed": np.zeros(5), "sizes": 2.5}, "positive whole number"),
        ({"observed": np.zeros(5), "sizes": (2, 20), "largest": 10}, "at least 20"),
        ({"observed": np.zeros(5), "sizes": 2, "largest": 3}, "more than largest"),
    ],
)
def test_bad_set_simulators(how, words):
    with pytest.raises((TypeError, ValueError), match=words):
        model_of(**how)


def test_gaps_are_failures_that_are_counted():
    def failing(rng, mean, scale, size):
        return rng.normal(mean, scale, size) / (mean < 1)

    with np.errstate(divide="ignore", invalid="ignore"), pytest.warns(UserWarning, match="dropped"):
        made = pk.simulate(
            200, model=model_of(np.zeros(4), failing), random_seed=1, on_failure="drop", progressbar=False
        )
    assert len(made.failures) == np.sum(made.failures.parameters[:, 0] >= 1) > 0


@pytest.mark.parametrize(
    "use",
    [
        pk.select,
        lambda t: pk.Adjusted().fit(t),
        lambda t: pk.calibrate("rejection", t, rows=100),
        pk.misspecification,
    ],
)
def test_data_sets_are_refused_where_columns_are_needed(use, table):
    with pytest.raises(ValueError, match="SetFeatures"):
        use(table)


def test_several_data_sets_in_one_model():
    with pm.Model() as model:
        mean, scale = pm.Normal("mean", 0, 1), pm.Uniform("scale", 0.5, 2)
        pk.set_simulator("y", normal, mean, scale, observed=np.zeros(6), sizes=(4, 8))
        pk.set_simulator("z", normal, mean, scale, observed=np.zeros((5, 2)))
    table = pk.simulate(100, model=model, random_seed=1, progressbar=False)
    with pytest.raises(ValueError, match="name one of them"):
        pk.SetFeatures().fit(table)
    first = pk.SetFeatures(2, 1).fit(table, variable="z")
    once = table.with_features(first, "z")
    assert once.set_names == ["y"]
    twice = once.with_features(pk.SetFeatures(2, 1).fit(once))
    assert twice.set_names == []
    assert twice.statistic_names[:3] == ["y[estimate_mean]", "y[estimate_scale]", "y[log_size]"]
    assert twice.statistic_columns.size == 5
    with pytest.raises(ValueError, match="no data sets"):
        twice.with_features(first)


def test_data_frames_in_sets_are_not_taken_by_their_place():
    one = pd.DataFrame({"u": [1.0, 2.0], "v": [0.0, 3.0]})
    plain = DataSets.of([one, one.to_numpy()])
    turned = DataSets.of([one, one[["v", "u"]]])
    np.testing.assert_array_equal(plain.rows, turned.rows)
    with pytest.raises(ValueError, match=r"data set 1 lacks \['v'\] and has the unknown \['w'\]"):
        DataSets.of([one, one.rename(columns={"v": "w"})])
    with pytest.raises(TypeError, match="give a data frame"):
        pk.ReferenceTable.from_sets(np.ones((2, 1)), [[1.0], [2.0]])


def test_an_observed_data_set_is_put_in_the_order_of_the_simulated_ones():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"m": rng.normal(size=60)})
    sets = [pd.DataFrame({"u": m + rng.normal(size=8), "v": rng.normal(size=8)}) for m in frame["m"]]
    seen = sets[0]
    table = pk.ReferenceTable.from_sets(frame, sets, observed=seen[["v", "u"]])
    plain = pk.ReferenceTable.from_sets(frame, [one.to_numpy() for one in sets], observed=seen.to_numpy())
    np.testing.assert_array_equal(table.observed, plain.observed)
    np.testing.assert_array_equal(table.with_observed(seen[["v", "u"]]).observed, plain.observed)
    features = pk.SetFeatures(embedding=4, quantiles=3).fit(table)
    np.testing.assert_array_equal(features([seen[["v", "u"]]]), features([seen.to_numpy()]))
