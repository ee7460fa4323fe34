"""Is an observation from the model at all, and which statistics tell about which parameters."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import pymc_kbr as pk
from pymc_kbr.hypothesis_tests import hsic_test
from pymc_kbr.kernels import Gaussian, median_heuristic


def draws(rows, rng):
    """A parameter, and three statistics of it that depend on each other."""
    theta = rng.normal(size=(rows, 1))
    x = theta + [[1.0, 2.0, 0.5]] * rng.normal(size=(rows, 1)) + 0.2 * rng.normal(size=(rows, 3))
    return np.hstack([theta, x])


def table(rows=400, seed=1, observed=None):
    frame = pd.DataFrame(draws(rows, np.random.default_rng(seed)), columns=["theta", "s", "t", "u"])
    return pk.ReferenceTable.from_dataframe(
        frame, parameters=["theta"], statistics=["s", "t", "u"], observed=observed
    )


def test_pvalue_is_a_rank_of_mean_kernel_values(rng):
    made, observed = table(30), np.array([2.0, -1.0, 0.5])
    points = np.vstack([observed, made.statistics])
    covariance = np.cov(points.T)
    root = np.linalg.cholesky(np.linalg.inv(covariance))  # any root of it gives the same distances
    white = points @ root
    kernel = Gaussian(median_heuristic(white))
    means = [np.mean([kernel(p[None], q[None])[0, 0] for j, q in enumerate(white) if j != i])
             for i, p in enumerate(white)]  # fmt: skip
    found = pk.misspecification(made, observed)
    assert found.statistic == pytest.approx(-means[0])
    np.testing.assert_allclose(found.references, -np.array(means[1:]))
    assert found.pvalue == np.mean(np.array(means) <= means[0])


@pytest.mark.statistical
def test_level_on_five_hundred_data_sets_of_the_model():
    rng = np.random.default_rng(3)
    pvalues = []
    for seed in range(500):
        observed = draws(1, rng)[0, 1:]
        pvalues.append(pk.misspecification(table(99, 1000 + seed), observed).pvalue)
    for level in (0.05, 0.2):
        lower, upper = binom.ppf([5e-4, 1 - 5e-4], 500, level) / 500
        assert lower <= np.mean(np.array(pvalues) <= level) <= upper


def test_what_no_single_statistic_shows_is_found():
    made = table(2000)
    odd = np.array([2.0, -2.0, 0.0])
    shares = np.mean(made.statistics < odd, axis=0)
    assert np.all((shares > 0.05) & (shares < 0.95))
    assert pk.misspecification(made, odd).pvalue <= 0.005
    assert pk.misspecification(made, made.statistics.mean(axis=0)).pvalue > 0.5


def test_far_outside_agrees_with_the_warning():
    for observed in ([50.0, 0.0, 0.0], [1e6, 1e6, 1e6]):
        made = table(600, observed=observed)
        assert pk.observation_support(made).far
        assert pk.misspecification(made).pvalue == 1 / 601


def test_many_observations_are_two_samples(rng):
    made = table(300)
    same, other = draws(60, rng)[:, 1:], draws(60, rng)[:, 1:] * 1.5
    assert pk.misspecification(made, same, random_seed=1).pvalue > 0.01
    assert pk.misspecification(made, other, random_seed=1).pvalue < 0.01


def test_refusals():
    with pytest.raises(ValueError, match="has no observation"):
        pk.misspecification(table())
    with pytest.raises(ValueError, match="has 2 statistics; the table has 3"):
        pk.misspecification(table(), [1.0, 2.0])
    with pytest.raises(ValueError, match="of the observation hold NaN or infinity"):
        pk.misspecification(table(), [1.0, np.inf, 2.0])
    with pytest.raises(ValueError, match="all statistics of the observation are missing"):
        pk.misspecification(table(), [np.nan] * 3)
    with pytest.raises(TypeError, match="table is a DataFrame; give a ReferenceTable"):
        pk.misspecification(pd.DataFrame(np.ones((3, 2))), [1.0, 2.0])
    with pytest.raises(TypeError, match="table is a DataFrame; give a ReferenceTable"):
        pk.statistic_relevance(pd.DataFrame(np.ones((3, 2))))
    with pytest.raises(ValueError, match="rows is 4 and the table has 400; the tests need at least 5"):
        pk.statistic_relevance(table(), rows=4)
    with pytest.raises(ValueError, match="bandwidth is 'several'; it may be 'median' or 'bayesian'"):
        pk.statistic_relevance(table(), bandwidth="several")
    weighted = dataclasses.replace(table(), prior_ratio=np.linspace(0.5, 1.5, 400))
    with pytest.raises(ValueError, match="no draws of the prior but carry weights"):
        pk.misspecification(weighted, [1.0, 2.0, 3.0])


@pytest.fixture(scope="module")
def relevance():
    rng = np.random.default_rng(2)
    theta = rng.normal(size=(250, 2))
    x = np.column_stack([theta[:, 0], theta[:, 1] ** 2 + 0.1 * rng.normal(size=250), rng.normal(size=250)])
    frame = pd.DataFrame(np.hstack([theta, x, np.ones((250, 1))]), columns=["a", "b", "s", "t", "u", "v"])
    made = pk.ReferenceTable.from_dataframe(frame, parameters=["a", "b"], statistics=["s", "t", "u", "v"])
    return made, pk.statistic_relevance(made)


def test_relevance_is_that_of_the_test_of_each_pair(relevance):
    made, found = relevance
    for i in range(3):
        for j in range(2):
            pair = made.statistics[:, i], made.parameters[:, j]
            wanted = hsic_test(*pair, statistic="biased", null="gamma")
            own = [hsic_test(c, c, statistic="biased", null="gamma").statistic for c in pair]
            assert found.pvalue[i, j] == pytest.approx(wanted.pvalue)
            assert found.dependence[i, j] == pytest.approx(wanted.statistic / np.sqrt(own[0] * own[1]))
    assert found.dependence[0, 0] == pytest.approx(1.0)
    assert np.all(np.isnan(found.dependence[3]))
    assert np.all(np.isnan(found.pvalue[3]))
    np.testing.assert_array_equal(found.pvalue[:3] < 0.01, [[True, False], [False, True], [False, False]])


def test_relevance_as_a_table_and_a_picture(relevance):
    _, found = relevance
    frame = found.to_dataframe().set_index(["statistic", "parameter"])
    assert frame.loc[("t", "b"), "dependence"] == found.dependence[1, 1]
    assert frame.loc[("t", "b"), "pvalue"] == found.pvalue[1, 1]
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    axes = found.plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["s", "t", "u", "v"]
    crossed = {tuple(int(v) for v in place) for place in axes.collections[0].get_offsets()}
    assert crossed == {(1, 0), (0, 1), (0, 2), (1, 2), (0, 3), (1, 3)}


def test_an_observation_is_put_in_order_by_its_labels():
    made = table(300)
    labelled, plain = pd.Series({"u": 0.5, "s": 2.0, "t": -1.0}), [2.0, -1.0, 0.5]
    assert pk.misspecification(made, labelled).statistic == pk.misspecification(made, plain).statistic
    frame = pd.DataFrame(draws(20, np.random.default_rng(3))[:, 1:], columns=["s", "t", "u"])
    found = pk.misspecification(made, frame[["t", "u", "s"]], random_seed=1)
    assert found.pvalue == pk.misspecification(made, frame.to_numpy(), random_seed=1).pvalue
