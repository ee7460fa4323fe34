import dataclasses
import warnings

import numpy as np
import pandas as pd
import pytest

import pymc_kbr as pk
from case_studies.coalescent.data import load_coalescent
from pymc_kbr.checking.diagnostics import diagnose
from pymc_kbr.checking.observation_support import observation_support
from pymc_kbr.embedding.embedding import Atoms
from pymc_kbr.kernels import Gaussian
from pymc_kbr.posterior.posterior import Posterior
from tests.checking.looked_at import looked_at


def table(observed, n=2000):
    rng = np.random.default_rng(6)
    theta = rng.uniform(0, 1, (n, 1))
    x = theta + 0.2 * rng.normal(size=(n, 3))
    frame = pd.DataFrame(np.hstack([theta, x]), columns=["rate", "s", "t", "u"])
    return pk.ReferenceTable.from_dataframe(
        frame, parameters=["rate"], statistics=["s", "t", "u"], observed=observed, bounds={"rate": (0, 1)}
    )


TYPICAL = [0.5, 0.6, 0.4]


def posterior(weights=None, settings=None):
    points = np.random.default_rng(0).uniform(0.3, 0.7, (200, 1))
    weights = np.full(200, 1 / 200) if weights is None else weights
    return Posterior.of(Atoms(points, Gaussian(0.1)), weights, pk.Support.unbounded(1), settings)


def names(**changes):
    arguments = {"observed": TYPICAL, "posterior": posterior(), "draws": np.full((100, 1), 0.5)} | changes
    found = diagnose(
        arguments["posterior"],
        arguments["draws"],
        looked_at(table(arguments["observed"])),
        coverage=arguments.get("coverage"),
        held_out=arguments.get("held_out", 0),
    )
    return [concern.name for concern in found]


def test_a_posterior_without_fault_gives_no_warning():
    assert names() == []
    assert names(coverage=np.array([0.88]), held_out=400) == []


def test_typical_observations_are_not_called_outside():
    t = table(TYPICAL)
    rng = np.random.default_rng(7)
    theta = rng.uniform(0, 1, (400, 1))
    fresh = theta + 0.2 * rng.normal(size=(400, 3))
    far = sum(observation_support(t, x).far for x in fresh)
    # Half a per cent by definition; 400 draws of it exceed 8 once in a thousand times.
    assert far <= 8


def test_distances_are_those_to_the_nearest_ten_other_rows():
    """Against a plain sort; were each row its own neighbour, all of the references would be too small."""
    t = table(TYPICAL, n=300)
    support = observation_support(t)
    x = (t.statistics - t.statistics.mean(axis=0)) / t.statistics.std(axis=0)
    apart = np.sort(np.linalg.norm(x[:, None] - x[None], axis=2), axis=1)
    assert np.all(apart[:, 0] == 0)
    np.testing.assert_allclose(np.sort(support.references), np.sort(apart[:, 1:11].mean(axis=1)))
    y = (np.array(TYPICAL) - t.statistics.mean(axis=0)) / t.statistics.std(axis=0)
    assert support.distance == pytest.approx(np.sort(np.linalg.norm(x - y, axis=1))[:10].mean())


def test_an_observation_outside_is_named_with_its_statistics():
    support = observation_support(table([0.5, 3.0, 0.4]))
    assert support.far
    assert support.worst() == ["t"]
    assert support.position[1] == 1.0
    assert names(observed=[0.5, 3.0, 0.4]) == ["outside", "misspecified"]


def test_an_unlikely_combination_is_outside_though_each_statistic_is_not():
    support = observation_support(table([0.0, 1.0, 0.0]))
    assert np.all((support.position > 0) & (support.position < 1))
    assert support.far


def test_a_constant_statistic_that_differs_counts():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.random(100), "s": rng.random(100), "c": np.ones(100)})
    t = pk.ReferenceTable.from_dataframe(
        frame, parameters=["a"], statistics=["s", "c"], observed={"s": 0.5, "c": 2.0}
    )
    assert observation_support(t).worst()[0] == "c"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"posterior": posterior(np.where(np.arange(200) < 10, 0.1, 0.0))}, "effective_sample_size"),
        ({"posterior": posterior(np.where(np.arange(200) % 3 == 0, -0.025, 0.0132))}, "negative_share"),
        ({"posterior": posterior(settings={"ridge_raised": 2.0})}, "ridge_raised"),
        ({"draws": np.linspace(0.0, 0.06, 100)[:, None]}, "edge"),
        ({"coverage": np.array([0.7]), "held_out": 400}, "coverage"),
        ({"coverage": np.array([0.99]), "held_out": 400}, "coverage"),
    ],
)
def test_each_fault_is_named(changes, expected):
    assert expected in names(**changes)


def test_a_missing_observation_is_refused():
    with pytest.raises(ValueError, match="no observation"):
        observation_support(table(None))
    with pytest.raises(ValueError, match="3 statistics"):
        observation_support(table(None), np.zeros(2))


def of_statistics(x, observed=None):
    """A table of one parameter and of these statistics (n, d)."""
    names = [f"s{i}" for i in range(x.shape[1])]
    frame = pd.DataFrame(np.hstack([x[:, :1], x]), columns=["a", *names])
    return pk.ReferenceTable.from_dataframe(
        frame,
        parameters=["a"],
        statistics=names,
        observed=np.median(x, axis=0) if observed is None else observed,
    )


def outliers(t, side="statistic", measured=None):
    found = diagnose(posterior(), np.full((100, 1), 0.5), looked_at(t, measured))
    messages = [concern.message for concern in found if concern.name == "outliers"]
    return [message for message in messages if f"the {side} '" in message]


@pytest.mark.parametrize("value", [1e4, 1e12, -1e12, 1e300])
def test_a_row_that_makes_a_statistics_deviation_is_named_with_its_column(value):
    x = np.random.default_rng(3).normal(size=(10_000, 3))
    assert outliers(of_statistics(x)) == []
    x[123, 1] = value
    (message,) = outliers(of_statistics(x))
    assert "'s1'" in message
    assert "(123)" in message
    assert "1 of 10000 rows" in message
    assert "drop these rows" in message
    assert "logarithm" in message


def test_what_a_curve_brings_back_is_no_outlier_but_is_one_in_deviations():
    rng = np.random.default_rng(9)
    theta = rng.uniform(size=(4000, 1))
    heavy = np.exp(6 * rng.standard_normal((4000, 1)) * (0.2 + theta))
    normal = theta + rng.normal(size=(4000, 1))
    for wrong in (False, True):
        x = np.hstack([normal, heavy])
        if wrong:
            x[7, 0] = 1e13
        t = of_statistics(x)
        assert len(outliers(t)) == 1 + wrong
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            curved, plain = (
                pk.Rejection(100, scale=scale).fit(theta, x, random_seed=1).table_
                for scale in ("transformed", True)
            )
        # The other rows keep their distances beside the one that went wrong.
        ordinary = curved.statistics[np.arange(len(x)) != 7, 0].std()
        assert ordinary > 0.5 * curved.statistics[:, 0].std()
        named = []
        for measured in (curved, plain):
            named.append(outliers(t, measured=measured))
        assert named[0] == []
        assert sum("'s0'" in message for message in named[1]) == wrong
        assert len(named[1]) == 1 + wrong


def test_of_one_unit_for_all_only_what_no_tail_explains_is_an_outlier():
    rng = np.random.default_rng(10)
    x = rng.standard_cauchy((3000, 8))
    for wrong in (0, 1):
        x[7, 3] = 1e15 if wrong else x[7, 3]
        t = of_statistics(x)
        assert len(outliers(t)) > 1
        common = pk.Rejection(100, scale="common").fit(rng.normal(size=(3000, 1)), x, random_seed=1)
        named = outliers(t, measured=common.table_)
        assert len(named) == wrong
        assert all("'s3'" in message for message in named)


def test_a_row_that_went_wrong_in_a_parameter_is_named_with_it():
    rng = np.random.default_rng(5)
    x = rng.standard_cauchy((2000, 1))
    t = of_statistics(rng.normal(size=(2000, 1)))
    assert outliers(dataclasses.replace(t, parameters=x.copy()), "parameter") == []
    x[11, 0] = -1e12
    (message,) = outliers(dataclasses.replace(t, parameters=x), "parameter")
    assert "'a' is far from all others in 1 of 2000 rows (11)" in message
    assert "drop them" in message


def test_ordinary_and_skewed_statistics_are_not_called_outliers():
    rng = np.random.default_rng(4)
    n = 10_000
    ordinary = [
        rng.normal(size=n),
        rng.uniform(size=n),
        np.exp(rng.normal(size=n)),
        np.exp(2 * rng.normal(size=n)),
        rng.standard_t(3, size=n),
        rng.poisson(0.001, size=n),
        (np.arange(n) == 5).astype(float),
        rng.exponential(size=n) ** 2,
        np.where(rng.random(n) < 0.01, 50.0, 0.0) + rng.normal(size=n),
    ]
    for column in ordinary:
        assert outliers(of_statistics(np.column_stack([column, rng.normal(size=n)]))) == []


def test_the_statistics_of_the_coalescent_have_no_outliers():
    coalescent = load_coalescent()
    assert len(coalescent.statistic_names) == 7
    for rows in (1_000, 10_000):
        assert outliers(of_statistics(coalescent.statistics[:rows])) == []


def test_sample_abc_warns_of_an_outlier():
    x = np.random.default_rng(3).normal(size=(1_000, 2))
    x[7, 1] = 1e12
    with pytest.warns(pk.PosteriorWarning, match="the deviation of the statistic 's1'"):
        pk.sample_abc(
            50,
            reference_table=of_statistics(x, np.zeros(2)),
            estimator=pk.Rejection(100),
            random_seed=0,
            progressbar=False,
        )


@pytest.mark.parametrize(("turns", "warned"), [(True, True), (False, False)])
def test_a_learned_likelihood_that_does_not_hold_names_the_statistic(turns, warned):
    # One law of the residuals for all parameters, where their skewness turns with the first.
    rng = np.random.default_rng(5)
    n = 3000
    theta, noise = rng.normal(size=(n, 2)), rng.exponential(size=(n, 2)) - 1
    sign = np.where(theta[:, 0] > 0, 1, -1) if turns else 1
    x = theta + noise * np.column_stack([np.ones(n), sign * np.ones(n)])
    rows = pd.DataFrame(np.hstack([theta, x]), columns=["a", "b", "first", "second"])
    table = pk.ReferenceTable.from_dataframe(
        rows, parameters=["a", "b"], statistics=["first", "second"], observed=[0.2, 0.1]
    )
    learnt = pk.KernelLikelihood("location_scale", 200, scale=False)  # by a curve the law would turn, too
    learnt.fit(table.parameters, table.statistics, random_seed=1)
    posterior = learnt.condition(table.observed)
    found = [
        c for c in diagnose(posterior, posterior.draw(200, rng), looked_at(table)) if c.name == "transforms"
    ]
    assert len(found) == warned
    assert all("least of all 'second'" in one.message for one in found)


def test_a_posterior_beyond_what_was_simulated_is_extrapolated():
    rng = np.random.default_rng(7)
    theta = rng.uniform(0, 1, size=(300, 1))
    learnt = pk.KernelLikelihood("location_scale", 200)
    learnt.fit(
        theta, theta + 0.1 * rng.normal(size=(300, 1)), log_prior=lambda t: 0.0 * t[:, 0], random_seed=1
    )
    inside, beyond = learnt.condition(np.array([[0.5], [3.0]]))
    assert inside.settings["share_beyond_rows"] == 0
    assert beyond.settings["share_beyond_rows"] > 0.9
    found = names(posterior=posterior(settings=beyond.settings))
    assert "extrapolated" in found
    assert "extrapolated" not in names(posterior=posterior(settings=inside.settings))


def test_a_constant_statistic_with_another_value_in_the_data_cannot_be_made():
    rng = np.random.default_rng(8)
    frame = pd.DataFrame({"a": rng.normal(size=50), "s": rng.normal(size=50), "always": 1.0})
    given = {"parameters": ["a"], "statistics": ["s", "always"]}
    for value, expected in ((1.0, 0), (5.0, 1)):
        made = pk.ReferenceTable.from_dataframe(frame, observed=[0.1, value], **given)
        found = [
            c for c in diagnose(posterior(), np.zeros((9, 1)), looked_at(made)) if c.name == "impossible"
        ]
        assert len(found) == expected
        assert all("'always' is 1 in every simulation and 5 in the data" in one.message for one in found)


@pytest.mark.parametrize(
    ("coverage", "discrete", "named"),
    [(1.0, ["flag"], False), (1.0, [], True), (0.7, ["flag"], True), (0.7, [], True)],
)
def test_intervals_of_two_values_may_cover_both(coverage, discrete, named):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.random(500), "flag": rng.integers(2, size=500)})
    frame["s"] = frame["a"] + frame["flag"] + rng.normal(size=500)
    two = pk.ReferenceTable.from_dataframe(
        frame, parameters=["a", "flag"], statistics=["s"], observed=[0.9], discrete=discrete
    )
    found = diagnose(
        posterior(),
        frame[["a", "flag"]].to_numpy(float),
        looked_at(two),
        coverage=np.array([0.9, coverage]),
        held_out=400,
    )
    assert ["flag" in one.message for one in found if one.name == "coverage"] == [True] * named
