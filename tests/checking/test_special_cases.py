"""Parts of the checks by themselves, against formulas and with what they ask replaced by what is known."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.spatial.distance import cdist
from scipy.stats import gaussian_kde

import pymc_kbr as pk
from pymc_kbr.arrays import support as near_rows
from pymc_kbr.arrays.support import Inside, Support
from pymc_kbr.checking import coarseness as coarse_module
from pymc_kbr.checking import local_classifier, predictive_check, statistic_contributions
from pymc_kbr.checking.calibrate import _nearest_parameters
from pymc_kbr.checking.calibration import Calibration, density_transform, recalibrated
from pymc_kbr.checking.coarseness import Coarseness, coarseness, coarseness_of
from pymc_kbr.checking.diagnostics import _misspecified
from pymc_kbr.checking.held_out import HeldOut, _density_of, hold_out
from pymc_kbr.checking.observation_support import ObservationSupport
from pymc_kbr.checking.predictive_check import squared_discrepancies
from pymc_kbr.checking.prior_sensitivity import _by_column
from pymc_kbr.estimators.fitted_table import build_table
from pymc_kbr.kernels import median_heuristic
from pymc_kbr.posterior.scores import energy_score
from pymc_kbr.tables.columns import Columns
from tests.checking.looked_at import looked_at


def a_table(n=300, d=3, observed=None, noise=()):
    rng = np.random.default_rng(2)
    theta = rng.normal(size=(n, 1))
    x = theta + rng.normal(size=(n, d)) * np.array([1.0, 100.0, 0.01])[:d]
    names = ["s", "t", "u"][:d]
    frame = pd.DataFrame(np.hstack([theta, x]), columns=["a", *names])
    made = pk.ReferenceTable.from_dataframe(frame, parameters=["a"], statistics=names, observed=observed)
    return dataclasses.replace(made, origin=dataclasses.replace(made.origin, noise=noise))


class Drawn:
    """A posterior by its draws alone."""

    def __init__(self, centre, deviation=1.0):
        self.centre, self.deviation = np.atleast_1d(centre), deviation

    def draw(self, count, rng):
        rng = np.random.default_rng(rng)
        return self.centre + self.deviation * rng.normal(size=(count, len(self.centre)))


class Remembers(pk.Rejection):
    """An estimator whose posteriors are the first statistic with unit deviation."""

    def fit(self, parameters, statistics, support=None, **given):
        self.given = (parameters, statistics, support, given)
        return self

    def for_scores(self):
        return self

    def condition(self, observed):
        found = [Drawn(row[0]) for row in np.atleast_2d(observed)]
        return found if np.ndim(observed) == 2 else found[0]


# --- rows that are held out ---


def test_rows_held_out_are_no_rows_of_the_fit_and_each_once():
    table = a_table()
    for around in (None, [0.3, 0.0, 0.3]):
        held = hold_out(Remembers(), table, 60, around, np.random.default_rng(1))
        assert not set(held.rows) & set(held.fitted)
        assert len(np.unique(held.rows)) == len(held.rows) <= 60
        parameters, statistics, support, given = held.estimator.given
        np.testing.assert_array_equal(parameters, table.parameters[held.fitted])
        np.testing.assert_array_equal(statistics, table.statistics[held.fitted])
        assert support is table.support
        assert isinstance(given["random_seed"], np.random.Generator)
        if around is None:
            assert given["ratio"] is None
            assert len(held.fitted) == 240
        else:
            # Level where a quarter and more of the posterior's draws lie.
            assert given["ratio"].max() == 1
            assert 0.05 < np.mean(given["ratio"] == 1) < 0.9
    other = hold_out(Remembers(), table, 60, None, np.random.default_rng(2))
    assert set(other.rows) != set(hold_out(Remembers(), table, 60, None, np.random.default_rng(1)).rows)


def test_densities_are_over_what_varies_in_the_draws():
    draws = np.random.default_rng(1).normal(size=(50, 2))
    draws[:, 1] = 3.0
    points = np.array([[0.0, 3.0], [0.5, -9.0]])
    np.testing.assert_allclose(_density_of(draws)(points), gaussian_kde(draws[:, 0])(points[:, 0]))
    with pytest.raises(ValueError, match="one point; nothing lies near it"):
        _density_of(np.ones((50, 2)))


def test_calibration_is_in_units_of_the_rows_of_the_fit():
    table = a_table()
    found = pk.calibrate(Remembers(), table, rows=20, draws=30, random_seed=5, progressbar=False)
    rng = np.random.default_rng(5)
    rows = rng.choice(300, 20, replace=False)
    unit = table.parameters[np.setdiff1d(np.arange(300), rows)].std(axis=0)
    first = Drawn(table.statistics[rows[0], 0]).draw(30, rng)
    np.testing.assert_allclose(found.contraction[0], 1 - first.var(axis=0) / unit**2)
    truth = table.parameters[rows[0]]
    assert found.energy_scores[0] == pytest.approx(energy_score(first / unit, truth / unit))
    np.testing.assert_array_equal(found.recovery.truths[0], truth)
    np.testing.assert_allclose(found.recovery.quantiles[0], np.quantile(first, [0.05, 0.5, 0.95], axis=0))


def test_the_reference_is_the_nearest_row_of_the_fit_in_deviations():
    table = a_table()
    held = HeldOut(np.arange(10), np.arange(10, 300), Remembers())
    found = _nearest_parameters(held, table, table.statistics[:10])
    unit = table.statistics[10:].std(axis=0)
    for i in range(10):
        away = np.linalg.norm((table.statistics[10:] - table.statistics[i]) / unit, axis=1)
        np.testing.assert_array_equal(found[i], table.parameters[10 + np.argmin(away)])


def test_joint_transforms_do_not_depend_on_units():
    table = a_table()
    estimator = pk.Adjusted(pk.Rejection(60), "none", smoothing="none")
    given = {"rows": 15, "draws": 20, "random_seed": 1, "progressbar": False}
    one = pk.calibrate(estimator, table, **given)
    scaled = dataclasses.replace(
        table, parameters=1e3 * table.parameters, statistics=table.statistics * [1, 7, 50]
    )
    np.testing.assert_allclose(
        pk.calibrate(estimator, scaled, **given).joint.together(), one.joint.together()
    )


def test_recalibrated_draws_are_of_the_same_parameters_and_inside_their_support():
    table = a_table()
    u = np.random.default_rng(0).random((50, 1))
    calibration = Calibration(u, np.zeros((50, 1)), np.zeros(50), Columns.scalars(["a"]), 50)
    draws = np.random.default_rng(1).uniform(0.2, 0.8, size=(40, 1))
    moved, less_far = recalibrated(draws, calibration, table)
    np.testing.assert_array_equal(moved, calibration.recalibrated(draws))
    assert less_far == 0
    other = dataclasses.replace(calibration, columns=Columns.scalars(["b"]))
    with pytest.raises(ValueError, match="parameters"):
        recalibrated(draws, other, table)


def test_recalibrated_draws_go_less_far_where_parameters_are_tied():
    """Draws below a line, which recalibration of each parameter by itself would carry across it."""
    u = np.random.default_rng(0).beta(0.5, 0.5, (400, 2))  # intervals were too narrow
    calibration = Calibration(u, np.zeros((400, 2)), np.zeros(400), Columns.scalars(["a", "b"]), 400)
    draws = np.random.default_rng(1).dirichlet([2, 2, 0.5], size=300)[:, :2]
    assert np.all(draws.sum(axis=1) < 1)
    below = Inside(lambda points: points.sum(axis=1) < 1, (0, 1))
    support = dataclasses.replace(Support.from_bounds({"a": (0, 1), "b": (0, 1)}, ["a", "b"]), inside=below)
    table = pk.ReferenceTable.from_dataframe(
        pd.DataFrame({"a": draws[:, 0], "b": draws[:, 1], "x": draws[:, 0]}),
        parameters=["a", "b"],
        statistics=["x"],
    )
    table = dataclasses.replace(table, support=support)
    alone, (moved, less_far) = calibration.recalibrated(draws), recalibrated(draws, calibration, table)
    outside = alone.sum(axis=1) >= 1
    assert less_far == outside.mean() > 0
    assert np.all(moved.sum(axis=1) < 1)
    np.testing.assert_array_equal(moved[~outside], alone[~outside])
    step, whole = (moved - draws)[outside], (alone - draws)[outside]
    share = (step * whole).sum(axis=1) / (whole**2).sum(axis=1)
    np.testing.assert_allclose(step, share[:, None] * whole, atol=1e-12)
    assert np.all((share >= 0) & (share <= 0.5 + 1e-9))


def test_whole_numbers_are_recalibrated_as_others_are():
    u = np.random.default_rng(0).beta(2, 3, (50, 1))
    calibration = Calibration(u, np.zeros((50, 1)), np.zeros(50), Columns.scalars(["a"]), 50)
    draws = np.random.default_rng(1).permutation(40)[:, None]
    np.testing.assert_array_equal(calibration.recalibrated(draws), calibration.recalibrated(1.0 * draws))


def test_ten_rows_and_half_of_a_table_can_be_held_out():
    table, given = a_table(20), {"draws": 10, "progressbar": False}
    assert len(pk.calibrate(Remembers(), table, rows=10, **given).pit) == 10
    for rows in (9, 11):
        with pytest.raises(ValueError, match="between 10 and 10 can be held out"):
            pk.calibrate(Remembers(), table, rows=rows, **given)


@pytest.mark.parametrize("unit", [1e-8, 1e8])
def test_density_transforms_know_no_units(unit):
    rng = np.random.default_rng(1)
    draws, truth = rng.normal(size=(60, 2)), np.array([0.5, -0.5])
    found = [density_transform(u * draws, u * truth, np.random.default_rng(2)) for u in (1.0, unit)]
    assert found[0] == pytest.approx(found[1])
    assert 0.05 < found[0] < 0.95


# --- what statistics contribute ---


def test_rises_are_shares_of_the_mean_score_with_errors_of_differences(monkeypatch):
    table, asked = a_table(), []
    before = np.linspace(1.0, 3.0, 60)
    rise = {0: 0.0, 1: np.cos(np.arange(60)), 2: np.full(60, 0.5)}

    def scores(fitted, statistics, truths, unit, seeds):
        left = None if isinstance(fitted, Remembers) else ({0, 1, 2} - set(fitted)).pop()
        asked.append((left, statistics, truths, unit))
        return (
            (before, np.array([0.8])) if left is None else (before + rise[left], np.array([0.8 - 0.1 * left]))
        )

    monkeypatch.setattr(statistic_contributions, "_scores", scores)
    monkeypatch.setattr(
        statistic_contributions, "on_statistics", lambda estimator, rest: tuple(rest.tolist())
    )
    held = HeldOut(np.arange(60), np.arange(60, 300), Remembers())
    around = []
    monkeypatch.setattr(statistic_contributions, "hold_out", lambda *given: around.append(given[3]) or held)
    found = pk.statistic_contributions(Remembers(), table, observed=[1.0, 2.0, 3.0], progressbar=False)
    assert around == [[1.0, 2.0, 3.0]]
    np.testing.assert_allclose(found.energy_score, [0, np.mean(rise[1]) / 2, 0.25], atol=1e-12)
    np.testing.assert_allclose(found.standard_error, [0, np.std(rise[1]) / np.sqrt(60) / 2, 0], atol=1e-12)
    np.testing.assert_allclose(found.summary().loc[["s", "t", "u"], "contraction_lost[a]"], [0, 0.1, 0.2])
    assert [left for left, *_ in asked] == [None, 0, 1, 2]
    for left, statistics, truths, unit in asked:
        rest = [j for j in range(3) if j != left]
        np.testing.assert_array_equal(statistics, table.statistics[:60][:, rest])
        np.testing.assert_array_equal(truths, table.parameters[:60])
        np.testing.assert_allclose(unit, table.parameters[60:].std(axis=0))


def test_scores_are_in_deviations_and_by_the_seed():
    statistics, truths, unit = np.arange(5.0)[:, None], np.arange(5.0)[:, None] + 1, np.array([10.0])
    seeds = np.random.SeedSequence(3)
    scores, contraction = statistic_contributions._scores(Remembers(), statistics, truths, unit, seeds)
    rng = np.random.default_rng(np.random.SeedSequence(3))
    drawn = [Drawn(row).draw(200, rng) for row in statistics]
    expected = [energy_score(d / 10, t / 10, fair=True) for d, t in zip(drawn, truths, strict=True)]
    np.testing.assert_allclose(scores, expected)
    np.testing.assert_allclose(contraction, np.median([1 - d.var(axis=0) / 100 for d in drawn], axis=0))


# --- the predictive check ---


class Result(dict):
    class Group:
        def __init__(self, **variables):
            self.data_vars = variables

    def __init__(self, count, chains=1):
        a = np.arange(float(count)).reshape(chains, -1)
        super().__init__(posterior=self.Group(a=a, b=a[..., None] + 1000 * np.arange(3)))


@pytest.mark.parametrize("exchangeable", [True, False])
@pytest.mark.parametrize("count", [60, 8])
def test_distances_leave_the_set_itself_out_and_the_observation_counts(exchangeable, count, monkeypatch):
    rng, asked = np.random.default_rng(1), []
    data = rng.normal(0.3, 1, size=(6, 2))
    simulated = rng.normal(size=(20, 6, 2)) * [1.0, 50.0]

    def simulate(model, values, given):
        asked.append(values["a"])
        np.testing.assert_array_equal(values["b"], values["a"][:, None] + 1000 * np.arange(3))
        return {"y": simulated}, {"y": data}, {"y": exchangeable}

    monkeypatch.setattr(predictive_check, "simulate_data", simulate)
    found = pk.predictive_check(Result(count, chains=2), draws=20, random_seed=1)
    assert len(asked[0]) == 20
    assert (len(np.unique(asked[0])) == 20) == (count == 60)
    sets = [np.reshape(d, (6, 2) if exchangeable else (1, 12)) for d in (data, *simulated)]
    apart = squared_discrepancies(sets)
    assert found.observed["y"] == pytest.approx(apart[0, 1:].mean())
    expected = [np.delete(apart[i, 1:], i - 1).mean() for i in range(1, 21)]
    np.testing.assert_allclose(found.simulated["y"], expected)
    assert found.p_values["y"] == (1 + np.sum(expected >= apart[0, 1:].mean())) / 21
    assert ("y" in found.tests) == exchangeable
    if exchangeable:
        pooled = np.vstack(sets)
        assert found.tests["y"].bandwidths == pytest.approx((median_heuristic(pooled / pooled.std(axis=0)),))
    for seed in (1, 2):
        pk.predictive_check(Result(count, chains=2), draws=20, random_seed=seed)
    np.testing.assert_array_equal(asked[1], asked[0])
    assert not np.array_equal(asked[2], asked[0])


def test_the_bandwidth_that_is_asked_for_is_that_of_distances_and_test(monkeypatch):
    rng = np.random.default_rng(1)
    data, simulated = rng.normal(0.3, 1, size=(6, 1)), rng.normal(size=(20, 6, 1))
    monkeypatch.setattr(
        predictive_check, "simulate_data", lambda *_: ({"y": simulated}, {"y": data}, {"y": True})
    )
    found = pk.predictive_check(Result(30), draws=20, bandwidth="bayesian", random_seed=1)
    apart = squared_discrepancies([data, *simulated], "bayesian")
    assert found.observed["y"] == pytest.approx(apart[0, 1:].mean())
    assert found.observed["y"] != pytest.approx(squared_discrepancies([data, *simulated])[0, 1:].mean())


def test_the_test_of_pooled_sets_is_of_some_rows_spread_over_all(monkeypatch, set_default):
    set_default(predictive_check._tested, entries=10)
    sets = [np.linspace(0, 1, 10)[:, None], *(np.full((5, 1), i) + np.arange(5.0)[:, None] for i in range(8))]
    seen = []
    monkeypatch.setattr(predictive_check, "mmd_test", lambda x, y, **given: seen.append((x, y)))
    predictive_check._tested(sets, "median", np.random.default_rng(1))
    x, y = seen[0]
    assert len(y) == 10
    assert y.max() / x.max() == pytest.approx(11)  # the last row of the last set
    assert np.vstack([x, y]).std() == pytest.approx(1)


# --- rows near a posterior ---


def test_regions_have_the_draws_metric_and_choose_rows_by_it():
    rng = np.random.default_rng(4)
    root = np.array([[1e-3, 0.0], [5.0, 20.0]])
    draws = np.array([2.0, 100.0]) + rng.normal(size=(400, 2)) @ root.T
    region = near_rows.region_of(draws, Support.unbounded(2))
    theta = np.array([2.0, 100.0]) + 8 * rng.normal(size=(3000, 2)) @ root.T
    away = region.distances(theta)
    apart = theta - draws.mean(axis=0)
    expected = np.sqrt(np.sum(apart * np.linalg.solve(np.cov(draws.T), apart.T).T, axis=1))
    np.testing.assert_allclose(away, expected, rtol=1e-3)
    ratio = np.where(np.arange(3000) % 2, 1.0, 0.0)
    near = region.rows(theta, ratio, rng, 40)
    inside = np.flatnonzero((away < 3.0 * np.sqrt(2)) & (ratio > 0))
    assert len(inside) > 40
    assert set(near.rows) == set(inside)
    np.testing.assert_array_equal(near.more, sorted(inside, key=lambda i: away[i]))
    assert np.any(np.diff(away[near.rows]) < 0)
    few = region.rows(theta, None, rng, 2500)
    assert set(few.more) == set(np.argsort(away)[:2500])
    assert len(few.rows) == 300
    assert set(few.rows) <= set(few.more)


def test_numbers_of_simulations_go_with_the_volume():
    """Twice as narrow in each of two dimensions takes four times as many."""
    theta = np.random.default_rng(1).uniform(-1, 1, (2000, 2))
    one, other = (
        near_rows.Region(np.zeros(2), s * np.eye(2), Support.unbounded(2)).simulations(theta)
        for s in (0.02, 0.01)
    )
    assert other == pytest.approx(4 * one)
    wide = near_rows.Region(np.zeros(2), np.eye(2), Support.unbounded(2)).simulations(theta)
    assert wide == 2 * 2000


# --- coarseness ---


def one(moved=0.0, resized=0.0):
    return Coarseness(np.array([moved]), np.array([resized]), 1e4, 100, ("a",))


def test_too_narrow_is_as_coarse_as_too_wide():
    assert one(resized=-0.5).coarse
    assert one(resized=-0.5).size == one(resized=0.5).size
    assert not one(moved=0.69, resized=0.44).coarse


@pytest.mark.parametrize(
    ("first", "second", "looks", "size"),
    [
        (0.5, None, 1, 0.5),
        (2.0 + 0.1, None, 1, 2.0 + 0.1),
        (1.5, 0.6, 2, 0.6),
        (1.5, 1.8, 2, 1.5),
        (1.5, None, 2, 1.5),
    ],
)
def test_a_second_look_with_more_rows_is_taken_where_the_first_is_not_clear(
    first, second, looks, size, monkeypatch
):
    made = [one(moved=0.7 * first), None if second is None else one(moved=0.7 * second)]
    fewest = []
    monkeypatch.setattr(coarse_module, "_compared", lambda *given: fewest.append(given[-2]) or made.pop(0))
    found = coarseness(Drawn(0.0), a_table(), random_seed=1)
    assert found.size == pytest.approx(size)
    assert fewest == [200, 300][:looks]


def test_means_are_apart_in_the_smaller_deviation(monkeypatch):
    table = a_table()
    for mine, theirs in ((1.0, 0.2), (0.2, 0.3)):  # both lie among the rows
        monkeypatch.setattr(coarse_module, "_other", lambda *_, s=theirs: Drawn(0.1, s))
        found = coarseness(Drawn(0.0, mine), table, random_seed=1)
        assert found.moved[0] == pytest.approx(0.1 / 0.2, rel=0.5)
        assert found.resized[0] == pytest.approx(np.log(mine / theirs), abs=0.2)
        narrow = near_rows.region_of(Drawn(0.0 if mine < theirs else 0.1, 0.2).draw(500, 3), table.support)
        assert found.simulations == pytest.approx(narrow.simulations(table.parameters), rel=0.3)
    monkeypatch.setattr(coarse_module, "_other", lambda *_: Drawn(0.5, 0.0))
    assert coarseness(Drawn(0.0), table, random_seed=1) is None
    two = dataclasses.replace(
        table,
        parameters=np.hstack([table.parameters, 50 + table.parameters]),
        parameter_columns=Columns.scalars(["a", "b"]),
        support=Support.unbounded(2),
    )
    monkeypatch.setattr(coarse_module, "_other", lambda *_: Drawn([0.0, 50.0]))
    assert coarseness(Drawn([0.0, 50.0]), two, random_seed=1).moved.max() < 0.3  # of 500 draws each


def test_the_other_posterior_is_of_rows_with_noise_and_their_weights(monkeypatch):
    table, seen = a_table(observed=[0.1, 0.2, 0.3], noise=(0.5,)), []

    class Learns:
        def __init__(self, *_):
            pass

        def for_scores(self):
            return self

        def for_draws(self, count):
            return self

        def fit(self, parameters, statistics, support, **given):
            seen.append((parameters, statistics, given))
            return self

        def condition(self, observed):
            return Drawn(0.0)

    monkeypatch.setattr(coarse_module, "KernelLikelihood", Learns)
    rows = np.arange(120)
    near = near_rows.NearRows(rows, rows)
    ratio = np.linspace(0.1, 2.0, 300)
    coarse_module._other(table, near, ratio, lambda t: 0 * t[:, 0], None, np.random.default_rng(1))
    parameters, statistics, given = seen[0]
    np.testing.assert_array_equal(parameters, table.parameters[:120])
    np.testing.assert_array_equal(given["ratio"], ratio[:120])
    noise = statistics - table.statistics[:120]
    assert noise.std() == pytest.approx(0.5, rel=0.2)
    ratio = np.exp(-2 * (table.parameters[:, 0] - 1) ** 2)
    density = coarse_module._prior_density(table, ratio, None, np.random.default_rng(1))
    # A standard normal times that factor is a normal of mean 4/5 and variance 1/5.
    at = density(np.array([[0.8], [-1.5]]))
    assert at[0] - at[1] == pytest.approx(0.5 * 2.3**2 * 5, rel=0.4)


def test_rows_are_weighted_as_those_of_the_fit(monkeypatch):
    table = a_table(observed=[0.1, 0.2, 0.3])
    monkeypatch.setattr(coarse_module, "coarseness", lambda *given, **more: more["ratio"])
    rng = np.random.default_rng(1)
    fitted = pk.Rejection(30).fit(table.parameters, table.statistics, random_seed=1)
    assert coarseness_of(fitted, None, table, None, rng) is None
    ratio = np.maximum(np.linspace(-0.5, 1.5, 300), 0)  # rows without density are left out of the fit
    fitted = pk.Rejection(30).fit(table.parameters, table.statistics, ratio=ratio, random_seed=1)
    found = coarseness_of(fitted, None, table, None, rng)
    np.testing.assert_allclose(found / found.sum(), ratio / ratio.sum())


# --- the model, the observation, the prior ---


def test_noise_of_the_observation_is_put_on_the_rows():
    rng = np.random.default_rng(1)
    theta = rng.normal(size=(400, 1))
    frame = pd.DataFrame(np.hstack([theta, theta, theta]), columns=["a", "s", "t"])
    table = pk.ReferenceTable.from_dataframe(
        frame, parameters=["a"], statistics=["s", "t"], observed=[0.2, 0.5]
    )
    assert pk.misspecification(table).pvalue < 0.01
    noisy = dataclasses.replace(table, origin=dataclasses.replace(table.origin, noise=(0.3,)))
    one, other = (pk.misspecification(noisy, random_seed=seed) for seed in (1, 2))
    assert min(one.pvalue, other.pvalue) > 0.1
    assert one.statistic != other.statistic


def test_a_statistic_that_is_another_one_again_changes_nothing():
    table = a_table(observed=[0.1, 20.0, 0.3])
    names = [*table.statistic_names, "again"]
    twice = dataclasses.replace(
        table,
        statistics=np.column_stack([table.statistics, table.statistics[:, 1]]),
        observed=np.append(table.observed, table.observed[1]),
        statistic_columns=Columns.scalars(names),
    )
    found, expected = pk.misspecification(twice), pk.misspecification(table)
    assert np.all(np.isfinite(found.references))
    assert found.pvalue == pytest.approx(expected.pvalue, abs=0.1)


def test_a_model_is_judged_by_draws_of_its_whole_prior_alone():
    def doubted(table):
        return _misspecified(looked_at(table)) is not None

    few, many = a_table(observed=[50.0, 0.0, 0.0]), a_table(n=1000, observed=[50.0, 0.0, 0.0])
    assert not doubted(few)  # one in 301 is no doubt
    assert doubted(many)
    between = dataclasses.replace(many, origin=dataclasses.replace(many.origin, between_bounds=True))
    assert not doubted(between)
    assert not doubted(dataclasses.replace(many, prior_ratio=np.ones(1000)))


def test_edges_are_those_of_the_prior_and_not_of_where_rows_were_drawn():
    table = a_table(observed=[0.1, 20.0, 0.3])
    below = table.parameters[:, 0] < 0
    edges = looked_at(dataclasses.replace(table, prior_ratio=below.astype(float))).edges[:, 0]
    np.testing.assert_allclose(edges, np.quantile(table.parameters[below, 0], [0.01, 0.99]), atol=0.1)
    assert looked_at(table).edges[1, 0] > 1


def test_an_observation_is_far_beyond_all_but_half_a_percent():
    references = np.arange(1000.0)
    found = [ObservationSupport(d, references, np.zeros(1), np.zeros(1), ["s"]).far for d in (994.5, 995.5)]
    assert found == [False, True]
    parts = np.array([0.05, 0.6, 0.35])
    support = ObservationSupport(1.0, references, parts, np.zeros(3), ["s", "t", "u"])
    assert support.worst() == ["t", "u"]
    assert support.worst(1) == ["t"]
    table = a_table(observed=[0.1, 20.0, 0.3])
    made = pk.observation_support(table)
    np.testing.assert_array_equal(
        made.position, [np.mean(table.statistics[:, j] < table.observed[j]) for j in range(3)]
    )
    assert made.contributions.sum() == pytest.approx(1)


@pytest.mark.parametrize("noise", [(), (0.3, 30.0, 0.003)])
def test_distances_are_to_the_ten_nearest_other_rows_in_deviations(noise):
    table = a_table(n=150, observed=[2.0, 20.0, 0.3], noise=noise)
    found, unit = pk.observation_support(table), table.statistics.std(axis=0)
    x, y = table.statistics / unit, table.observed / unit
    away = np.linalg.norm(x - y, axis=1)
    near = np.argsort(away)[:10]
    assert found.distance == pytest.approx(away[near].mean())
    apart = (y - x[near].mean(axis=0)) ** 2
    np.testing.assert_allclose(found.contributions, apart / apart.sum())
    moved = table.noise * np.random.default_rng(0).normal(size=x.shape) / unit
    between = cdist(x + moved, x)
    nearest = np.argsort(between, axis=1)[:, :11]
    gone = [i not in rows for i, rows in enumerate(nearest)]
    # Without the row itself; where noise has moved it away all of the ten nearest are others.
    expected = [between[i, rows[rows != i][:10]].mean() for i, rows in enumerate(nearest)]
    np.testing.assert_allclose(found.references, expected)
    assert 0 < np.sum(gone) < 150 if noise else not np.any(gone)


def test_what_is_missing_in_an_observation_is_left_out():
    table = a_table(observed=[0.1, 20.0, 0.3])
    expected = pk.observation_support(table.with_statistics(["s", "u"]))
    for scaled in (None, build_table(table.parameters, table.statistics)):
        found = pk.observation_support(table, [0.1, np.nan, 0.3], scaled=scaled)
        assert found.names == ["s", "u"]
        assert found.distance == expected.distance
        for name in ("references", "contributions", "position"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    for given, words in ((None, "has no observation"), ([0.1, 0.3], r"shape \(2,\); the table has 3")):
        with pytest.raises(ValueError, match=words):
            pk.observation_support(a_table(), given)


def test_sensitivities_use_each_numbers_place():
    numbers = xr.Dataset({"a": 1.0, "m": ("i", [2.0, 3.0]), "k": (("i", "j"), [[4.0], [5.0]])})
    assert _by_column(numbers) == {"a": 1, "m[0]": 2, "m[1]": 3, "k[0, 0]": 4, "k[1, 0]": 5}


# --- the local classifier ---


DIRECTIONS = 10.0


def by_hand(learnt, at, weights, member):
    """The mean square of the discriminant that tells one member of each row from the others."""
    centred = learnt - learnt.mean(axis=1, keepdims=True)
    spread = sum(w * c.T @ c / (learnt.shape[1] - 1) for w, c in zip(weights, centred, strict=True))
    values = np.linalg.eigvalsh(spread)
    ridge = local_classifier._ridge(np.maximum(values, 0), DIRECTIONS)
    direction = np.linalg.solve(spread + ridge * np.eye(len(spread)), weights @ centred[:, member])
    return np.mean(((at - at.mean(axis=0)) @ direction) ** 2)


def test_the_statistic_is_of_the_truth_against_draws_and_its_null_of_any_member():
    rng = np.random.default_rng(1)
    learnt, at = rng.normal(size=(12, 2, 3)), rng.normal(size=(9, 3)) + 7
    weights = rng.dirichlet(np.ones(12))
    found = local_classifier._tested(learnt, at, weights, 5, DIRECTIONS, rng)
    assert found.statistic == pytest.approx(by_hand(learnt, at, weights, 0), rel=1e-6)
    assert found.effective_rows == pytest.approx(1 / np.sum(weights**2))
    assert len(found.null) == 5
    single = rng.normal(size=(1, 4, 3))
    null = local_classifier._tested(single, at, np.ones(1), 20, DIRECTIONS, rng).null
    possible = [by_hand(single, at, np.ones(1), member) for member in range(4)]
    assert np.all(np.abs(null[:, None] - possible).min(axis=1) < 1e-6 * max(possible))
    assert len(np.unique(np.round(null, 6))) > 1


def test_the_ridge_leaves_so_many_directions():
    for count, directions, wanted in ((100, 10.0, 10), (100, 30.0, 30), (8, 10.0, 4)):
        values = np.random.default_rng(1).exponential(size=count)
        ridge = local_classifier._ridge(values, directions)
        assert np.sum(values / (values + ridge)) == pytest.approx(wanted, rel=1e-6)
        for unit in (1e-20, 1e20):
            assert local_classifier._ridge(unit * values, directions) == pytest.approx(unit * ridge)


def test_points_are_in_deviations_of_draws_and_features_hold_their_products():
    rng = np.random.default_rng(1)
    draws, points = 3 + 2 * rng.normal(size=(500, 2)), rng.normal(size=(4, 2))
    found = local_classifier._in_deviations(points, draws)
    np.testing.assert_allclose(found, (points - draws.mean(axis=0)) / draws.std(axis=0))
    features = local_classifier._ClassifierFeatures.drawn(2, rng)
    columns = features(points)
    np.testing.assert_allclose(columns[:, :2], points)
    products = np.column_stack([points[:, 0] ** 2, points[:, 0] * points[:, 1], points[:, 1] ** 2])
    np.testing.assert_allclose(columns[:, 2:5], products)
    together, own = columns[:, 5:-4], columns[:, -4:]
    np.testing.assert_allclose(np.sum(together**2, axis=1), 1)
    phases = 1.5 * points
    np.testing.assert_allclose(own, np.hstack([np.cos(phases), np.sin(phases)]))


def test_the_classifier_has_twice_as_many_directions_as_means_and_covariances_or_ten():
    rng = np.random.default_rng(1)
    directions = [local_classifier._ClassifierFeatures.drawn(p, rng).directions for p in (1, 2, 3, 10)]
    assert directions == [10, 10, 18, 130]


def test_near_rows_count_most_in_deviations_of_the_statistics():
    statistics = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 100.0], [50.0, 0.0]])
    found = local_classifier._nearness(statistics, np.array([0.0, 0.0]), np.array([1.0, 100.0]))
    assert found.sum() == pytest.approx(1)
    assert found[1] == pytest.approx(found[2])
    assert found[0] > found[1] > 1e3 * found[3]


def test_beyond_its_rows_a_near_likelihood_is_not_compared(monkeypatch):
    """Draws farther than all rows are extrapolated: a wide normal density is even among rows from -3 to 3."""
    table = dataclasses.replace(a_table(), parameters=np.linspace(-3.0, 3.0, 300)[:, None])
    monkeypatch.setattr(coarse_module, "_other", lambda *_: Drawn(0.0, 6.0))
    found = coarseness(Drawn(0.0), table, random_seed=1)
    assert found.resized[0] == pytest.approx(np.log(1 / np.sqrt(3)), abs=0.15)  # of some 190 draws
    monkeypatch.setattr(coarse_module, "_other", lambda *_: Drawn(60.0, 6.0))  # none among the rows
    assert coarseness(Drawn(0.0), table, random_seed=1).moved[0] == pytest.approx(60, rel=0.2)
