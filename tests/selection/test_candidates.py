"""The candidates that are tried where none are named."""

import numpy as np
import pandas as pd
import pytest

import pymc_kbr as pk
from pymc_kbr.estimators.summaries import SUMMARIES
from pymc_kbr.selection import select as select_module
from pymc_kbr.selection.budget import rows_with_weight
from pymc_kbr.selection.default_candidates import (
    MOST_FOR_CURVED,
    MOST_FOR_CURVES,
    MOST_FOR_LIKELIHOOD,
    MOST_FOR_RELEVANCE,
    MOST_FOR_SLOPES,
    default_candidates,
    heavy_where_defined,
)
from pymc_kbr.selection.selection import label
from pymc_kbr.tables.columns import Columns
from pymc_kbr.tables.origin import Failures


def inner(candidate):
    return candidate.estimator if isinstance(candidate, pk.Adjusted) else candidate


@pytest.mark.parametrize("n", [100, 2_000, 100_000])
@pytest.mark.parametrize("d", [1, MOST_FOR_SLOPES, MOST_FOR_SLOPES + 1, 300])
def test_every_candidate_can_be_fitted_measures_in_deviations_and_has_rows_enough(n, d):
    given = default_candidates(n, d)
    for one in given:
        one.check(n)
        series = getattr(one, "form", "") == "autoregressive"
        own_units = series or (getattr(one, "form", "") == "diagonal_scale" and d > MOST_FOR_CURVED)
        assert (inner(one).scale is False) if own_units else (inner(one).scale in (True, *SUMMARIES))
        assert 20 <= rows_with_weight(inner(one), n) <= n


@pytest.mark.parametrize("d", [1, MOST_FOR_SLOPES + 1])
def test_regressions_have_a_tenth_of_the_rows(d):
    """But for those on estimates, of which there is one a parameter."""
    n, regressions = 10_000, 0
    for one in default_candidates(n, d):
        adjustment = getattr(one, "adjustment", None)
        if isinstance(adjustment, str) and adjustment != "none" and inner(one).scale in (True, "relevance"):
            assert rows_with_weight(inner(one), n) >= n / 10
            regressions += 1
    assert regressions >= 6


def test_relevance_is_learnt_of_so_many_statistics():
    for d, tried in ((1, True), (MOST_FOR_RELEVANCE, True), (MOST_FOR_RELEVANCE + 1, False)):
        assert any(inner(one).scale == "relevance" for one in default_candidates(1000, d)) is tried


def test_estimates_come_first_where_there_are_many_statistics():
    for d, many in ((MOST_FOR_SLOPES, False), (MOST_FOR_SLOPES + 1, True)):
        scales = [inner(one).scale for one in default_candidates(1000, d)]
        assert [scale == "joint_posterior_mean" for scale in scales[:2]] == [many] * 2
        assert scales.count("joint_posterior_mean") == 3 * many  # a learned likelihood of them is the third
    scales = [inner(one).scale for one in default_candidates(1000, MOST_FOR_CURVED + 1)]
    assert scales.count("linear_posterior_mean") == 3
    assert "joint_posterior_mean" not in scales


@pytest.mark.parametrize("d", [MOST_FOR_LIKELIHOOD, MOST_FOR_LIKELIHOOD + 1])
def test_of_many_statistics_a_likelihood_is_that_of_all_of_a_series_or_of_estimates(d):
    likelihoods = [one for one in default_candidates(1000, d) if isinstance(one, pk.KernelLikelihood)]
    found = [(one.form, one.scale) for one in likelihoods]
    many = [("diagonal_scale", True), ("autoregressive", False), ("location_scale", "joint_posterior_mean")]
    assert found == (many if d > MOST_FOR_LIKELIHOOD else [("auto", True)])


@pytest.mark.parametrize("d", [MOST_FOR_LIKELIHOOD, MOST_FOR_LIKELIHOOD + 1])
def test_of_draws_that_look_alike_the_likelihood_of_one_law_is_tried_first(d):
    likelihoods = [
        one for one in default_candidates(1000, d, alike=True) if isinstance(one, pk.KernelLikelihood)
    ]
    found = [(one.form, one.scale) for one in likelihoods]
    many = [("diagonal_scale", True), ("location_scale", "joint_posterior_mean")]
    assert found == [("exchangeable", True), *(many if d > MOST_FOR_LIKELIHOOD else [("auto", True)])]


def test_select_looks_at_the_statistics(monkeypatch):
    told = []

    def listed(*arguments, **settings):
        told.append(settings["alike"])
        return default_candidates(*arguments, **settings)[:1]

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
    for one in default_candidates(1000, d):
        assert label(one).split() == repr(one).split()
        assert "\n" not in label(one)


@pytest.mark.parametrize(("n", "d"), [(2_000, 98), (2_000, 99), (10_000, 500), (10_000, 1_000)])
def test_slopes_are_not_tried_where_rows_are_too_few_for_them(n, d):
    """They would be refused, and what they are charged with would be lost to others."""
    linear = [
        rows_with_weight(inner(one), n)
        for one in default_candidates(n, d)
        if "local_linear" in str(getattr(one, "adjustment", "")) and inner(one).scale in (True, "relevance")
    ]
    assert all(rows - 1 >= 2 * (d + 1) for rows in linear)
    assert len(linear) == {98: 4, 99: 1, 500: 1, 1_000: 1}[d]


@pytest.mark.parametrize("d", [3, MOST_FOR_CURVES, MOST_FOR_CURVES + 1])
def test_statistics_with_heavy_tails_are_transformed_and_tried_in_deviations_too(d):
    plain, heavy = default_candidates(2_000, d), default_candidates(2_000, d, heavy=True)
    scales = [inner(one).scale for one in heavy if not isinstance(one, pk.KernelLikelihood)]
    few = d <= MOST_FOR_CURVES
    assert len(plain) == len(heavy) or d <= MOST_FOR_RELEVANCE
    assert ("transformed" in scales) is few
    assert True in scales
    assert not (few and "relevance" in scales)
    first = next(scale for scale in scales if scale != "joint_posterior_mean")
    assert first == ("transformed" if few else True)
    for one in heavy:
        one.check(2_000)


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
    given = default_candidates(270, 1, heavy=heavy)
    assert any(inner(one).scale == "transformed" for one in given) is curves


def a_table(statistics):
    names = Columns.scalars(["a"]), Columns.scalars(["s"])
    return pk.ReferenceTable(THETA, statistics, None, *names, pk.Support.unbounded(1), Failures.none(1))


@pytest.mark.parametrize(("statistics", "scale"), [(LOG_NORMAL, "transformed"), (np.log(LOG_NORMAL), True)])
def test_a_choice_tries_first_what_suits_the_tails_of_its_table(statistics, scale, monkeypatch):
    def first(*arguments, **settings):
        return default_candidates(*arguments, **settings)[:1]

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
