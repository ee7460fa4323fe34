import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone

import pymc_kbr as pk
from pymc_kbr.arrays.checked_rows import CheckedRows
from pymc_kbr.estimators.fitted_table import build_table
from pymc_kbr.selection.select import choose, default_candidates, number_held_out
from pymc_kbr.selection.selection import Candidate, difference, label

LINEAR = pk.Adjusted(pk.Rejection(300, kernel="epanechnikov"), "local_linear")


def table(n=1200, observed=None):
    rng = np.random.default_rng(4)
    theta = rng.normal(size=(n, 2))
    x = theta @ np.array([[1.0, 0.3], [0.0, 1.0]]) + 0.3 * rng.normal(size=(n, 2))
    frame = pd.DataFrame(np.hstack([theta, x]), columns=["a", "b", "s", "t"])
    return pk.ReferenceTable.from_dataframe(
        frame, parameters=["a", "b"], statistics=["s", "t"], observed=observed
    )


@pytest.fixture(scope="module")
def chosen():
    candidates = ["rejection", LINEAR, pk.Rejection(400)]
    return pk.select(table(), candidates=candidates, random_seed=1, progressbar=False)


def test_the_better_estimator_is_chosen_and_fitted_to_all_rows(chosen):
    assert isinstance(chosen, pk.Adjusted)
    assert len(chosen.table_) == 1200
    assert chosen.weights(np.zeros(2)).shape == (1200,)
    assert chosen.get_params()["adjustment"] == "local_linear"


def test_of_a_long_table_the_rows_that_are_held_out_are_not_missed():
    long = table(4_000)
    learnt = pk.Adjusted(pk.Rejection(300, scale="relevance"), "local_linear")
    chosen = pk.select(long, candidates=["rejection", learnt], random_seed=1, progressbar=False)
    assert len(chosen.table_) == 3_900
    assert chosen.get_params() == {**learnt.get_params(), "estimator": chosen.estimator}
    anew = clone(chosen).fit(long.parameters, long.statistics, long.support)
    apart = anew.condition([0.5, -0.5]).mean() - chosen.condition([0.5, -0.5]).mean()
    assert np.abs(apart).max() < 4 * 0.3 / np.sqrt(300)  # of 300 accepted rows each


def test_the_scores_of_the_rivals_are_kept(chosen):
    rows = chosen.selection_.table()
    assert len(rows) == 3
    assert rows[0]["excess"] == 0
    assert all(row["excess"] > 0 for row in rows[1:])
    assert rows[-1]["note"] == "dropped after 40 rows"
    assert [row["rows"] for row in rows] == [100 if not row["note"] else 40 for row in rows]
    assert "local_linear" in chosen.selection_.reason()
    assert "3 candidates" in chosen.selection_.reason()


def test_coverage_of_the_chosen_one_comes_for_free(chosen):
    rows = len(chosen.selection_.chosen.covered)
    error = np.sqrt(0.09 / rows)
    np.testing.assert_allclose(chosen.selection_.coverage(), 0.9, atol=4 * error)


def test_the_same_seed_chooses_the_same():
    one, two = (
        pk.select(table(), candidates=["rejection", LINEAR], random_seed=3, progressbar=False)
        for _ in range(2)
    )
    np.testing.assert_array_equal(one.selection_.chosen.scores, two.selection_.chosen.scores)


def test_all_default_candidates_can_be_fitted():
    candidates = [*itertools.chain(*default_candidates(225, 2))]
    found = pk.select(table(250), candidates=candidates, random_seed=0, progressbar=False)
    rows = found.selection_.table()
    assert len(rows) == len(candidates) == 5
    assert not [row for row in rows if row["note"].startswith("refused")]
    assert all(row["rows"] == 25 for row in rows)


def test_a_candidate_that_refuses_is_reported_and_passed_over():
    few = pk.Adjusted(pk.Rejection(3), "local_linear")
    found = pk.select(table(), candidates=[few, "rejection"], random_seed=0, progressbar=False)
    assert isinstance(found, pk.Rejection)
    assert "take at least twice as many rows" in found.selection_.table()[1]["note"]
    with pytest.raises(ValueError, match="no candidate could be fitted"):
        pk.select(table(), candidates=[few], random_seed=0, progressbar=False)


def test_few_rows_are_not_divided():
    found = pk.select(table(99), random_seed=0, progressbar=False)
    assert isinstance(found, pk.Localised)
    assert "99 rows are too few" in found.selection_.reason()
    assert "100 are needed" in found.selection_.reason()
    enough = pk.select(table(100), candidates=["rejection"], random_seed=0, progressbar=False)
    assert isinstance(enough, pk.Rejection)


def test_rows_are_held_out_near_an_observation():
    x, rng = np.random.default_rng(0).normal(size=(2000, 2)), np.random.default_rng(1)
    rows = build_table(x, x).some_rows(200, rng, np.array([2.0, 0.0]), 500)
    assert len(rows) == len(set(rows)) == 200
    assert x[rows, 0].mean() > 0.8
    everywhere = build_table(x, x).some_rows(200, rng)
    assert abs(x[everywhere, 0].mean()) < 4 / np.sqrt(200)


def test_the_choice_can_differ_between_observations():
    """To the left of zero theta is x; to the right it is +-x, which one slope cannot follow."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, 3000)
    sign = np.where(x < 0, 1.0, rng.choice([-1.0, 1.0], 3000))
    theta = (sign * x + 0.05 * rng.normal(size=3000))[:, None]
    candidates = [
        pk.Adjusted(pk.Rejection(600, kernel="epanechnikov"), "local_linear"),
        pk.Adjusted(pk.Rejection(150, kernel="epanechnikov"), "joint_neighbours"),
    ]
    found = [
        choose(
            CheckedRows.of(theta, x[:, None]),
            rng=np.random.default_rng(1),
            candidates=candidates,
            near=np.array([at]),
            progressbar=False,
        ).adjustment
        for at in (-1.5, 1.5)
    ]
    assert found == ["local_linear", "joint_neighbours"]


def test_under_another_prior_its_rows_decide():
    t = table()
    ratio = (t.parameters[:, 0] > 0).astype(float)
    found = choose(
        CheckedRows.of(t.parameters, t.statistics, t.support, ratio),
        rng=np.random.default_rng(0),
        candidates=[LINEAR],
        progressbar=False,
    )
    assert np.all(found.weights(np.zeros(2))[ratio == 0] == 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"candidates": []}, "at least one"),
        ({"candidates": ["magic"]}, "no estimator 'magic'"),
        ({"candidates": [pk.Rejection(0)]}, "between 1"),
    ],
)
def test_bad_arguments_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        pk.select(table(), progressbar=False, **arguments)


def test_differences_are_taken_on_common_rows():
    found = difference(scored([1.0, 2.0, 3.0]), scored([1.0, 1.0]))
    assert found == pytest.approx((0.5, np.sqrt(0.125), 2))


def test_a_row_that_is_drawn_several_times_is_one_observation():
    """The standard error is that of a mean of two rows with weights 3/4 and 1/4."""
    best = scored([0.0] * 4, [5, 5, 5, 8])
    found = difference(scored([1.0, 1.0, 1.0, 3.0], [5, 5, 5, 8]), best)
    assert found == pytest.approx((1.5, np.hypot(0.75 * 0.5, 0.25 * 1.5), 1.6))
    assert not found.is_positive()
    assert not difference(scored([1.0, 2.0], [3, 3]), scored([0.0, 0.0], [3, 3])).is_positive()


def test_what_is_ahead_is_decided_by_a_paired_t_test():
    rng = np.random.default_rng(1)
    for shift in (0.1, 0.3, 0.5):
        one, other = rng.normal(shift, 1.0, 12), rng.normal(size=12)
        tested = stats.ttest_rel(one, other, alternative="two-sided")
        found = difference(scored(one), scored(other))
        # The package divides by n, the test by n - 1.
        assert found.mean / found.error == pytest.approx(tested.statistic * np.sqrt(12 / 11))
        assert found.is_positive(level=0.05) == (found.mean > stats.t(11).ppf(0.975) * found.error)


def scored(scores, rows=()):
    return Candidate("", pk.Rejection(20), np.array(scores), np.array(rows, dtype=int))


@pytest.mark.statistical
@pytest.mark.parametrize("n", [100, 300])
def test_every_default_candidate_of_a_table_can_be_calibrated_on_half_of_it(n):
    """Calibrating fits anew without the rows that it holds out; at most half of the table."""
    parameters, statistics = table(n).parameters, table(n).statistics
    for candidate in itertools.chain(*default_candidates(n - number_held_out(n))):
        fitted = clone(candidate).fit(parameters[: n - n // 2], statistics[: n - n // 2], random_seed=0)
        assert np.all(np.isfinite(fitted.condition(statistics[-1]).mean())), label(candidate)


def test_hundreds_of_statistics_are_replaced_by_estimates():
    """Two parameters seen through 300 noisy statistics."""
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(1500, 2))
    x = theta @ rng.normal(size=(2, 300)) + 5 * rng.normal(size=(1500, 300))
    names = [f"s{i}" for i in range(300)]
    frame = pd.DataFrame(np.hstack([theta, x]), columns=["a", "b", *names])
    t = pk.ReferenceTable.from_dataframe(frame, parameters=["a", "b"], statistics=names)
    tried, _ = default_candidates(1500, 300)
    found = pk.select(t, candidates=["rejection", tried[-1]], random_seed=1, progressbar=False)
    assert found.get_params()["estimator__scale"] == "linear_posterior_mean"


def test_a_choice_goes_on_where_a_statistic_without_noise_has_no_density():
    made = table(300, observed=[0.2, 0.1])
    exact = dataclasses.replace(made, statistics=made.statistics * [1, 0] + made.parameters * [0, 1])
    candidates = [pk.KernelLikelihood("location_scale", 50), pk.Localised(50), "rejection"]
    chosen = pk.select(exact, candidates=candidates, random_seed=1, progressbar=False)
    assert not isinstance(chosen, pk.KernelLikelihood)
    notes = [one["note"] for one in chosen.selection_.table()]
    assert len([note for note in notes if "is an exact function of the parameters" in note]) == 1


def test_what_a_likelihood_found_in_the_table_is_said():
    rng = np.random.default_rng(1)
    theta = np.c_[rng.normal(0, 0.5, 1000), rng.uniform(0, 2, 1000)]
    x = theta[:, 1] + 0.3 * np.exp(theta[:, 0]) * rng.weibull(1.2, 1000)
    table = pk.ReferenceTable.from_dataframe(
        pd.DataFrame({"level": theta[:, 0], "t0": theta[:, 1], "rt": x}),
        parameters=["level", "t0"],
        statistics=["rt"],
    )
    chosen = pk.select(table, candidates=[pk.KernelLikelihood()], random_seed=1, progressbar=False)
    assert chosen.found_structure_ == {"shift": {"rt": "t0"}}
    label = "KernelLikelihood() with shift={'rt': 't0'} found in the table"
    assert chosen.selection_.chosen.label == label
    assert label in chosen.selection_.reason()
