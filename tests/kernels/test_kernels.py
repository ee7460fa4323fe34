"""Kernels against their definitions, and as scikit-learn has them."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.gaussian_process import kernels as sk

from pymc_kbr.kernels import (
    FAMILIES,
    PROFILES,
    Gaussian,
    Laplace,
    Linear,
    Matern,
    check_kernel,
    frequencies,
    gaussian_mean,
    median_heuristic,
    parameter_kernel,
    squared_distances,
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


@pytest.mark.parametrize("kernel", [Gaussian(1.3), Gaussian((1.0, 2.0, 0.5))])
@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_columns_for_many_calls_are_those_of_the_gram_matrix(kernel, offset):
    columns = kernel.columns_of(A + offset)
    np.testing.assert_allclose(columns(B + offset), kernel(A, B), rtol=1e-5 if offset else 1e-12)
    np.testing.assert_allclose(
        columns(A[2:3] + offset)[:, 0], kernel(A)[:, 2], rtol=1e-5 if offset else 1e-12
    )


def test_the_distance_from_one_point():
    np.testing.assert_allclose(squared_distances(A[:1], B)[0], ((A[0] - B) ** 2).sum(axis=1))
    assert squared_distances(A[:1]).tolist() == [[0.0]]


@pytest.mark.parametrize("b", [None, B])
def test_squared_distances_are_the_sums_of_squares(b):
    other = A if b is None else b
    expected = ((A[:, None] - other[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(squared_distances(A, b), expected, atol=1e-12)
    np.testing.assert_allclose(
        squared_distances(A + 1e6, None if b is None else b + 1e6), expected, atol=1e-7
    )


def test_squared_distances_are_never_negative():
    near = 1e3 + np.random.default_rng(5).normal(scale=1e-9, size=(40, 3))
    assert squared_distances(near, near + 1e-12).min() >= 0
    np.testing.assert_array_equal(np.diag(squared_distances(near)), 0)


def test_the_matern_kernel_of_any_smoothness_is_its_closed_form():
    """The Bessel function's form at a smoothness next to each, of which some have a closed form."""
    for nu in (0.5, 1.0, 1.5, 2.0, 2.5, 3.5):
        np.testing.assert_allclose(Matern(1.1, nu)(A, B), Matern(1.1, nu + 1e-9)(A, B), atol=1e-7)
    np.testing.assert_array_equal(np.diag(Matern(1.1, 0.9)(A)), 1.0)
    assert Matern(1.0).nu == 1.5
    assert Linear().constant == 0


def test_kernels_are_added_and_multiplied_in_any_order():
    one, two, three = Gaussian(1.0), Linear(1.0), Linear(0.5) + Laplace(2.0)
    np.testing.assert_allclose((one + two * three)(A, B), one(A, B) + two(A, B) * three(A, B))
    np.testing.assert_allclose(((one + two) * three).diag(A), (one.diag(A) + two.diag(A)) * three.diag(A))


@pytest.mark.parametrize("kernel", FAMILIES)
def test_every_family_is_a_kernel_of_a_bandwidth(kernel):
    made = FAMILIES[kernel](0.7)
    np.testing.assert_allclose(made(A, B), FAMILIES[kernel](1.0)(A / 0.7, B / 0.7))
    assert check_kernel("kernel", kernel) is None
    assert check_kernel("kernel", made) is None


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Gaussian(1.5), sk.RBF(1.5)),
        (Matern((1.0, 2.0, 0.5), nu=2.5), sk.Matern([1.0, 2.0, 0.5], nu=2.5)),
        (Gaussian(2.0) * Laplace(3.0), sk.RBF(2.0) * sk.Matern(3.0, nu=0.5)),
        (Matern(1.3, nu=np.inf), sk.RBF(1.3)),
    ],
)
def test_frequencies_of_the_same_kernel_are_the_same(ours, theirs):
    one, other = (frequencies(k, 30, 3, np.random.default_rng(1)) for k in (ours, theirs))
    assert one.shape == (30, 3)
    np.testing.assert_allclose(one, other)


def test_the_mean_of_a_normal_distribution_is_that_of_many_draws():
    rng = np.random.default_rng(3)
    mean, covariance = np.array([0.3, -0.5]), np.array([[0.6, 0.2], [0.2, 0.3]])
    bandwidth = np.array([0.8, 1.7])
    points = rng.normal(size=(5, 2))
    draws = rng.multivariate_normal(mean, covariance, 40_000)
    values = Gaussian(tuple(bandwidth))(points, draws)
    closed = gaussian_mean(points, mean, covariance, bandwidth**2)
    # Five standard errors of each mean.
    assert np.all(np.abs(closed - values.mean(axis=1)) < 5 * values.std(axis=1) / 200)


def test_the_mean_of_a_point_is_the_kernel():
    points = A[:, :2]
    closed = gaussian_mean(points, np.array([0.1, 0.2]), np.zeros((2, 2)), np.array([0.5, 2.0]))
    kernel = Gaussian((np.sqrt(0.5), np.sqrt(2.0)))
    np.testing.assert_allclose(closed, kernel(points, np.array([[0.1, 0.2]]))[:, 0])


def test_profiles_are_their_formulas():
    u = np.array([0.0, 0.5, 1.0, 1.5])
    np.testing.assert_allclose(PROFILES["gaussian"](u), np.exp(-(u**2) / 2))
    np.testing.assert_allclose(PROFILES["epanechnikov"](u), [1, 0.75, 0, 0])
    np.testing.assert_array_equal(PROFILES["top_hat"](u), [1, 1, 1, 0])
    assert PROFILES["top_hat"](u).dtype == float


def test_the_median_is_over_the_pairs_of_rows_spread_over_the_table():
    points = np.random.default_rng(6).normal(size=(1700, 2))
    rows = np.round(np.linspace(0, 1699, 1000)).astype(int)
    expected = np.median(pdist(points[rows]))
    assert median_heuristic(points) == expected
    assert median_heuristic(points, most=50) != expected
    assert median_heuristic(points[:40], most=40) == np.median(pdist(points[:40]))


def test_where_most_rows_coincide_the_others_tell_the_bandwidth():
    points = np.zeros((20, 1))
    points[:3, 0] = [1.0, 2.0, 4.0]
    apart = pdist(points)
    assert median_heuristic(points) == np.median(apart[apart > 0]) > 0
    with pytest.raises(ValueError, match="coincide"):
        median_heuristic(np.zeros((5, 2)))


def test_the_kernel_on_parameters_is_in_deviations_of_each():
    parameters = A * [1.0, 1e200, 1e-200]
    deviation = A.std(axis=0)
    scaled = A / deviation
    kernel = parameter_kernel(parameters)
    expected = Gaussian(median_heuristic(scaled))(scaled)
    np.testing.assert_allclose(kernel(parameters), expected, rtol=1e-9)
    np.testing.assert_allclose(parameter_kernel(A, 0.3).bandwidth, 0.3 * deviation)


def test_deviations_that_are_known_take_the_place_of_the_rows_own():
    known = np.array([2.0, 0.0, 3.0])
    unit = np.array([2.0, 1.0, 3.0])
    np.testing.assert_allclose(parameter_kernel(A, None, known).bandwidth, median_heuristic(A / unit) * unit)
    np.testing.assert_allclose(parameter_kernel(A, 0.5, known).bandwidth, 0.5 * unit)
    wide = np.full(3, 1e3)
    np.testing.assert_allclose(parameter_kernel(A, None, wide).bandwidth, median_heuristic(A))


def test_parameters_that_do_not_vary_have_bandwidth_one():
    assert parameter_kernel(np.full((5, 2), 3.0)).bandwidth == (1.0, 1.0)
    assert parameter_kernel(np.tile([3.0, -5.0], (5, 1))).bandwidth == (1.0, 1.0)
    varying = np.column_stack([A[:, 0], np.ones(6)])
    assert parameter_kernel(varying).bandwidth[0] == pytest.approx(
        median_heuristic(A[:, :1] / A[:, 0].std()) * A[:, 0].std()
    )


def test_a_far_point_takes_no_digits_from_the_distances_of_the_others():
    points = np.random.default_rng(3).normal(size=(40, 2))
    points[7] = 1e12
    exact = np.exp(-np.sum((points[:, None] - points) ** 2, axis=2) / 2)
    kernel = Gaussian(1.0)
    np.testing.assert_allclose(kernel(points), exact, rtol=1e-12)
    np.testing.assert_allclose(kernel.columns_of(points)(points[5:9]), exact[:, 5:9], rtol=1e-12)
    np.testing.assert_allclose(
        squared_distances(points, points[:9])[:, 0], np.sum((points - points[0]) ** 2, 1)
    )
    # Two near to each other and a far one are the fewest of which this can be said.
    assert squared_distances(np.array([[0.0], [1.0], [1e12]]))[0, 1] == 1
