"""Weighted atoms in an RKHS against sums written out, and against closed forms."""

import numpy as np
import pytest

from pymc_kbr.embedding.embedding import Atoms, Embedding
from pymc_kbr.embedding.embedding import mode as mode_of
from pymc_kbr.kernels import Gaussian, Laplace
from pymc_kbr.posterior.posterior import herd

GAUSSIAN = Gaussian((0.8, 1.2))


def make(points, weights=None, kernel=GAUSSIAN):
    weights = np.full(len(points), 1 / len(points)) if weights is None else weights
    return Embedding(Atoms(np.asarray(points, dtype=float), kernel), np.asarray(weights))


@pytest.fixture
def pair(rng):
    return make(rng.normal(size=(30, 2)), rng.normal(size=30)), make(rng.normal(1, 1, size=(20, 2)))


def test_inner_products_and_distances_are_the_sums(pair):
    one, two = pair
    kernel = one.atoms.kernel
    cross = one.weights @ kernel(one.atoms.points, two.atoms.points) @ two.weights
    assert one.inner(two) == pytest.approx(cross, abs=1e-12)
    squared = one.inner(one) - 2 * cross + two.inner(two)
    assert one.distance(two) == pytest.approx(np.sqrt(squared), abs=1e-12)
    assert one.distance(one) == 0
    np.testing.assert_allclose(one.expectation(lambda y: y), one.weights @ one.atoms.points)
    np.testing.assert_allclose(
        one(two.atoms.points), kernel(two.atoms.points, one.atoms.points) @ one.weights
    )


def test_embeddings_of_different_kernels_are_not_compared(pair):
    with pytest.raises(ValueError, match="one kernel for both"):
        pair[0].inner(make([[0.0, 0.0]], kernel=Gaussian(1.0)))


def test_the_error_to_a_normal_distribution_is_the_distance_to_many_draws(rng):
    mean, covariance = np.array([0.3, -0.2]), np.array([[0.5, 0.2], [0.2, 0.4]])
    one = make(rng.normal(size=(15, 2)), rng.normal(0.1, 0.2, 15))
    draws = rng.multivariate_normal(mean, covariance, 4000)
    kernel = one.atoms.kernel
    closed = one.squared_error_to_gaussian(mean, covariance)
    cross = kernel(draws, one.atoms.points) @ one.weights
    own = kernel(draws[:2000], draws[2000:])
    estimate = own.mean() - 2 * cross.mean() + one.inner(one)
    # Means over 4,000 and over 2,000 x 2,000 draws: five standard errors, the second's at most that of
    # 2,000 rows.
    error = 5 * (2 * cross.std() / np.sqrt(4000) + 2 * own.mean(axis=1).std() / np.sqrt(2000))
    assert closed == pytest.approx(estimate, abs=error)
    assert closed > 0


def test_the_error_to_a_normal_distribution_needs_a_gaussian_kernel():
    with pytest.raises(TypeError, match="Gaussian"):
        make([[0.0, 0.0]], kernel=Laplace(1.0)).squared_error_to_gaussian(np.zeros(2), np.eye(2))


def test_herding_is_nearer_than_random_draws(rng):
    many = make(rng.normal(size=(800, 2)))
    herded = make(many.atoms.points[herd(many, 40)])
    random = [make(many.atoms.points[rng.choice(800, 40)]).distance(many) for _ in range(20)]
    assert herded.distance(many) < 0.7 * min(random)


@pytest.mark.parametrize("kernel", [Gaussian(1.0), Laplace(1.0)])
def test_the_mode_is_the_nearest_feature(kernel, rng):
    many = make(np.vstack([rng.normal(0, 0.3, (150, 2)), rng.normal(3, 0.3, (50, 2))]), kernel=kernel)
    mode = mode_of(many)
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 4, 101)] * 2), axis=-1).reshape(-1, 2)
    gaps = kernel.diag(grid) - 2 * many(grid)
    assert kernel.diag(mode[None])[0] - 2 * many(mode[None])[0] <= gaps.min() + 1e-9
