"""The estimator for a table and its observation."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import pymc_kbr as pk
from pymc_kbr.arrays.threads import one_blas_thread
from pymc_kbr.gram import Nystroem
from pymc_kbr.selection import select as select_module
from pymc_kbr.selection.fitted_for import account, fitted_for, warn_of_few
from pymc_kbr.selection.select import on_all_rows
from pymc_kbr.simulation.prior.new_prior import NewPrior
from tests.estimators.parts import Parts


def test_an_effective_sample_size_of_a_hundred_is_enough(recwarn):
    warn_of_few(100.0, 1500)
    assert not recwarn
    with pytest.warns(UserWarning, match="size of 99 among 1500 rows"):
        warn_of_few(99.4, 1500)


def with_outlier(n):
    x = np.random.default_rng(3).normal(size=(n, 2))
    x[7, 1] = 1e12
    frame = pd.DataFrame(np.hstack([x[:, :1], x]), columns=["a", "s0", "s1"])
    return pk.ReferenceTable.from_dataframe(frame, parameters=["a"], statistics=["s0", "s1"])


@pytest.mark.parametrize("rows", [60, 200])
def test_an_outlier_is_named_where_an_estimator_is_chosen(rows):
    candidates = [pk.Rejection(10), pk.Rejection(20)]
    with pytest.warns(UserWarning, match=rf"1 of {rows} rows \(7\)"):
        pk.select(with_outlier(rows), candidates=candidates, random_seed=1, progressbar=False)


def test_and_where_one_is_calibrated():
    with pytest.warns(UserWarning, match="the statistic in column 1 is that of 1 of 180 rows"):
        pk.calibrate(pk.Rejection(10), with_outlier(200), rows=20, random_seed=1, progressbar=False)


RNG = np.random.default_rng(5)
THETA = RNG.normal(size=(200, 2))
X = THETA + 0.5 * RNG.normal(size=(200, 2))
DRAWS = RNG.normal(0.3, 0.6, size=(150, 2))
RATIO = np.exp(0.5 * THETA[:, 0])
RANDOM = pk.ConditionalMean(1.0, 1e-3, solver=Nystroem(20))


def a_table(rows=200):
    frame = pd.DataFrame(np.hstack([THETA, X])[:rows], columns=["a", "b", "s0", "s1"])
    return pk.ReferenceTable.from_dataframe(
        frame, parameters=["a", "b"], statistics=["s0", "s1"], observed=[0.1, 0.2]
    )


def fitted(estimator, new=None, stored=None, seed=3):
    return fitted_for(a_table(), estimator, new, stored, np.random.default_rng(seed), False)


@pytest.mark.parametrize("estimator", [pk.Rejection(40), pk.KernelBayes(1.0, 1e-3, solver=Nystroem(20))])
def test_another_prior_is_taken_by_its_ratio_or_else_by_its_draws(estimator):
    support = pk.Support.unbounded(2)
    for ratio, given in ((RATIO, {"ratio": RATIO}), (None, {"prior": DRAWS})):
        ours = fitted(clone(estimator), NewPrior(DRAWS, support, ratio))
        t = a_table()
        alone = clone(estimator).fit(
            t.parameters, t.statistics, support, random_seed=np.random.default_rng(3), **given
        )
        np.testing.assert_array_equal(ours.weights(X[:4]), alone.weights(X[:4]))
        assert ours.table_.support is support
    # Who weights draws is given draws.
    ours = fitted(pk.KernelBayes(1.0, 1e-3, atoms="prior"), NewPrior(DRAWS, support, RATIO))
    assert ours.weights(X[0]).shape == (150,)


def test_another_priors_ratio_is_over_the_tables_own():
    own = np.linspace(0.5, 1.5, 200)
    table, support = dataclasses.replace(a_table(), prior_ratio=own), pk.Support.unbounded(2)
    new = NewPrior(DRAWS, support, RATIO)
    ours = fitted_for(table, pk.Rejection(40), new, None, np.random.default_rng(3), False)
    alone = pk.Rejection(40).fit(table.parameters, table.statistics, support, ratio=RATIO * own)
    np.testing.assert_array_equal(ours.weights(X[:4]), alone.weights(X[:4]))


def test_a_learned_likelihood_is_that_of_all_rows_whatever_the_ratio(recwarn):
    narrow = NewPrior(DRAWS, pk.Support.unbounded(2), np.where(np.arange(200) < 20, 1.0, 0.0))
    ours = fitted(pk.KernelLikelihood("location_scale", 50), narrow)
    alone = fitted(pk.KernelLikelihood("location_scale", 50))
    np.testing.assert_array_equal(ours.log_likelihood(THETA, X[0]), alone.log_likelihood(THETA, X[0]))
    assert ours.condition(X[0]).mean()[0] != alone.condition(X[0]).mean()[0]
    assert not recwarn


def test_a_given_estimator_is_fitted_by_the_seed():
    one, two, other = (fitted(clone(RANDOM), seed=seed).weights(X[0]) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one, two)
    assert np.abs(one - other).max() > 0


class OnTheDisk:
    """All rows of a table that stays on the disk."""

    support, prior_ratio = pk.Support.unbounded(2), None
    parameter_names, statistic_names = ["a", "b"], ["s0", "s1"]

    def __init__(self):
        self.parameters, self.statistics, self.failures = Parts(THETA), Parts(X), ()

    def __len__(self):
        return len(THETA)


def test_all_rows_are_fitted_where_an_estimator_can_read_them():
    stored, chosen = OnTheDisk(), pk.Adjusted(pk.Rejection(30), "kernel_ridge")
    found = chosen.fit(THETA[:100], X[:100]).chosen_by("a choice", 100)
    whole, again = (on_all_rows(found, stored, np.random.default_rng(1)) for _ in range(2))
    assert (whole.selection_, whole.fitted_rows_) == ("a choice", 200)
    assert whole.weights(X[-1])[100:].sum() > 0
    for ours, theirs in zip(whole.condition(X[:3]), again.condition(X[:3]), strict=True):
        np.testing.assert_array_equal(ours.atoms, theirs.atoms)
    dense = pk.ConditionalMean(1.0, 1e-3).fit(THETA, X).chosen_by("a choice", 100)
    assert on_all_rows(dense, stored, np.random.default_rng(1)) is dense


def test_what_was_chosen_is_shown_and_kept(capsys):
    few = {"candidates": [pk.Rejection(40), pk.Rejection(80)]}
    for shown in (True, False):
        found = fitted_for(a_table(), None, None, None, np.random.default_rng(0), shown, **few)
        said = " ".join(capsys.readouterr().out.split())
        assert (" ".join(found.selection_.reason().split()) in said) is shown
    notes, coverage, rows = account(found, None)
    assert notes["chosen"] == found.selection_.reason()
    assert [row["candidate"] for row in notes["selection"]] == [
        one.label for one in found.selection_.candidates
    ]
    assert rows == len(found.selection_.chosen.covered) == 20
    np.testing.assert_array_equal(coverage, found.selection_.coverage())


def test_what_was_chosen_on_some_rows_is_fitted_to_all_and_this_is_shown(capsys):
    few = {"candidates": [pk.Rejection(30)]}
    for shown in (True, False):
        rng = np.random.default_rng(0)
        found = fitted_for(a_table(100), None, None, OnTheDisk(), rng, shown, **few)
        assert ("Fitting Rejection to all rows" in capsys.readouterr().out) is shown
        assert found.fitted_rows_ == 200
        assert found.selection_.chosen.label.startswith("Rejection(")


def test_an_account_says_how_many_rows_were_simulated_and_fitted():
    stored = OnTheDisk()
    assert account(fitted(pk.Rejection(20)), None) == ({}, None, 0)
    given = fitted(pk.Rejection(20), stored=stored)
    assert account(given, stored)[0] == {"simulations": 200, "fitted_rows": 200}
    few = pk.select(a_table(), candidates=[pk.Rejection(20)], random_seed=0, progressbar=False)
    assert account(few.chosen_by(few.selection_, 77), stored)[0]["fitted_rows"] == 77


@pytest.mark.parametrize("scale", [False, "relevance"])
def test_the_chosen_estimator_is_fitted_to_all_rows_in_its_own_scale(scale):
    estimator = pk.Rejection(40, scale=scale)
    found = pk.select(a_table(), candidates=[estimator], random_seed=0, progressbar=False)
    with one_blas_thread():  # as a choice has it: sums divided among threads are rounded otherwise
        alone = clone(estimator).fit(a_table().parameters, a_table().statistics)
    np.testing.assert_array_equal(found.table_.statistics, alone.table_.statistics)


def test_of_few_rows_the_reason_names_the_estimator(capsys):
    found = pk.select(with_outlier(50), random_seed=0, progressbar=False)
    assert found.selection_.reason().startswith("Localised(): 50 rows are too few")
    assert found.fitted_rows_ == 50
    assert capsys.readouterr().out == ""


def test_the_seed_of_a_choice_is_that_of_the_fit_to_all_rows(monkeypatch):
    monkeypatch.setattr(select_module, "StoredTable", OnTheDisk)
    monkeypatch.setattr(OnTheDisk, "load", lambda self, rows: a_table(), raising=False)

    def atoms(seed):
        adjusted = pk.Adjusted(pk.Rejection(30), "kernel_ridge")
        found = pk.select(OnTheDisk(), candidates=[adjusted], random_seed=seed, progressbar=False)
        assert found.fitted_rows_ == 200
        return found.condition(X[0]).atoms

    np.testing.assert_array_equal(atoms(1), atoms(1))
    assert np.abs(atoms(1) - atoms(2)).max() > 0  # the pivots of its regression are drawn


@pytest.mark.parametrize("call", ["select", "chosen", "given"])
def test_a_constant_statistic_is_told_of_once_and_by_its_name(call, recwarn):
    rng = np.random.default_rng(3)
    a = rng.normal(size=300)
    frame = pd.DataFrame({"a": a, "s": a + rng.normal(size=300), "always": 50.0})
    table = pk.ReferenceTable.from_dataframe(
        frame, parameters=["a"], statistics=["s", "always"], observed=[0.3, 50.0]
    )
    two = [pk.Rejection(50), pk.Adjusted(pk.Rejection(50, scale="linear_posterior_mean"))]
    given = {"random_seed": 1, "progressbar": False}
    if call == "select":
        pk.select(table, candidates=two, **given)
    else:
        how = {"candidates": two} if call == "chosen" else {"estimator": two[1]}
        pk.sample_abc(20, reference_table=table, **how, **given)
    (one,) = [one for one in recwarn if "constant" in str(one.message)]
    assert str(one.message) == (
        "the statistics 'always' are constant in the reference table; they are dropped"
    )
    assert one.filename == __file__
