"""Observations with gaps: the posterior given the statistics that are there."""

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest

import pymc_kbr as pk

LOADINGS = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -0.5]])
NOISE = np.array([0.6, 0.8, 0.7, 0.5])
NAMES = ["s", "t", "u", "v"]


def exact_mean(x):
    """Of two standard normal parameters, given those of four linear statistics that are there."""
    there = ~np.isnan(x)
    loadings, precision = LOADINGS[there], 1 / NOISE[there] ** 2
    return np.linalg.solve(
        np.eye(2) + (loadings.T * precision) @ loadings, (loadings.T * precision) @ x[there]
    )


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(2000, 2))
    return theta, theta @ LOADINGS.T + NOISE * rng.normal(size=(2000, 4))


@pytest.fixture(scope="module")
def table(rows):
    frame = pd.DataFrame(np.hstack(rows), columns=["a", "b", *NAMES])
    return pk.ReferenceTable.from_dataframe(frame, parameters=["a", "b"], statistics=NAMES)


@pytest.fixture(scope="module")
def linear(table):
    return pk.Adjusted(adjustment="local_linear").fit(table)


X = np.array([0.4, -0.9, 0.3, 1.2])
PATTERNS = [list(p) for k in range(1, 5) for p in itertools.combinations(range(4), k)]


def with_gaps(there):
    x = np.full(4, np.nan)
    x[there] = X[there]
    return x


def test_every_pattern_of_gaps_gives_the_posterior_of_the_rest(linear):
    observed = np.array([with_gaps(there) for there in PATTERNS])
    found = linear.condition(observed)
    for x, there, posterior in zip(observed, PATTERNS, found, strict=True):
        # Slopes from 600 rows: their standard error is at most 1.5 / sqrt(600) a statistic.
        np.testing.assert_allclose(posterior.mean(), exact_mean(x), atol=4 * 1.5 / np.sqrt(600))
        assert posterior.statistics == tuple(NAMES[i] for i in there)


@pytest.mark.parametrize("name", ["adjusted", "conditional_mean", "kbr", "localised", "rejection"])
def test_it_is_the_estimator_on_these_columns(name, rows):
    """A fit to the columns that are there, by the same settings, is the same."""
    theta, x = rows[0][:400], rows[1][:400]
    kind = pk.ESTIMATORS[name]
    made = kind()
    if getattr(made, "needs_draws", False):
        made.set_params(prior=theta[:200])
    found = made.fit(theta, x, random_seed=20).condition(with_gaps([1, 3]))
    alone = made.fit(theta, x[:, [1, 3]], random_seed=20).condition(X[[1, 3]])
    np.testing.assert_allclose(found.weights, alone.weights, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.atoms, alone.atoms, rtol=1e-9)
    assert found.statistics == ("1", "3")


def test_rows_are_in_their_order_and_a_whole_one_is_as_before(linear):
    observed = np.array([with_gaps([0]), X, with_gaps([1]), with_gaps([0])])
    first, whole, other, again = linear.condition(observed)
    np.testing.assert_array_equal(first.atoms, again.atoms)
    np.testing.assert_array_equal(whole.atoms, linear.condition(X).atoms)
    np.testing.assert_array_equal(other.atoms, linear.condition(with_gaps([1])).atoms)


def test_another_prior_stays(rows):
    theta, x = rows
    ratio = np.exp(theta[:, 0])
    fitted = pk.Adjusted(adjustment="local_linear").fit(theta, x, ratio=ratio)
    # Tilting a normal prior by exp(a) moves its mean by one; the second parameter alone is observed.
    np.testing.assert_allclose(fitted.condition(with_gaps([1])).mean()[0], 1.0, atol=0.2)


def test_the_result_names_what_was_used(linear):
    result = linear.condition(with_gaps([0, 3])).to_arviz(20, random_seed=1)
    assert result["posterior"].attrs["statistics_used"] == "s\nv"
    named = linear.condition(pd.Series({"v": 1.2, "t": np.nan, "s": 0.4, "u": np.nan}))
    np.testing.assert_array_equal(named.atoms, linear.condition(with_gaps([0, 3])).atoms)


def test_some_of_the_statistics_are_asked_for(table):
    whole = table.with_observed(X)
    how = {"estimator": "adjusted", "random_seed": 1, "progressbar": False}
    result = pk.sample_abc(500, reference_table=whole, statistics=["v", "s"], **how)
    part = pk.sample_abc(500, reference_table=whole.with_statistics(["v", "s"]), **how)
    np.testing.assert_array_equal(result["posterior"]["a"], part["posterior"]["a"])
    assert result["posterior"].attrs["statistics_used"] == "v\ns"
    assert pk.ReferenceTable.from_arviz(result).statistic_names == NAMES
    mean = result["posterior"]["a"].to_numpy().mean()
    np.testing.assert_allclose(mean, exact_mean(with_gaps([0, 3]))[0], atol=0.25)


def test_a_table_with_gaps_in_its_observation(table, tmp_path):
    gaps = table.with_observed(with_gaps([0, 3]))
    part = gaps.without_missing()
    assert part.statistic_names == ["s", "v"]
    assert table.with_observed(X).without_missing().statistic_names == NAMES
    how = {"estimator": "adjusted", "random_seed": 1, "progressbar": False}
    result = pk.sample_abc(200, reference_table=gaps, **how)
    alone = pk.sample_abc(200, reference_table=part, **how)
    np.testing.assert_array_equal(result["posterior"]["a"], alone["posterior"]["a"])
    assert result["posterior"].attrs["statistics_used"] == "s\nv"
    loaded = pk.ReferenceTable.load(gaps.save(tmp_path / "gaps.nc"))
    np.testing.assert_array_equal(loaded.observed, gaps.observed)
    assert pk.observation_support(gaps).names == ["s", "v"]
    assert pk.observation_support(table, with_gaps([1])).names == ["t"]
    assert pk.misspecification(gaps).pvalue == pk.misspecification(part).pvalue
    by_name = pk.ReferenceTable.from_dataframe(
        table.to_dataframe(),
        parameters=["a", "b"],
        statistics=NAMES,
        observed={**dict.fromkeys(NAMES, np.nan), "t": 1},
    )
    assert by_name.without_missing().statistic_names == ["t"]
    other = dataclasses.replace(gaps, statistics=gaps.statistics + 0.25)
    assert other.append(by_name.with_observed(with_gaps([0, 3]))).without_missing().statistic_names == [
        "s",
        "v",
    ]


def test_models_are_compared_by_what_is_there(table):
    other = pk.ReferenceTable.from_dataframe(
        table.to_dataframe() * 2.0, parameters=["a", "b"], statistics=NAMES, observed=with_gaps([0, 3])
    )
    tables = {"one": table.with_observed(with_gaps([0, 3])), "two": other}
    choice = pk.compare_models(tables, method="nearest_rows", random_seed=1)
    assert choice.statistics == ("s", "v")
    part = pk.compare_models(
        {name: one.without_missing() for name, one in tables.items()}, method="nearest_rows", random_seed=1
    )
    np.testing.assert_array_equal(choice.at_observed, part.at_observed)
    with pytest.raises(ValueError, match="those of one pattern together"):
        pk.compare_models(tables, [with_gaps([0]), with_gaps([1])], method="nearest_rows")


def test_what_is_missed(table):
    found = pk.statistic_contributions(
        pk.Adjusted(adjustment="local_linear"), table, rows=100, random_seed=1, progressbar=False
    )
    lines = found.summary()

    # The exact variances say which statistic is missed most by which parameter.
    lost = {}
    for i, name in enumerate(NAMES):
        rest = np.delete(np.arange(4), i)
        lost[name] = np.diag(_covariance(rest)) - np.diag(_covariance(np.arange(4)))
    for name in NAMES:
        measured = lines.loc[name, ["contraction_lost[a]", "contraction_lost[b]"]].to_numpy(float)
        np.testing.assert_allclose(measured, lost[name], atol=0.05)
    assert lines.index[0] in ("u", "v", "t")
    near = pk.statistic_contributions(
        pk.Adjusted(adjustment="local_linear"),
        table,
        groups=["s"],
        observed=X,
        rows=60,
        random_seed=1,
        progressbar=False,
    )
    assert list(near.summary().index) == ["s"]


def _covariance(there):
    loadings, precision = LOADINGS[there], 1 / NOISE[there] ** 2
    return np.linalg.inv(np.eye(2) + (loadings.T * precision) @ loadings)


def test_refusals(linear, table, rows):
    with pytest.raises(ValueError, match="all statistics are missing"):
        linear.condition(np.array([X, np.full(4, np.nan)]))
    with pytest.raises(ValueError, match=r"infinite in statistics \[0\]; give NaN where one is missing"):
        linear.condition([np.inf, np.nan, 0.0, 0.0])
    with pytest.raises(ValueError, match="NaN or infinite"):
        linear.weights(with_gaps([0]))
    with pytest.raises(ValueError, match=r"names \['w'\]"):
        table.with_statistics(["w"])
    with pytest.raises(ValueError, match="names nothing"):
        table.with_statistics([])
    with pytest.raises(ValueError, match="twice"):
        table.with_statistics(["s", "s"])
    with pytest.raises(TypeError, match="give a list"):
        table.with_statistics("s")
    with pytest.raises(ValueError, match="no statistic left"):
        pk.statistic_contributions("rejection", table.with_statistics(["s"]))
    with pytest.raises(ValueError, match="leave rounds out"):
        pk.sample_abc(statistics=["s"], rounds=2)
    with pytest.raises(ValueError, match="fitted to all of them"):
        pk.Rejection(scale=linear.table_.scaler).fit(*rows).condition(with_gaps([0]))
