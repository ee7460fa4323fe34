"""The candidates that are tried where none are named."""

import pytest

import pymc_kbr as pk
from pymc_kbr.estimators.summaries import SUMMARIES
from pymc_kbr.selection.candidate import label
from pymc_kbr.selection.cost import rows_with_weight
from pymc_kbr.selection.default_candidates import MOST_FOR_RELEVANCE, MOST_FOR_SLOPES, default_candidates


def inner(candidate):
    return candidate.estimator if isinstance(candidate, pk.Adjusted) else candidate


@pytest.mark.parametrize("n", [100, 2_000, 100_000])
@pytest.mark.parametrize("d", [1, MOST_FOR_SLOPES, MOST_FOR_SLOPES + 1, 300])
def test_every_candidate_can_be_fitted_measures_in_deviations_and_has_rows_enough(n, d):
    given = default_candidates(n, d)
    for one in given:
        one.check(n)
        assert inner(one).scale is True or inner(one).scale in SUMMARIES
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
        assert [scale == "linear_posterior_mean" for scale in scales[:2]] == [many] * 2
        assert scales.count("linear_posterior_mean") == 2 * many


@pytest.mark.parametrize("d", [2, 50])
def test_a_label_is_the_estimator_in_one_line(d):
    for one in default_candidates(1000, d):
        assert label(one).split() == repr(one).split()
        assert "\n" not in label(one)
