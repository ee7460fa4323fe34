"""Leave-one-out errors against refitting, and what is chosen by them."""

import numpy as np
import pytest
from scipy.linalg import inv, solve
from sklearn.gaussian_process import kernels as sk

from pymc_kbr.kernels import Gaussian, Linear, parameter_kernel
from pymc_kbr.regression.choose_ridge import (
    RIDGES,
    SCALES,
    LeaveOneOut,
    beats_simple_ones,
    choose_kernel_and_ridge,
    embedding_targets,
    excesses,
    simplest_near_the_best,
)

N = 30
RNG = np.random.default_rng(8)
X = RNG.normal(size=(N, 2))
Y = np.column_stack([np.sin(2 * X[:, 0]), X.sum(axis=1)]) + 0.3 * RNG.normal(size=(N, 2)) + 5.0
WEIGHTS = RNG.exponential(size=N)
GRAM = Gaussian(1.1)(X)


def refitted(gram, targets, weights, ridge, intercept):
    """Each row's residual from a regression on the others, written out."""
    out = np.empty_like(targets)
    for i in range(len(gram)):
        rest = np.arange(len(gram)) != i
        inverse = inv(gram[np.ix_(rest, rest)] + ridge * np.diag(1 / weights[rest]))
        ones = np.ones(rest.sum())
        constant = (ones @ inverse @ targets[rest]) / inverse.sum() if intercept else 0.0
        out[i] = targets[i] - constant - gram[i, rest] @ inverse @ (targets[rest] - constant)
    return out


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("ridge", [1e-3, 0.3, 40.0])
def test_residuals_are_those_of_refitting(intercept, weights, ridge):
    closed = LeaveOneOut(GRAM, Y, weights, intercept).residuals(ridge)
    expected = refitted(GRAM, Y, np.ones(N) if weights is None else weights, ridge, intercept)
    np.testing.assert_allclose(closed, expected, atol=1e-8)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_degrees_of_freedom_are_the_trace_of_the_smoother(weights):
    d = np.ones(N) if weights is None else weights
    smoother = np.trace(solve(GRAM + 0.2 * np.diag(1 / d), GRAM))
    assert LeaveOneOut(GRAM, Y, weights).degrees_of_freedom(0.2) == pytest.approx(smoother)


def test_rows_without_weight_are_predicted_by_the_others():
    weights = WEIGHTS.copy()
    weights[:3] = 0
    closed = LeaveOneOut(GRAM, Y, weights).residuals(0.3)
    rest = weights > 0
    predicted = GRAM[:3, rest] @ solve(GRAM[np.ix_(rest, rest)] + 0.3 * np.diag(1 / weights[rest]), Y[rest])
    np.testing.assert_allclose(closed[:3], Y[:3] - predicted, atol=1e-4)


def naive_errors(kernels, ridges, weights=None, score=None, centred=True):
    d = np.ones(N) if weights is None else weights
    score = d if score is None else score
    return [
        [np.average(np.sum(refitted(k(X), Y, d, r, centred) ** 2, axis=1), weights=score) for r in ridges]
        for k in kernels
    ]


KERNELS = [Gaussian(0.3), Gaussian(1.0), Gaussian(4.0)]


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("weights", [None, WEIGHTS / WEIGHTS.mean()])
@pytest.mark.parametrize("score", [None, np.linspace(0, 2, N)])
def test_the_lowest_error_is_chosen(centred, weights, score):
    ridges = [1e-3, 1e-2, 0.1, 1.0]
    errors = naive_errors(KERNELS, ridges, weights, score, centred)
    best = np.unravel_index(np.argmin(errors), (3, 4))
    chosen = choose_kernel_and_ridge(
        X, Y, KERNELS, ridges, weights=weights, score_weights=score, centred=centred, targets=Y, near=0.0
    )
    assert chosen.kernel == KERNELS[best[0]]
    assert chosen.ridge == ridges[best[1]]
    assert chosen.error == pytest.approx(np.min(errors), rel=1e-6)


def test_the_error_of_the_embedding_is_a_distance_in_the_parameters_kernel():
    kernel = parameter_kernel(Y)
    gram, inverse_of = kernel(Y), Gaussian(1.0)(X)
    expected = []
    for i in range(N):
        rest = np.arange(N) != i
        inner = inverse_of[np.ix_(rest, rest)]
        h = np.eye(N - 1) - 1 / (N - 1)
        # Weights of the others: their mean, and kernel regression about it.
        cross = inverse_of[rest, i] - inner.mean(axis=0)
        w = np.full(N - 1, 1 / (N - 1)) + h @ solve(h @ inner @ h + 0.1 * np.eye(N - 1), h @ cross)
        expected.append(gram[i, i] - 2 * w @ gram[rest, i] + w @ gram[np.ix_(rest, rest)] @ w)
    chosen = choose_kernel_and_ridge(X, Y, [Gaussian(1.0)], [0.1])
    # Eigenvalues below a thousandth of the largest are left out: at most that share of each feature's norm.
    assert chosen.error == pytest.approx(np.mean(expected), abs=2 * N * 1e-3)
    assert chosen.error != pytest.approx(np.mean(expected), rel=1e-12)


def test_without_a_constant_the_error_is_of_features_as_they_are():
    kernel = parameter_kernel(Y)
    gram, inner = kernel(Y), Gaussian(1.0)(X)
    expected = []
    for i in range(N):
        rest = np.arange(N) != i
        w = solve(inner[np.ix_(rest, rest)] + 0.1 * np.eye(N - 1), inner[rest, i])
        expected.append(gram[i, i] - 2 * w @ gram[rest, i] + w @ gram[np.ix_(rest, rest)] @ w)
    chosen = choose_kernel_and_ridge(X, Y, [Gaussian(1.0)], [0.1], centred=False)
    assert chosen.error == pytest.approx(np.mean(expected), abs=5e-3)
    centred = choose_kernel_and_ridge(X, Y, [Gaussian(1.0)], [0.1])
    assert abs(centred.error - np.mean(expected)) > 5e-3


@pytest.mark.parametrize("base", [None, WEIGHTS / WEIGHTS.sum()])
def test_targets_are_a_factor_of_the_parameters_gram_matrix(base):
    factor = embedding_targets(Y, base)
    gram = parameter_kernel(Y)(Y)
    if base is not None:
        h = np.eye(N) - np.outer(np.ones(N), base)
        gram = h @ gram @ h.T
    left = np.linalg.eigvalsh(gram - factor @ factor.T)
    largest = np.linalg.eigvalsh(gram)[-1]
    assert np.abs(left).max() <= 1e-3 * largest
    assert np.sum(np.linalg.eigvalsh(gram) > 1e-3 * largest) == factor.shape[1] < N


def test_a_score_weight_meets_rows_that_are_a_sample_by_weight_once():
    """The ratio by which rows were drawn is divided out of what scores them."""
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, size=(6000, 1))
    y = np.where(x > 0, 3.0, 1.0) * rng.normal(size=(6000, 1))
    ratio = np.where(x[:, 0] > 0, 1.8, 0.2)
    score = np.ones(6000)
    chosen = choose_kernel_and_ridge(
        x, y, [Linear()], [1e6], weights=ratio, score_weights=score, targets=y, most=600, centred=False
    )
    # Scored evenly, half of the rows have variance 9 and half 1: five. About 60 rows stand for that half.
    assert chosen.error == pytest.approx(5.0, abs=4 * np.sqrt(2 * (9**2 / 540 + 1 / 60)))
    by_ratio = choose_kernel_and_ridge(
        x, y, [Linear()], [1e6], weights=ratio, targets=y, most=600, centred=False
    )
    assert by_ratio.error == pytest.approx(0.9 * 9 + 0.1, abs=4 * np.sqrt(2 * 0.9 * 9**2 / 600))


def test_excesses_are_means_of_differences_and_their_standard_errors():
    squares, weights = RNG.exponential(size=(3, N)), WEIGHTS / WEIGHTS.sum()
    squares[1] *= 0.5
    excess, errors = excesses(squares, weights)
    for c in range(3):
        apart = squares[c] - squares[1]
        assert excess[c] == pytest.approx(np.sum(weights * apart))
        assert errors[c] == pytest.approx(np.sqrt(np.sum(weights**2 * (apart - excess[c]) ** 2)))
    assert excess[1] == errors[1] == 0


@pytest.mark.parametrize(("near", "expected"), [(0.0, 1), (0.9, 1), (1.1, 0), (100.0, 2)])
def test_the_fewest_degrees_of_freedom_among_the_nearly_best(near, expected):
    weights = np.full(N, 1 / N)
    noise = np.tile([1.0, -1.0], N // 2)
    # Above the best by one standard error, and by ten.
    squares = np.array([1 + 1 / np.sqrt(N) + noise, np.ones(N), 1 + 10 / np.sqrt(N) + noise])
    chosen, error = simplest_near_the_best(squares, np.array([2.0, 3.0, 1.0]), weights, near)
    assert chosen == expected
    assert error == pytest.approx(squares[expected].mean())


@pytest.mark.parametrize(("excess", "refuted"), [(1.9, False), (2.1, True), (-1.0, False)])
def test_a_candidate_is_rejected_by_two_standard_errors(excess, refuted):
    weights = np.full(N, 1 / N)
    noise = np.tile([1.0, -1.0], N // 2)
    simple = 1 + excess / np.sqrt(N) + noise
    squares = np.array([simple + 1, simple, np.ones(N)])
    assert beats_simple_ones(squares, np.array([0, 1]), weights) is refuted


def seen_through_noise(bend, n=300):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(n, 2))
    return x, x[:, :1] + bend * x[:, :1] ** 2 + rng.normal(size=(n, 1))


@pytest.mark.parametrize(("bend", "linear"), [(0.0, True), (0.05, True), (1.0, False)])
def test_the_linear_kernel_is_taken_until_it_is_rejected(bend, linear):
    x, y = seen_through_noise(bend)
    chosen = choose_kernel_and_ridge(x, y, [Gaussian(2.0), Gaussian(20.0), Linear()], targets=y)
    assert isinstance(chosen.kernel, Linear) is linear
    if not linear:
        assert chosen.error < choose_kernel_and_ridge(x, y, [Linear()], targets=y).error


@pytest.mark.parametrize("kernel", [Gaussian(2.0), Linear()])
def test_ridges_are_in_units_of_the_kernels_diagonal(kernel):
    """A kernel times a thousand is the same regression with a ridge times a thousand."""
    x, y = seen_through_noise(1.0)
    one = choose_kernel_and_ridge(x, y, [kernel], targets=y, near=0.0)
    other = choose_kernel_and_ridge(x, y, [kernel * sk.ConstantKernel(1000.0)], targets=y, near=0.0)
    np.testing.assert_allclose(other.ridge, 1000 * one.ridge)
    np.testing.assert_allclose(other.error, one.error, rtol=1e-9)


@pytest.mark.parametrize("d", [2, 64])
def test_the_linear_kernel_can_be_made_to_say_nothing(d):
    """Of noise the largest ridge leaves next to nothing, in any number of statistics."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(200, d)), rng.normal(size=(200, 1))
    chosen = choose_kernel_and_ridge(x, y, [Linear()], targets=y)
    nothing = np.mean((y - (y.sum() - y) / 199) ** 2)  # each row by the mean of the others
    assert chosen.error <= nothing * 1.005


def test_bandwidths_that_are_tried_are_from_a_quarter_to_eight_medians():
    np.testing.assert_allclose(SCALES, [0.25, 0.5, 1, 2, 4, 8])


def test_the_ridges_that_are_tried_span_nine_decades():
    np.testing.assert_allclose(np.diff(np.log10(RIDGES)), 0.5)
    assert (RIDGES[0], RIDGES[-1]) == (1e-6, 1e3)
