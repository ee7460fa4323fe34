"""Inverses of triangular factors."""

import numpy as np

from pymc_kbr.estimators.likelihood.smooth_function import inverse_lower


def test_it_is_lower_triangular_and_the_inverse_however_the_rest_is_filled():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(40, 40))
    factor = np.linalg.cholesky(root @ root.T + np.eye(40))
    found = inverse_lower(factor + np.triu(rng.normal(size=(40, 40)), 1))
    np.testing.assert_allclose(found @ factor, np.eye(40), atol=1e-12)
    np.testing.assert_array_equal(found, np.tril(found))
