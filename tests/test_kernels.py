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
