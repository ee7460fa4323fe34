"""Embeddings, their projections, draws and modes against sums and searches written out."""

import numpy as np
import pytest

from pymc_kbr.embedding.embedding import Atoms, Embedding
from pymc_kbr.embedding.embedding import mode as mode_of
from pymc_kbr.embedding.projection import (
    _largest_eigenvalue,
    onto_simplex,
    project_rows_to_simplex,
    project_to_simplex,
)
from pymc_kbr.kernels import Gaussian, Laplace, Linear, Matern
from pymc_kbr.posterior.posterior import herd

RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(25, 2))
SIGNED = RNG.normal(1 / 25, 0.05, 25)
KERNELS = [Gaussian(0.7), Gaussian((0.5, 2.0)), Matern(1.0), Linear(1.0)]


def make(points=POINTS, weights=SIGNED, kernel=KERNELS[0]):
    return Embedding(Atoms(points, kernel), weights)


def distance(embedding, points, weights):
    """RKHS distance to weighted points, from the Gram matrix of all."""
    together = np.vstack([embedding.atoms.points, points])
    w = np.concatenate([embedding.weights, -np.asarray(weights)])
    return np.sqrt(max(w @ embedding.atoms.kernel(together) @ w, 0.0))


@pytest.mark.parametrize("kernel", KERNELS)
def test_inner_products_are_double_sums_in_any_blocks(kernel, set_default):
    one, other = make(kernel=kernel), make(RNG.normal(size=(9, 2)), RNG.normal(size=9), kernel)
    expected = sum(
        w * v * kernel(a[None], b[None])[0, 0]
        for w, a in zip(one.weights, one.atoms.points, strict=True)
        for v, b in zip(other.weights, other.atoms.points, strict=True)
    )
    set_default(Embedding.inner, rows_at_once=10)
    assert one.inner(other) == pytest.approx(expected, abs=1e-12)
    assert other.inner(one) == pytest.approx(expected, abs=1e-12)
    assert one.distance(other) == pytest.approx(distance(one, other.atoms.points, other.weights))


def test_the_distance_of_what_rounding_makes_negative_is_zero():
    one = make(POINTS * 1e-9)
    assert one.distance(make(POINTS[::-1] * 1e-9, SIGNED[::-1])) == pytest.approx(0, abs=1e-7)


def test_the_gram_matrix_is_whole_for_few_atoms_and_factored_for_many():
    atoms, v = Atoms(POINTS, Gaussian(1.5)), RNG.normal(size=25)
    whole = Gaussian(1.5)(POINTS)
    np.testing.assert_array_equal(atoms.gram, whole)
    np.testing.assert_allclose(atoms.apply_gram(v), whole @ v)
    factored = Atoms(POINTS, Gaussian(1.5), most_exact=24)
    assert factored.gram.shape[1] < 25
    left = np.trace(whole - factored.gram @ factored.gram.T)
    assert 0 <= left <= 1e-4 * 25
    np.testing.assert_allclose(factored.apply_gram(v), factored.gram @ (factored.gram.T @ v))
    assert Atoms(POINTS, Gaussian(1.5), most_exact=24, rank=3).gram.shape == (25, 3)


def test_a_normal_distribution_without_spread_is_an_atom():
    one, place = make(), np.array([0.3, -0.2])
    expected = distance(one, place[None], [1.0]) ** 2
    assert one.squared_error_to_gaussian(place, np.zeros((2, 2))) == pytest.approx(expected)


def test_the_norm_of_a_normal_distribution_is_known():
    """|m|^2 = prod s / sqrt(s^2 + 2 v) for independent columns."""
    nothing = make(weights=np.zeros(25), kernel=Gaussian((0.5, 2.0)))
    norm = nothing.squared_error_to_gaussian(np.array([5.0, 1.0]), np.diag([0.3, 0.7]))
    assert norm == pytest.approx(0.5 / np.sqrt(0.25 + 0.6) * 2 / np.sqrt(4 + 1.4))
    one = make(weights=np.zeros(25), kernel=Gaussian(0.5))
    assert one.squared_error_to_gaussian(np.zeros(2), np.diag([0.3, 0.3])) == pytest.approx(0.25 / 0.85)


@pytest.mark.parametrize("kernel", KERNELS)
def test_each_herded_draw_brings_the_draws_nearest_to_the_embedding(kernel):
    embedding = make(weights=np.abs(SIGNED) / np.abs(SIGNED).sum(), kernel=kernel)
    drawn: list[int] = []
    for row in herd(embedding, 12):
        distances = [
            distance(embedding, POINTS[[*drawn, i]], np.full(len(drawn) + 1, 1 / (len(drawn) + 1)))
            for i in range(25)
        ]
        assert distances[row] == pytest.approx(min(distances), rel=1e-9)
        drawn.append(int(row))


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_largest_eigenvalue_is_not_underestimated(kernel):
    exact = np.linalg.eigvalsh(kernel(POINTS))[-1]
    assert exact <= _largest_eigenvalue(Atoms(POINTS, kernel)) <= 1.06 * exact


@pytest.mark.parametrize("scale", [0.02, 0.2, 2.0])
def test_projected_weights_meet_the_conditions_of_an_optimum(scale):
    """Where a weight is positive the gradient is the same, elsewhere it is no smaller."""
    rng = np.random.default_rng(3)
    weights = rng.normal(1 / 25, scale, 25)
    embedding = make(weights=weights / abs(weights.sum()))
    v = project_to_simplex(embedding, iterations=20_000, tolerance=0.0)
    assert v.min() >= 0
    assert v.sum() == pytest.approx(1)
    gradient = KERNELS[0](POINTS) @ (v - embedding.weights)
    level = v @ gradient
    tight = 2e-3 * np.abs(gradient).max()
    assert gradient.min() >= level - tight
    assert np.abs(gradient[v > 1e-3] - level).max() <= tight


def test_the_default_projection_is_near_to_the_best():
    rng = np.random.default_rng(4)
    for _ in range(5):
        weights = rng.normal(1 / 25, 0.2, 25)
        embedding = make(weights=weights / abs(weights.sum()))
        rough, fine = project_to_simplex(embedding), project_to_simplex(embedding, 20_000, 0.0)
        assert distance(embedding, POINTS, rough) <= 1.05 * distance(embedding, POINTS, fine)
        few = project_to_simplex(embedding, 3)
        assert few.sum() == pytest.approx(1)
        assert distance(embedding, POINTS, few) >= distance(embedding, POINTS, fine)


@pytest.mark.parametrize("most_exact", [10, 200])
def test_rows_are_projected_side_by_side_to_the_same_in_fewer_steps(most_exact):
    atoms = Atoms(POINTS, KERNELS[0], most_exact=most_exact, tolerance=1e-12)
    rows = np.random.default_rng(5).normal(1 / 25, 0.2, (6, 25))
    rows = np.vstack([rows, np.full(25, 1 / 25)])
    apart = []
    for steps in (5, 20_000):
        found = project_rows_to_simplex(atoms, rows, steps, tolerance=0.0)
        alone = np.array([project_to_simplex(Embedding(atoms, row), steps, 0.0) for row in rows])
        assert found.min() >= 0
        np.testing.assert_allclose(found.sum(axis=1), 1)
        apart.append(
            [np.einsum("ti,ij,tj->t", v - rows, KERNELS[0](POINTS), v - rows) for v in (found, alone)]
        )
    np.testing.assert_allclose(apart[1][0], apart[1][1], rtol=1e-3, atol=1e-12)
    # Both start at the same weights, and steps about the features' mean are longer.
    assert np.mean(apart[0][0]) < np.mean(apart[0][1])
    np.testing.assert_allclose(found[-1], 1 / 25)


def test_rows_on_atoms_that_are_all_the_same_stay_probabilities():
    atoms = Atoms(np.ones((6, 2)), KERNELS[0])
    found = project_rows_to_simplex(atoms, np.array([[-1.0, 2, 1, 1, -1, 0.5]]))
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1)


def test_weights_that_are_all_negative_are_projected_too():
    v = project_to_simplex(make(weights=-np.full(25, 0.1)))
    assert v.sum() == pytest.approx(1)
    assert v.min() >= 0


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([0.5, 0.5], [0.5, 0.5]),
        ([2.0, 0.0], [1, 0]),
        ([0.0, 0.0], [0.5, 0.5]),
        ([1.0, 0.8, -5], [0.6, 0.4, 0]),
    ],
)
def test_onto_the_simplex_by_hand(weights, expected):
    np.testing.assert_allclose(onto_simplex(np.array(weights)), expected)


def grid_best(embedding):
    grid = np.stack(np.meshgrid(*[np.linspace(-3, 3, 121)] * 2), axis=-1).reshape(-1, 2)
    kernel = embedding.atoms.kernel
    return (kernel.diag(grid) - 2 * embedding(grid)).min()


@pytest.mark.parametrize("kernel", [Gaussian(0.7), Gaussian((0.5, 2.0)), Laplace(0.8), Matern(1.0)])
@pytest.mark.parametrize("seed", range(2))
def test_the_mode_is_the_nearest_feature_to_signed_weights(kernel, seed):
    rng = np.random.default_rng(seed)
    embedding = make(rng.normal(size=(25, 2)), rng.normal(0.1, 0.3, 25), kernel)
    mode = mode_of(embedding, starts=25)
    assert kernel.diag(mode[None])[0] - 2 * embedding(mode[None])[0] <= grid_best(embedding) + 1e-6


def test_a_mode_is_a_fixed_point():
    embedding = make(weights=np.abs(SIGNED))
    mode = mode_of(embedding)
    similar = embedding.weights * embedding.atoms.kernel(mode[None], POINTS)[0]
    np.testing.assert_allclose(similar @ POINTS / similar.sum(), mode, atol=1e-6)


def test_more_starts_find_a_higher_mode_and_one_start_is_the_highest_atom():
    """Narrow peaks: iterations end near to where they start."""
    rng = np.random.default_rng(1)
    embedding = make(rng.uniform(-3, 3, size=(40, 2)), np.full(40, 1 / 40), Gaussian(0.05))
    heights = [embedding(mode_of(embedding, starts)[None])[0] for starts in (1, 40)]
    assert heights[0] >= embedding(embedding.atoms.points).max() - 1e-12
    assert heights[1] >= heights[0]


def test_no_iteration_stays_at_the_highest_atom():
    embedding = make(weights=np.abs(SIGNED))
    highest = POINTS[np.argmax(embedding(POINTS))]
    np.testing.assert_array_equal(mode_of(embedding, 1, iterations=0), highest)
    one, two = (embedding(mode_of(embedding, 1, iterations=i)[None])[0] for i in (1, 2))
    assert embedding(highest[None])[0] < one < two


def test_weights_without_any_above_zero_have_a_mode_among_the_atoms():
    mode = mode_of(make(weights=-np.ones(25)))
    assert (mode == POINTS).all(axis=1).any()


@pytest.mark.parametrize("seed", range(4))
def test_one_start_ends_where_the_embedding_is_level(seed):
    """With signed weights a full step may go down; halved ones end at a stationary point."""
    rng = np.random.default_rng(seed)
    points, weights = rng.normal(size=(25, 2)), rng.normal(0.05, 0.5, 25)
    embedding = make(points, weights, Gaussian(0.9))
    mode = mode_of(embedding, starts=1, iterations=5000)
    similar = weights * embedding.atoms.kernel(mode[None], points)[0]
    slope = similar @ (points - mode) / 0.9**2
    assert np.abs(slope).max() < 1e-3 * np.abs(similar).sum()
    assert embedding(mode[None])[0] >= embedding(points).max()


def test_the_minimiser_and_the_fixed_point_agree():
    """A Matern kernel of infinite smoothness is the Gaussian kernel."""
    weights = np.abs(SIGNED)
    fixed = mode_of(make(weights=weights, kernel=Gaussian(0.9)))
    searched = mode_of(make(weights=weights, kernel=Matern(0.9, nu=np.inf)))
    np.testing.assert_allclose(searched, fixed, atol=2e-6)


@pytest.mark.parametrize("seed", range(4))
def test_a_projection_does_not_end_by_a_step_without_momentum(seed):
    """What one gains says little of what is to be gained: two steps are made whatever the tolerance."""
    rng = np.random.default_rng(seed)
    embedding = make(weights=rng.normal(1 / 25, 0.05, 25))
    made = project_to_simplex(embedding, tolerance=1e9)
    one, two = (project_to_simplex(embedding, steps, tolerance=0.0) for steps in (1, 2))
    np.testing.assert_array_equal(made, two)
    assert distance(embedding, POINTS, two) < distance(embedding, POINTS, one)
