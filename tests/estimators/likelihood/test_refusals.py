"""What a learned likelihood refuses, in which words; and the edges of what it takes."""

import warnings

import numpy as np
import pytest

import pymc_kbr as pk
from pymc_kbr.arrays.support import Support
from pymc_kbr.estimators.likelihood.basis import ParameterScale
from pymc_kbr.estimators.likelihood.checks import check_rows, function_of_another

RNG = np.random.default_rng(8)
THETA = RNG.normal(size=(120, 2))
X = THETA + 0.5 * RNG.normal(size=(120, 2))


@pytest.fixture(scope="module")
def learnt():
    return pk.KernelLikelihood("location_scale", 50).fit(THETA, X, random_seed=1)


@pytest.mark.parametrize(
    "use",
    [
        lambda new: new.condition(X[0]),
        lambda new: new.condition(X[:2], trials=True),
        lambda new: new.log_likelihood(THETA[:2], X[0]),
        lambda new: new.draw_statistics(THETA[:2], 1),
        lambda new: new.weights(X[0]),
    ],
)
def test_one_that_is_not_fitted_says_so(use):
    with pytest.raises(ValueError, match="this KernelLikelihood is not fitted; call `fit` first"):
        use(pk.KernelLikelihood())


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_parameters_that_are_no_numbers_are_named(learnt, value):
    theta = THETA[:4].copy()
    theta[2, 1] = value
    with pytest.raises(ValueError, match="NaN or infinite in row 2, column 1"):
        learnt.log_likelihood(theta, X[0])
    with pytest.raises(ValueError, match="NaN or infinite in row 2, column 1"):
        learnt.draw_statistics(theta, 1)


def test_no_parameters_have_no_likelihoods(learnt):
    assert learnt.log_likelihood(np.empty((0, 2)), X[:3]).shape == (0,)


def test_a_parameter_that_never_varies_is_refused():
    theta = np.column_stack([THETA[:, 0], np.full(120, 3.0), THETA[:, 1]])
    with pytest.raises(ValueError, match=r"columns \[1\] have the same value in every row"):
        pk.KernelLikelihood("location_scale").fit(theta, X, random_seed=1)


@pytest.mark.parametrize("form", [None, ["location_scale"], "scale"])
def test_a_form_that_there_is_not_is_refused(form):
    with pytest.raises(ValueError, match="it may be auto, location_scale, autoregressive, diagonal_scale"):
        pk.KernelLikelihood(form).fit(THETA, X)


@pytest.mark.parametrize("bounds", [(0.5, np.inf), (-np.inf, 2.0)])
def test_parameters_beyond_a_bound_keep_their_own_units(bounds):
    """Those of a table whose new prior is narrower: there is no logarithm of their distance."""
    theta = np.exp(RNG.normal(size=(200, 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scale = ParameterScale.fit(theta, Support.from_bounds({"a": bounds}, ["a"]))
    assert scale.sign.tolist() == [0.0]
    # And within them the logarithm is less skewed.
    assert ParameterScale.fit(theta, Support.from_bounds({"a": (0.0, np.inf)}, ["a"])).sign.tolist() == [1.0]


@pytest.mark.parametrize("function", [np.square, np.exp, np.abs, lambda x: np.sin(3 * x)])
def test_a_function_of_another_statistic_is_refused(function):
    x = np.random.default_rng(1).normal(size=1000)
    assert function_of_another(np.column_stack([x, function(x)])) == (0, 1)


def test_of_several_functions_the_first_pair_is_named():
    x, y, z = np.random.default_rng(1).normal(size=(3, 1000))
    assert function_of_another(np.column_stack([z, x, y, np.exp(y), np.exp(x)])) == (1, 4)


def test_noise_however_little_is_no_function():
    rng = np.random.default_rng(2)
    x = rng.normal(size=2000)
    for noise in (0.02, 1.0):
        assert function_of_another(np.column_stack([x, x**2 + noise * rng.normal(size=2000)])) is None


def test_a_table_with_a_square_of_another_statistic_is_refused():
    rng = np.random.default_rng(3)
    theta = rng.normal(size=(1000, 1))
    x = theta + 0.1 * rng.normal(size=(1000, 1))
    with pytest.raises(ValueError, match="column 1 is a function of that in column 0"):
        pk.KernelLikelihood("location_scale").fit(theta, np.hstack([x, x**2]), random_seed=1)


@pytest.mark.parametrize("n", [100, 1000])
@pytest.mark.parametrize("share", [0.5, 2.0])
def test_what_others_leave_of_a_statistic_is_compared_whatever_the_rows_and_units(n, share, rng):
    a, b, rest = np.linalg.qr(np.column_stack([np.ones(n), rng.normal(size=(n, 3))]))[0].T[1:]
    left = share * 1e-10
    points = np.column_stack([a, 1e3 * b, np.sqrt(1 - left) * (a + b) / np.sqrt(2) + np.sqrt(left) * rest])
    theta, kept = rng.normal(size=(n, 1)), np.ones(3, dtype=bool)
    if share < 1:
        with pytest.raises(ValueError, match="column 2 is a linear function"):
            check_rows(theta, points, kept)
        with pytest.raises(ValueError, match="at least"):
            check_rows(theta[:20], points[:20], kept)
    else:
        check_rows(theta, points, kept)
