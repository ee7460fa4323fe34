"""Rows with labels, of pandas and xarray, at the door: see `tests/arrays/test_rows.py` for arrays."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from sklearn.base import clone

import pymc_kbr as pk
from pymc_kbr.arrays.rows import as_pairs, as_rows

NUMBERS = np.array([[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (pd.DataFrame(NUMBERS, columns=["a", "b"]).assign(b=[1j, 2j]), "'b': 'complex128'"),
        (pd.DataFrame(NUMBERS, columns=["a", "b"]).assign(a=["x", "y"]), "'a'"),
        (pd.Series([1j, 2j]), "complex128"),
    ],
)
def test_columns_that_are_no_numbers_are_refused_by_name(value, words):
    with pytest.raises(TypeError, match=words) as caught:
        as_rows("the lengths", value)
    assert "the lengths" in str(caught.value)


def test_missing_values_of_pandas_are_nan():
    rows = as_rows("the rows", pd.DataFrame({"a": [1, None]}, dtype="Int64"))
    assert np.array_equal(rows, [[1.0], [np.nan]], equal_nan=True)


@pytest.mark.parametrize("labels", [[1, 0], ["a", "b"]])
def test_rows_with_other_labels_are_not_paired(labels):
    with pytest.raises(ValueError, match="one order"):
        as_pairs(pd.DataFrame(NUMBERS), pd.DataFrame(NUMBERS, index=labels))
    with pytest.raises(ValueError, match="one order"):
        as_pairs(
            xr.DataArray(NUMBERS, dims=("row", "p"), coords={"row": [0, 1]}),
            xr.DataArray(NUMBERS, dims=("row", "d"), coords={"row": labels}),
        )


THETA = pd.DataFrame(np.random.default_rng(2).normal(size=(40, 2)), columns=["a", "b"])
X = THETA + np.random.default_rng(3).normal(size=(40, 2))


@pytest.mark.parametrize(
    ("statistics", "words"),
    [(X.iloc[::-1], "another order"), (X.set_index(np.arange(40) + 1), "other labels")],
)
def test_estimators_refuse_rows_with_other_labels(statistics, words):
    with pytest.raises(ValueError, match=words):
        pk.Rejection(10).fit(THETA, statistics)


TABLE = pk.ReferenceTable.from_dataframe(
    THETA.join(X.rename(columns={"a": "s", "b": "t"})),
    parameters=["a", "b"],
    statistics=["s", "t"],
    bounds={"a": (-9, 9)},
)
FITTED = {
    "table": pk.Localised(20).fit(TABLE),
    "frames": pk.Localised(20).fit(THETA, X.rename(columns={"a": "s", "b": "t"})),
    "adjusted": pk.Adjusted(pk.Rejection(30), "local_linear").fit(TABLE),
}


def test_a_table_is_fitted_with_its_support_and_its_names():
    apart = pk.Localised(20).fit(TABLE.parameters, TABLE.statistics, TABLE.support)
    one, two = FITTED["table"].condition([0.1, 0.2]), apart.condition([0.1, 0.2])
    np.testing.assert_array_equal(one.weights, two.weights)
    assert one.support == two.support == TABLE.support
    assert (one.names, two.names) == (("a", "b"), None)
    assert [line.split()[0] for line in repr(one).splitlines()[2:4]] == ["a", "b"]


@pytest.mark.versions
@pytest.mark.parametrize("estimator", [pk.Rejection(10), pk.KernelLikelihood(particles=50)])
def test_a_tables_rows_are_weighted_with_its_prior_ratio(estimator):
    ratio = np.linspace(0, 2, 40)
    table = dataclasses.replace(TABLE, prior_ratio=ratio)
    if isinstance(estimator, pk.KernelLikelihood):
        rng = np.random.default_rng(1)
        theta = rng.normal(size=(200, 1))
        frame = pd.DataFrame({"m": theta[:, 0], "y": theta[:, 0] + rng.normal(size=200)})
        table = pk.ReferenceTable.from_dataframe(frame, parameters=["m"], statistics=["y"])
        ratio = np.linspace(0, 2, 200)
        table = dataclasses.replace(table, prior_ratio=ratio)
    point = np.full(table.statistic_columns.size, 0.1)
    sides = table.parameters, table.statistics, table.support
    weights = clone(estimator).fit(table, random_seed=1).weights(point)
    expected = clone(estimator).fit(*sides, ratio=ratio, random_seed=1).weights(point)
    np.testing.assert_array_equal(weights, expected)
    assert weights[0] == 0


def test_draws_of_a_prior_of_their_own_are_not_weighted_twice():
    table = dataclasses.replace(TABLE, prior_ratio=np.linspace(0, 2, 40))
    sides = TABLE.parameters, TABLE.statistics, TABLE.support
    draws = np.full((5, 2), 0.1) + np.arange(5)[:, None] / 9
    for own in (pk.KernelBayes(prior=draws), pk.KernelBayes(atoms="prior")):
        given = {} if own.prior is not None else {"prior": (table.parameters, table.prior_ratio)}
        one, two = clone(own).fit(table, random_seed=1), clone(own).fit(*sides, **given, random_seed=1)
        np.testing.assert_array_equal(one.weights([0.1, 0.2]), two.weights([0.1, 0.2]))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((TABLE, TABLE.statistics), "a reference table is given and statistics beside it"),
        ((TABLE.parameters,), "there are no statistics"),
    ],
)
def test_half_a_table_and_one_and_a_half_are_refused(arguments, words):
    with pytest.raises(TypeError, match=words):
        pk.Rejection(10).fit(*arguments)


def test_two_density_ratios_are_refused():
    table = dataclasses.replace(TABLE, prior_ratio=np.ones(40))
    with pytest.raises(ValueError, match="have one of their own"):
        pk.Rejection(10).fit(table, ratio=np.ones(40))


@pytest.mark.parametrize(
    ("observed", "words"),
    [
        (pd.Series({"s": 0.1}), r"lacks \['t'\]"),
        (pd.Series({"s": 0.1, "t": 0.2, "u": 0.3}), r"has the unknown \['u'\]"),
        (pd.DataFrame({"s": [0.1], "T": [0.2]}), r"lacks \['t'\] and has the unknown \['T'\]"),
        (pd.Series([0.1, 0.2, 0.3], index=["s", "t", "s"]), r"has twice \['s'\]"),
    ],
)
def test_labels_that_are_not_the_statistics_names_are_refused(observed, words):
    for fitted in FITTED.values():
        with pytest.raises(ValueError, match=words):
            fitted.condition(observed)


@pytest.fixture(scope="module")
def likelihood_of_frames():
    """Of two parameters, the second of which moves a statistic three times as far."""
    noise = np.random.default_rng(5).normal(size=(120, 2))
    theta = pd.DataFrame(np.random.default_rng(4).normal(size=(120, 2)), columns=["a", "b"])
    x = pd.DataFrame(theta.to_numpy() * [1, 3] + 0.3 * noise, columns=["s", "t"])
    return pk.KernelLikelihood("location_scale", 50).fit(theta, x, random_seed=1)


def test_a_learned_likelihood_puts_parameters_in_order_by_their_names(likelihood_of_frames):
    fitted = likelihood_of_frames
    theta = pd.DataFrame({"b": [0.3, -1.0], "a": [0.5, 2.0]})
    plain, x = theta[["a", "b"]].to_numpy(), np.array([[0.4, 1.0], [2.0, 3.0]])
    labelled = pd.DataFrame({"t": x[:, 1], "s": x[:, 0]})
    for given in (theta, theta[["a", "b"]], plain):
        np.testing.assert_array_equal(fitted.log_likelihood(given, x), fitted.log_likelihood(plain, x))
        np.testing.assert_array_equal(fitted.draw_statistics(given, 1), fitted.draw_statistics(plain, 1))
        for statistics in (x, labelled):
            np.testing.assert_array_equal(
                fitted.log_likelihoods(given, statistics), fitted.log_likelihoods(plain, x)
            )
    np.testing.assert_array_equal(
        fitted.log_likelihood(theta.iloc[0], x[0]), fitted.log_likelihood(plain[:1], x[0])
    )


@pytest.mark.parametrize(
    ("theta", "words"),
    [
        (pd.DataFrame({"a": [0.1], "c": [0.2]}), r"lacks \['b'\] and has the unknown \['c'\]"),
        (pd.DataFrame([[0.1, 0.2, 0.3]], columns=["a", "b", "a"]), r"has twice \['a'\]"),
    ],
)
def test_labels_that_are_not_the_parameters_names_are_refused(likelihood_of_frames, theta, words):
    for use in (
        lambda: likelihood_of_frames.log_likelihood(theta, [0.1, 0.2]),
        lambda: likelihood_of_frames.log_likelihoods(theta, np.zeros((1, 2))),
        lambda: likelihood_of_frames.draw_statistics(theta, 1),
    ):
        with pytest.raises(
            ValueError, match=rf"the labelling of the parameters {words}.*\['a', 'b'\], in any"
        ):
            use()


@pytest.mark.parametrize(
    ("estimator", "weighted"),
    [(pk.Localised(20), True), (pk.KernelBayes(), False), (pk.KernelLikelihood("location_scale", 50), True)],
)
def test_draws_of_another_prior_are_put_in_order_by_their_names(estimator, weighted):
    rng = np.random.default_rng(6)
    theta = pd.DataFrame(rng.normal(size=(120, 2)), columns=["a", "b"])
    x = (theta + 0.5 * rng.normal(size=(120, 2))).to_numpy()
    draws = pd.DataFrame([1.0, -1.0] + 0.3 * rng.normal(size=(50, 2)), columns=["a", "b"])
    weights = np.linspace(1, 2, 50)

    def posterior(prior):
        given = (prior, weights) if weighted else prior
        return clone(estimator).fit(theta, x, prior=given, random_seed=1).condition([0.5, 0.5])

    one, two = posterior(draws[["b", "a"]]), posterior(draws.to_numpy())
    np.testing.assert_array_equal(one.atoms, two.atoms)
    np.testing.assert_array_equal(one.weights, two.weights)
    with pytest.raises(ValueError, match=r"the labelling of the prior's draws lacks \['b'\]"):
        posterior(draws[["a"]])


def test_draws_of_an_estimators_own_prior_are_put_in_order_by_their_names():
    draws = pd.DataFrame(
        [0.5, -0.5] + 0.3 * np.random.default_rng(6).normal(size=(50, 2)), columns=["a", "b"]
    )
    for of in (pk.KernelBayes, pk.KernelDensity):
        one, two = (of(prior=prior).fit(TABLE, random_seed=1) for prior in (draws[["b", "a"]], draws))
        np.testing.assert_allclose(one.weights([0.1, 0.2]), two.weights([0.1, 0.2]), rtol=1e-9)
        # With a gap the estimator is fitted anew.
        one, two = (fitted.condition([0.1, np.nan]) for fitted in (one, two))
        np.testing.assert_allclose(one.weights, two.weights, rtol=1e-9)


@pytest.mark.filterwarnings("ignore:the statistics in columns:UserWarning")
def test_a_statistic_without_noise_is_refused_by_its_name():
    rng = np.random.default_rng(7)
    theta = pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"])
    x = pd.DataFrame({"same": 1.0, "s": theta.sum(axis=1) + rng.normal(size=300), "t": theta["a"]})
    with pytest.raises(ValueError, match="the statistic 't' is an exact function of the parameters"):
        pk.KernelLikelihood("location_scale", 50).fit(theta, x, random_seed=1)
