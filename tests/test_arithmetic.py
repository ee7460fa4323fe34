"""Whatever error state of NumPy a user has set, the package computes the same."""

import inspect
import warnings

import numpy as np
import pandas as pd
import pytest

import pymc_kbr as pk
from pymc_kbr.arrays.arithmetic import DEFAULT, errors_of_caller
from tests.models import two_statistics, vector_model


def public_functions():
    for name in sorted(set(pk.__all__) - {"ESTIMATORS", "PosteriorWarning", "SimulationError", "SampleSMC"}):
        value = getattr(pk, name)
        if not inspect.isclass(value):
            yield name, value
            continue
        for attribute, member in inspect.getmembers(value):
            function = inspect.unwrap(member, stop=lambda f: hasattr(f, "in_default_arithmetic"))
            function = getattr(function, "__func__", function)
            ours = inspect.isfunction(function) and function.__module__.startswith("pymc_kbr")
            if ours and not attribute.startswith("_"):
                yield f"{name}.{attribute}", function


def test_every_public_function_computes_in_numpys_default_state():
    found = dict(public_functions())
    assert len(found) > 150
    assert [name for name, function in found.items() if not hasattr(function, "in_default_arithmetic")] == []


@pytest.mark.parametrize("name", ["rejection", "conditional_mean", "kde", "kernel_likelihood", "adjusted"])
def test_estimators_do_not_raise_where_the_user_lets_numpy_raise(name, linear):
    parameters, statistics = (side[:200] for side in linear)
    settings = {"form": "autoregressive"} if name == "kernel_likelihood" else {}

    def drawn():
        fitted = pk.ESTIMATORS[name](**settings).fit(parameters, statistics, random_seed=1)
        posterior = fitted.condition(np.zeros(3))
        posterior.mean(), posterior.cov(), posterior.quantile([0.1, 0.9])
        return posterior.draw(50, np.random.default_rng(1))

    expected = drawn()
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(drawn(), expected)
        assert set(np.geterr().values()) == {"raise"}


def test_all_stages_do_not_raise_either():
    def result():
        return pk.sample_abc(
            model=vector_model(two_statistics),
            candidates=["adjusted", pk.KernelLikelihood("location_scale", 50)],
            draws=50,
            simulations=120,
            random_seed=1,
            progressbar=False,
        )["posterior"]["mean"]

    expected = np.asarray(result())
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(np.asarray(result()), expected)


def test_functions_of_the_user_see_the_state_that_the_user_has_set():
    with np.errstate(all="raise"):
        assert set(errors_of_caller().values()) == {"raise"}
    with np.errstate(all="call"):
        assert set(errors_of_caller().values()) == {"warn"}
    assert dict.fromkeys(DEFAULT, "warn") | {"under": "ignore"} == DEFAULT


def constant_statistics():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(100, 2)), columns=["a", "x"]).assign(y=1.0)
    return pk.ReferenceTable.from_dataframe(frame, parameters=["a"], statistics=["x", "y"])


def failures(rng, mean, scale, size):
    return two_statistics(rng, mean, scale, size) * (np.nan if rng.random() < 0.5 else 1)


def test_warnings_point_to_the_line_that_has_called_the_package():
    table, model, how = (
        constant_statistics(),
        vector_model(failures),
        {"random_seed": 1, "progressbar": False},
    )
    lines, frame = {}, inspect.currentframe()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", UserWarning)
        lines["constant"] = frame.f_lineno + 1
        pk.Rejection().fit(table)
        lines["constant by name"] = frame.f_lineno + 1
        pk.select(table, candidates=["rejection"], **how)
        lines["failures"] = frame.f_lineno + 1
        pk.simulate(100, model=model, on_failure="drop", **how)
        lines["of rounds"] = frame.f_lineno + 1
        pk.zoom(600, model=model, on_failure="drop", rounds=2, **how)
    places = {(one.filename, one.lineno) for one in found if issubclass(one.category, UserWarning)}
    assert places == {(__file__, line) for line in lines.values()}
