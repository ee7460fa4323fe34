"""Grams of points that are read a part at a time are those of the same points in memory."""

import numpy as np
import pytest
from scipy.linalg import solve

from pymc_kbr.arrays.chunks import Chunks
from pymc_kbr.gram import (
    IncompleteCholesky,
    LowRankGram,
    Nystroem,
    RandomFeatures,
    RandomlyPivotedCholesky,
    StreamedGram,
)
from pymc_kbr.gram.incomplete_cholesky import _triangle
from pymc_kbr.gram.low_rank import landmark_features, leverage_scores
from pymc_kbr.kernels import Gaussian, Linear

N = 90
POINTS = np.random.default_rng(0).normal(size=(N, 2))
NEW = np.random.default_rng(1).normal(size=(4, 2))
KERNEL = Gaussian(1.5)
WEIGHTS = np.random.default_rng(2).normal(0.5, 1.0, N) / N
SCALE = np.random.default_rng(3).exponential(size=N)
SCALE[:5] = 0
V = np.random.default_rng(4).normal(size=(N, 2))


class Source:
    """An array that is read in parts of ten rows."""

    shape, ndim, chunk_rows = POINTS.shape, 2, 10

    def __getitem__(self, part):
        return POINTS[part]


@pytest.fixture
def points(set_default):
    set_default(Chunks.__init__, block_rows=20)
    return Chunks(Source())


@pytest.fixture(params=[RandomFeatures(40), Nystroem(30), Nystroem(30, "leverage")])
def pair(request, points):
    here, there = (request.param.gram(KERNEL, p, np.random.default_rng(5), 0.1) for p in (POINTS, points))
    assert isinstance(here, LowRankGram)
    assert isinstance(there, StreamedGram)
    return here, there


def alike(one, other):
    np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)


def test_products_are_those_in_memory(pair):
    here, there = pair
    assert there.size == N
    assert there.rank == here.features.shape[1]
    alike(there.apply(V), here.apply(V))
    alike(there.apply(V[:, 0]), here.apply(V[:, 0]))
    alike(there.cross(NEW), here.cross(NEW))
    alike(there.core(), here.features.T @ here.features)
    alike(there.core(WEIGHTS), here.features.T @ (WEIGHTS[:, None] * here.features))


@pytest.mark.parametrize("centred", [True, False])
def test_solutions_are_those_in_memory(pair, centred):
    base = SCALE / SCALE.sum()
    here, there = (gram.centred(base) if centred else gram for gram in pair)
    for make in (
        lambda gram: gram.regularised(0.2),
        lambda gram: gram.regularised(0.2, SCALE),
        lambda gram: gram.squared(WEIGHTS, 1e-3),
    ):
        one, other = make(here), make(there)
        alike(other.weights(NEW), one.weights(NEW))
        alike(other.solve(V), one.solve(V))
        alike(other.solve(V[:, 0]), one.solve(V[:, 0]))
        assert (other.ridge, other.raised) == (one.ridge, one.raised)
    assert there.regularised(0.2).ridge == 0.2
    assert there.squared(WEIGHTS, 1e-3).ridge == 1e-3


@pytest.mark.parametrize(
    "solver",
    [
        IncompleteCholesky(25, 0.0),
        RandomlyPivotedCholesky(25, 7, 0.0),
        RandomlyPivotedCholesky(None, 7, 0.01),
    ],
)
def test_streamed_pivots_make_a_projection(solver, points):
    """F F' is the kernel itself at the pivots, which the residual of any factorisation leaves out."""
    gram = solver.gram(KERNEL, points, np.random.default_rng(6), 0.1)
    made = gram.apply(np.eye(N))
    left = KERNEL(POINTS) - made
    assert np.linalg.eigvalsh(left).min() > -1e-9
    if solver.rank:
        assert gram.rank == 25
    else:
        assert np.trace(left) <= 0.01 * N
        # One block of pivots less would not have done.
        assert gram.rank < 40
    assert np.sum(np.abs(np.diag(left)) < 1e-8) >= gram.rank
    alike(gram.cross(POINTS[:3]), made[:, :3])


def test_streamed_pivots_of_few_different_points_end(monkeypatch):
    monkeypatch.setattr(Source, "__getitem__", lambda self, part: np.round(POINTS[part] / 3) * 3)
    gram = RandomlyPivotedCholesky(60, 7, 0.0).gram(KERNEL, Chunks(Source()), np.random.default_rng(6), 0.1)
    different = len(np.unique(np.round(POINTS / 3), axis=0))
    assert gram.rank == different < 60


def test_landmarks_give_the_kernel_on_their_span(points):
    rows = np.arange(0, N, 9)
    z = POINTS[rows]
    expected = KERNEL(POINTS, z) @ solve(KERNEL(z), KERNEL(z, NEW))
    for p in (POINTS, points):
        np.testing.assert_allclose(landmark_features(KERNEL, p, rows).cross(NEW), expected, atol=1e-6)


def test_leverage_scores_are_the_diagonal_of_the_smoother(points):
    gram = landmark_features(KERNEL, POINTS, np.arange(0, N, 3))
    k = gram.apply(np.eye(N))
    expected = np.diag(solve(k + 0.3 * np.eye(N), k))
    for p in (POINTS, points):
        scores = leverage_scores(landmark_features(KERNEL, p, np.arange(0, N, 3)), 0.3)
        np.testing.assert_allclose(scores, np.maximum(expected, 1e-3 * expected.mean()), rtol=1e-6)


def test_no_row_is_without_a_chance_to_be_a_landmark():
    far = np.vstack([np.full((99, 1), 0.0), [[100.0]]])
    gram = landmark_features(Gaussian(1.0), far, np.array([0]))
    scores = leverage_scores(gram, 0.1)
    assert scores[-1] == pytest.approx(1e-3 * scores[:-1].sum() / 100, rel=1e-3)


def test_a_raised_ridge_of_streamed_features_is_just_above_rounding(points):
    gram = StreamedGram(points, lambda x: np.ones((len(x), 3)), 3)
    some = (np.arange(N) < 64).astype(
        float
    )  # a square number, so that the factorisation ends at zero exactly
    with pytest.warns(UserWarning, match="raised"):
        operator = gram.regularised(1e-300, some)
    assert 1e-16 < operator.ridge < 1e-11
    assert operator.raised > 0
    np.testing.assert_allclose(operator.weights(NEW), np.tile(some / 64, (4, 1)), rtol=1e-6)


def test_a_kernel_that_is_zero_everywhere_has_no_streamed_features(points, monkeypatch):
    monkeypatch.setattr(Source, "__getitem__", lambda self, part: np.zeros_like(POINTS[part]))
    gram = IncompleteCholesky().gram(Linear(), points, np.random.default_rng(0), 0.1)
    assert gram.rank == 0
    np.testing.assert_array_equal(gram.regularised(0.1).weights(NEW), np.zeros((4, N)))


@pytest.mark.parametrize("unit", [2.0**-40, 1.0, 2.0**40])  # squares, so that a pivot is zero exactly
@pytest.mark.parametrize("below", [0.0, 1e-12])
def test_a_triangle_of_pivots_that_rounding_leaves_dependent_is_just_above_them(unit, below):
    gram = unit * np.ones((4, 4))
    gram[3, 3] -= below * unit
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(gram)
    made = _triangle(gram)
    np.testing.assert_array_equal(made, np.tril(made))
    # What has to be added is about the rounding of the diagonal or what is below zero, to a factor of ten.
    least = 4 * np.finfo(float).eps + below
    np.testing.assert_allclose(made @ made.T, gram, rtol=0, atol=20 * least * unit)


def test_a_triangle_of_pivots_that_are_apart_is_cholesky():
    gram = KERNEL(POINTS[:6])
    np.testing.assert_allclose(_triangle(gram), np.linalg.cholesky(gram), rtol=1e-12, atol=0)
