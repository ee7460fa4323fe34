"""Statistics that are exact functions of the parameters are refused, and precise ones are not."""

import pickle

import numpy as np
import pytest

import pymc_kbr as pk
from pymc_kbr.estimators.likelihood.checks import FunctionOfParameters, deterministic_statistic

FUNCTIONS = {
    "linear": lambda theta: theta.sum(axis=1),
    "product": lambda theta: theta[:, 0] * theta[:, -1],
    "exponential": lambda theta: np.exp(theta[:, -1]),
    "absolute": lambda theta: np.abs(theta[:, 0]),
    "wave": lambda theta: np.sin(3 * theta[:, 0]),
}


def drawn(n, q, seed=1):
    return np.random.default_rng(seed).normal(size=(n, q))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("n", "q"), [(1000, 1), (1000, 2), (10_000, 2), (1000, 6)])
def test_functions_are_found_in_any_order_of_the_rows(name, n, q):
    theta = drawn(n, q)
    noisy, function = drawn(n, 1, 2), FUNCTIONS[name](theta)[:, None]
    assert deterministic_statistic(theta, np.hstack([noisy, 1e6 + 1e-3 * function, noisy])) == 1
    order = np.argsort(theta[:, 0])
    assert deterministic_statistic(theta[order], function[order]) == 0


@pytest.mark.parametrize("n", [50, 1000])
@pytest.mark.parametrize("q", [1, 2, 3])
def test_a_parameter_is_a_function_of_the_parameters_however_few_rows_there_are(n, q):
    theta = drawn(n, q)
    assert deterministic_statistic(theta, theta[:, -1:]) == 0


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("noise", [1e-4, 1e-3])
@pytest.mark.parametrize(("n", "q"), [(60, 1), (60, 2), (1000, 1), (1000, 2), (10_000, 1), (1000, 6)])
def test_precise_statistics_are_none(name, noise, n, q):
    theta = drawn(n, q)
    points = FUNCTIONS[name](theta)[:, None] + noise * drawn(n, 5, 2)
    assert deterministic_statistic(theta, points) is None


def test_noise_in_some_rows_few_values_and_heavy_tails_are_none():
    theta, noise = drawn(1000, 1), drawn(1000, 1, 2)
    points = np.hstack(
        [
            np.where(theta > 1, noise, 0.0),  # mostly one value
            np.clip(3 * theta + 0.01 * noise, -1, 1),  # two values, and something between
            np.round(theta),
            np.exp(10 * noise),
            np.where(np.abs(theta) < 1.2, theta, theta + 0.1 * noise),  # exact in three quarters
        ]
    )
    assert deterministic_statistic(theta, points) is None


def test_copies_of_rows_and_parameters_of_few_values_are_no_reason():
    theta, noise = np.round(drawn(1000, 1)), drawn(1000, 1, 2)
    assert deterministic_statistic(theta, theta + noise) is None
    theta = np.repeat(drawn(100, 1), 5, axis=0)
    assert deterministic_statistic(theta, np.repeat(theta[::5] + drawn(100, 1, 2), 5, axis=0)) is None


def test_some_copied_parameters_are_passed_without_a_word(recwarn):
    theta = drawn(1000, 2)
    theta[300:330, 0] = theta[330:360, 0]
    assert deterministic_statistic(theta, drawn(1000, 2, 2)) is None
    assert not recwarn.list


@pytest.mark.filterwarnings("ignore:the statistics in columns:UserWarning")
@pytest.mark.parametrize("scale", [True, False, "dependent"])
def test_the_likelihood_refuses_them_and_says_what_to_do(scale):
    theta = drawn(300, 2)
    x = np.column_stack([np.ones(300), theta.sum(axis=1) + drawn(300, 1, 2)[:, 0], theta[:, 0]])
    words = "in column 2 is an exact function of the.*add the noise.*leave the statistic out.*'localised'"
    with pytest.raises(FunctionOfParameters, match=words):
        pk.KernelLikelihood("location_scale", 50, scale=scale).fit(theta, x, random_seed=1)


def test_the_words_survive_another_process():
    for given in ((2,), (2, "t"), (2, "t", "y")):
        error = FunctionOfParameters(*given)
        assert str(pickle.loads(pickle.dumps(error))) == str(error)
        assert pickle.loads(pickle.dumps(error)).column == 2
