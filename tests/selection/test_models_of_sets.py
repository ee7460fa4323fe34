"""Models whose simulators return data sets of any size are compared by columns that tell them apart."""

import dataclasses

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy.stats import laplace, norm

import pymc_kbr as pk
from pymc_kbr.arrays.data_sets import DataSets
from pymc_kbr.selection.model_choice.rows import of_one_width

QUICK = {"method": "nearest_rows", "random_seed": 1}
DRAW = {"normal": np.random.Generator.normal, "Laplace": np.random.Generator.laplace}
DENSITY = {"normal": norm.logpdf, "Laplace": laplace.logpdf}
SCALE = {"normal": 1.0, "Laplace": 0.7}


def sets_of(name, count, rng, fewest=20, most=60):
    mean = rng.normal(size=count)
    return mean, [DRAW[name](rng, m, SCALE[name], rng.integers(fewest, most)) for m in mean]


@pytest.fixture(scope="module")
def tables():
    rng = np.random.default_rng(3)
    made = {}
    for name in DRAW:
        mean, sets = sets_of(name, 400, rng)
        made[name] = pk.ReferenceTable.from_sets(pd.DataFrame({"mean": mean}), sets, largest=60)
    return made


@pytest.fixture(scope="module")
def observed():
    rng = np.random.default_rng(8)
    return [one for name in DRAW for one in sets_of(name, 60, rng)[1]]


def exact(data):
    """Probability of the normal model: evidences by a sum over a fine grid of means."""
    grid = np.linspace(-4, 4, 801)
    logs = [
        np.logaddexp.reduce(norm.logpdf(grid) + DENSITY[name](data[:, None], grid, SCALE[name]).sum(axis=0))
        for name in DRAW
    ]
    return 1 / (1 + np.exp(logs[1] - logs[0]))


def test_probabilities_are_near_the_exact_ones(tables, observed):
    found = pk.compare_models(tables, DataSets.of(observed), method="logistic", random_seed=1)
    right = np.array([exact(one) for one in observed])
    # From 400 rows a model, by columns that are learnt from as few; the prior's own error is .33.
    assert np.abs(found.probabilities["normal"] - right).mean() < 0.15
    assert {"data[embedding_0]", "data[log_size]"} <= set(found.statistics)
    assert not any("estimate" in name for name in found.statistics)


def test_one_data_set_is_one_observation(tables, observed):
    tables = {name: table.with_observed(np.zeros(9)) for name, table in first(tables, 60).items()}
    one = pk.compare_models(tables, observed[0], **QUICK)
    own = {name: table.with_observed(observed[0]) for name, table in tables.items()}
    assert one.probabilities.shape == (2,)
    pd.testing.assert_series_equal(one.probabilities, pk.compare_models(own, **QUICK).probabilities)
    with pytest.raises(ValueError, match="has 2 column"):
        pk.compare_models(tables, np.ones((5, 2)), **QUICK)
    with pytest.raises(ValueError, match="is empty"):
        pk.compare_models(tables, [], **QUICK)
    with pytest.raises(ValueError, match=r"several as .*DataSets\.of"):
        pk.compare_models(tables, observed[:2], **QUICK)


def first(tables, count):
    return {
        name: dataclasses.replace(
            table, parameters=table.parameters[:count], statistics=table.statistics[:count]
        )
        for name, table in tables.items()
    }


def test_tables_without_an_observation(tables):
    with pytest.raises(ValueError, match="no observation"):
        pk.compare_models(tables, **QUICK)


def test_tables_with_room_for_different_sizes_are_one_width(tables, observed):
    narrow = tables["normal"]
    wide = pk.ReferenceTable.from_sets(
        pd.DataFrame({"mean": narrow.parameters[:, 0]}),
        [narrow.data_sets()[i] for i in range(len(narrow))],
        largest=80,
    )
    together = of_one_width({"a": narrow, "b": wide})
    np.testing.assert_array_equal(together["a"].statistics, wide.statistics)
    assert together["b"] is wide
    plain = dataclasses.replace(narrow, statistic_columns=type(narrow.statistic_columns).scalars(LABELS))
    assert of_one_width({"a": plain})["a"] is plain


LABELS = [f"s{i}" for i in range(61)]


def test_two_models_that_are_one_are_not_told_apart():
    rng = np.random.default_rng(0)
    two = {
        name: pk.ReferenceTable.from_sets(
            pd.DataFrame({"mean": rng.normal(size=150)}), [rng.normal(size=9) for _ in range(150)]
        )
        for name in "ab"
    }
    found = pk.compare_models(two, DataSets.of([rng.normal(size=9) for _ in range(20)]), **QUICK)
    assert np.mean(np.abs(found.probabilities["a"] - 0.5)) < 0.2
    assert abs(found.held_out.log_score - np.log(0.5)) < 0.15


def test_data_sets_beside_other_statistics():
    def data(rng, mean, size):
        return rng.normal(mean, 1.0, size)

    def model(scale):
        with pm.Model() as made:
            mean = pm.Normal("mean", 0, scale)
            pk.set_simulator("y", data, mean, observed=np.zeros(6))
            pm.Simulator("z", data, mean, sum_stat="mean", observed=np.zeros(3))
        return made

    made = pk.simulate_models({"a": model(1), "b": model(3)}, 60, random_seed=1, progressbar=False)
    found = pk.compare_models(made, **QUICK)
    assert found.statistics[-1] == "z"
    assert found.statistics[0] == "y[embedding_0]"
    with pytest.raises(ValueError, match="leave `observed` out"):
        pk.compare_models(made, np.zeros(6), **QUICK)
