"""Kernels against their definitions, and as scikit-learn has them."""

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as sk

from pymc_kbr.kernels import (
    FAMILIES,
    Gaussian,
    Laplace,
    Linear,
    Matern,
    check_kernel,
    frequencies,
    median_heuristic,
)
from pymc_kbr.regression.leave_one_out import choose_kernel_and_ridge

A = np.random.default_rng(0).normal(size=(6, 3))
B = np.random.default_rng(1).normal(size=(7, 3))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Gaussian(1.3), sk.RBF(1.3)),
        (Gaussian((1.0, 2.0, 0.5)), sk.RBF([1.0, 2.0, 0.5])),
        (Matern(1.3), sk.Matern(1.3, nu=1.5)),
        (Matern((1.0, 2.0, 0.5), nu=2.5), sk.Matern([1.0, 2.0, 0.5], nu=2.5)),
        (Matern(0.8, nu=0.9), sk.Matern(0.8, nu=0.9)),
        (Matern(0.8, nu=np.inf), sk.RBF(0.8)),
        (Laplace(0.7), sk.Matern(0.7, nu=0.5)),
        (Linear(2.0), sk.DotProduct(sigma_0=np.sqrt(2.0))),
        (Gaussian(1.0) + Linear(), sk.RBF(1.0) + sk.DotProduct(0.0)),
        (Gaussian(1.0) * Matern(2.0), sk.RBF(1.0) * sk.Matern(2.0, nu=1.5)),
        (Gaussian(1.0) * sk.Matern(2.0, nu=1.5), sk.RBF(1.0) * sk.Matern(2.0, nu=1.5)),
    ],
)
def test_a_kernel_is_the_one_of_scikit_learn(ours, theirs):
    np.testing.assert_allclose(ours(A, B), theirs(A, B), atol=1e-12)
    np.testing.assert_allclose(ours(A), theirs(A), atol=1e-12)
    np.testing.assert_allclose(ours.diag(A), np.diag(ours(A)), atol=1e-12)


def test_distances_to_few_points_are_those_to_many():
    np.testing.assert_allclose(Gaussian(0.9)(A, B[:2]), Gaussian(0.9)(A, B)[:, :2], atol=1e-14)


def test_the_linear_kernel_on_rotations_is_the_trace_kernel():
    first, second = (np.linalg.qr(np.random.default_rng(s).normal(size=(3, 3)))[0] for s in (0, 1))
    value = Linear()(first.reshape(1, 9), second.reshape(1, 9))
    np.testing.assert_allclose(value[0, 0], np.trace(first @ second.T), atol=1e-14)


@pytest.mark.parametrize(
    "kernel",
    [Gaussian((1.0, 2.0, 3.0)), Laplace(2.0), Matern(1.5, nu=2.5), Gaussian(2.0) * Laplace(3.0), sk.RBF(1.5)],
)
def test_random_frequencies_average_to_the_kernel(kernel):
    count = 40_000
    drawn = frequencies(kernel, count, 3, np.random.default_rng(2))
    cosines = np.cos((A[:, None, :] - B[None, :, :]) @ drawn.T)
    # The standard error of each mean of cosines is at most sqrt(1 / count); five of them.
    np.testing.assert_allclose(cosines.mean(axis=2), kernel(A, B), atol=5 / np.sqrt(count))


def test_frequencies_of_other_kernels_are_refused():
    with pytest.raises(ValueError, match="Gaussian, Laplace or Matern"):
        frequencies(Linear(), 10, 3, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("kernel", "error", "words"),
    [
        ("box", ValueError, ", ".join(FAMILIES)),
        (3.0, TypeError, "scikit-learn"),
        (Gaussian, TypeError, "scikit-learn"),
        (lambda a, b: a @ b.T, TypeError, "diag"),
    ],
)
def test_what_is_no_kernel_is_refused(kernel, error, words):
    with pytest.raises(error, match=words):
        check_kernel("kernel", kernel)


def test_the_median_heuristic_leaves_the_diagonal_out():
    assert median_heuristic(np.array([[0.0], [1.0], [3.0]])) == 2.0


def seen_through_noise(bend, n=300):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(n, 2))
    return x, x[:, :1] + bend * x[:, :1] ** 2 + rng.normal(size=(n, 1))


@pytest.mark.parametrize(("bend", "linear"), [(0.0, True), (0.05, True), (1.0, False)])
def test_the_linear_kernel_is_taken_until_it_is_refuted(bend, linear):
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
def test_the_linear_kernel_can_be_told_to_say_nothing(d):
    """Of noise the largest ridge leaves next to nothing, in any number of statistics."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(200, d)), rng.normal(size=(200, 1))
    chosen = choose_kernel_and_ridge(x, y, [Linear()], targets=y)
    nothing = np.mean((y - (y.sum() - y) / 199) ** 2)  # each row by the mean of the others
    assert chosen.error <= nothing * 1.005
