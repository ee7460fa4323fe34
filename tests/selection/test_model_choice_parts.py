"""Parts of model choice by themselves: weights of rows, scores, errors and mixtures against formulas."""

import dataclasses
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist
from sklearn.linear_model import LogisticRegression

import pymc_kbr as pk
from pymc_kbr.estimators.likelihood.tempered import ImpossibleObservation
from pymc_kbr.kernels import Gaussian, median_heuristic
from pymc_kbr.kernels.kernel import frequencies
from pymc_kbr.selection.model_choice import methods
from pymc_kbr.selection.model_choice.classifiers import (
    LocalLogistic,
    Logistic,
    NearestRows,
    _at_zero,
    _best_strength,
    _regression,
)
from pymc_kbr.selection.model_choice.held_out import CrossValidated, HeldOutProbabilities, cross_validate
from pymc_kbr.selection.model_choice.methods import EmbeddedIndex, Evidence, Forest
from pymc_kbr.selection.model_choice.model_choice import ModelChoice, _counts
from pymc_kbr.selection.model_choice.rows import Rows, check_prior


def a_table(n, shift, seed, ratio=None):
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(n, 1))
    frame = pd.DataFrame(np.hstack([theta, theta + shift + rng.normal(size=(n, 2))]), columns=["a", "s", "t"])
    made = pk.ReferenceTable.from_dataframe(frame, parameters=["a"], statistics=["s", "t"])
    return made if ratio is None else dataclasses.replace(made, prior_ratio=ratio)


@pytest.fixture
def rows():
    tables = {"one": a_table(80, 0.0, 1), "two": a_table(120, 1.0, 2, np.linspace(0.5, 1.5, 120))}
    return Rows.joined(tables, np.array([0.3, 0.7]))


def test_weights_of_a_models_rows_add_up_to_its_prior_in_every_part(rows):
    assert rows.weights.sum() == pytest.approx(200)
    shares = np.bincount(rows.model, rows.weights) / 200
    np.testing.assert_allclose(shares, [0.3, 0.7])
    two = rows.weights[rows.model == 1]
    np.testing.assert_allclose(two / two[0], np.linspace(0.5, 1.5, 120) / 0.5)
    some = np.r_[0:10, 80:200:3]
    part = rows.part(some)
    np.testing.assert_allclose(np.bincount(part.model, part.weights), [0.3 * 50, 0.7 * 50])
    np.testing.assert_array_equal(part.statistics, rows.statistics[some])
    np.testing.assert_array_equal(part.own, np.r_[0:10, 0:120:3])
    ratio = part.weights[part.model == 1] / rows.weights[some][part.model == 1]
    assert np.ptp(ratio) < 1e-12


def test_priors_are_even_where_none_is_told():
    np.testing.assert_array_equal(check_prior(None, ["a", "b", "c", "d"]), np.full(4, 0.25))
    with pytest.raises(ValueError, match="prior"):
        check_prior({"a": 1.0, "b": 0.0}, ["a", "b"])


def test_what_is_far_is_told_by_other_rows(rows):
    middle = rows.statistics.mean(axis=0)
    np.testing.assert_array_equal(rows.far(np.array([middle, middle + 500])), [False, True])
    away = middle + np.linspace(0, 20, 2000)[:, None]
    x, at = (
        rows.curves.transform(of) / rows.curves.transform(rows.statistics).std(axis=0)
        for of in (rows.statistics, away)
    )
    # Each row is at no distance from itself, which is not counted.
    own = np.sort(cdist(x, x), axis=1)[:, 1:11].mean(axis=1)
    expected = np.sort(cdist(at, x), axis=1)[:, :10].mean(axis=1) > 4 * np.quantile(own, 0.995)
    assert 100 < expected.sum() < 1900
    np.testing.assert_array_equal(rows.far(away), expected)


def test_nearest_rows_count_with_their_weights(rows):
    classifier = NearestRows(0.1).fit(rows, np.random.default_rng(0))
    unit = rows.statistics.std(axis=0)
    for x in rows.statistics[[3, 150]]:
        near = np.argsort(np.linalg.norm((rows.statistics - x) / unit, axis=1))[:20]
        counts = [0.5 + rows.weights[near[rows.model[near] == model]].sum() for model in (0, 1)]
        np.testing.assert_allclose(classifier.probabilities(x[None])[0], counts / np.sum(counts))


@pytest.mark.parametrize("make", [lambda: LocalLogistic(0.5), EmbeddedIndex])
def test_the_prior_of_a_model_counts(make):
    tables = {"one": a_table(150, 0.0, 1), "two": a_table(150, 0.5, 2)}
    x = np.array([[0.3, 0.2]])
    found = [
        make().fit(Rows.joined(tables, np.array(prior)), np.random.default_rng(0)).probabilities(x)[0]
        for prior in ((0.5, 0.5), (0.9, 0.1))
    ]
    odds = [p[0] / p[1] for p in found]
    assert odds[1] / odds[0] == pytest.approx(9, rel=0.5)


def test_raised_weights_are_counted_and_votes_have_half_a_one_more(rows):
    index = EmbeddedIndex().fit(rows, np.random.default_rng(0))
    found = index.probabilities(rows.statistics + np.array([40.0, -40.0]))
    assert found.min() > 1e-3 / 3
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert 0 <= index.raised_ <= 1
    forest = Forest(20)
    np.testing.assert_allclose(forest._raised(np.array([[1.0, 0.0]])), [[20.5 / 21, 0.5 / 21]])


def test_a_model_of_which_no_row_is_near_keeps_half_a_row():
    """And rows that are all as far away as the farthest count alike."""
    tables = {"one": a_table(100, 0.0, 1), "two": a_table(100, 1e6, 2)}
    apart = Rows.joined(tables, np.array([0.5, 0.5]))
    near = LocalLogistic(0.2).fit(apart, np.random.default_rng(0)).probabilities(apart.statistics[:3])
    np.testing.assert_allclose(near[:, 1], (0.5 / 39) / (1 + 0.5 / 39))  # the fortieth has no weight
    np.testing.assert_allclose(near.sum(axis=1), 1)
    sides = np.where(apart.model == 0, -1.0, 1.0)
    alike = dataclasses.replace(apart, statistics=np.column_stack([sides, sides]))
    between = LocalLogistic(1.0).fit(alike, np.random.default_rng(0)).probabilities(np.zeros((1, 2)))
    np.testing.assert_allclose(between, 0.5, atol=1e-6)


@pytest.mark.filterwarnings("error")
def test_a_strength_is_that_of_rows_that_were_not_learnt_from(rows):
    # Of features that tell nothing the rows that are learnt from are told best by the least ridge.
    noise = np.random.default_rng(5).normal(size=(len(rows), 60))
    assert _best_strength(noise, rows, np.random.default_rng(0)) == 0.001


def test_a_regression_that_ends_at_its_last_step_does_so_in_silence(rows, set_default):
    set_default(_regression, steps=1)
    set_default(_at_zero, steps=1)
    for classifier in (Logistic("linear"), LocalLogistic(0.5)):
        found = classifier.fit(rows, np.random.default_rng(0)).probabilities(rows.statistics[:3])
        np.testing.assert_allclose(found.sum(axis=1), 1)


@pytest.mark.parametrize(("n", "columns", "models"), [(100, 1, 2), (900, 3, 3), (300, 20, 4)])
def test_newtons_method_finds_the_regression_of_scikit_learn(n, columns, models, rng):
    x = rng.normal(0.3, 1, (n, columns))
    logits = x @ rng.normal(size=(columns, models))
    model = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    weights = rng.uniform(size=n)
    regression = LogisticRegression(C=1e4, max_iter=10_000, tol=1e-9).fit(x, model, weights)
    wanted = regression.predict_proba(np.zeros((1, columns)))[0]
    np.testing.assert_allclose(_at_zero(x, model, weights), wanted, atol=2e-4)


# --- held-out rows ---


def a_held_out():
    probabilities = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.55, 0.45]])
    return HeldOutProbabilities(probabilities, np.array([0, 1, 1, 0]), np.array([0.1, 0.2, 0.3, 0.4]))


def test_scores_confusion_and_reliability_are_weighted():
    found = a_held_out()
    assert found.log_score == pytest.approx(np.log([0.9, 0.8, 0.4, 0.55]) @ [0.1, 0.2, 0.3, 0.4])
    assert found.accuracy == pytest.approx(0.7)
    np.testing.assert_allclose(found.confusion(), [[1.0, 0.0], [0.6, 0.4]])
    lines = found.reliability(2)
    # Below one half: .1, .2, .4, .45; above: the others of the same rows.
    mean = (0.1 * 0.1 + 0.2 * 0.2 + 0.3 * 0.4 + 0.4 * 0.45) / 1.0
    np.testing.assert_allclose(lines, [[mean, 0.3, 0.5], [1 - mean, 0.7, 0.5]])
    assert found.calibration_error(2) == pytest.approx(abs(mean - 0.3))


def test_noise_of_calibration_is_that_of_models_drawn_from_the_probabilities():
    n, rng = 400, np.random.default_rng(1)
    half = HeldOutProbabilities(np.full((n, 2), 0.5), np.zeros(n, int), np.full(n, 1 / n))
    # |a share of n - one half|: the root of 2 / pi deviations, of both models in one bin.
    assert half.calibration_noise(rng, 1) == pytest.approx(0, abs=1e-12)
    sure = HeldOutProbabilities(np.tile([0.8, 0.2], (n, 1)), np.zeros(n, int), np.full(n, 1 / n))
    expected = np.sqrt(2 / np.pi) * np.sqrt(0.8 * 0.2 / n)
    assert sure.calibration_noise(rng) == pytest.approx(expected, rel=0.25)


def test_errors_are_the_jackknifes_of_the_folds():
    at = np.random.default_rng(1).random((5, 3, 2))
    found = CrossValidated(a_held_out(), at, np.zeros(2)).errors()
    np.testing.assert_allclose(found, np.sqrt(4 * at.var(axis=0)))


def test_no_row_is_judged_by_a_classifier_that_saw_it(rows):
    fits = []

    class Remembers:
        most_scored = None

        def fit(self, part, rng):
            self.seen = {tuple(x) for x in part.statistics}
            fits.append(len(part))
            return self

        def probabilities(self, statistics):
            # The first statistic alone decides.
            p = 1 / (1 + np.exp(-4 * (statistics[:, 0] - 0.5)))
            assert not self.seen & {tuple(x) for x in statistics} or len(statistics) == 1
            return np.column_stack([1 - p, p])

    found = cross_validate(Remembers, rows, rows.statistics[:1], np.random.default_rng(0))
    assert fits == [160] * 5
    assert len(found.held_out.model) == 200
    assert found.held_out.weights.sum() == pytest.approx(1)
    np.testing.assert_allclose(np.bincount(found.held_out.model, found.held_out.weights), [0.3, 0.7])
    assert found.importance[0] > 0 == found.importance[1]
    at = found.at_observed[:, 0]
    np.testing.assert_allclose(at, np.tile(at[0], (5, 1)))


@pytest.mark.parametrize(
    ("slow", "taken"), [([0.1] * 7, True), ([-0.9, 1.1, 0, 0, 0, 0, 0], False), ([-0.1] * 7, False)]
)
def test_a_slow_method_is_taken_where_its_lead_is_above_its_error(slow, taken, rows, monkeypatch):
    def method(scores, most=None):
        class Known:
            most_scored = most

            def fit(self, part, rng):
                return self

            def probabilities(self, statistics):
                return np.resize(scores, len(statistics))

        return Known

    known = {"fast": method([0.0]), "slow": method(slow, 7), "bad": method([-1.0])}
    monkeypatch.setattr(methods, "METHODS", known)
    monkeypatch.setattr(methods, "log_scores", lambda scores, model: scores)
    scores = methods.choose_method(list(known), rows, np.random.default_rng(0))
    assert scores[0].method == ("slow" if taken else "fast")
    lead = {score.method: score for score in scores}["slow"]
    assert taken or lead.log_score <= lead.standard_error
    assert (lead.log_score > 0) is (sum(slow) > 0)


def a_choice(at, errors, prior=(0.5, 0.5)):
    return ModelChoice(
        ("one", "two"), np.array(prior), np.array(at), np.array(errors), len(at) == 1, "mine", (),
        a_held_out(), ("s", "t"), np.array([0.1, 0.4]), np.zeros(2),
    )  # fmt: skip


def test_another_prior_reweights_probabilities_errors_and_held_out_rows():
    found = a_choice([[0.8, 0.2]], [[0.01, 0.01]]).with_prior({"one": 0.2, "two": 0.8})
    odds = 4 * 0.25
    np.testing.assert_allclose(found.at_observed, [[odds / (1 + odds), 1 / (1 + odds)]])
    # A small change of the old probability moves the new one by the ratio of p (1 - p).
    np.testing.assert_allclose(found.errors_at_observed, 0.01 * 0.25 / 0.16)
    moved = a_choice([[0.801, 0.199]], [[0, 0]]).with_prior({"one": 0.2, "two": 0.8})
    assert moved.at_observed[0, 0] - 0.5 == pytest.approx(0.001 * 0.25 / 0.16, rel=0.01)
    weights = np.array([0.1, 0.2, 0.3, 0.4]) * np.array([0.4, 1.6, 1.6, 0.4])
    np.testing.assert_allclose(found.held_out.weights, weights / weights.sum())
    p = np.array([0.9 * 0.4, 0.1 * 1.6])
    np.testing.assert_allclose(found.held_out.probabilities[0], p / p.sum())


def test_errors_of_what_is_certain_stay_as_they_are_under_another_prior():
    """The slope of the odds is zero there, old and new."""
    errors = [[0.1, 0.1], [0.2, 0.3], [0.4, 0.4]]
    found = a_choice([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], errors).with_prior({"one": 0.2, "two": 0.8})
    np.testing.assert_array_equal(found.at_observed, [[1, 0], [0, 1], [1, 0]])
    np.testing.assert_array_equal(found.errors_at_observed, errors)


def test_bayes_factors_leave_the_prior_out_and_the_summary_is_in_order():
    choice = a_choice([[0.6, 0.4]], [[0.1, 0.1]], prior=(0.9, 0.1))
    assert choice.bayes_factors.loc["two", "one"] == pytest.approx((0.4 / 0.1) / (0.6 / 0.9))
    summary = choice.summary()
    assert list(summary.index) == ["one", "two"]
    assert summary.loc["two", "bayes_factor"] == 1
    assert summary.loc["one", "bayes_factor"] == pytest.approx((0.6 / 0.9) / (0.4 / 0.1))
    np.testing.assert_allclose(summary["recognised"], np.diag(a_held_out().confusion()))
    several = a_choice([[0.2, 0.8], [0.4, 0.6]], [[0.1, 0.1], [0.3, 0.3]])
    np.testing.assert_allclose(several.summary()["probability"], [0.7, 0.3])
    assert list(several.deciding_statistics().index) == ["t", "s"]


@pytest.mark.parametrize("bandwidth", [None, 3.0])
def test_waves_have_the_median_distance_times_the_bandwidth(bandwidth, rows):
    given = {} if bandwidth is None else {"bandwidth": bandwidth}
    x = rows.statistics
    found = Logistic("kernel", **given)._drawn(x, np.random.default_rng(3))
    kernel = Gaussian(float((bandwidth or 1.0) * median_heuristic(x)))
    np.testing.assert_array_equal(found, frequencies(kernel, 100, 2, np.random.default_rng(3)))


def test_draws_of_models_are_as_many_as_their_probabilities_say():
    for seed in range(5):
        found = _counts(100, np.array([0.25, 0.0, 0.75]), np.random.default_rng(seed))
        assert found.tolist() == [25, 0, 75]


def test_mixed_draws_are_of_their_own_models_by_the_seed():
    import xarray as xr

    def result(start):
        values = start + np.arange(40.0).reshape(2, 20)
        return {"posterior": xr.Dataset({"m": (("chain", "draw"), values)}, coords={"chain": [0, 1]})}

    results = {"one": result(0.0), "two": result(1000.0)}
    choice = a_choice([[0.5, 0.5]], [[0, 0]])
    one, same, other = (choice.average(results, random_seed=s)["posterior"] for s in (1, 1, 2))
    np.testing.assert_array_equal(one["m"], same["m"])
    assert not np.array_equal(one["m"], other["m"])
    np.testing.assert_array_equal(np.asarray(one["m"]) >= 1000, np.asarray(one["model"]) == 1)
    assert len(np.unique(one["m"])) == 40
    assert 5 < np.sum(np.asarray(one["model"])[0]) < 15


def test_evidence_of_each_model_is_of_its_own_rows(rows, monkeypatch):
    fits = []

    class Remembers:
        most_scored = None

        def __init__(self, particles):
            self.number = len(fits)

        def fit(self, parameters, statistics, support, ratio=None, success=None, random_seed=None):
            fits.append((parameters, statistics, ratio))
            return self

        def condition(self, statistics):
            return [SimpleNamespace(settings={"log_evidence": float(self.number)}) for _ in statistics]

    monkeypatch.setattr("pymc_kbr.selection.model_choice.methods.KernelLikelihood", Remembers)
    part = rows.part(np.r_[0:200:2])
    found = Evidence().fit(part, np.random.default_rng(0)).probabilities(rows.statistics[:3])
    odds = np.exp(1.0) * 0.7 / 0.3
    np.testing.assert_allclose(found, np.tile([1 / (1 + odds), odds / (1 + odds)], (3, 1)))
    np.testing.assert_array_equal(fits[1][1], part.statistics[part.model == 1])
    np.testing.assert_array_equal(fits[1][0], rows.tables[1].parameters[::2])
    np.testing.assert_array_equal(fits[1][2], rows.tables[1].prior_ratio[::2])
    assert fits[0][2] is None


def test_a_model_that_cannot_make_an_observation_has_no_evidence_of_it():
    class Refuses:
        most_scored = None

        """Has no likelihood at statistics above a limit, and says so of two at a time."""

        def __init__(self, limit):
            self.limit = limit

        def condition(self, statistics):
            lost = np.flatnonzero(statistics[:, 0] > self.limit)[:2]
            if len(lost):
                raise ImpossibleObservation(lost)
            return [SimpleNamespace(settings={"log_evidence": 2.0}) for _ in statistics]

    made = Evidence()
    made._fitted, made._log_shares = [Refuses(10.0), Refuses(4.0)], np.log([0.25, 0.75])
    found = made.probabilities(np.array([[1.0], [5.0], [6.0], [3.0], [7.0], [20.0]]))
    both = [0.25, 0.75]
    np.testing.assert_allclose(found, [both, [1, 0], [1, 0], both, [1, 0], both])
    made._fitted[0].condition = lambda _: (_ for _ in ()).throw(
        ImpossibleObservation(np.empty(0, int), "none")
    )
    with pytest.raises(ImpossibleObservation, match="none"):  # nothing would be left out
        made.probabilities(np.array([[1.0]]))


def test_a_value_that_a_model_never_made_is_no_evidence_for_it():
    """Not even where an observation of it would be read as the rare value beside it."""
    rng = np.random.default_rng(0)
    sides = {}
    for name, draw in (("once", lambda n: rng.random(n) < 0.05), ("often", lambda n: rng.poisson(0.1, n))):
        a = rng.normal(size=250)
        frame = pd.DataFrame({"a": a, "mean": a + rng.normal(size=250), "count": draw(250).astype(float)})
        sides[name] = pk.ReferenceTable.from_dataframe(frame, parameters=["a"], statistics=["mean", "count"])
    assert sides["once"].statistics[:, 1].max() == 1
    assert sides["often"].statistics[:, 1].max() == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error", pk.PosteriorWarning)
        fitted = Evidence().fit(Rows.joined(sides, np.array([0.5, 0.5])), np.random.default_rng(1))
        found = fitted.probabilities(np.array([[0.3, 2.0]]))
    np.testing.assert_array_equal(found, [[0, 1]])


def test_rows_of_counts_are_no_copies_where_the_index_of_the_model_is_learnt(rows):
    counts = dataclasses.replace(rows, statistics=np.rint(rows.statistics))
    assert len(np.unique(np.column_stack([counts.statistics, counts.model]), axis=0)) < len(counts)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pk.PosteriorWarning)
        EmbeddedIndex().fit(counts, np.random.default_rng(0))
