"""Simulators that return their own buffer, write into their arguments, or return what is no array."""

import functools
import warnings

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytensor import tensor as pt
from pytensor.compile.ops import FromFunctionOp

import pymc_kbr as pk
from pymc_kbr.simulation.one_step import OneStep
from tests.models import table

LARGE = {}


def statistics(rng, probability, scale, size):
    """The pure twin, in batches too: mean and spread of ten numbers."""
    scale = np.asarray(scale)[..., None]
    y = np.asarray(probability)[..., :1] + scale * rng.standard_normal((*np.shape(scale)[:-1], 10))
    return np.stack([y.mean(axis=-1), y.std(axis=-1)], axis=-1)


def into_a_buffer(found):
    """Always the same memory for results of one shape."""
    buffer = LARGE.setdefault(found.shape, np.empty(found.shape))
    buffer[...] = found
    return buffer


def returned(how, found):
    """The numbers in another container."""
    if how == "buffer":
        return into_a_buffer(found)
    if how == "view":
        return into_a_buffer(np.concatenate([found, found], axis=-1))[..., : found.shape[-1]]
    if how == "rows of a buffer" and found.ndim == 1:
        buffer = into_a_buffer(found)
        return [buffer[i : i + 1].reshape(()) for i in range(len(buffer))]
    if how == "tuple":
        return tuple(into_a_buffer(found))
    return found


def spoilt(how, *arguments):
    """Write into arguments."""
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            if how == "scaled":
                argument *= 1000
            elif how == "sorted" and argument.ndim:
                argument.sort()
            elif how == "clipped":
                np.maximum(argument, 0.5, out=argument)
            elif how == "zeroed":
                argument[...] = 0


class Impure:
    """The twin of `statistics` that aliases its results and writes into its arguments."""

    def __init__(self, how_returned, how_spoilt, batches):
        self.how_returned, self.how_spoilt, self.batches = how_returned, how_spoilt, batches
        self.__name__ = "impure"

    def __call__(self, rng, probability, scale, size):
        if not self.batches and np.ndim(scale):
            raise ValueError("one row at a time")
        found = statistics(rng, probability, scale, size)
        spoilt(self.how_spoilt, probability, scale)
        return returned(self.how_returned, found)


def a_model(fn):
    with pm.Model() as made:
        p = pm.Dirichlet("p", np.ones(3))
        scale = pm.HalfNormal("scale", 1)
        pk.vector_simulator("y", fn, p, scale, observed=[0.3, 1.0])
    return made


def assert_same(one, other):
    np.testing.assert_array_equal(one.parameters, other.parameters)
    np.testing.assert_array_equal(one.statistics, other.statistics)


@functools.cache
def table_of_pure(batches):
    return table(60, a_model(Impure("array", "not", batches)))


@given(
    st.sampled_from(["array", "buffer", "view", "rows of a buffer", "tuple"]),
    st.sampled_from(["not", "scaled", "sorted", "clipped", "zeroed"]),
    st.booleans(),
    st.sampled_from(["memory", "store"]),
)
@settings(max_examples=8, derandomize=True)
def test_a_simulator_that_aliases_or_writes_gives_the_table_of_its_pure_twin(
    tmp_path_factory, how_returned, how_spoilt, batches, where
):
    pure = table_of_pure(batches)
    store = tmp_path_factory.mktemp("s") / "t.zarr" if where == "store" else None
    made = table(60, a_model(Impure(how_returned, how_spoilt, batches)), store=store)
    assert_same(made, pure)
    assert len(np.unique(made.statistics[:, 0])) == 60
    np.testing.assert_allclose(made.parameters[:, :3].sum(axis=1), 1)
    assert made.provenance["simulated"] == pure.provenance["simulated"]


@pytest.mark.parametrize("batches", [True, False])
def test_two_cores_give_the_same_as_one(batches):
    impure = Impure("buffer", "scaled", batches)
    pure = table(2100 if batches else 60, a_model(Impure("array", "not", batches)))
    made = table(len(pure), a_model(impure), cores=2)
    assert_same(made, pure)
    assert made.provenance["simulated"] == ("in batches" if batches else "row by row")


@pytest.mark.versions
def test_a_plain_simulator_a_sum_stat_constants_and_data_are_left_as_they_are():
    def pure(rng, mean, scale, constant, size=None):
        return rng.normal(mean, scale, size=size) + constant

    def impure(rng, mean, scale, constant, size=None):
        found = pure(rng, mean, scale, constant, size)
        for argument in (mean, scale, constant):
            argument *= 3
        return into_a_buffer(found)

    def spoilt_mean(y):
        found = np.array([np.mean(y), np.max(y)])
        y *= 0
        return found

    def model_of(fn, sum_stat):
        with pm.Model() as made:
            scale = pm.Data("scale", np.array([1.0, 2.0, 3.0]))
            pm.Simulator(
                "y", fn, pm.Normal("mean"), scale, np.ones(3), observed=np.arange(3.0), sum_stat=sum_stat
            )
        return made

    expected = table(50, model_of(pure, lambda y: np.array([np.mean(y), np.max(y)])))
    made = model_of(impure, spoilt_mean)
    assert_same(table(50, made), expected)
    np.testing.assert_array_equal(made["scale"].get_value(), [1, 2, 3])
    np.testing.assert_array_equal(expected.observed, [1, 2])
    simulated, _, _ = pk.simulation.simulate_data(made, {"mean": np.arange(4.0)}, np.random.default_rng(1))
    assert len(np.unique(simulated["y"])) == 12


@pytest.mark.versions
def test_data_sets_other_random_functions_and_operations_are_called_on_copies():
    def draws(mean, rng=None, size=None):
        found = into_a_buffer(np.asarray(rng.normal(mean, 1.0, size)))
        mean *= 100
        return found

    def in_python(x):
        found = into_a_buffer(np.asarray(2 * x))
        x *= 0
        return found

    def rows(rng, mean, size):
        found = into_a_buffer(rng.normal(mean, 1.0, size))
        mean += 1e6
        return found

    doubled = FromFunctionOp(in_python, [pt.dscalar], [pt.dscalar], None)
    with pm.Model() as made:
        mean = pm.Normal("mean", 0, 10)
        hidden = pm.CustomDist("hidden", mean, random=draws, logp=lambda value, mean: -((value - mean) ** 2))
        pk.set_simulator("y", rows, doubled(hidden), observed=[0.3, 1.0, 2.0])
    found = table(200, made)
    hidden = found.parameters[:, 1]
    assert len(np.unique(found.statistics[:, 1])) == len(np.unique(hidden)) == 200
    assert np.corrcoef(found.parameters.T)[0, 1] > 0.9
    assert np.corrcoef(hidden, found.statistics[:, 1])[0, 1] > 0.9


@pytest.mark.versions
def test_the_steps_of_a_filter_are_not_copies_of_one_step():
    def ahead(rng, previous, length, size=None):
        found = into_a_buffer(rng.normal(previous, 0.1))
        previous *= 0
        return found

    with pm.Model() as step:
        previous = pm.Data("previous", np.zeros(2))
        pm.Simulator("state", ahead, previous, np.zeros(2), signature="(k),(k)->(k)", shape=2)
    states = np.arange(8.0).reshape(4, 2)
    found = OneStep(step)(states, np.random.default_rng(0))
    np.testing.assert_array_equal(states, np.arange(8.0).reshape(4, 2))
    np.testing.assert_allclose(found, states, atol=1)


ODD = {
    "None": (lambda rng, a: None, "returned None"),
    "texts": (lambda rng, a: ["1", "2"], "a list of 2 entries of the shapes str, str"),
    "complex": (lambda rng, a: np.array([1j, 2]), "type complex128 .* imaginary part"),
    "generator": (lambda rng, a: (x for x in (1.0, 2.0)), "an object of type generator"),
    "masked": (lambda rng, a: np.ma.array([1.0, 2.0], mask=[0, 1]), "1 masked entries"),
    "ragged": (lambda rng, a: [[1.0, 2.0], [3.0]], r"shapes \(2,\), \(1,\)"),
}


def simulator_of(fn):
    with pm.Model() as made:
        pk.vector_simulator("y", lambda rng, a, size: fn(rng, a), pm.Normal("a"), observed=[0.3, 1.0])
    return made


@pytest.mark.versions
@pytest.mark.parametrize("odd", ODD)
def test_what_is_no_array_of_numbers_is_named(odd):
    fn, words = ODD[odd]
    with pytest.raises(pk.SimulationError, match=rf"simulation 0 of 20 .*the simulator 'y' .*{words}"):
        table(20, simulator_of(fn))
    sometimes = simulator_of(lambda rng, a: fn(rng, a) if a > 0 else np.array([a, rng.normal()]))
    found = table(60, sometimes, on_failure="drop")
    assert 0 < len(found.failures) < 60
    assert np.all(found.parameters <= 0)


@pytest.mark.versions
@pytest.mark.parametrize(
    "fn",
    [
        lambda rng, a: np.array([True, a > 0]),
        lambda rng, a: pd.Series([rng.normal(a), 2.0]),
        lambda rng, a: (np.float32(1), a),
    ],
)
def test_other_numbers_are_taken(fn):
    assert len(table(20, simulator_of(fn))) == 20


@pytest.mark.versions
def test_stacked_parameters_do_not_pass_for_a_batch():
    length = 4
    with pm.Model() as made:
        theta = pm.Normal("theta", shape=length)
        fn = lambda rng, theta, size: np.array([theta[i] for i in range(length)])  # noqa: E731
        pk.vector_simulator("y", fn, theta, observed=np.zeros(length))
    found = table(50, made)
    np.testing.assert_array_equal(found.statistics, found.parameters)
    assert found.provenance["simulated"] == "row by row"


@pytest.mark.parametrize("batched", [None, False])
def test_numbers_beyond_what_can_be_summed_are_failures(tmp_path, batched):
    def fn(rng, a, size):
        found = np.asarray(rng.normal(a, 1.0))
        return np.stack([np.where(found > 1.5, 1e301, found), found], axis=-1)

    with pm.Model() as made:
        pk.vector_simulator("y", fn, pm.Normal("a"), observed=[0.3, 1.0])
    with pytest.raises(pk.SimulationError, match=r"simulation \d+ of 300 .*numbers beyond 1e\+300.*y\[0\]"):
        table(300, made, batched=batched)
    with pytest.warns(UserWarning, match="failed and were dropped"):
        found = table(300, made, on_failure="drop", batched=batched)
    assert 0 < len(found.failures) < 100
    assert len(found) + len(found.failures) == 300
    with pytest.warns(UserWarning, match="failed and were dropped"):
        stored = table(300, made, on_failure="drop", store=tmp_path / "t.zarr", batched=batched)
    assert_same(stored, found)
    assert_same(pk.StoredTable.open(tmp_path / "t.zarr").load(), found)


@pytest.mark.versions
@pytest.mark.parametrize("reserved", ["chain", "y_dim_0", "group"])
def test_names_of_dimensions_are_refused_before_any_simulation(reserved):
    def never(rng, a, size):
        raise AssertionError("simulated")

    def simulated():
        with pm.Model(coords={"group": [0, 1]}) as made:
            pm.Normal("others", dims="group")
            pk.vector_simulator("y", never, pm.Normal(reserved), observed=[0.3, 1.0])
        table(20, made)

    # PyMC 6 refuses some of them itself.
    with pytest.raises(ValueError, match=rf"{reserved}.*(; rename|conflicts)"):
        simulated()


@pytest.mark.versions
def test_settings_that_a_simulator_leaves_changed_are_put_back(tmp_path, monkeypatch):
    import signal

    def careless(rng, a):
        import os

        np.seterr(all="raise")
        warnings.simplefilter("error")
        os.chdir("/")
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return [rng.normal(a, 1), 1.0]

    monkeypatch.chdir(tmp_path)
    before = np.geterr(), list(warnings.filters), signal.getsignal(signal.SIGINT)
    found = table(60, simulator_of(careless), store="t.zarr")
    assert (tmp_path / "t.zarr").is_dir()
    assert (np.geterr(), list(warnings.filters), signal.getsignal(signal.SIGINT)) == before
    assert len(found) == 60
