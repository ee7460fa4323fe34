"""The candidates that are tried where none are named."""

import numpy as np
import pandas as pd
import pytest

import pymc_kbr as pk
from pymc_kbr.estimators.summaries import SUMMARIES
from pymc_kbr.selection import select as select_module
from pymc_kbr.selection.select import default_candidates, heavy_where_defined
from pymc_kbr.selection.selection import label
from pymc_kbr.tables.columns import Columns
from pymc_kbr.tables.origin import Failures

OF_ESTIMATES = "location_scale", "joint_posterior_mean"
OF_LINEAR_ESTIMATES = "location_scale", "linear_posterior_mean"


def inner(candidate):
    return candidate.estimator if isinstance(candidate, pk.Adjusted) else candidate


def every(n, d=1, **settings):
    tried, fallbacks = default_candidates(n, d, **settings)
    return [*tried, *fallbacks]


@pytest.mark.parametrize("n", [100, 2_000, 100_000])
@pytest.mark.parametrize("d", [1, 20, 21, 300])
def test_every_candidate_can_be_fitted_and_measures_in_deviations_or_by_a_summary(n, d):
    for one in every(n, d):
        one.check(n)
        own_units = getattr(one, "form", "") in ("series", "diagonal_scale", "auto") and d > 20
        assert inner(one).scale in ((True, False) if own_units else (True, *SUMMARIES))


@pytest.mark.parametrize(
    ("d", "settings", "likelihoods"),
    [
        (1, {}, [("auto", True)]),
        (20, {}, [("auto", True)]),
        (9, {"exchangeable": True}, [("exchangeable", True), ("auto", True)]),
        (21, {}, [("series", False), ("diagonal_scale", True), OF_ESTIMATES]),
        (250, {"exchangeable": True}, [("exchangeable", True), ("diagonal_scale", True), OF_ESTIMATES]),
        (251, {}, [("auto", False), OF_LINEAR_ESTIMATES]),
        (
            251,
            {"exchangeable": True},
            [("exchangeable", True), ("diagonal_scale", False), OF_LINEAR_ESTIMATES],
        ),
        (43, {"dependent": 3}, [("auto", "dependent")]),
        (43, {"dependent": 30}, [("series", False), ("diagonal_scale", True), OF_ESTIMATES]),
    ],
)
def test_the_likelihoods_are_those_that_the_statistics_call_for(d, settings, likelihoods):
    tried, fallbacks = default_candidates(1000, d, **settings)
    assert [(one.form, one.scale) for one in tried[:-1]] == likelihoods
    assert isinstance(tried[-1], pk.Adjusted)
    assert not [one for one in fallbacks if isinstance(one, pk.KernelLikelihood)]


@pytest.mark.parametrize("d", [20, 21])
def test_of_many_statistics_a_regression_on_estimates_is_tried_first(d):
    tried, fallbacks = default_candidates(1000, d)
    scales = [inner(one).scale for one in (tried[-1], fallbacks[0])]
    assert scales == ([True, "joint_posterior_mean"] if d == 20 else ["joint_posterior_mean", True])


def test_select_looks_at_the_statistics(monkeypatch):
    told = []

    def listed(*arguments, **settings):
        told.append(settings["exchangeable"])
        return [pk.Rejection(50)], []

    monkeypatch.setattr(select_module, "default_candidates", listed)
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(300, 1))
    for slope in (0.0, 1.0):
        x = theta + rng.normal(size=(300, 9)) + slope * np.arange(9)
        names = [f"x{i}" for i in range(9)]
        frame = pd.DataFrame(np.hstack([theta, x]), columns=["t", *names])
        table = pk.ReferenceTable.from_dataframe(frame, parameters=["t"], statistics=names)
        pk.select(table, random_seed=1, progressbar=False)
    assert told == [True, False]


@pytest.mark.parametrize("d", [2, 50])
def test_a_label_is_the_estimator_in_one_line(d):
    for one in every(1000, d):
        assert label(one).split() == repr(one).split()
        assert "\n" not in label(one)


@pytest.mark.parametrize(("n", "d", "tried"), [(2_000, 298, True), (2_000, 299, False)])
def test_slopes_of_all_statistics_take_twice_as_many_rows(n, d, tried):
    """They would be refused: the farthest of 600 rows has no weight."""
    linear = [one for one in every(n, d) if getattr(one, "adjustment", "") == "local_linear"]
    assert len(linear) == tried


def test_statistics_with_heavy_tails_are_transformed_for_regressions():
    scales = [inner(one).scale for one in every(2_000, 3, heavy=True)]
    assert scales == [True, "transformed", "joint_posterior_mean", "transformed", "transformed"]


THETA = np.random.default_rng(1).uniform(-1, 1, size=(300, 1))
LOG_NORMAL = np.exp(2 * (THETA + 0.3 * np.random.default_rng(2).normal(size=(300, 1))))


@pytest.mark.parametrize(
    ("statistics", "near", "curves"),
    [
        (LOG_NORMAL, None, True),
        (LOG_NORMAL, [1.0], True),
        (LOG_NORMAL, [-1.0], False),  # has no logarithm
        (np.log(LOG_NORMAL), None, False),
    ],
)
def test_a_table_decides_whether_its_statistics_are_transformed(statistics, near, curves):
    heavy = heavy_where_defined(statistics, None if near is None else np.array(near))
    given = every(270, 1, heavy=heavy)
    assert any(inner(one).scale == "transformed" for one in given) is curves


def a_table(statistics):
    names = Columns.scalars(["a"]), Columns.scalars(["s"])
    return pk.ReferenceTable(THETA, statistics, None, *names, pk.Support.unbounded(1), Failures.none(1))


@pytest.mark.parametrize(("statistics", "scale"), [(LOG_NORMAL, "transformed"), (np.log(LOG_NORMAL), True)])
def test_a_choice_tries_first_what_suits_the_tails_of_its_table(statistics, scale, monkeypatch):
    def first(*arguments, **settings):
        return default_candidates(*arguments, **settings)[0][-1:], []

    monkeypatch.setattr(select_module, "default_candidates", first)
    found = pk.select(a_table(statistics), random_seed=1, progressbar=False)
    assert inner(found.selection_.chosen.estimator).scale == scale


def test_the_best_of_statistics_with_heavy_tails_is_a_transformed_one():
    """In deviations nearly all rows of this table are alike."""
    found = pk.select(
        a_table(np.exp(6 * THETA + np.random.default_rng(2).normal(size=(300, 1)))),
        candidates=[pk.Adjusted(pk.Rejection(100, scale=scale)) for scale in (True, "transformed")],
        random_seed=1,
        progressbar=False,
    )
    assert inner(found.selection_.chosen.estimator).scale == "transformed"
