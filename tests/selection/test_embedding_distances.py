"""Cross-validation by the distance of embeddings is section 4.2's sum, in either kernel."""

import numpy as np
import pytest
from sklearn.model_selection import KFold

import pymc_kbr as pk
from pymc_kbr.kernels import Gaussian
from pymc_kbr.selection.cross_validation import embedding_distances

RNG = np.random.default_rng(3)
THETA = RNG.normal(size=(40, 2))
X = THETA + 0.3 * RNG.normal(size=(40, 2))


def rule(bandwidth: float) -> pk.KernelBayes:
    return pk.KernelBayes(
        0.8, 1e-3, prior_regularisation=1e-3, parameter_kernel=Gaussian(bandwidth), centred=False, scale=False
    )


def naive(bandwidth: float, measured_in: Gaussian, folds: int, seed: int) -> float:
    """The sum over folds, with every matrix written out."""
    total, on_theta, on_x = 0.0, Gaussian(bandwidth), Gaussian(0.8)
    shuffle = int(np.random.default_rng(seed).integers(2**31))
    for rest, out in KFold(folds, shuffle=True, random_state=shuffle).split(THETA):
        n, g_theta, g_x = len(rest), on_theta(THETA[rest]), on_x(X[rest])
        gamma = np.linalg.inv(g_theta + n * 1e-3 * np.eye(n)) @ g_theta.mean(axis=1)
        d = np.diag(gamma)
        square = (d @ g_x) @ (d @ g_x) + 1e-3 * np.eye(n)
        weights = d @ g_x @ np.linalg.inv(square) @ d @ on_x(X[rest], X[out])
        signed = np.concatenate([weights.mean(axis=1), np.full(len(out), -1 / len(out))])
        both = THETA[np.concatenate([rest, out])]
        total += signed @ measured_in(both) @ signed
    return float(total)


@pytest.mark.parametrize("kernel", [None, Gaussian(1.3)])
def test_it_is_the_papers_sum(kernel):
    scores = embedding_distances([rule(0.5), rule(1.5)], THETA, X, folds=4, kernel=kernel, random_seed=1)
    expected = [naive(b, kernel or Gaussian(b), 4, 1) for b in (0.5, 1.5)]
    np.testing.assert_allclose(scores, expected, rtol=1e-7)


def test_distances_in_kernels_of_their_own_shrink_as_these_widen():
    scores = embedding_distances([rule(b) for b in (1.0, 100.0)], THETA, X, folds=4, random_seed=1)
    assert scores[1] < scores[0]
