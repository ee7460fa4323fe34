"""Likelihoods of the statistics that depend on the parameters, without the others."""

import numpy as np
import pytest

import pymc_kbr as pk
from pymc_kbr.estimators.summaries import Dependent

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


@pytest.mark.filterwarnings("ignore:the statistics in columns")
def test_an_observation_that_has_no_logarithm_is_named_by_its_number(rows):
    theta, x = rows
    with_logs = x.copy()
    with_logs[:, 12] = np.exp(2 * theta[:, 1] + x[:, 12])
    summary = Dependent.fit(with_logs, theta)
    with pytest.raises(ValueError, match=r"statistic 12 has the value -1 in row 0, .* by their log"):
        summary.transform(np.where(np.arange(26) == 12, -1, with_logs[:1]))
    again = summary.of_rows(np.where(np.arange(26) == 12, x, with_logs), theta)
    np.testing.assert_array_equal(again.columns, summary.columns)
    assert np.isfinite(again.transform(x)).all()


def test_no_draws_of_what_is_left_out(rows, fitted):
    with pytest.raises(ValueError, match="no way back to statistics"):
        fitted.draw_statistics(rows[0][:3], np.random.default_rng(0))


def test_a_table_whose_statistics_say_nothing_is_refused(rows):
    rng = np.random.default_rng(4)
    useless = rng.normal(size=(300, 4))
    with pytest.raises(ValueError, match="none of the 4 statistics is found to depend on a parameter"):
        Dependent.fit(useless, rng.normal(size=(300, 1)))
