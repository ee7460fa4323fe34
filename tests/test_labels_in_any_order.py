"""Whatever container labels an observation, and in whatever order: the posterior is the same, bit for bit."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import pymc_kbr as pk
from pymc_kbr.arrays.labelled import in_order

NAMES = ["s", "t", "u"]
RNG = np.random.default_rng(1)
THETA = pd.DataFrame(RNG.normal(size=(60, 2)), columns=["a", "b"])
X = pd.DataFrame(
    np.column_stack([THETA, THETA["a"] * THETA["b"]]) + 0.3 * RNG.normal(size=(60, 3)), columns=NAMES
)
TABLE = pk.ReferenceTable.from_dataframe(
    THETA.join(X),
    parameters=["a", "b"],
    statistics=NAMES,
    observed=dict(zip(NAMES, (0.1, 0.9, 0.2), strict=True)),
)
FITTED = pk.Localised(20).fit(TABLE)
LIKELIHOOD = pk.KernelLikelihood("location_scale", 50).fit(TABLE, random_seed=1)


def polars(rows, names):
    return pytest.importorskip("polars").DataFrame(rows, schema=list(names), orient="row")


def arrow(rows, names):
    pyarrow = pytest.importorskip("pyarrow")
    return pyarrow.table({name: rows[:, i] for i, name in enumerate(names)})


def dask_frame(rows, names):
    dask = pytest.importorskip("dask.dataframe")
    return dask.from_pandas(pd.DataFrame(rows, columns=list(names)), npartitions=2)


def duckdb(rows, names):
    frame = pd.DataFrame(rows, columns=list(names))  # noqa: F841, which the query reads
    return pytest.importorskip("duckdb").sql("select * from frame")


def data_array(rows, names):
    return xr.DataArray(rows, dims=("row", "column"), coords={"column": list(names)})


def structured(rows, names):
    return np.array([tuple(row) for row in rows], dtype=[(name, float) for name in names])


ROWS = {
    "pandas": lambda rows, names: pd.DataFrame(rows, columns=list(names)),
    "nullable": lambda rows, names: pd.DataFrame(rows, columns=list(names)).convert_dtypes(),
    "two levels": lambda rows, names: pd.DataFrame(rows, columns=pd.MultiIndex.from_product([names, [""]])),
    "polars": polars,
    "lazy": lambda rows, names: polars(rows, names).lazy(),
    "pyarrow": arrow,
    "dask": dask_frame,
    "duckdb": duckdb,
    "data array": data_array,
    "turned": lambda rows, names: data_array(rows, names).T,
    "data set": lambda rows, names: data_array(rows, names).to_dataset("column"),
    "dict": lambda rows, names: {name: rows[:, i] for i, name in enumerate(names)},
    "structured": structured,
    "dicts": lambda rows, names: [dict(zip(names, row, strict=True)) for row in rows.tolist()],
    "series": lambda rows, names: [pd.Series(row, index=list(names)) for row in rows],
}
ONE = {
    "series": lambda row, names: pd.Series(row, index=list(names)),
    "mixed series": lambda row, names: pd.Series(row, index=list(names), dtype=object),
    "two levels": lambda row, names: pd.Series(row, index=pd.MultiIndex.from_product([names, [""]])),
    "dict": lambda row, names: dict(zip(names, row, strict=True)),
    "data array": lambda row, names: data_array(row[None], names)[0],
    "data set": lambda row, names: data_array(row[None], names)[0].to_dataset("column"),
}
orders = st.permutations(range(3))
few = settings(max_examples=3, deadline=None)


@few
@given(order=orders)
@pytest.mark.parametrize("kind", ROWS)
def test_several_observations_in_any_order_are_the_same(kind, order):
    rows = X.to_numpy()[:3]
    given_ = ROWS[kind](rows[:, order], [NAMES[i] for i in order])
    np.testing.assert_array_equal(FITTED.weights(given_), FITTED.weights(rows))
    one, two = (LIKELIHOOD.log_likelihoods(THETA[:2], x) for x in (given_, rows))
    np.testing.assert_array_equal(one, two)


@few
@given(order=orders)
@pytest.mark.parametrize("kind", ONE)
def test_one_observation_in_any_order_is_the_same(kind, order):
    row = np.array([0.1, 0.9, 0.2])
    observed = ONE[kind](row[list(order)], [NAMES[i] for i in order])
    one, two = FITTED.condition(observed), FITTED.condition(row)
    np.testing.assert_array_equal(one.atoms, two.atoms)
    np.testing.assert_array_equal(one.weights, two.weights)
    np.testing.assert_array_equal(TABLE.with_observed(observed).observed, row)
    assert pk.misspecification(TABLE, observed).pvalue == pk.misspecification(TABLE, row).pvalue
    one, two = pk.observation_support(TABLE, observed), pk.observation_support(TABLE, row)
    assert one.distance == two.distance


@few
@given(order=st.permutations(range(2)))
@pytest.mark.parametrize("kind", ROWS)
def test_parameters_and_draws_of_a_prior_in_any_order_are_the_same(kind, order):
    rows = np.asfortranarray(THETA)[:30]  # as labelled numbers lie in memory, by which sums are rounded
    theta = ROWS[kind](rows[:, order], [["a", "b"][i] for i in order])
    one, two = (LIKELIHOOD.log_likelihood(each, [0.1, 0.9, 0.2]) for each in (theta, rows))
    np.testing.assert_array_equal(one, two)
    one, two = (LIKELIHOOD.draw_statistics(each, 1) for each in (theta, rows))
    np.testing.assert_array_equal(one, two)
    one, two = (
        pk.KernelBayes(prior=each).fit(TABLE, random_seed=1).weights([0.1, 0.9, 0.2])
        for each in (theta, rows)
    )
    np.testing.assert_array_equal(one, two)


@few
@given(order=orders)
@pytest.mark.parametrize("kind", sorted(set(ROWS) - {"dicts", "series"}))
def test_a_table_of_any_data_frame_is_that_of_pandas(kind, order):
    made = ROWS[kind](X.to_numpy()[:, order], [NAMES[i] for i in order])
    if kind in ("data array", "turned"):
        with pytest.raises(TypeError, match="df is a DataArray"):
            pk.ReferenceTable.from_dataframe(made, parameters=["s"], statistics=["t", "u"])
        return
    table = pk.ReferenceTable.from_dataframe(made, parameters=["s"], statistics=["t", "u"])
    np.testing.assert_array_equal(table.parameters, X[["s"]])
    np.testing.assert_array_equal(table.statistics, X[["t", "u"]])


@pytest.mark.parametrize("kind", ROWS)
def test_estimators_are_fitted_to_any_container(kind):
    turned = ROWS[kind](X.to_numpy()[:, ::-1], NAMES[::-1])
    # Arrays of xarray share the rows' dimension.
    of_rows = xr.DataArray(np.asfortranarray(THETA), dims=("row", "parameter"))
    theta = of_rows if kind == "turned" else THETA
    fitted = pk.Localised(20).fit(theta, turned)
    plain = pk.Localised(20).fit(*map(np.asfortranarray, (THETA, X.to_numpy()[:, ::-1])))
    expected = plain.weights([0.2, 0.9, 0.1])
    np.testing.assert_array_equal(fitted.weights([0.2, 0.9, 0.1]), expected)
    np.testing.assert_array_equal(fitted.weights({"t": 0.9, "s": 0.1, "u": 0.2}), expected)


def test_filters_and_tests_read_labels():
    fitted = pk.KernelBayesFilter(regularisation=0.1, transition_regularisation=0.1).fit(THETA, X)
    rows, names = X.to_numpy()[:5, ::-1], NAMES[::-1]
    labelled = pd.DataFrame(rows, columns=names)
    np.testing.assert_array_equal(fitted.filter(labelled).weights, fitted.filter(X[:5].to_numpy()).weights)
    both = [THETA, THETA], [X, X[names]]
    one = pk.KernelBayesFilter(regularisation=0.1, transition_regularisation=0.1).fit(*both)
    two = pk.KernelBayesFilter(regularisation=0.1, transition_regularisation=0.1).fit(both[0], [X, X])
    np.testing.assert_array_equal(one.filter(X[:5]).weights, two.filter(X[:5]).weights)
    one, two = (pk.mmd_test(X, x, permutations=9, random_seed=1) for x in (X[names], X))
    assert one.statistic == pytest.approx(two.statistic, abs=1e-12)


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        ({"s": 1.0, "t": 2.0}, ValueError, r"lacks \['u'\]"),
        ({"s": 1.0, "t": 2.0, "u": 0.0, "v": 0.0}, ValueError, r"the unknown \['v'\]"),
        ({"s": [1.0, 2.0], "t": 2.0, "u": 0.0}, ValueError, "the shapes"),
        (pd.Series([1.0, 2.0, 3.0], index=[2, 1, 0]), ValueError, r"lacks \['s', 't', 'u'\]"),
        (xr.DataArray(np.ones((3, 3)), dims=("k", "d")), ValueError, "no coordinate says which"),
        (pd.DataFrame({"s": ["x"], "t": [1.0], "u": [2.0]}), TypeError, "'s'"),
        (pd.DataFrame({"s": pd.Categorical(["x"]), "t": [1.0], "u": [2.0]}), TypeError, "'s': 'category'"),
        (pd.DataFrame({"s": pd.to_datetime(["2020"]), "t": [1.0], "u": [2.0]}), TypeError, "datetime64"),
        ([1.0, 2**53 + 1, 2], ValueError, r"such as 9007199254740993"),
        (pd.Series({"s": 2**53 + 1, "t": 0.5, "u": 1}, dtype=object), ValueError, "9007199254740993"),
        ([1.0, 10**400, 2], ValueError, "such as a whole number of 1329 bits"),
        ([1.0, None, 2.0], TypeError, "there is None in .*NaN where one is missing"),
        ({"s": 1.0, "t": pd.NA, "u": 2.0}, TypeError, "there is <NA> in .*'t'"),
        ([{"s": 1.0, "t": 1.0, "u": 2.0}, [1.0, 2.0, 3.0]], ValueError, "give all of them the same"),
    ],
)
def test_what_labels_do_not_tell_is_refused(value, error, words):
    with pytest.raises(error, match=words):
        FITTED.condition(value)


def test_gaps_of_any_container_are_missing_statistics():
    expected = FITTED.condition([0.1, np.nan, 0.2])
    array = np.ma.array([0.1, 0.9, 0.2], mask=[0, 1, 0])
    dask = pytest.importorskip("dask.array")
    pyarrow = pytest.importorskip("pyarrow")
    for value in (
        array,
        dask.ma.masked_greater(dask.from_array(np.array([0.1, 0.9, 0.2]), chunks=2), 0.5),
        pyarrow.table({"s": [0.1], "u": [0.2], "t": pyarrow.array([None], pyarrow.int64())}),
        pd.DataFrame({"s": [0.1], "u": [0.2], "t": pd.array([None], dtype="Int64")}),
        pd.DataFrame({"s": [0.1], "u": [0.2], "t": pd.array([None], dtype="boolean")}),
        xr.DataArray(array.filled(np.nan)),
    ):
        found = FITTED.condition(value)
        found = found[0] if isinstance(found, list) else found
        np.testing.assert_array_equal(found.atoms, expected.atoms)


def test_variables_of_several_entries_are_put_in_order():
    names = ["m", "y[low]", "y[high]"]
    y = xr.DataArray([3.0, 2.0], dims="level", coords={"level": ["high", "low"]}, name="y")
    for value in (
        {"y": y, "m": 1.0},
        {"y": [2.0, 3.0], "m": 1.0},
        {"y": pd.Series({"high": 3.0, "low": 2.0}), "m": 1.0},
        xr.Dataset({"y": y, "m": 1.0}),
        pd.Series({("y", "high"): 3.0, ("y", "low"): 2.0, ("m", ""): 1.0}),
    ):
        np.testing.assert_array_equal(in_order("it", value, names, "names"), [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(in_order("it", y, names[1:], "names"), [2.0, 3.0])
    draws = xr.Dataset(
        {
            "y": (("level", "chain", "draw"), np.arange(12.0).reshape(2, 2, 3)),
            "m": (("chain", "draw"), np.arange(6.0).reshape(2, 3)),
        },
        coords={"level": ["high", "low"]},
    )
    expected = np.column_stack([np.arange(6.0), np.arange(6.0, 12.0), np.arange(6.0)])
    np.testing.assert_array_equal(in_order("it", draws, names, "names"), expected)


def test_labels_are_found_wherever_a_container_keeps_them():
    polars = pytest.importorskip("polars")
    rows = pd.DataFrame({"u": [0.2, 0.3], "s": [0.1, 0.4], "t": [0.9, 0.8]})
    expected = FITTED.weights(rows[NAMES].to_numpy())
    for value in (
        polars.from_pandas(rows).to_struct("row"),
        xr.DataArray(rows, dims=("row", "column"), coords={"name": ("column", ["u", "s", "t"])}),
        xr.DataArray(
            rows, dims=("row", "column"), coords={"column": [0, 1, 2], "name": ("column", ["u", "s", "t"])}
        ),
        list(rows.to_records(index=False)),
    ):
        np.testing.assert_array_equal(FITTED.weights(value), expected)


def test_entries_with_other_labels_of_rows_are_refused():
    x = {name: X[name] for name in NAMES}
    pk.Localised(20).fit(THETA, x)
    x["t"] = x["t"][::-1]
    with pytest.raises(ValueError, match="rows of 's' and of 't' have other labels"):
        pk.Localised(20).fit(THETA, x)
    with pytest.raises(ValueError, match="rows of 's' and of 't' have other labels"):
        pk.ReferenceTable.from_dataframe(x, parameters=["s"], statistics=["t", "u"])


@pytest.mark.parametrize("kind", ["polars", "lazy", "pyarrow", "duckdb", "dict", "data set"])
def test_columns_that_are_not_named_may_hold_anything(kind):
    frame = X.assign(when=pd.to_datetime("2020-01-01"), who="me")
    narwhals = pytest.importorskip("narwhals")
    if kind in ("polars", "lazy", "pyarrow", "duckdb"):
        backend = kind if kind == "pyarrow" else "polars"
        pytest.importorskip(kind if kind in ("duckdb", "pyarrow") else "polars")
        made = narwhals.from_dict({n: frame[n].to_list() for n in frame}, backend=backend).to_native()
        made = made.lazy() if kind == "lazy" else made
        if kind == "duckdb":
            made = pytest.importorskip("duckdb").from_df(frame)
    else:
        made = {"pandas": frame, "dict": dict(frame.items()), "data set": frame.to_xarray()}[kind]
    table = pk.ReferenceTable.from_dataframe(made, parameters=["s"], statistics=["t", "u"])
    np.testing.assert_array_equal(table.statistics, X[["t", "u"]])
    with pytest.raises((TypeError, ValueError), match="'who'"):
        pk.ReferenceTable.from_dataframe(made, parameters=["s"], statistics=["t", "who"])
