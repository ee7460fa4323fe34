"""What a candidate is charged: how it grows, and of how many rows."""

import numpy as np
import pytest

import pymc_kbr as pk
from pymc_kbr.selection.budget import RELEVANCE_ROWS, cost_of, rows_with_weight, summary_cost
from pymc_kbr.selection.default_candidates import default_candidates

KNOWN = [*[pk.ESTIMATORS[name]() for name in pk.ESTIMATORS], *default_candidates(1000, 3)]


def differences(cost):
    """Second differences of fits and of rows."""
    fit, row = (np.array([getattr(one, name) for one in cost]) for name in ("fit", "a_row"))
    return np.diff(fit, 2), np.diff(row, 2)


@pytest.mark.parametrize("estimator", KNOWN)
def test_every_cost_is_above_zero_and_grows_with_the_table(estimator):
    costs = [cost_of(estimator, n, d, p) for n, d, p in ((500, 2, 1), (5000, 2, 1), (5000, 40, 6))]
    assert all(cost.fit > 0 and cost.a_row > 0 for cost in costs)
    assert costs[0].fit < costs[1].fit <= costs[2].fit
    assert costs[1].a_row < costs[2].a_row


@pytest.mark.parametrize("form", ["auto", "diagonal_scale", "exchangeable"])
def test_a_likelihood_of_many_statistics_costs_more_with_each(form):
    few, many = (cost_of(pk.KernelLikelihood(form), 1000, d, 2) for d in (30, 90))
    assert few.fit < many.fit
    assert few.a_row < many.a_row


@pytest.mark.parametrize("name", ["rejection", "nadaraya_watson"])
def test_a_table_costs_as_many_times_as_it_has_rows(name):
    fits, rows = differences(
        [
            cost_of(
                pk.ESTIMATORS[name](accepted=50) if name == "rejection" else pk.ESTIMATORS[name](), n, 3, 2
            )
            for n in (1000, 2000, 3000)
        ]
    )
    np.testing.assert_allclose(fits, 0, atol=1e-12)
    np.testing.assert_allclose(rows, 0, atol=1e-12)


def test_a_spread_costs_something_a_row_beside_the_mean():
    def extra(n):
        plain, spread = (
            cost_of(pk.Adjusted(pk.Rejection(50), name), n, 3, 2).fit
            for name in ("kernel_ridge", "heteroscedastic_kernel_ridge")
        )
        return spread - plain

    assert 0 < extra(1000) < extra(2000)
    assert extra(3000) - extra(2000) == pytest.approx(extra(2000) - extra(1000))


def test_slopes_cost_the_square_of_the_statistics():
    linear = pk.Adjusted(pk.Rejection(400), "local_linear")
    (short,), (long,) = (
        differences([cost_of(linear, 1000, d, 2) for d in ds])[1] for ds in ((10, 20, 30), (20, 40, 60))
    )
    assert short > 0
    assert long == pytest.approx(4 * short)


def test_a_posterior_of_dense_weights_costs_the_square_of_the_rows():
    costs = [cost_of(pk.ConditionalMean(1.0, 1e-3), n, 3, 2) for n in (2000, 4000, 6000, 8000)]
    first, second = differences(costs)[1]
    assert first > 0
    assert second == pytest.approx(first)


def test_summaries_are_fitted_to_some_rows_at_most_and_take_seconds():
    for name, most in (
        ("relevance", RELEVANCE_ROWS),
        ("posterior_mean", 10_000),
        ("joint_posterior_mean", 10_000),
    ):
        costs = [summary_cost(name, n, 5, 2) for n in (most // 2, most, 10 * most)]
        assert 0.1 < costs[0] < costs[1] == costs[2] < 60
    linear = [summary_cost("linear_posterior_mean", n, 5, 2) for n in (10_000, 100_000)]
    assert linear[0] < linear[1] < 1


@pytest.mark.parametrize("n", [100, 300])
@pytest.mark.parametrize(
    "estimator",
    [
        pk.Rejection(20),
        pk.Rejection(0.001),
        pk.Rejection(0.25),
        pk.Rejection(0.9, most=30),
        pk.Localised(40),
        pk.Localised(),
        pk.ConditionalMean(1.0, 1e-3),
    ],
)
def test_rows_with_weight_are_those_that_a_fitted_estimator_gives_weight_to(estimator, n):
    x = np.random.default_rng(n).normal(size=(n, 2))
    assert rows_with_weight(estimator, n) == np.count_nonzero(estimator.fit(x, x).weights(x[0]))


@pytest.mark.parametrize("n", [1000, 100_000])
def test_what_is_adjusted_where_nothing_is_given_costs_what_it_is(n):
    assert cost_of(pk.Adjusted(), n, 3, 2) == cost_of(pk.Adjusted(pk.Adjusted()._inner()), n, 3, 2)
