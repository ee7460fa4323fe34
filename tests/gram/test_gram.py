"""Gram solvers: equal to the exact one where they must be, close to it where they should be."""

import numpy as np
import pytest
from scipy.linalg import solve

from pymc_kbr.gram import (
    SOLVERS,
    Auto,
    DenseGram,
    DivideAndConquer,
    Exact,
    IncompleteCholesky,
    LowRankGram,
    Nystroem,
    RandomFeatures,
    RandomlyPivotedCholesky,
    Subsample,
    dense,
    make_solver,
)
from pymc_kbr.gram import incomplete_cholesky as pivoted
from pymc_kbr.kernels import Gaussian, Linear

N = 120
POINTS = np.random.default_rng(0).normal(size=(N, 3))
NEW = np.random.default_rng(1).normal(size=(5, 3))
KERNEL = Gaussian(1.2)
GRAM, CROSS = KERNEL(POINTS), KERNEL(POINTS, NEW)
EXACT_IN_THE_LIMIT = {
    "exact": Exact(),
    "auto": Auto(),
    "incomplete Cholesky": IncompleteCholesky(rank=N, tolerance=0),
    "randomly pivoted": RandomlyPivotedCholesky(rank=N, block=7, tolerance=0),
    "Nystroem, all landmarks": Nystroem(N),
    "Nystroem, all leverage landmarks": Nystroem(N, "leverage"),
    "subsample of all rows": Subsample(N),
    "one part": DivideAndConquer(1),
}


def gram_of(solver, ridge=0.1):
    return solver.gram(KERNEL, POINTS, np.random.default_rng(3), ridge)


@pytest.fixture(params=EXACT_IN_THE_LIMIT)
def gram(request):
    return gram_of(EXACT_IN_THE_LIMIT[request.param])


def test_the_gram_matrix_itself(gram):
    v = np.random.default_rng(4).normal(size=(N, 2))
    np.testing.assert_allclose(gram.apply(v), GRAM @ v, atol=1e-8)
    np.testing.assert_allclose(gram.cross(NEW), CROSS, atol=1e-8)
    assert gram.size == N


@pytest.mark.parametrize("ridge", [1e-2, 1.0])
def test_the_ridge_solve(gram, ridge):
    expected = solve(GRAM + ridge * np.eye(N), CROSS)
    operator = gram.regularised(ridge)
    np.testing.assert_allclose(operator.weights(NEW), expected.T, atol=1e-8)
    np.testing.assert_allclose(operator.solve(CROSS), expected, atol=1e-8)
    np.testing.assert_allclose(operator.solve(CROSS[:, 0]), expected[:, 0], atol=1e-8)


def test_the_scaled_ridge_solve(gram):
    scale = np.sqrt(np.random.default_rng(5).exponential(size=N))
    scale[:10] = 0
    s = np.diag(scale)
    expected = s @ solve(s @ GRAM @ s + 0.3 * np.eye(N), s @ CROSS)
    operator = gram.regularised(0.3, scale)
    np.testing.assert_allclose(operator.weights(NEW), expected.T, atol=1e-8)
    np.testing.assert_allclose(operator.solve(CROSS), expected, atol=1e-8)


def test_the_squared_rule(gram):
    weights = np.random.default_rng(6).normal(0.5, 1, N) / N
    a = weights[:, None] * GRAM
    expected = a @ solve(a @ a + 1e-4 * np.eye(N), weights[:, None] * CROSS)
    operator = gram.squared(weights, 1e-4)
    np.testing.assert_allclose(operator.weights(NEW), expected.T, atol=1e-8)
    np.testing.assert_allclose(operator.solve(CROSS), expected, atol=1e-8)
    assert operator.raised == 0
    assert operator.ridge == 1e-4


def test_centred_features(gram):
    base = np.random.default_rng(7).exponential(size=N)
    base /= base.sum()
    h = np.eye(N) - np.outer(np.ones(N), base)
    centred = h @ GRAM @ h.T
    cross = h @ (CROSS - (GRAM @ base)[:, None])
    v = np.random.default_rng(8).normal(size=N)
    made = gram.centred(base)
    np.testing.assert_allclose(made.apply(v), centred @ v, atol=1e-8)
    np.testing.assert_allclose(made.cross(NEW), cross, atol=1e-8)
    expected = solve(centred + 0.2 * np.eye(N), cross).T
    np.testing.assert_allclose(made.regularised(0.2).weights(NEW), expected, atol=1e-8)


def test_divide_and_conquer_averages_its_parts():
    gram = gram_of(DivideAndConquer(3))
    weights = gram.regularised(0.6).weights(NEW)
    for rows in gram.blocks:
        part = solve(GRAM[np.ix_(rows, rows)] + 0.2 * np.eye(40), CROSS[rows]).T / 3
        np.testing.assert_allclose(weights[:, rows], part, atol=1e-9)


def test_a_subsample_keeps_lambda():
    gram = gram_of(Subsample(30))
    weights = gram.regularised(N * 1e-3).weights(NEW)
    (rows,) = gram.blocks
    part = solve(GRAM[np.ix_(rows, rows)] + 30 * 1e-3 * np.eye(30), CROSS[rows]).T
    np.testing.assert_allclose(weights[:, rows], part, atol=1e-9)
    assert np.count_nonzero(weights.any(axis=0)) == 30


@pytest.mark.parametrize(
    "solver", [IncompleteCholesky(tolerance=1e-3), RandomlyPivotedCholesky(block=10, tolerance=1e-3)]
)
def test_a_tolerance_bounds_the_trace(solver):
    features = gram_of(solver).features
    residual = np.diag(GRAM) - np.sum(features**2, axis=1)
    assert residual.min() > -1e-10
    assert residual.sum() <= 1e-3 * N
    assert features.shape[1] < N
    np.testing.assert_allclose(features @ features.T, GRAM, atol=0.05)


def test_blocks_of_rows_make_the_factor_of_all_rows(set_default):
    points = np.random.default_rng(3).normal(size=(401, 3))
    solver = RandomlyPivotedCholesky(rank=90, block=40, tolerance=0)
    whole = solver.gram(KERNEL, points, np.random.default_rng(0), 1.0).features
    set_default(pivoted.randomly_pivoted_cholesky, rows_a_thread=100)
    tiled = solver.gram(KERNEL, points, np.random.default_rng(0), 1.0).features
    assert tiled.shape == (401, 90)
    assert tiled == pytest.approx(whole, abs=1e-10)


def test_a_block_of_equal_points_gives_one_pivot():
    points = np.vstack([np.zeros((50, 2)), np.eye(2)])
    gram = RandomlyPivotedCholesky(block=20, tolerance=0).gram(KERNEL, points, np.random.default_rng(0), 1.0)
    assert gram.features.shape[1] == 3
    np.testing.assert_allclose(gram.features @ gram.features.T, KERNEL(points), atol=1e-12)


def test_random_pivots_need_no_more_of_them_than_uniform_landmarks():
    rng = np.random.default_rng(9)
    points = np.vstack([rng.normal(0, 0.05, (900, 2)), rng.normal(6, 1.0, (30, 2))])
    gram = Gaussian(0.5)(points)

    def error(solver):
        features = solver.gram(Gaussian(0.5), points, np.random.default_rng(10), 0.1).features
        return np.trace(gram) - np.sum(features**2)

    assert error(RandomlyPivotedCholesky(rank=25, block=5, tolerance=0)) < error(Nystroem(25))
    assert error(Nystroem(25, "leverage")) < error(Nystroem(25))


def test_random_features_converge():
    gram = gram_of(RandomFeatures(40_000))
    # Each entry is a mean of 20,000 products of cosines and sines: five standard errors.
    np.testing.assert_allclose(gram.features @ gram.features.T, GRAM, atol=5 / np.sqrt(20_000))


def test_a_ridge_that_is_too_small_is_raised_with_a_warning():
    wide = DenseGram(Gaussian(100.0), POINTS)
    with pytest.warns(UserWarning, match=r"raised \d+ time\(s\)"):
        operator = wide.regularised(1e-300)
    assert operator.raised >= 1
    assert 1e-299 <= operator.ridge < 1e-9
    assert np.all(np.isfinite(operator.weights(NEW)))


def test_auto_is_exact_up_to_its_memory():
    assert isinstance(Auto().choice(22_360), Exact)
    assert isinstance(Auto().choice(22_361), RandomlyPivotedCholesky)
    assert isinstance(Auto(memory=1e6).choice(400), RandomlyPivotedCholesky)


@pytest.mark.parametrize(
    ("solver", "error", "words"),
    [
        ("magic", ValueError, ", ".join(SOLVERS)),
        (3, TypeError, ", ".join(SOLVERS)),
        (Exact, TypeError, "give a solver"),
        (Nystroem(0), ValueError, "landmarks"),
        (IncompleteCholesky(rank=-1), ValueError, "rank"),
    ],
)
def test_what_is_no_solver_is_refused(solver, error, words):
    with pytest.raises(error, match=words):
        make_solver(solver)


def test_unknown_sampling_is_refused():
    with pytest.raises(ValueError, match="uniform or leverage"):
        Nystroem(10, "best")


def test_operators_with_a_scale_take_one_right_side_too(gram):
    scale = np.sqrt(np.random.default_rng(5).exponential(size=N))
    operator = gram.regularised(0.3, scale)
    np.testing.assert_allclose(operator.solve(CROSS[:, 0]), operator.solve(CROSS)[:, 0], atol=1e-12)
    weights = np.random.default_rng(6).normal(size=N)
    squared = gram.squared(weights, 0.1)
    np.testing.assert_allclose(squared.solve(CROSS[:, 0]), squared.solve(CROSS)[:, 0], atol=1e-12)


def test_centring_leaves_the_gram_matrix_itself_alone(gram):
    v = np.ones(N)
    before = gram.apply(v)
    gram.centred(np.full(N, 1 / N))
    np.testing.assert_array_equal(gram.apply(v), before)


def test_features_that_are_not_needed_any_more_may_be_overwritten():
    low = gram_of(Nystroem(20))
    features = low.features
    made = low.centred(np.full(N, 1 / N), overwrite=True)
    assert made.features is features
    np.testing.assert_allclose(features.mean(axis=0), 0, atol=1e-14)


@pytest.mark.parametrize("solver", [IncompleteCholesky(), RandomlyPivotedCholesky()])
def test_a_kernel_that_is_zero_everywhere_gives_no_weight(solver):
    low = solver.gram(Linear(), np.zeros((9, 2)), np.random.default_rng(0), 1.0)
    assert low.features.shape == (9, 0)
    np.testing.assert_array_equal(low.regularised(0.1).weights(NEW[:, :2]), np.zeros((5, 9)))


def test_a_raised_ridge_of_features_is_just_above_rounding():
    features = np.ones((64, 3))  # a square number, so that the factorisation ends at zero exactly
    low = LowRankGram(features, lambda x: np.ones((len(x), 3)))
    with pytest.warns(UserWarning, match="raised"):
        operator = low.regularised(1e-300)
    assert 1e-16 < operator.ridge < 1e-11
    np.testing.assert_allclose(operator.weights(NEW), 1 / 64, rtol=1e-6)


def test_products_are_made_a_block_of_rows_at_a_time():
    v = np.random.default_rng(4).normal(size=(N, 2))
    np.testing.assert_allclose(dense._apply(KERNEL, POINTS, v, block=7), GRAM @ v, atol=1e-12)
    np.testing.assert_allclose(dense._apply(KERNEL, POINTS, v[:, 0], block=N), GRAM @ v[:, 0], atol=1e-12)


@pytest.mark.parametrize("solver", ["exact", "incomplete Cholesky", "Nystroem, all landmarks"])
def test_dual_weights_of_the_squared_rule(solver):
    """((G L)^2 + delta I)^-1 G L k, which L times is the squared rule."""
    weights = np.random.default_rng(6).normal(0.5, 1, N) / N
    operator = gram_of(EXACT_IN_THE_LIMIT[solver]).squared(weights, 1e-4)
    a = GRAM * weights
    expected = solve(a @ a + 1e-4 * np.eye(N), a @ CROSS).T
    np.testing.assert_allclose(operator.dual_weights(NEW), expected, atol=1e-6)
    np.testing.assert_allclose(operator.dual_weights(NEW) * weights, operator.weights(NEW), atol=1e-8)


def test_whole_numbers_are_multiplied_as_numbers(gram):
    """Also by parts, each of which is written to its rows."""
    whole = np.random.default_rng(11).integers(-3, 4, size=(N, 2))
    scale = np.sqrt(np.random.default_rng(5).exponential(size=N))
    for times in (gram.apply, gram.regularised(0.3).solve, gram.regularised(0.3, scale).solve):
        np.testing.assert_allclose(times(whole), times(whole.astype(float)), rtol=1e-12)
