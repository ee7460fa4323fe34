"""Whether a posterior is that of too coarse a table, told by the rows nearest to it."""

import dataclasses
import warnings

import numpy as np
import pandas as pd
import pytest

import pymc_kbr as pk
from pymc_kbr.arrays.bijections import Circular
from pymc_kbr.arrays.support import Block, Region, Support, region_of
from pymc_kbr.checking.coarseness import (
    Coarseness,
    by_scores,
    changes_of,
    coarseness,
    coarseness_of,
    remedy_of,
    summaries_of,
)
from pymc_kbr.checking.diagnostics import diagnose
from pymc_kbr.tables.origin import Origin
from tests.checking.looked_at import looked_at
from tests.statistical import coarse

NOISE, SHIFT = 0.02, 3.0


def narrow(n=600, prior_deviation=1.0):
    """A linear table whose posterior is fifty times as narrow as the prior of deviation one."""
    rng = np.random.default_rng(4)
    theta = prior_deviation * rng.normal(size=(n, 1))
    frame = pd.DataFrame(np.hstack([theta, theta + NOISE * rng.normal(size=(n, 1))]), columns=["a", "s"])
    return pk.ReferenceTable.from_dataframe(frame, parameters=["a"], statistics=["s"], observed=[0.5])


def fitted(estimator, table):
    return estimator.fit(table.parameters, table.statistics, table.support, random_seed=0)


def found(estimator, table, **more):
    posterior = fitted(estimator, table).condition(table.observed)
    return coarseness(posterior, table, random_seed=2, **more)


def test_rejection_of_too_wide_a_share_is_coarse_and_a_regression_on_it_is_not():
    table = narrow()
    blurred, sharp = found(pk.Rejection(0.2), table), found(pk.Adjusted(adjustment="local_linear"), table)
    assert blurred.coarse
    assert blurred.resized[0] > np.log(2)
    assert not sharp.coarse
    np.testing.assert_array_equal(found(pk.Rejection(0.2), table).moved, blurred.moved)  # by the seed
    assert sharp.moved[0] < 0.4  # two means of 500 draws, and of a fit to 300 rows


def test_rows_that_are_draws_of_another_prior_are_weighted():
    """Rows of a prior twice as wide, with the ratio to the right one, lead to the same answer."""
    table = narrow(prior_deviation=2.0)
    ratio = np.exp(-0.375 * table.parameters[:, 0] ** 2)
    estimator = pk.Adjusted(adjustment="local_linear").fit(
        table.parameters, table.statistics, table.support, ratio=ratio, random_seed=0
    )
    posterior = estimator.condition(table.observed)
    answer = coarseness_of(estimator, posterior, table, None, np.random.default_rng(2))
    assert not answer.coarse


def test_no_warning_of_few_rows_and_of_a_prior_known_by_draws_alone():
    table = narrow(40)
    assert found(pk.Rejection(20), table) is None
    table = narrow(200)
    prior = np.random.default_rng(1).normal(size=(100, 1))
    estimator = pk.KernelBayes().fit(table.parameters, table.statistics, prior=prior, random_seed=0)
    posterior = estimator.condition(table.observed)
    assert coarseness_of(estimator, posterior, table, None, np.random.default_rng(0)) is None


def test_the_number_of_simulations_is_that_with_a_hundred_rows_inside():
    """Of a uniform prior a share of 4 s / 2 lies within two deviations s of the mean."""
    theta = np.random.default_rng(0).uniform(-1, 1, (1000, 1))
    s = 0.005
    region = Region(np.zeros(1), np.array([[s]]), Support.unbounded(1))
    # The distance of the hundredth row has a standard error of a tenth of itself.
    assert region.simulations(theta) == pytest.approx(100 / (2 * s), rel=0.4)
    assert region.simulations(theta[:100]) > region.simulations(theta) / 2


def test_regions_leave_out_rows_on_an_edge_and_draws_that_are_not_inside():
    support = Support.from_bounds({"a": (0, 1)}, ["a"])
    region = region_of(np.linspace(0.4, 0.6, 50)[:, None], support)
    away = region.distances(np.array([[0.5], [1.0]]))
    assert away[0] < 0.1
    assert away[1] == np.inf
    assert region_of(np.ones((50, 1)), support) is None


def test_summaries_tell_of_places_and_of_spreads():
    rng = np.random.default_rng(5)
    theta = rng.normal(size=(500, 2))
    x = theta[:, :1] + np.exp(theta[:, 1:]) * rng.normal(size=(500, 30))
    frame = pd.DataFrame(np.hstack([theta, x]), columns=[f"c{i}" for i in range(32)])
    table = pk.ReferenceTable.from_dataframe(
        frame, parameters=["c0", "c1"], statistics=list(frame)[2:], observed=x[0]
    )
    region = region_of(theta, table.support)
    near = region.rows(table.parameters, None, rng)
    z = summaries_of(table, near)(table.statistics)
    assert z.shape[1] == 3
    with_mean = [abs(np.corrcoef(column, theta[:, 0])[0, 1]) for column in z.T]
    with_spread = [abs(np.corrcoef(column, theta[:, 1])[0, 1]) for column in z.T]
    assert max(with_mean) > 0.7
    assert with_spread[-1] > 0.9


class ExactLikelihood:
    """Of normal statistics about the logarithms of positive parameters."""

    def log_likelihoods(self, parameters, statistics):
        return -0.5 * np.sum((statistics[None] - np.log(parameters)[:, None]) ** 2, axis=2)


def test_changes_of_a_likelihood_are_scores_along_the_axes_of_the_draws():
    """Of a normal law, twice the distance from the draws' mean along an axis, a deviation long."""
    rng = np.random.default_rng(6)
    free = rng.normal(size=(400, 2)) @ np.array([[1.0, 0.4], [0.0, 0.3]]) + [0.5, -1.0]
    support = Support.from_bounds({"a": (0, None), "b": (0, None)}, ["a", "b"])
    x = rng.normal(size=(20, 2))
    found = changes_of(ExactLikelihood(), region_of(np.exp(free), support).ends())(x)
    # A region's covariance has a root whatever the draws are: a millionth of each variance is added.
    values, vectors = np.linalg.eigh(np.cov(free.T) + 1e-6 * np.diag(free.var(axis=0)))
    expected = 2 * (x - free.mean(axis=0)) @ (vectors * np.sqrt(values))
    np.testing.assert_allclose(np.abs(found), np.abs(expected), rtol=1e-8)  # an axis has no sign


def test_summaries_take_over_where_a_likelihood_has_no_value():
    rng = np.random.default_rng(7)
    theta = rng.normal(size=(300, 1))
    frame = pd.DataFrame(np.hstack([theta, theta + rng.normal(size=(300, 13))]))
    frame.columns = [f"c{i}" for i in range(14)]
    table = pk.ReferenceTable.from_dataframe(
        frame, parameters=["c0"], statistics=list(frame)[1:], observed=np.full(13, 0.3)
    )

    class Refuses(ExactLikelihood):
        form_ = None

        def log_likelihoods(self, parameters, statistics):
            raise ValueError("no logarithm")

    posterior = fitted(pk.Rejection(30), table).condition(table.observed)
    assert np.isfinite(coarseness(posterior, table, random_seed=1, likelihood=Refuses()).size)


def draws_of_a_normal(shift=0.0, factor=1.0):
    """Twelve draws of a normal distribution about each parameter, moved and stretched after the fit."""
    rng = np.random.default_rng(8)
    theta, noise = rng.normal(size=(1500, 1)), rng.normal(size=(1500, 12))
    names = [f"c{i}" for i in range(13)]
    given = {"parameters": names[:1], "statistics": names[1:], "observed": np.linspace(-1.5, 1.5, 12) + 0.3}

    def table(x):
        return pk.ReferenceTable.from_dataframe(
            pd.DataFrame(np.hstack([theta, x]), columns=names), discrete=[], **given
        )

    likelihood = fitted(pk.KernelLikelihood("exchangeable"), table(theta + noise))
    return likelihood, table(theta + shift + factor * noise)


@pytest.mark.parametrize(
    ("shift", "factor", "moved", "resized"),
    [
        # Tolerances are a bias and three standard deviations, both over 14 tables: of `moved` .04 and .06 in
        # the last case, which is the worst, of `resized` .08 and .094. A posterior has the precision 1 + 12:
        # 0.3 is 0.3 * 12 / sqrt(13) of its standard deviations.
        (0.0, 1.0, 0.0, 0.0),
        (0.3, 1.0, 1.0, 0.0),
        # Scores are twice as large: 12 of 13 parts of the precision are a fourth.
        (0.0, 2.0, 0.0, 0.5 * np.log(1 / 13 + 12 / 13 / 4)),
    ],
)
def test_a_likelihood_of_draws_is_judged_by_its_scores(shift, factor, moved, resized):
    likelihood, table = draws_of_a_normal(shift, factor)
    posterior = likelihood.condition(table.observed)
    found = coarseness(posterior, table, likelihood=likelihood, random_seed=3)
    assert "scores" in found.message()
    assert found.moved[0] == pytest.approx(moved, abs=0.04 + 3 * 0.06)
    assert found.resized[0] == pytest.approx(resized, abs=0.08 + 3 * 0.094)


def test_scores_of_few_rows_near_a_posterior_say_nothing():
    likelihood, table = draws_of_a_normal()
    region = region_of(likelihood.condition(table.observed).draw(500, 1), table.support)
    near = by_scores(likelihood, region, table, None, np.random.default_rng(1))
    assert near is not None
    weights = (np.arange(len(table)) < 150).astype(float)
    assert by_scores(likelihood, region, table, weights, np.random.default_rng(1)) is None


def one(moved, resized, simulations=3e4):
    return Coarseness(np.array(moved), np.array(resized), simulations, 1000, ("a", "b"))


def test_the_message_names_the_parameter_and_what_to_do():
    wide, narrow_one = one([0.1, 0.2], [0.0, 1.0]), one([0.9, 0.0], [-0.7, 0.0], 1e6)
    assert wide.coarse
    assert narrow_one.coarse
    assert not one([0.1, 0.2], [0.1, -0.1]).coarse
    assert "'b' is 2.7 times as wide" in wide.message()
    assert "about 30,000" in wide.message()
    assert "'a' is 2.0 times as narrow" in narrow_one.message()
    assert "more than 100 times as many" in narrow_one.message()
    assert "rounds='auto'" in wide.message()


ORIGINS = {
    "given": Origin(),
    "of the prior by choice": Origin(rounds="1 round: all simulations are draws of the prior"),
    "looked at": Origin(
        rounds="none: all 40 are draws of the prior, and the first 20 was not found too coarse"
    ),
    "too few": Origin(rounds="1 round: all simulations are draws of the prior, since simulations is 40"),
    "zoomed": Origin(between_bounds=True),
    "of rounds": Origin(from_proposal=True, rounds="4 round(s) of 10, 10, 10, 10 simulations; ended, since"),
}


@pytest.mark.parametrize(
    ("whose", "advice", "not_advised"),
    [
        ("given", ["rounds='auto'", "`refine`", "`zoom`"], ["rounds=4"]),
        ("of the prior by choice", ["rounds='auto'", "`refine`", "`zoom`"], ["rounds=4"]),
        ("looked at", ["rounds=4", "`refine`", "`zoom`"], ["auto"]),
        ("too few", ["more draws of the prior, about 30,000", "statistics that say more"], ["round", "zoom"]),
        (
            "zoomed",
            ["between the bounds, about 30,000", "between narrower ones (`zoom`)"],
            ["auto", "refine", "prior"],
        ),
        ("of rounds", ["more simulations, about 30,000", "or more rounds"], ["auto", "zoom", "prior"]),
    ],
)
def test_the_advice_can_be_followed(whose, advice, not_advised):
    table = dataclasses.replace(narrow(), origin=ORIGINS[whose])
    message = one([0.1, 0.2], [0.0, 1.0]).message(looked_at(table).remedy)
    assert all(words in message for words in advice)
    assert not any(words in message for words in not_advised)


@pytest.mark.parametrize("kind", ["discrete", "angle"])
def test_of_parameters_that_cannot_be_drawn_in_rounds_more_of_the_prior_are_advised(kind):
    block = Block((0,), smooth=False) if kind == "discrete" else Block((0,), (Circular(),))
    support = Support(1, (block,))
    for whose in ("given", "looked at"):
        parts = {"support": support, "origin": ORIGINS[whose]}
        table = dataclasses.replace(narrow(), parameters=np.clip(narrow().parameters, -3, 3), **parts)
        message = one([0.1, 0.2], [0.0, 1.0]).message(remedy_of(table))
        assert "more draws of the prior, about 30,000" in message
        assert not any(words in message for words in ("round", "refine", "zoom"))


def test_diagnose_passes_it_on():
    table = narrow()
    posterior = fitted(pk.Rejection(0.2), table).condition(table.observed)
    draws, seen = posterior.draw(100, 0), looked_at(table)
    names = [
        [c.name for c in diagnose(posterior, draws, seen, coarse=c)] for c in (one([0, 1], [0, 1]), None)
    ]
    assert "coarse" in names[0]
    assert "coarse" not in names[1]


@pytest.mark.coarse
def test_sample_abc_warns():
    given = {"reference_table": narrow(), "random_seed": 1, "progressbar": False}
    with pytest.warns(pk.PosteriorWarning, match="too coarse"):
        idata = pk.sample_abc(100, estimator=pk.Rejection(0.2), **given)
    assert "coarse: " in idata["posterior"].attrs["warnings"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", pk.PosteriorWarning)
        pk.sample_abc(100, estimator="adjusted", **given)


def test_the_figures_that_are_kept_are_those_of_all_models():
    lines = coarse.read()
    assert [int(one["number"]) for one in lines] == list(range(coarse.MODELS))
    for some in (lines, lines[coarse.SETTLED_ON :]):  # on the second nothing was settled
        of_off, of_right = coarse.rates(some)
        assert of_off >= 0.9
        assert of_right <= 0.05


def test_the_figures_are_what_the_models_give():
    kept, now = coarse.read()[1], coarse.line(1)
    assert all(kept[name] == str(now[name]) for name in ("kind", "estimator", "rows", "statistics"))
    assert float(kept["error"]) == pytest.approx(now["error"], rel=0.05, abs=0.05)
    assert coarse.fires(kept) == coarse.fires(now)
    assert coarse.is_off(kept) == coarse.is_off(now)
