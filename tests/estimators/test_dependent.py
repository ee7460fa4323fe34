"""Likelihoods of the statistics that depend on the parameters, without the others."""

import numpy as np
import pandas as pd
import pytest

import pymc_kbr as pk
from pymc_kbr.arrays.checked_rows import CheckedRows
from pymc_kbr.checking.coarseness import coarseness_of
from pymc_kbr.estimators.summaries import Dependent
from pymc_kbr.selection.default_candidates import default_candidates
from pymc_kbr.selection.select import choose

USEFUL = [4, 9, 20]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    theta, x = rng.normal(size=(1200, 2)), rng.normal(size=(1200, 26))
    x[:, 2] = 7.0
    x[:, USEFUL[:2]] = theta + 0.5 * rng.normal(size=(1200, 2))
    x[:, USEFUL[2]] = rng.poisson(np.exp(1 + 0.5 * theta[:, 0]))
    return theta, x


@pytest.fixture(scope="module")
def fitted(rows):
    return pk.KernelLikelihood("location_scale", 400, scale="dependent").fit(*rows, random_seed=1)


@pytest.mark.filterwarnings("ignore:the statistics in columns")
def test_it_is_the_likelihood_of_those_columns(rows, fitted):
    theta, x = rows
    columns = fitted.table_.scaler.columns
    assert set(USEFUL) <= set(columns)
    assert len(columns) <= 5
    alone = pk.KernelLikelihood("location_scale", 400).fit(theta, x[:, columns], random_seed=1)
    at = theta[:6]
    np.testing.assert_allclose(
        fitted.log_likelihood(at, x[3]), alone.log_likelihood(at, x[3, columns]), rtol=1e-10
    )
    mine, other = fitted.condition(x[3]), alone.condition(x[3, columns])
    np.testing.assert_array_equal(mine.atoms, other.atoms)
    assert mine.settings["statistics_left_out"] == 26 - len(columns)
    assert "statistics_left_out" not in other.settings
    assert mine.settings["transforms_worst"] == columns[int(other.settings["transforms_worst"])]


def test_what_is_left_out_changes_nothing_and_may_be_missing(rows, fitted):
    _, x = rows
    left = int(np.flatnonzero(~fitted.table_.scaler.fitted)[1])  # the first is constant
    moved, missing = x[3].copy(), x[3].copy()
    moved[left], missing[left] = 1e3, np.nan
    np.testing.assert_array_equal(fitted.condition(moved).atoms, fitted.condition(x[3]).atoms)
    np.testing.assert_array_equal(fitted.condition(missing).atoms, fitted.condition(x[3]).atoms)


@pytest.mark.filterwarnings("ignore:the statistics in columns")
def test_one_that_is_not_left_out_is_integrated_out(rows, fitted):
    """As where the others were never there."""
    theta, x = rows
    columns = fitted.table_.scaler.columns
    alone = pk.KernelLikelihood("location_scale", 400).fit(theta, x[:, columns], random_seed=1)
    missing = x[3].copy()
    missing[[0, USEFUL[1], 25]] = np.nan
    expected = alone.condition(missing[columns])
    np.testing.assert_allclose(fitted.condition(missing).atoms, expected.atoms, rtol=1e-9)


def test_no_draws_of_what_is_left_out(rows, fitted):
    with pytest.raises(ValueError, match="no way back to statistics"):
        fitted.draw_statistics(rows[0][:3], np.random.default_rng(0))


def test_a_table_whose_statistics_say_nothing_is_refused(rows):
    rng = np.random.default_rng(4)
    useless = rng.normal(size=(300, 4))
    with pytest.raises(ValueError, match="none of the 4 statistics is found to depend on a parameter"):
        Dependent.fit(useless, rng.normal(size=(300, 1)))


@pytest.mark.parametrize(
    ("dependent", "tried"), [(None, False), (0, False), (1, True), (15, True), (16, False)]
)
def test_auto_tries_it_where_many_statistics_are_useless(dependent, tried):
    given = default_candidates(1000, 30, dependent=dependent)
    assert any(one.get_params().get("scale") == "dependent" for one in given) == tried


@pytest.mark.filterwarnings("ignore:the statistics in columns")
def test_auto_settles_the_form_and_the_columns_together(rows):
    """Tested again on all rows, more or fewer columns could be kept than the form was settled for."""
    tried = [pk.Rejection(100), pk.KernelLikelihood("location_scale", 100, scale="dependent")]
    rng = np.random.default_rng(2)
    found = choose(CheckedRows.of(*rows), candidates=tried, rng=rng, progressbar=False)
    best = found.selection_.candidates[0]
    assert best.estimator.scale == found.scale == "dependent"
    assert found.table_.scaler is best.fitted.table_.scaler
    assert len(found.table_) > len(best.fitted.table_)


def test_it_is_checked_for_a_coarse_table_by_its_own_statistics(rows):
    theta, x = rows
    names = [f"p{j}" for j in range(2)], [f"s{j}" for j in range(26)]
    frame = pd.DataFrame(np.hstack([theta, x]), columns=[*names[0], *names[1]])
    table = pk.ReferenceTable.from_dataframe(frame, parameters=names[0], statistics=names[1], observed=x[3])
    fitted = pk.KernelLikelihood("location_scale", 400, scale="dependent").fit(table, random_seed=1)
    found = coarseness_of(fitted, fitted.condition(x[3]), table, None, np.random.default_rng(1))
    assert found is None or np.all(found.moved < 0.5)
