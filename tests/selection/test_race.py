"""What a race scores, under which prior, which candidates it drops, and which one it takes."""

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
from pymc_kbr.selection import race as race_module
from pymc_kbr.selection.race import Fitting, Scoring, race
from pymc_kbr.selection.select import choose
from pymc_kbr.selection.selection import Candidate

QUIET = {"progressbar": False}
LINEAR = pk.Adjusted(pk.Rejection(200, kernel="epanechnikov"), "local_linear")
LEARNT = pk.KernelLikelihood("location_scale", 60)


def rows(n=600, unit=1.0):
    rng = np.random.default_rng(4)
    theta = rng.normal(size=(n, 2))
    return theta * unit, theta @ np.array([[1.0, 0.3], [0.0, 1.0]]) + 0.3 * rng.normal(size=(n, 2))


def sides(ratio=None, unit=1.0):
    """The rows that are not held out, and those that are."""
    table = CheckedRows.of(*rows(unit=unit), pk.Support.unbounded(2), ratio)
    return table.some(np.arange(500)), table.some(np.arange(500, 600))


def scored(estimator, count=30, **given):
    """The fitted estimator, and lines of the first held-out rows."""
    rest, held_out = sides(**given)
    fitting = Fitting(rest, 3, None)
    fitting.prepare([estimator])
    scoring = Scoring.of(rest, held_out, np.random.default_rng(0))
    fitted = fitting(estimator)
    return fitted, scoring, scoring(fitted, 0, count)


@pytest.mark.parametrize("accepted", [100, 450])
def test_a_score_is_the_energy_score_of_power_one_tenth_over_deviations(accepted):
    """By its definition, of the same draws, which are smoothed where atoms are few."""
    fitted, scoring, lines = scored(pk.Rejection(accepted), 6)
    theta, x = rows()
    unit = theta[:500].std(axis=0)
    for row in range(6):
        posterior = fitted.condition(x[500 + row])
        smoothing = "none" if posterior.effective_sample_size > 300 else "local"
        draws = posterior.draw(300, np.random.default_rng((scoring.seed, row)), smoothing=smoothing)
        to_truth = np.linalg.norm((draws - theta[500 + row]) / unit, axis=1) ** 0.1
        pairs = pdist(draws / unit) ** 0.1
        assert lines[row].score == pytest.approx(to_truth.mean() - 0.5 * pairs.mean(), rel=1e-9)


def test_a_learned_likelihood_is_scored_by_each_of_its_draws_once():
    fitted, _, lines = scored(LEARNT, 3)
    theta, x = rows()
    unit = theta[:500].std(axis=0)
    for row, posterior in enumerate(fitted.condition(x[500:503])):
        assert len(posterior.atoms) == 60
        expected = energy_score(posterior.atoms / unit, theta[500 + row] / unit, 0.1, fair=True)
        assert lines[row].score == pytest.approx(expected, rel=1e-6)


def test_scores_do_not_depend_on_the_parameters_units():
    *_, plain = scored(LINEAR)
    *_, other = scored(LINEAR, unit=np.array([1e3, 1e-3]))
    np.testing.assert_allclose([one.score for one in plain], [one.score for one in other], rtol=1e-6)


def test_candidates_are_fitted_with_the_ratio_of_another_prior():
    theta, x = rows()
    ratio = np.exp(theta[:, 0])
    for estimator in (pk.Rejection(200), pk.Localised(150), LINEAR):
        fitted, *_ = scored(estimator, 2, ratio=ratio)
        for given, same in ((ratio[:500], True), (None, False)):
            alone = clone(estimator).fit(theta[:500], x[:500], ratio=given, random_seed=3)
            apart = np.abs(alone.weights(x[500]) - fitted.weights(x[500])).max()
            assert bool(apart < 1e-12) is same


def test_held_out_rows_are_drawn_in_proportion_to_the_ratio():
    """One row in ten has nine times the weight of each other: half of the draws are such rows."""
    ratio = np.where(np.arange(600) % 10, 1.0, 9.0)
    rest, held_out = sides(ratio)
    drawn = np.concatenate(
        [Scoring.of(rest, held_out, np.random.default_rng(seed)).order for seed in range(20)]
    )
    assert np.mean(held_out.ratio[drawn] == 9.0) == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(len(drawn)))
    _, scoring, lines = scored(pk.Rejection(50), 100, ratio=ratio)
    assert len(lines) == 100
    assert len(np.unique(scoring.order)) < 100  # a row that is drawn twice has the same line twice
    for number in np.unique(scoring.order):
        assert len({line.score for line, row in zip(lines, scoring.order, strict=True) if row == number}) == 1


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


def test_the_known_prior_is_in_the_scores_of_a_learned_likelihood():
    """A prior that excludes half of the plane: no draw of the compared estimator is there."""
    rest, held_out = sides()

    def right(theta):
        return np.where(theta[:, 0] > 0, -0.5 * np.sum(theta**2, axis=1), -np.inf)

    (found,) = race([Candidate("one", LEARNT)], [], rest, held_out, np.random.default_rng(0), log_prior=right)
    assert np.all(found.fitted.condition(np.array([0.5, 0.0])).atoms[:, 0] > 0)


# --- which one is taken ---


def outcome(monkeypatch, excess, pvalues, fallbacks=0, errors=0.01):
    """A race of candidates "0", "1", ... with known scores: those with a p-value are learned likelihoods.

    `excess` is by how much each one's mean is above that of "0", on the first 40 rows and on all; every
    difference to "0" has the standard error `errors` on 40 rows.
    """
    candidates = []
    for number, pvalue in enumerate(pvalues):
        one = Candidate(str(number), clone(LINEAR if pvalue is None else LEARNT))
        if pvalue is not None:
            one.estimator.transforms_pvalue_ = pvalue
        candidates.append(one)
    common = 1 + 0.1 * np.random.default_rng(1).normal(size=100)

    def score(one, fitting, scoring, rows):
        number = int(one.label)
        first, whole = np.broadcast_to(excess[number], 2)
        later = (100 * whole - 40 * first) / 60
        wave = errors * np.sqrt(40) * (-1.0) ** np.arange(100) * (number > 0)
        scores = common + np.where(np.arange(100) < 40, first, later) + wave
        one.fitted, one.scores = one.estimator, scores[:rows]

    monkeypatch.setattr(race_module, "_score", score)
    tried, others = candidates[: len(candidates) - fallbacks], candidates[len(candidates) - fallbacks :]
    ranked = race(tried, others, *sides(), np.random.default_rng(0), progressbar=False)
    assert sorted(one.label for one in ranked) == [one.label for one in candidates]
    return ranked, candidates


@pytest.mark.parametrize(("excess", "dropped"), [(0.019, False), (0.021, True)])
def test_a_candidate_two_errors_behind_is_dropped_after_forty_rows(excess, dropped, monkeypatch):
    ranked, (leader, rival) = outcome(monkeypatch, [0.0, excess], [None, None])
    assert ranked == [leader, rival]
    assert (rival.note == "dropped after 40 rows") is dropped
    assert len(rival.scores) == len(leader.scores) == (40 if dropped else 100)


def test_those_that_are_left_are_compared_on_a_hundred_rows(monkeypatch):
    ranked, (first, second) = outcome(monkeypatch, [0.0, (0.015, -0.005)], [None, None])
    assert ranked == [second, first]


@pytest.mark.parametrize(
    ("excess", "pvalue", "first"),
    [
        (0.01, 0.5, "1"),  # a learned likelihood wins ties within two errors
        (0.01, 1e-4, "0"),  # but not one that held-out rows refute
        ((0.015, 0.02), 0.5, "0"),  # nor by more: of 100 rows the error is smaller
        (-0.005, 1e-4, "1"),  # though it may be the best
    ],
)
def test_a_learned_likelihood_wins_ties_where_it_is_not_refuted(excess, pvalue, first, monkeypatch):
    ranked, _ = outcome(monkeypatch, [0.0, excess], [None, pvalue])
    assert ranked[0].label == first


def test_a_race_ends_after_forty_rows_where_a_likelihood_leads(monkeypatch):
    for pvalue, count in ((0.5, 40), (1e-4, 100)):
        ranked, _ = outcome(monkeypatch, [0.0, 0.01], [pvalue, None])
        assert [len(one.scores) for one in ranked] == [count, count]


@pytest.mark.parametrize(
    ("excess", "pvalue", "tried"),
    [(-0.01, 0.5, False), (0.005, 0.5, False), (0.3, 0.5, True), (-0.01, 1e-4, True)],
)
def test_fallbacks_are_tried_only_where_no_likelihood_is_taken(excess, pvalue, tried, monkeypatch):
    ranked, candidates = outcome(monkeypatch, [0.0, excess, -0.5], [None, pvalue, None], fallbacks=1)
    fallback = candidates[2]
    assert (fallback.note == "not tried: a learned likelihood held") is not tried
    assert bool(len(fallback.scores)) is tried
    assert (ranked[0] is fallback) is tried


def test_of_two_likelihoods_that_hold_the_better_one_is_taken(monkeypatch):
    ranked, _ = outcome(monkeypatch, [0.0, 0.006, 0.004], [None, 0.5, 0.5])
    assert ranked[0].label == "2"


# --- candidates that refuse ---


def test_a_candidate_that_refuses_the_rows_is_noted_and_fallbacks_are_tried():
    refused = Candidate("refused", pk.KernelLikelihood("exchangeable", particles=20))  # of two statistics
    fallback = Candidate("fallback", LINEAR)
    ranked = race([refused], [fallback], *sides(), np.random.default_rng(0), progressbar=False)
    assert ranked == [fallback, refused]
    assert refused.note.startswith("refused: ")
    with pytest.raises(ValueError, match="no candidate could be fitted"):
        race([Candidate("one", refused.estimator)], [], *sides(), np.random.default_rng(0))


def test_a_candidate_without_finite_scores_is_refused(monkeypatch):
    score = race_module.energy_score

    def refusing(draws, *given, **more):
        return np.nan if len(draws) == 60 else score(draws, *given, **more)

    monkeypatch.setattr(race_module, "energy_score", refusing)
    learnt, other = Candidate("learnt", LEARNT), Candidate("other", LINEAR)
    ranked = race([learnt], [other], *sides(), np.random.default_rng(0), progressbar=False)
    assert ranked == [other, learnt]
    assert learnt.note == "refused: its draws have no finite score"


@pytest.mark.parametrize("cores", [1, 2])
def test_a_summary_is_learnt_once_and_its_refusal_is_that_of_all_that_name_it(cores, monkeypatch):
    learnt = []

    class Refusing:
        @staticmethod
        def fit(statistics, parameters):
            learnt.append(statistics.shape)
            raise ValueError("no such summary today")

    monkeypatch.setattr(threads, "cores", lambda: cores)
    monkeypatch.setitem(SUMMARIES, "relevance", Refusing)
    named = [
        pk.Rejection(50, scale="relevance"),
        pk.Adjusted(pk.Rejection(60, scale="relevance"), "local_linear"),
    ]
    tried = [Candidate(str(number), one) for number, one in enumerate([LINEAR, *named])]
    ranked = race(tried, [], *sides(), np.random.default_rng(0), progressbar=False)
    assert ranked[0].label == "0"
    assert [one.note for one in tried[1:]] == ["refused: no such summary today"] * 2
    assert learnt == [(500, 2)]


def test_the_choice_is_the_same_on_any_number_of_cores(monkeypatch):
    estimators = [LINEAR, pk.Adjusted(pk.Rejection(200, scale="relevance"), "local_linear"), LEARNT]
    filters, found, fitted_by = list(warnings.filters), [], []
    working = pk.KernelLikelihood.fit_table

    def fit_table(self, table, rng):
        fitted_by.append(threading.current_thread() is threading.main_thread())
        return working(self, table, rng)

    monkeypatch.setattr(pk.KernelLikelihood, "fit_table", fit_table)
    for cores in (1, 2):
        monkeypatch.setattr(threads, "cores", lambda cores=cores: cores)
        with one_blas_thread():  # as `choose` does: rounding would differ
            tried = [Candidate(str(number), one) for number, one in enumerate(estimators)]
            ranked = race(tried, [], *sides(), np.random.default_rng(0), progressbar=False)
        found.append([(one.label, one.note, one.scores.tolist()) for one in ranked])
    assert found[0] == found[1]
    assert fitted_by == [True, False]
    assert warnings.filters == filters


# --- what is handed out ---


def test_what_was_compared_is_handed_out_where_few_rows_were_held_out():
    theta, x = rows(4000)
    arguments = {"rng": np.random.default_rng(1), "candidates": [LINEAR], "progressbar": False}
    found = choose(CheckedRows.of(theta, x), **arguments)
    assert len(found.table_) == 3900
    assert found.selection_.chosen.fitted.table_ is found.table_
    assert found.selection_.seconds_of_fit == 0


@pytest.mark.parametrize("weighted", [False, True])
def test_of_few_rows_or_under_another_prior_the_chosen_one_is_fitted_to_all(weighted):
    theta, x = rows(4000 if weighted else 600)
    ratio = np.exp(theta[:, 0]) if weighted else None
    arguments = {"rng": np.random.default_rng(1), "candidates": [pk.Rejection(200)], "progressbar": False}
    found = choose(CheckedRows.of(theta, x, ratio=ratio), **arguments)
    alone = pk.Rejection(200).fit(theta, x, ratio=ratio)
    np.testing.assert_allclose(found.weights(x[0]), alone.weights(x[0]), rtol=1e-12)


def test_a_likelihood_is_fitted_again_in_the_form_that_was_compared():
    theta, x = rows()
    arguments = {"candidates": [pk.KernelLikelihood(particles=50)], "progressbar": False}
    found = choose(CheckedRows.of(theta, x), rng=np.random.default_rng(1), **arguments)
    compared = found.selection_.chosen.fitted
    assert found.form == compared.choice_.name
    assert len(found.choice_.densities) == 2
    assert found.choice_.densities == compared.choice_.densities
    assert len(found.table_) > len(compared.table_)


@pytest.mark.parametrize("enough", [True, False])
def test_a_first_candidate_that_does_not_do_is_not_compared(enough):
    rest, held_out = sides()
    seen = []

    def does_not_do(fitted):
        seen.append(fitted)
        return enough

    some = [Candidate(name, pk.Rejection(accepted)) for name, accepted in (("few", 20), ("more", 60))]
    plain = [Candidate(one.label, one.estimator) for one in some]
    found = race(some, [], rest, held_out, np.random.default_rng(1), does_not_do=does_not_do, **QUIET)
    assert seen == [some[0].fitted]
    if enough:
        assert found == some
        assert found[1].fitted is None
        assert [len(one.scores) for one in found] == [0, 0]
    else:
        without = race(plain, [], rest, held_out, np.random.default_rng(1), **QUIET)
        assert [one.label for one in found] == [one.label for one in without]
        np.testing.assert_array_equal(found[0].scores, without[0].scores)
