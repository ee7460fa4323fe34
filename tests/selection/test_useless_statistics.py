"""A choice among estimators of many statistics, most of which say nothing."""

import numpy as np
import pandas as pd
import pytest

import pymc_kbr as pk
from pymc_kbr.arrays.checked_rows import CheckedRows
from pymc_kbr.checking.coarseness import coarseness_of
from pymc_kbr.estimators.summaries import Transformed
from pymc_kbr.selection.select import choose, default_candidates

USEFUL = [4, 9]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    theta, x = rng.normal(size=(1200, 2)), rng.normal(size=(1200, 26))
    x[:, USEFUL] = theta + 0.5 * rng.normal(size=(1200, 2))
    return theta, x


@pytest.mark.parametrize(
    ("dependent", "tried"), [(None, False), (0, False), (1, True), (15, True), (16, False)]
)
def test_auto_tries_it_where_many_statistics_are_useless(dependent, tried):
    given, _ = default_candidates(1000, 30, dependent=dependent)
    assert any(one.get_params().get("scale") == "dependent" for one in given) == tried


def test_auto_settles_the_form_and_the_columns_together(rows):
    """Tested again on all rows, more or fewer columns could be kept than the form was settled for."""
    tried = [pk.Rejection(100), pk.KernelLikelihood("location_scale", 100, scale="dependent")]
    rng = np.random.default_rng(2)
    found = choose(CheckedRows.of(*rows), candidates=tried, rng=rng, progressbar=False)
    best = found.selection_.candidates[0]
    assert best.estimator.scale == found.scale == "dependent"
    columns = found.table_.scaler.columns
    np.testing.assert_array_equal(columns, best.fitted.table_.scaler.columns)
    assert len(found.table_) > len(best.fitted.table_)
    # A held-out row may have a value of which the curve of the others is not defined.
    theta, x = rows
    of_all = Transformed.fit(x[:, columns], theta).scaler
    np.testing.assert_array_equal(found.table_.scaler.curved.scaler.centre, of_all.centre)


def test_it_is_checked_for_a_coarse_table_by_its_own_statistics(rows):
    theta, x = rows
    names = [f"p{j}" for j in range(2)], [f"s{j}" for j in range(26)]
    frame = pd.DataFrame(np.hstack([theta, x]), columns=[*names[0], *names[1]])
    table = pk.ReferenceTable.from_dataframe(frame, parameters=names[0], statistics=names[1], observed=x[3])
    fitted = pk.KernelLikelihood("location_scale", 400, scale="dependent").fit(table, random_seed=1)
    found = coarseness_of(fitted, fitted.condition(x[3]), table, None, np.random.default_rng(1))
    assert found is None or np.all(found.moved < 0.5)


def test_auto_tries_it_by_default_and_its_posterior_is_that_of_the_useful_statistics(rows):
    rng = np.random.default_rng(2)
    found = choose(CheckedRows.of(*rows), rng=rng, progressbar=False)
    by_label = {one.label: one for one in found.selection_.candidates}
    tried = by_label["KernelLikelihood(scale='dependent')"]
    assert len(tried.scores) >= 20
    observed = np.zeros(26)
    observed[USEFUL] = 1.0, -0.5
    compared = tried.fitted.for_scores()
    drawn = compared.condition(observed).draw(compared.particles, rng)
    # Each with a normal prior of unit variance and noise of variance a quarter; four standard errors.
    error = np.sqrt(0.2 / compared.particles)
    np.testing.assert_allclose(drawn.mean(axis=0), [0.8, -0.4], atol=4 * error)
    np.testing.assert_allclose(drawn.std(axis=0), np.sqrt(0.2), atol=4 * error / np.sqrt(2))
