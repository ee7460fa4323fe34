"""What a race scores, in which units and with which weights, and how it ranks."""

import threading
import warnings

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.base import clone

import pymc_kbr as pk
from pymc_kbr.arrays import threads
from pymc_kbr.arrays.checked_rows import CheckedRows
from pymc_kbr.arrays.threads import one_blas_thread
from pymc_kbr.embedding.embedding import Atoms
from pymc_kbr.estimators.summaries import SUMMARIES
from pymc_kbr.posterior.scores import energy_score
from pymc_kbr.selection.budget import Budget
from pymc_kbr.selection.race import Race, RaceRule
from pymc_kbr.selection.select import choose
from pymc_kbr.selection.selection import Candidate

LINEAR = pk.Adjusted(pk.Rejection(200, kernel="epanechnikov"), "local_linear")


def rows(n=600, unit=1.0):
    rng = np.random.default_rng(4)
    theta = rng.normal(size=(n, 2))
    return theta * unit, theta @ np.array([[1.0, 0.3], [0.0, 1.0]]) + 0.3 * rng.normal(size=(n, 2))


def a_race(ratio=None, unit=1.0):
    theta, x = rows(unit=unit)
    rest, held_out = np.arange(500), np.arange(500, 600)
    support = pk.Support.unbounded(2)
    table = CheckedRows.of(theta, x, support, ratio)
    return Race(table.some(rest), table.some(held_out), np.random.default_rng(0), Budget(100.0))


def scored(race, estimator, count=30):
    one = Candidate("one", estimator)
    race._score(one, 0, count, [one])
    return one


def test_a_score_is_the_energy_score_of_power_one_tenth_over_deviations():
    """By its definition, of the same draws: m (m - 1) pairs of different ones."""
    race = a_race()
    one = scored(race, LINEAR, 6)
    theta, x = rows()
    unit = theta[:500].std(axis=0)
    fitted = one.fitted
    for row in range(6):
        draws = fitted.condition(x[500 + row]).draw(300, np.random.default_rng((race.seed, row)))
        to_truth = np.linalg.norm((draws - theta[500 + row]) / unit, axis=1) ** 0.1
        pairs = pdist(draws / unit) ** 0.1
        assert one.scores[row] == pytest.approx(to_truth.mean() - 0.5 * pairs.mean(), rel=1e-9)


def test_scores_do_not_depend_on_the_parameters_units():
    plain = scored(a_race(), LINEAR).scores
    other = scored(a_race(unit=np.array([1e3, 1e-3])), LINEAR).scores
    np.testing.assert_allclose(plain, other, rtol=1e-6)


def test_candidates_that_are_tied_are_ranked_by_effective_sample_size():
    rng = np.random.default_rng(0)
    race, common = a_race(), rng.normal(size=100)
    small, large = (Candidate(name, LINEAR, size=size) for name, size in (("small", 30.0), ("large", 300.0)))
    # Two parameters, so that a tie is two fifths of a standard error, which is 0.01 here.
    small.scores = common
    for excess, order in ((0.003, ["large", "small"]), (0.008, ["small", "large"])):
        large.scores = common + excess + 0.1 * (-1.0) ** np.arange(100)
        assert [one.label for one in race.ranked([small, large])] == order


def behind(excess, error, rows=100):
    """Scores of two candidates, the first about one, and the mean and standard error of their difference."""
    first = np.random.default_rng(0).normal(1, 0.1, rows)
    first /= first.mean()
    return first, first + excess + error * np.sqrt(rows) * (-1.0) ** np.arange(rows)


@pytest.mark.parametrize(
    ("excess", "error", "first"),
    [
        (0.0017, 0.001, "learnt"),
        (0.0023, 0.001, "other"),  # by more than chance
        (0.0096, 0.006, "learnt"),
        (0.0104, 0.006, "other"),  # by less than that, but by more than a fit to all rows would mend
    ],
)
def test_what_is_compared_by_a_part_of_the_rows_ties_by_chance_and_by_what_more_rows_mend(
    excess, error, first
):
    race = a_race()
    learnt = Candidate("learnt", pk.KernelLikelihood(), size=200.0)
    other = Candidate("other", LINEAR, size=9e9)
    other.scores, learnt.scores = behind(excess, error)
    assert race.ranked([other, learnt])[0].label == first


@pytest.mark.parametrize(("pvalue", "order"), [(0.01, ["learnt", "other"]), (1e-4, ["other", "learnt"])])
def test_a_form_that_held_out_rows_refute_wins_no_ties(pvalue, order):
    race = a_race()
    learnt = Candidate("learnt", pk.KernelLikelihood(), size=200.0, fitted=pk.KernelLikelihood())
    learnt.fitted.transforms_pvalue_ = pvalue
    other = Candidate("other", LINEAR, size=9e9)
    other.scores, learnt.scores = behind(0.0012, 0.001)
    assert [one.label for one in race.ranked([other, learnt])] == order


@pytest.mark.parametrize(
    ("rows", "errors", "stays"),
    [
        (20, 2.9, True),
        (20, 3.1, False),
        (40, 2.4, True),
        (40, 2.6, False),
        (100, 1.9, True),
        (100, 2.1, False),
    ],
)
@pytest.mark.parametrize("pvalue", [None, 0.5, 1e-4])
def test_after_few_rows_a_candidate_is_dropped_only_where_it_is_far_behind(rows, errors, stays, pvalue):
    """The best of many after few rows has been lucky; and a form that holds may have been unlucky."""
    leader, rival = Candidate("leader", LINEAR), Candidate("rival", LINEAR)
    if pvalue is not None:
        rival = Candidate("rival", pk.KernelLikelihood(), fitted=pk.KernelLikelihood())
        rival.fitted.transforms_pvalue_ = pvalue
        stays = stays or (pvalue == 0.5 and rows < 100)
    leader.scores, rival.scores = behind(errors * 0.01, 0.01, rows)
    alive = [rival, leader]
    a_race()._drop(alive, 12, rows)
    assert alive == ([leader, rival] if stays else [leader])


def test_of_learned_likelihoods_that_are_tied_the_one_with_the_lower_score_is_the_best():
    rng = np.random.default_rng(0)
    race, common = a_race(), rng.normal(size=100)
    first, second, third = (
        Candidate(name, pk.KernelLikelihood(), size=200.0) for name in ("first", "second", "third")
    )
    wave = 0.1 * (-1.0) ** np.arange(100)
    second.scores = common
    first.scores, third.scores = common + 0.008 + wave, common + 0.004 - wave
    assert [one.label for one in race.ranked([first, second, third])] == ["second", "third", "first"]
    # Nor does a form that holds win against a refuted one which is ahead by more than chance.
    second.fitted = pk.KernelLikelihood()
    second.fitted.transforms_pvalue_ = 1e-4
    assert race.ranked([first, second])[0].label == "second"
    first.scores = common + 0.003 + wave
    assert race.ranked([first, second])[0].label == "first"


@pytest.mark.parametrize("excess", [0.0, 1.0])
def test_a_crowd_of_adjusted_candidates_drops_no_learnt_one_that_is_not_behind(excess):
    rng = np.random.default_rng(1)
    race, common = a_race(), rng.normal(size=100)
    crowd = [Candidate(str(i), LINEAR, scores=common + 1e-3 * rng.normal(size=100)) for i in range(14)]
    learnt = Candidate("learnt", pk.KernelLikelihood(), scores=common + 0.01 + excess + rng.normal(size=100))
    alive = [*crowd, learnt]
    race._drop(alive, 12, 100)
    assert sum(one in alive for one in crowd) <= 12
    assert (learnt in alive) is (excess == 0.0)


def test_a_learnt_likelihood_is_scored_by_each_of_its_draws_once():
    race = a_race()
    one = scored(race, pk.KernelLikelihood("location_scale", 60), 3)
    theta, x = rows()
    unit = theta[:500].std(axis=0)
    for row, posterior in enumerate(one.fitted.condition(x[500:503])):
        assert len(posterior.atoms) == 60
        expected = energy_score(posterior.atoms / unit, theta[500 + row] / unit, 0.1, fair=True)
        assert one.scores[row] == pytest.approx(expected, rel=1e-6)


def test_candidates_are_fitted_with_the_ratio_of_another_prior():
    theta, x = rows()
    ratio = np.exp(theta[:, 0])
    for estimator in (pk.Rejection(200), pk.Localised(150), LINEAR):
        fitted = scored(a_race(ratio), estimator, 2).fitted
        for given, same in ((ratio[:500], True), (None, False)):
            alone = type(estimator)(**estimator.get_params(deep=False))
            alone.fit(theta[:500], x[:500], ratio=given, random_seed=a_race(ratio).seed)
            apart = np.abs(alone.weights(x[500]) - fitted.weights(x[500])).max()
            assert bool(apart < 1e-12) is same


class WrongToTheLeft(pk.Rejection):
    """Rejection whose atoms are one too high where the first statistic is below its mean."""

    side = -1

    def _atoms(self, x, found):
        return [
            Atoms(atoms.points + (at[0] * self.side > 0), self.parameter_kernel_)
            for at, atoms in zip(x, super()._atoms(x, found), strict=True)
        ]


class WrongToTheRight(WrongToTheLeft):
    side = 1


@pytest.mark.parametrize(("left", "chosen"), [(20.0, WrongToTheRight), (0.05, WrongToTheLeft)])
def test_held_out_rows_count_as_much_as_the_other_prior_gives_them(left, chosen):
    theta, x = rows()
    found = choose(
        CheckedRows.of(theta, x, ratio=np.where(x[:, 0] < 0, left, 1.0)),
        rng=np.random.default_rng(1),
        candidates=[WrongToTheLeft(50), WrongToTheRight(50)],
        progressbar=False,
    )
    assert type(found) is chosen
    # The scores that are shown are weighted, too.
    best = found.selection_.chosen
    weights = found.selection_.weights[: len(best.scores)]
    assert np.ptp(weights) > 0
    assert found.selection_.table()[0]["score"] == pytest.approx(np.average(best.scores, weights=weights))


def test_a_candidate_that_is_chosen_is_fitted_with_the_ratio():
    theta, x = rows()
    ratio = np.exp(theta[:, 0])
    arguments = {"rng": np.random.default_rng(1), "candidates": [pk.Rejection(200)], "progressbar": False}
    found = choose(CheckedRows.of(theta, x, ratio=ratio), **arguments)
    alone = pk.Rejection(200).fit(theta, x, ratio=ratio)
    np.testing.assert_allclose(found.weights(x[0]), alone.weights(x[0]), rtol=1e-12)


def test_a_choice_is_forgotten_where_the_estimator_is_fitted_again():
    theta, x = rows()
    arguments = {"rng": np.random.default_rng(1), "candidates": [pk.Rejection(200)], "progressbar": False}
    found = choose(CheckedRows.of(theta, x), **arguments)
    assert found.selection_ is not None
    assert found.fit(theta, x + 1).selection_ is None


@pytest.mark.parametrize("accepted", [100, 450])
def test_draws_of_many_atoms_are_scored_without_smoothing(accepted):
    race = a_race()
    one = scored(race, pk.Rejection(accepted), 3)
    theta, x = rows()
    unit = theta[:500].std(axis=0)
    for row in range(3):
        posterior = one.fitted.condition(x[500 + row])
        smoothing = "none" if posterior.effective_sample_size > 300 else "local"
        draws = posterior.draw(300, np.random.default_rng((race.seed, row)), smoothing=smoothing)
        expected = energy_score(draws / unit, theta[500 + row] / unit, 0.1, fair=True)
        assert one.scores[row] == pytest.approx(expected, rel=1e-9)


def run(monkeypatch, cores, candidates, work=100.0):
    """A race on so many cores: labels, notes, scores and costs, what was spent, and which threads fitted."""
    monkeypatch.setattr(threads, "cores", lambda: cores)
    race, fitted_by = a_race(), []
    race.budget = Budget(work)
    working = pk.KernelLikelihood.fit_table

    def fit_table(self, table, rng):
        fitted_by.append(threading.current_thread())
        return working(self, table, rng)

    monkeypatch.setattr(pk.KernelLikelihood, "fit_table", fit_table)
    with one_blas_thread():  # as `choose` does: rounding would differ
        ranked = race.run([Candidate(str(i), one) for i, one in enumerate(candidates)], False)
    monkeypatch.setattr(pk.KernelLikelihood, "fit_table", working)
    return (
        [(one.label, one.note, one.scores.tolist(), one.cost) for one in ranked],
        race.budget.spent,
        fitted_by,
    )


@pytest.mark.parametrize(("work", "ahead"), [(100.0, True), (5.0, False)])
def test_learned_likelihoods_are_fitted_beside_others_and_the_choice_is_the_same(monkeypatch, work, ahead):
    """Where the work for them is sure, and otherwise in their turn."""
    relevance = pk.Adjusted(pk.Rejection(200, scale="relevance"), "local_linear")
    transformed = pk.Adjusted(pk.Rejection(200, scale="transformed"), "local_linear")
    candidates = [LINEAR, relevance, pk.KernelLikelihood(particles=20), transformed]
    filters = list(warnings.filters)
    *alone, here = run(monkeypatch, 1, candidates, work)
    *beside, there = run(monkeypatch, 2, candidates, work)
    assert beside == alone
    assert here == [threading.main_thread()] * len(here)
    assert [thread is not threading.main_thread() for thread in there] == [ahead]
    assert warnings.filters == filters


@pytest.mark.parametrize(
    ("lead", "pvalue", "learnt_rows", "rows"),
    [
        (0.01, 0.5, 40, 40),
        (0.01, 1e-4, 40, 100),
        (-0.005, 0.5, 40, 100),  # it would be taken
        (-0.05, 0.5, 100, 100),
        (-0.05, 1e-4, 40, 100),
    ],
)
def test_a_race_ends_where_a_form_that_holds_leads_on_all_rows_that_it_is_scored_on(
    monkeypatch, lead, pvalue, learnt_rows, rows
):
    """Nothing that the others could still do would change the choice; where it is beaten, it is in doubt."""
    race, scores = a_race(), 1 + 0.1 * np.random.default_rng(1).normal(size=100)
    learnt = Candidate("learnt", pk.KernelLikelihood(particles=20))
    others = [Candidate(name, clone(LINEAR)) for name in ("one", "two")]

    def scored(fitted, at):
        # Two others that differ by chance alone: they are raced to the end.
        ahead = lead if fitted is learnt.estimator else 0.0
        noise = 0.2 * (-1.0) ** (at // 2 + at * (fitted is others[0].estimator))
        return [(value, np.ones(2, bool), 10.0) for value in scores[at] + noise - ahead]

    learnt.estimator.transforms_pvalue_ = pvalue
    monkeypatch.setattr(race.fitting, "prepared", lambda estimator: lambda: estimator)
    monkeypatch.setattr(race, "scoring", scored)
    race.rule = RaceRule(behind={20: 99.0, 40: 99.0})
    ranked = race.run([*others, learnt], False)
    assert [len(one.scores) for one in others] == [rows, rows]
    assert len(learnt.scores) == learnt_rows
    assert not race.ended_early
    if rows == 40:
        assert ranked[0] is learnt


@pytest.mark.parametrize(("later", "chosen"), [(-0.02, "learnt"), (0.04, "other")])
def test_a_form_that_holds_and_is_behind_on_the_first_rows_is_compared_on_more(monkeypatch, later, chosen):
    """Three standard errors on forty rows, and the other way on those after them, or further."""
    race, scores = a_race(), 1 + 0.1 * np.random.default_rng(1).normal(size=100)
    learnt, other = Candidate("learnt", pk.KernelLikelihood(particles=20)), Candidate("other", clone(LINEAR))
    learnt.estimator.transforms_pvalue_ = 0.5

    def scored(fitted, at):
        behind = np.where(at < 40, 0.01, later) + 0.02 * (-1.0) ** at
        found = scores[at] + behind * (fitted is learnt.estimator)
        return [(value, np.ones(2, bool), 10.0) for value in found]

    monkeypatch.setattr(race.fitting, "prepared", lambda estimator: lambda: estimator)
    monkeypatch.setattr(race, "scoring", scored)
    ranked = race.run([other, learnt], False)
    assert ranked[0].label == chosen
    assert len(learnt.scores) == 100


@pytest.mark.parametrize(
    ("behind", "pvalue", "tried"),
    [(-0.01, 0.5, False), (0.005, 0.5, False), (0.3, 0.5, True), (-0.01, 1e-4, True)],
)
def test_spare_candidates_are_tried_only_where_no_learned_likelihood_stands(
    monkeypatch, behind, pvalue, tried
):
    """One that was refuted, or is so far behind that it would be dropped, does not."""
    race, scores = a_race(), 1 + 0.1 * np.random.default_rng(1).normal(size=100)
    first, *spare = (Candidate(name, clone(LINEAR)) for name in ("first", "one", "two"))
    learnt = Candidate("learnt", pk.KernelLikelihood(particles=20))
    for one in spare:
        one.spare = True

    def scored(fitted, at):
        ahead = {id(learnt.estimator): -behind, id(spare[1].estimator): 0.5}.get(id(fitted), 0.0)
        noise = 0.2 * (-1.0) ** (at // 2 + at * (fitted is learnt.estimator))
        return [(value, np.ones(2, bool), 10.0) for value in scores[at] + noise - ahead]

    learnt.estimator.transforms_pvalue_ = pvalue
    monkeypatch.setattr(race.fitting, "prepared", lambda estimator: lambda: estimator)
    monkeypatch.setattr(race, "scoring", scored)
    ranked = race.run([first, learnt, *spare], False)
    assert [len(one.scores) >= 20 for one in spare] == [tried, tried]
    assert {one.note for one in spare if not tried} <= {"not tried: a learned likelihood held after 20 rows"}
    assert set(map(id, ranked)) == set(map(id, [first, learnt, *spare]))
    if tried:
        assert ranked[0] is spare[1]


class Stopped(Exception):
    """Instead of a race."""


def stopping(kept):
    """A `Race.run` that keeps itself and what it is asked for, and ends."""

    def run(self, candidates, progressbar):
        kept.append((self, candidates))
        raise Stopped

    return run


def test_of_default_candidates_those_after_the_likelihood_are_spare_and_none_of_the_given(monkeypatch):
    asked, (theta, x) = [], rows()
    monkeypatch.setattr(Race, "run", stopping(asked))
    given = [LINEAR, pk.KernelLikelihood(), pk.Rejection(50)]
    for candidates in (None, given):
        with pytest.raises(Stopped):
            choose(CheckedRows.of(theta, x), rng=np.random.default_rng(0), candidates=candidates)
    (_, defaults), (_, ours) = asked
    place = next(i for i, one in enumerate(defaults) if isinstance(one.estimator, pk.KernelLikelihood))
    assert place >= 1
    assert [one.spare for one in defaults] == [False] * (place + 1) + [True] * (len(defaults) - place - 1)
    assert len(defaults) > place + 3
    assert not any(one.spare for one in ours)


@pytest.mark.parametrize("others", [False, True])
def test_spare_candidates_are_begun_as_far_as_the_work_goes_and_one_in_any_case(others):
    """The refused likelihood has taken what there was; rows count by their weights."""
    theta, _ = rows()
    race = a_race(np.exp(theta[:, 0]))
    refused = Candidate("refused", pk.KernelLikelihood("exchangeable", particles=20))  # of two statistics
    first = [Candidate("first", clone(pk.Rejection(60)))] if others else []
    spare = [Candidate(name, clone(pk.Rejection(50)), spare=True) for name in ("one", "two")]
    costs = [race.fitting.cost(one.estimator) for one in (*first, refused)]
    race.budget = Budget(1.001 * sum(cost.fit + 20 * cost.a_row for cost in costs))
    ranked = race.run([*first, refused, *spare], False)
    assert ranked[0] is [*first, *spare][0]
    left = spare if others else spare[1:]
    assert all(one.note.startswith("not tried: no work was left") for one in left)
    assert np.ptp(race.weights[:20]) > 0


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_likelihood_without_finite_scores_is_refused_and_spares_none(value, monkeypatch):
    race, spare = a_race(), Candidate("spare", clone(LINEAR), spare=True)
    learnt = Candidate("learnt", pk.KernelLikelihood(particles=20))
    learnt.estimator.transforms_pvalue_ = 0.5
    monkeypatch.setattr(race.fitting, "prepared", lambda estimator: lambda: estimator)
    monkeypatch.setattr(
        race,
        "scoring",
        lambda fitted, at: [
            (value if fitted is learnt.estimator else 1.0, np.ones(2, bool), 10.0) for _ in at
        ],
    )
    ranked = race.run([learnt, spare], False)
    assert ranked[0] is spare
    assert learnt.note == "refused: its draws have no finite score"


def test_a_likelihood_that_was_set_aside_is_left_where_those_that_went_on_have_no_further_scores(monkeypatch):
    race = a_race()
    learnt, other = Candidate("learnt", pk.KernelLikelihood(particles=20)), Candidate("other", clone(LINEAR))
    learnt.estimator.transforms_pvalue_ = 1e-4  # one that holds is not set aside behind others

    def scored(fitted, at):
        scores = 1.0 + 0.3 * (-1.0) ** (at // (1 + (fitted is learnt.estimator)))
        scores = np.where(at < 40, scores - 0.1 * (fitted is other.estimator), np.nan)
        return [(score, np.ones(2, bool), 10.0) for score in scores]

    monkeypatch.setattr(race.fitting, "prepared", lambda estimator: lambda: estimator)
    monkeypatch.setattr(race, "scoring", scored)
    ranked = race.run([other, learnt], False)
    assert ranked[0] is learnt
    assert other.note == "refused: its draws have no finite score"


def test_a_likelihood_that_is_beaten_and_for_which_there_is_no_work_ends_nothing(monkeypatch):
    for work, rows in ((1e9, 100), (6.0, 40)):
        race, scores = a_race(), 1 + 0.1 * np.random.default_rng(1).normal(size=100)
        race.budget = Budget(work)
        learnt = Candidate("learnt", pk.KernelLikelihood(particles=20))
        others = [Candidate(name, clone(LINEAR)) for name in ("one", "two")]
        learnt.estimator.transforms_pvalue_ = 0.5

        def scored(fitted, at, behind=learnt.estimator, first=others[0].estimator, scores=scores):
            noise = 0.2 * (-1.0) ** (at // 2 + at * (fitted is first))
            found = scores[at] + noise + 0.05 * (fitted is behind)
            return [(value, np.ones(2, bool), 10.0) for value in found]

        monkeypatch.setattr(race.fitting, "prepared", lambda estimator: lambda: estimator)
        monkeypatch.setattr(race, "scoring", scored)
        race.run([learnt, *others], False)
        assert [len(one.scores) for one in (learnt, *others)] == [rows, 100, 100]
        assert not race.ended_early


def test_likelihoods_that_are_left_alone_because_others_were_spared_are_not_raced_on(monkeypatch):
    """Each further row of theirs takes long; without spare ones they are."""
    for spares in (True, False):
        race, scores = a_race(), 1 + 0.1 * np.random.default_rng(1).normal(size=100)
        learnt = [Candidate(name, pk.KernelLikelihood(particles=20)) for name in ("first", "second")]
        other = Candidate("other", clone(LINEAR))
        spare = [Candidate("spare", clone(LINEAR), spare=True)] if spares else []

        def scored(fitted, at, behind=other.estimator, second=learnt[1].estimator, scores=scores):
            wave = 0.05 * (-1.0) ** (at // (1 + (fitted is second)))
            found = scores[at] + wave + 2.0 * (fitted is behind)
            return [(score, np.ones(2, bool), 10.0) for score in found]

        for one in learnt:
            one.estimator.transforms_pvalue_ = 0.5
        monkeypatch.setattr(race.fitting, "prepared", lambda estimator: lambda: estimator)
        monkeypatch.setattr(race, "scoring", scored)
        race.run([other, *learnt, *spare], False)
        assert [len(one.scores) for one in (other, *learnt)] == [20, *[40 if spares else 100] * 2]


def test_a_likelihood_is_begun_before_the_summaries_of_others(monkeypatch):
    """It needs a core until the end of the round."""
    race, open_simulation = a_race(), []
    learnt = pk.KernelLikelihood(particles=20)
    relevance = pk.Adjusted(pk.Rejection(200, scale="relevance"), "local_linear")
    monkeypatch.setattr(race.fitting, "begin", lambda estimator, begin: open_simulation.append(estimator))
    working = race._working
    monkeypatch.setattr(
        race, "_working", lambda one, *given: open_simulation.append(one.estimator) or working(one, *given)
    )
    race.run([Candidate(str(i), one) for i, one in enumerate([relevance, learnt])], False)
    assert open_simulation[:2] == [learnt, relevance]


def test_spare_candidates_are_tried_where_the_likelihood_refuses_the_rows(monkeypatch):
    race, spare = a_race(), Candidate("spare", LINEAR, spare=True)
    refused = Candidate("refused", pk.KernelLikelihood("exchangeable", particles=20))  # of two statistics
    ranked = race.run([refused, spare], False)
    assert ranked[0] is spare
    assert refused.note.startswith("refused: ")


@pytest.mark.parametrize(("rows", "scored"), [(1999, 100), (2000, 40)])
def test_of_small_tables_learned_likelihoods_are_scored_on_more_rows(rows, scored, monkeypatch):
    asked = []
    monkeypatch.setattr(Race, "run", stopping(asked))
    theta = np.random.default_rng(0).normal(size=(rows, 1))
    with pytest.raises(Stopped):
        choose(CheckedRows.of(theta, theta + 1), rng=np.random.default_rng(0), progressbar=False)
    assert asked[0][0].rule.rows_in_part == scored


def test_learned_likelihoods_alone_are_compared_on_more_rows(monkeypatch):
    """The one that leads on forty rows may have been lucky."""
    race, scores = a_race(), 1 + 0.1 * np.random.default_rng(1).normal(size=100)
    first, second = (Candidate(name, pk.KernelLikelihood(particles=20)) for name in ("first", "second"))
    waves = 0.2 * (-1.0) ** np.arange(100), 0.2 * (-1.0) ** (np.arange(100) // 2)
    waves[1][40:] -= 0.05

    def scored(fitted, at):
        return [(value, np.ones(2, bool), 10.0) for value in (scores + waves[fitted is second.estimator])[at]]

    first.estimator.transforms_pvalue_ = second.estimator.transforms_pvalue_ = 0.5
    monkeypatch.setattr(race.fitting, "prepared", lambda estimator: lambda: estimator)
    monkeypatch.setattr(race, "scoring", scored)
    race.rule = RaceRule(behind={20: 99.0, 40: 99.0})
    ranked = race.run([first, second], False)
    assert [len(one.scores) for one in ranked] == [100, 100]
    assert ranked[0] is second


def test_a_summary_is_begun_once_beside_others_and_its_refusal_is_theirs(monkeypatch):
    began, outcomes = [], {}

    class Refusing:
        @staticmethod
        def fit(statistics, parameters):
            began.append(threading.current_thread())
            raise ValueError("no such summary today")

    monkeypatch.setitem(SUMMARIES, "relevance", Refusing)
    by_relevance = [
        pk.Rejection(50, scale="relevance"),
        pk.Adjusted(pk.Rejection(60, scale="relevance"), "local_linear"),
    ]
    for cores in (1, 2):
        found, *_ = run(monkeypatch, cores, [LINEAR, *by_relevance])
        outcomes[cores] = found
        assert found[0][0] == "0"
        assert [note for _, note, *_ in found[1:]] == ["refused: no such summary today"] * 2
    assert outcomes[1] == outcomes[2]
    assert sum(thread is not threading.main_thread() for thread in began) == 1


def test_one_that_was_begun_ahead_and_refuses_the_rows_is_dropped(monkeypatch):
    refused = pk.KernelLikelihood("exchangeable", particles=20)  # of two statistics
    found, _, _ = run(monkeypatch, 2, [LINEAR, refused])
    assert [label for label, *_ in found] == ["0", "1"]
    assert found[1][1].startswith("refused: ")
    assert found[1][2] == []
