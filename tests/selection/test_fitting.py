"""What candidates share that are fitted to the same rows."""

import numpy as np
import pytest

import pymc_kbr as pk
from pymc_kbr.arrays.checked_rows import CheckedRows
from pymc_kbr.selection.budget import cost_of, summary_cost
from pymc_kbr.selection.race import Fitting

RNG = np.random.default_rng(3)
THETA = RNG.normal(size=(150, 2))
X = THETA + 0.3 * RNG.normal(size=(150, 2))
INNER = {"accepted": 60, "kernel": "epanechnikov"}


def fitting():
    return Fitting(CheckedRows.of(THETA, X), 0)


def test_the_same_adjustment_in_the_same_scale_is_fitted_once():
    shared = fitting()
    one, other, elsewhere = (
        shared.fit(pk.Adjusted(pk.Rejection(accepted, scale=scale), "kernel_ridge"))
        for accepted, scale in ((60, True), (90, True), (60, False))
    )
    assert other.adjustment_ is one.adjustment_
    assert other.table_ is one.table_
    assert elsewhere.adjustment_ is not one.adjustment_
    spread = shared.fit(pk.Adjusted(pk.Rejection(60), "heteroscedastic_kernel_ridge"))
    assert spread.adjustment_.mean_ is one.adjustment_.mean_


def test_what_is_shared_is_not_charged_again():
    shared, estimator = fitting(), pk.Adjusted(pk.Rejection(**INNER), "kernel_ridge")
    first = shared.cost(estimator)
    assert first == cost_of(estimator, 150, 2, 2)
    fitted = shared.fit(estimator)
    assert shared.cost(estimator) == cost_of(estimator, 150, 2, 2, fitted)
    assert shared.cost(estimator).fit < first.fit


@pytest.mark.parametrize("name", ["relevance", "linear_posterior_mean"])
def test_a_summary_is_charged_and_fitted_once(name):
    shared, estimator = fitting(), pk.Rejection(60, scale=name)
    first = shared.cost(estimator)
    assert first.fit == pytest.approx(cost_of(estimator, 150, 2, 2).fit + summary_cost(name, 150, 2, 2))
    one = shared.fit(estimator)
    assert shared.cost(estimator).fit == cost_of(estimator, 150, 2, 2).fit
    assert shared.fit(pk.Adjusted(estimator, "local_linear")).table_.scaler is one.table_.scaler
    alone = pk.Rejection(60, scale=name).fit(THETA, X)
    np.testing.assert_allclose(one.weights(X[:5]), alone.weights(X[:5]))


def test_of_a_learned_likelihood_every_form_is_compared(monkeypatch):
    """Which one it is fitted by in the end is settled here."""
    asked = []

    def fit_table(self, table, rng):
        asked.append(self.tries_all)
        return self

    monkeypatch.setattr(pk.KernelLikelihood, "fit_table", fit_table)
    given = pk.KernelLikelihood()
    fitting().fit(given)
    assert asked == [True]
    assert not given.tries_all
    assert not given.for_scores().tries_all
