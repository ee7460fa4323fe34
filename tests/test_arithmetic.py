"""Whatever error state of NumPy a user has set, the package computes the same."""

import inspect
import warnings

import numpy as np
import pytest

import pymc_kbr as pk
from pymc_kbr.arrays.arithmetic import DEFAULT, default_arithmetic, errors_of_caller
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
    parameters, statistics = linear

    def drawn():
        posterior = pk.ESTIMATORS[name]().fit(parameters, statistics, random_seed=1).condition(np.zeros(3))
        posterior.mean(), posterior.cov(), posterior.quantile([0.1, 0.9])
        return posterior.draw(50, np.random.default_rng(1))

    expected = drawn()
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(drawn(), expected)
        assert set(np.geterr().values()) == {"raise"}


def test_all_stages_do_not_raise_either():
    def result():
        return pk.sample_abc(
            model=vector_model(two_statistics), draws=50, simulations=300, random_seed=1, progressbar=False
        )["posterior"]["mean"]

    expected = np.asarray(result())
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(np.asarray(result()), expected)


def test_tests_and_filters_do_not_raise_either(linear):
    parameters, statistics = (side[:80] for side in linear)
    with np.errstate(all="raise"):
        assert 0 <= pk.mmd_test(parameters, parameters[::-1] * 30, random_seed=1).pvalue <= 1
        assert 0 <= pk.hsic_test(parameters, statistics * 100, random_seed=1).pvalue <= 1
        fitted = pk.KernelBayesFilter(regularisation=0.1, transition_regularisation=0.1)
        assert np.all(np.isfinite(fitted.fit(parameters, statistics).filter(statistics[:3]).mean()))


def test_functions_of_the_user_see_the_state_that_the_user_has_set():
    with np.errstate(all="raise"):
        assert set(errors_of_caller().values()) == {"raise"}
    with np.errstate(all="call"):
        assert set(errors_of_caller().values()) == {"warn"}
    assert dict.fromkeys(DEFAULT, "warn") | {"under": "ignore"} == DEFAULT


@default_arithmetic
def warns():
    warnings.warn("at the line of the caller", UserWarning, stacklevel=2)


@default_arithmetic
def warns_for_its_caller():
    warns_within()


@default_arithmetic
def warns_within():
    warnings.warn("at the line of the caller's caller", UserWarning, stacklevel=3)


def test_warnings_point_to_the_line_that_they_are_meant_for():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        here = inspect.currentframe().f_lineno
        warns()
        warns_for_its_caller()
    assert [(one.filename, one.lineno) for one in found] == [(__file__, here + 1), (__file__, here + 2)]
