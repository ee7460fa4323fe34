"""Small regressions side by side against each of them written out."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import solve

from pymc_kbr.gram import DenseGram
from pymc_kbr.gram.local import LocalRegressions
from pymc_kbr.kernels import Gaussian, Matern

B, M, D = 7, 12, 3
RNG = np.random.default_rng(2)
X = RNG.normal(size=(B, D)) + 100
NEAR = X[:, None] + RNG.normal(size=(B, M, D))
RATIO = RNG.exponential(size=(B, M))
KERNELS = [Gaussian(1.2), Gaussian((0.8, 1.5, 3.0)), Matern(1.5)]


def regressions(kernel=KERNELS[0], ridge=0.1, centred=False):
    return LocalRegressions(kernel, ridge, M, centred)


def weights_of(local_regressions, x=X, near=NEAR, ratio=None):
    return local_regressions.weights(x, near, ratio, np.empty((len(x), M, M)))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("ratio", [None, RATIO])
@pytest.mark.parametrize("centred", [True, False])
def test_weights_are_those_of_a_regression_on_the_near_rows(kernel, ratio, centred):
    weights, raised = weights_of(regressions(kernel, centred=centred), ratio=ratio)
    assert weights.shape == (B, M)
    assert raised.tolist() == [0] * B
    for k in range(B):
        d = np.ones(M) if ratio is None else ratio[k] / ratio[k].mean()
        matrix = kernel(NEAR[k]) + 0.1 * np.diag(1 / d)
        expected = solve(matrix, kernel(NEAR[k], X[k : k + 1])[:, 0])
        if centred:  # a constant beside the features: weights of sum one
            through = solve(matrix, np.ones(M))
            expected += through * (1 - expected.sum()) / through.sum()
        np.testing.assert_allclose(weights[k], expected, atol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_on_all_rows_they_are_the_conditional_mean(kernel):
    weights, _ = weights_of(regressions(kernel, 0.3), X[:1], NEAR[:1])
    np.testing.assert_allclose(
        weights, DenseGram(kernel, NEAR[0]).regularised(0.3).weights(X[:1]), atol=1e-10
    )


def test_triangles_of_many_rows_are_made_in_parts(set_default):
    whole, _ = weights_of(regressions())
    set_default(LocalRegressions._gram, triangle_rows=5)
    np.testing.assert_allclose(weights_of(regressions())[0], whole, rtol=1e-12)


def test_a_batch_fills_its_memory_and_no_more():
    made = replace(regressions(), entries_at_once=3 * M**2 + 1)
    assert made.batch == 3
    assert made.scratch().shape == (3, M, M)
    assert replace(made, entries_at_once=5).batch == 1


def test_only_the_ridge_of_the_one_that_needs_it_is_raised():
    near = NEAR.copy()
    near[3] = near[3, :1]  # all rows at one point
    made = regressions(ridge=1e-300)
    weights, raised = weights_of(made, near=near)
    assert raised[3] > 0
    assert np.delete(raised, 3).tolist() == [0] * (B - 1)
    rest, _ = weights_of(made, X[:3], near[:3])
    np.testing.assert_allclose(weights[:3], rest, rtol=1e-6)
    at_one_point = np.exp(-0.5 * np.sum(((near[3, 0] - X[3]) / 1.2) ** 2))
    assert weights[3].sum() == pytest.approx(at_one_point, rel=1e-6)


def test_a_raised_ridge_starts_above_rounding_and_grows_tenfold():
    made = regressions(ridge=1e-300)
    assert made.raised(0) == 1e-300
    assert made.raised(1) == pytest.approx(M * np.finfo(float).eps)
    assert made.raised(3) == pytest.approx(100 * M * np.finfo(float).eps)
    assert regressions(ridge=0.1).raised(1) == pytest.approx(1.0)


class Negative:
    """No kernel: its Gram matrix is far from positive."""

    def __call__(self, a, b=None):
        return np.full((len(a), len(a if b is None else b)), -1e300)

    def diag(self, a):
        return np.full(len(a), -1e300)


def test_a_matrix_that_no_ridge_makes_definite_is_refused():
    with pytest.raises(np.linalg.LinAlgError, match="any ridge"):
        weights_of(regressions(Negative()))
