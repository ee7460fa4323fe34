"""Estimators as values: what a constructor stores, what a fitted one tells of its table."""

import inspect

import numpy as np
import pytest

import pymc_kbr as pk
from pymc_kbr.arrays.checked_rows import CheckedRows
from pymc_kbr.estimators.fitted_table import in_deviations
from tests.estimators.parts import Parts

RNG = np.random.default_rng(6)
THETA = RNG.normal(size=(120, 2))
X = THETA + 0.3 * RNG.normal(size=(120, 2))


@pytest.mark.parametrize("name", pk.ESTIMATORS)
def test_the_constructor_stores_every_argument_as_it_is(name):
    cls = pk.ESTIMATORS[name]
    arguments = [one for one in inspect.signature(cls).parameters if one != "self"]
    given = {one: object() for one in arguments}
    made = cls(**given)
    assert all(getattr(made, one) is given[one] for one in arguments)


def test_the_whole_table_is_named_only_where_it_is_there_in_deviations():
    fitted, rows = pk.Rejection(10).fit(THETA, X), CheckedRows.of(THETA, X)
    assert in_deviations(rows, fitted) is fitted.table_
    others = [
        (fitted, CheckedRows.of(THETA[:119], X[:119])),  # rows of a larger table
        (pk.Rejection(10, scale=False).fit(THETA, X), rows),
        (pk.Rejection(10).fit(THETA, X, ratio=np.where(np.arange(120) < 3, 0.0, 1.0)), rows),
        (pk.Rejection(10).fit(Parts(THETA), Parts(X)), rows),
    ]
    for other, given in others:
        table = in_deviations(given, other)
        assert table is not other.table_
        assert len(table) == len(given)
        np.testing.assert_allclose(table.statistics.std(axis=0), 1)


def test_a_prior_may_have_draws_of_no_weight():
    draws, weights = THETA[:20], np.where(np.arange(20) < 5, 0.0, 1.0)
    without = pk.KernelDensity(0.4, prior=draws[5:]).fit(THETA, X).condition(X[0])
    with_them = pk.KernelDensity(0.4, prior=(draws, weights)).fit(THETA, X).condition(X[0])
    np.testing.assert_allclose(with_them.mean(), without.mean())


@pytest.mark.parametrize("adjustment", ["kernel_ridge", "heteroscedastic_kernel_ridge", "local_linear"])
def test_every_row_that_is_read_in_parts_is_moved_as_in_memory(adjustment):
    estimator = pk.Adjusted(pk.Rejection(30, scale=False), adjustment)
    memory = estimator.fit(THETA, X, random_seed=0)
    parts = pk.Adjusted(pk.Rejection(30, scale=False), adjustment).fit(Parts(THETA), Parts(X), random_seed=0)
    observed = X[[0, 60, -2, -1]]  # the first and the last rows of the table are among their own neighbours
    for ours, theirs in zip(parts.condition(observed), memory.condition(observed), strict=True):
        assert ours.mean() == pytest.approx(theirs.mean(), rel=1e-8, abs=1e-8)
        np.testing.assert_allclose(
            np.sort(ours.atoms[:, 0]), np.sort(theirs.atoms[:, 0]), rtol=1e-7, atol=1e-9
        )


@pytest.mark.parametrize(("theta", "x", "side"), [(THETA + 0j, X, "parameters"), (THETA, X + 0j, "statist")])
def test_complex_rows_on_the_disk_are_refused_by_name(theta, x, side):
    with pytest.raises(TypeError, match=f"complex numbers in the {side}.*imaginary part"):
        pk.Rejection(10).fit(Parts(theta), Parts(x))
