"""What solvers say of themselves, and pivoted factors against the factorisation written out."""

import numpy as np
import pytest
from scipy.linalg import cholesky

from pymc_kbr.gram import (
    SOLVERS,
    Auto,
    DivideAndConquer,
    Exact,
    IncompleteCholesky,
    Nystroem,
    RandomFeatures,
    RandomlyPivotedCholesky,
    Subsample,
    make_solver,
    pivoted_cholesky,
)
from pymc_kbr.gram.gram import raising
from pymc_kbr.gram.incomplete_cholesky import accepted, randomly_pivoted_cholesky
from pymc_kbr.gram.solvers import solver_for, streams
from pymc_kbr.kernels import Gaussian, Linear, Matern

POINTS = np.random.default_rng(0).normal(size=(60, 2))


@pytest.mark.parametrize(
    ("solver", "n", "numbers", "rows"),
    [
        (Exact(), 100, 100**2, 100),
        (Subsample(30), 100, 30**2, 30),
        (Subsample(), 100, 100**2, 100),
        (DivideAndConquer(3), 100, 100 * 34, 100),
        (IncompleteCholesky(), 5000, 5000 * 1000, 5000),
        (IncompleteCholesky(20), 5000, 5000 * 20, 5000),
        (IncompleteCholesky(200), 100, 100 * 100, 100),
        (RandomlyPivotedCholesky(), 5000, 5000 * 1100, 5000),
        (RandomlyPivotedCholesky(20, 5), 100, 100 * 30, 100),
        (Nystroem(20), 100, 2 * 100 * 20, 100),
        (Nystroem(), 100, 2 * 100 * 100, 100),
        (RandomFeatures(40), 100, 2 * 100 * 40, 100),
        (Auto(), 100, 100**2, 100),
        (Auto(100.0), 5000, 5000 * 1100, 5000),
    ],
)
def test_memory_is_that_of_the_largest_arrays_of_doubles(solver, n, numbers, rows):
    assert solver.bytes(n) == 8 * numbers
    assert solver.rows(n) == rows


def test_auto_factors_to_a_millionth():
    assert Auto(100.0).choice(50) == RandomlyPivotedCholesky(tolerance=1e-6)
    assert solver_for(Auto(), 50) == Exact()
    assert solver_for(Nystroem(3), 50) == Nystroem(3)


def test_solvers_say_whether_they_read_parts():
    reading = {name for name in SOLVERS if streams(make_solver(name))}
    cannot = {"auto", "exact", "subsample", "divide_and_conquer"}
    assert reading == set(SOLVERS) - cannot


@pytest.mark.parametrize("name", SOLVERS)
def test_a_name_is_a_solver_with_its_defaults(name):
    made = make_solver(name)
    assert make_solver(made) is made
    gram = made.gram(Gaussian(1.0), POINTS, np.random.default_rng(0), 0.1)
    assert gram.size == 60
    if name == "nystroem_leverage":
        assert made.sampling == "leverage"
    features = {"random_features": 500, "nystroem": 60}.get(name)
    if features:
        assert gram.features.shape[1] <= features


@pytest.mark.parametrize(
    "bad", [IncompleteCholesky(tolerance=-1.0), Auto(0.0), RandomFeatures(-2), Subsample(0)]
)
def test_numbers_out_of_range_are_refused(bad):
    with pytest.raises(ValueError, match="above zero"):
        make_solver(bad)


def test_numbers_of_numpy_are_looked_at_too_and_counts_are_whole():
    with pytest.raises(ValueError, match="above zero"):
        make_solver(Nystroem(np.int64(-3)))
    with pytest.raises(TypeError, match=r"size of .* is 1\.5; it must be a whole number"):
        make_solver(Subsample(1.5))
    assert make_solver(Subsample(np.int64(3))).size == 3
    assert make_solver(Auto(10**9)).memory == 10**9


def test_a_solver_of_ones_own_is_a_class_with_its_methods():
    class Own:
        """Forwards to another one, and is no dataclass."""

        def gram(self, kernel, points, rng, ridge):
            return Exact().gram(kernel, points, rng, ridge)

    own = Own()
    assert make_solver(own) is own


def test_a_tolerance_may_be_zero():
    assert make_solver(IncompleteCholesky(tolerance=0)).tolerance == 0


def test_parts_hold_every_row_once_and_are_as_even_as_they_can_be(rng):
    gram = DivideAndConquer(7).gram(Gaussian(1.0), POINTS, rng, 0.1)
    assert sorted(np.concatenate(gram.blocks)) == list(range(60))
    assert {len(rows) for rows in gram.blocks} == {8, 9}
    assert all(np.all(np.diff(rows) > 0) for rows in gram.blocks)
    assert len(DivideAndConquer(100).gram(Gaussian(1.0), POINTS, rng, 0.1).blocks) == 60


def test_a_subsample_is_of_different_rows_in_order(rng):
    (rows,) = Subsample(20).gram(Gaussian(1.0), POINTS, rng, 0.1).blocks
    assert len(rows) == 20
    assert np.all(np.diff(rows) > 0)


def test_blocks_are_centred_each_about_its_own_mean(rng):
    kernel, base = Gaussian(1.0), rng.exponential(size=60)
    base[:30] = 0
    base /= base.sum()
    gram = DivideAndConquer(3).gram(kernel, POINTS, rng, 0.1).centred(base)
    made = gram.apply(np.eye(60))
    squared = gram.squared(base, 1e-3).weights(POINTS[:2])
    for rows in gram.blocks:
        share = base[rows] / base[rows].sum()
        h = np.eye(len(rows)) - np.outer(np.ones(len(rows)), share)
        inner = h @ kernel(POINTS[rows]) @ h.T
        np.testing.assert_allclose(made[np.ix_(rows, rows)], inner, atol=1e-10)
        cross = h @ (kernel(POINTS[rows], POINTS[:2]) - (kernel(POINTS[rows]) @ share)[:, None])
        np.testing.assert_allclose(gram.cross(POINTS[:2])[rows], cross, atol=1e-10)
        a = base[rows, None] * inner
        # A block of a third of the rows has a ninth of the squared rule's delta.
        one = a @ np.linalg.solve(a @ a + 1e-3 / 9 * np.eye(20), base[rows, None] * cross) / 3
        np.testing.assert_allclose(squared[:, rows], one.T, atol=1e-8)
    made[np.ix_(gram.blocks[0], gram.blocks[0])] = 0
    assert np.all(made[gram.blocks[0]] == 0)


def test_a_block_without_base_weight_is_centred_evenly():
    kernel, base = Gaussian(1.0), np.zeros(60)
    base[0] = 1
    gram = DivideAndConquer(6).gram(kernel, POINTS, np.random.default_rng(0), 0.1).centred(base)
    rows = next(rows for rows in gram.blocks if 0 not in rows)
    h = np.eye(10) - 0.1
    np.testing.assert_allclose(
        gram.apply(np.eye(60))[np.ix_(rows, rows)], h @ kernel(POINTS[rows]) @ h, atol=1e-10
    )


def test_blocks_say_how_often_their_ridges_rose():
    gram = DivideAndConquer(2).gram(Gaussian(1e4), POINTS, np.random.default_rng(0), 0.1)
    with pytest.warns(UserWarning, match="raised"):
        operator = gram.regularised(1e-300)
    assert operator.raised >= 2
    assert operator.ridge == 1e-300


@pytest.mark.parametrize("kernel", [Gaussian(0.8), Matern(1.0)])
def test_pivots_are_at_the_largest_residual_and_the_factor_is_cholesky(kernel):
    factor, pivots = pivoted_cholesky(kernel, POINTS, 12, 0.0)
    gram = kernel(POINTS)
    residual = gram.copy()
    for r, pivot in enumerate(pivots):
        assert np.diag(residual)[pivot] == pytest.approx(np.diag(residual).max())
        np.testing.assert_allclose(
            factor[:, r], residual[:, pivot] / np.sqrt(residual[pivot, pivot]), atol=1e-8
        )
        residual -= np.outer(residual[:, pivot], residual[:, pivot]) / residual[pivot, pivot]
    np.testing.assert_allclose(factor[pivots], cholesky(gram[np.ix_(pivots, pivots)], lower=True), atol=1e-9)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_a_factor_ends_at_the_rank_of_the_points(unit):
    points = unit * POINTS
    for made in (
        pivoted_cholesky(Linear(), points, 50, 0.0),
        randomly_pivoted_cholesky(Linear(), points, 50, 0.0, 7, np.random.default_rng(0)),
    ):
        factor, pivots = made
        assert factor.shape == (60, 2)
        assert len(set(pivots.tolist())) == 2
        np.testing.assert_allclose(factor @ factor.T, points @ points.T, atol=1e-12 * unit**2)


@pytest.mark.parametrize("tolerance", [0.3, 0.01])
def test_a_factor_ends_as_soon_as_its_tolerance_is_met(tolerance):
    gram = Gaussian(0.7)(POINTS)
    factor, _ = pivoted_cholesky(Gaussian(0.7), POINTS, 60, tolerance)
    left = [np.trace(gram - factor[:, :r] @ factor[:, :r].T) / 60 for r in range(factor.shape[1] + 1)]
    assert left[-1] <= tolerance < left[-2]


@pytest.mark.parametrize("block", [1, 7, 40])
def test_random_pivots_make_the_cholesky_factor_at_the_pivots(block):
    kernel = Gaussian(0.8)
    factor, pivots = randomly_pivoted_cholesky(kernel, POINTS, 25, 0.0, block, np.random.default_rng(1))
    gram = kernel(POINTS)
    assert len(set(pivots.tolist())) == 25
    triangle = np.linalg.cholesky(gram[np.ix_(pivots, pivots)])
    np.testing.assert_allclose(factor[pivots], triangle, atol=1e-8)
    np.testing.assert_allclose(factor, np.linalg.solve(triangle, gram[pivots]).T, atol=1e-8)


def test_proposals_are_taken_with_what_is_left_of_their_residual():
    """Twice the same point: the second is never taken. Apart: always. Half explained: every other time."""
    kernel = Gaussian(1.0)
    rng = np.random.default_rng(0)
    nothing = np.empty((2, 0))
    assert accepted(kernel, np.zeros((2, 1)), nothing, 1e-12, rng) == [0]
    assert accepted(kernel, np.array([[0.0], [50.0]]), nothing, 1e-12, rng) == [0, 1]
    # What the pivots before this block explain is taken off: all of it here.
    assert accepted(kernel, np.zeros((2, 1)), np.ones((2, 1)), 1e-12, rng) == []
    half = np.array([[0.0], [np.sqrt(np.log(2))]])  # k^2 = 1/2
    second = [len(accepted(kernel, half, nothing, 1e-12, rng)) == 2 for _ in range(2000)]
    assert np.mean(second) == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(2000))


def test_random_pivots_are_drawn_in_proportion_to_the_residual():
    """Two groups of equal points, of which one is three times as heavy: the first pivot's odds."""
    points = np.array([[1.0]] * 3 + [[3.0]])
    first = [
        randomly_pivoted_cholesky(Linear(), points, 1, 0.0, 1, np.random.default_rng(seed))[1][0]
        for seed in range(600)
    ]
    # Diagonal 1, 1, 1, 9.
    assert np.mean(np.array(first) == 3) == pytest.approx(0.75, abs=4 * np.sqrt(0.75 * 0.25 / 600))


def test_a_ridge_is_raised_until_the_factorisation_succeeds():
    def factor(ridge):
        if ridge < 0.5:
            raise np.linalg.LinAlgError
        return ridge

    with pytest.warns(UserWarning, match=r"ridge of 0\.001.*raised 3 time\(s\).*to 1;"):
        made, ridge, raised = raising(factor, 1e-3, 1e-8)
    assert made == ridge == pytest.approx(1.0)
    assert raised == 3
    with pytest.warns(UserWarning, match=r"raised 1 time\(s\)"):
        assert raising(factor, 1e-30, 0.7)[1:] == (0.7, 1)
    assert raising(factor, 0.5, 0.7) == (0.5, 0.5, 0)


def test_a_matrix_that_no_ridge_helps_is_given_up():
    tried = []

    def factor(ridge):
        tried.append(ridge)
        raise np.linalg.LinAlgError("no")

    with pytest.raises(np.linalg.LinAlgError, match="no"):
        raising(factor, 1.0, 1e-8)
    assert len(tried) == 41
    tried.clear()
    with pytest.raises(np.linalg.LinAlgError, match="no"):
        raising(factor, 1e305, 1e-8)
    assert np.isfinite(tried).all()
