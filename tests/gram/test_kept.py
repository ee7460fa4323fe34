"""A Gram matrix that is kept does what one that is formed anew does."""

import numpy as np
import pytest

from pymc_kbr.gram.dense import CachedGram, DenseGram, part_of
from pymc_kbr.gram.incomplete_cholesky import IncompleteCholesky
from pymc_kbr.gram.solvers import BlockGram
from pymc_kbr.kernels import Gaussian

KERNEL = Gaussian(0.8)


@pytest.mark.parametrize("centred", [False, True])
def test_it_is_the_dense_one(centred, rng):
    points, x, v = rng.normal(size=(20, 2)), rng.normal(size=(3, 2)), rng.normal(size=(20, 2))
    base = rng.dirichlet(np.ones(20))
    kept, dense = CachedGram.of(KERNEL, points), DenseGram(KERNEL, points)
    before = kept.kept.copy()
    if centred:
        kept, dense = kept.centred(base), dense.centred(base)
    scale = rng.uniform(size=20)
    np.testing.assert_allclose(kept.matrix(), dense.matrix(), atol=1e-12)
    np.testing.assert_allclose(kept.apply(v), dense.apply(v), atol=1e-12)
    np.testing.assert_allclose(kept.cross(x), dense.cross(x), atol=1e-12)
    for operator in (lambda gram: gram.regularised(0.1, scale), lambda gram: gram.squared(v[:, 0], 0.1)):
        np.testing.assert_allclose(operator(kept).weights(x), operator(dense).weights(x), atol=1e-9)
    np.testing.assert_array_equal(kept.kept, before)


def test_parts_are_the_matrices_of_their_rows(rng):
    points, x = rng.normal(size=(20, 2)), rng.normal(size=(3, 2))
    rows = np.array([3, 11, 4])
    alone = DenseGram(KERNEL, points[rows])
    factored = IncompleteCholesky(20, 0.0).gram(KERNEL, points, rng, 0.0)
    for gram in (CachedGram.of(KERNEL, points), factored):
        part = part_of(gram, rows)
        np.testing.assert_allclose(part.cross(x), alone.cross(x), atol=1e-7)
        np.testing.assert_allclose(part.apply(np.eye(3)), alone.apply(np.eye(3)), atol=1e-7)
    with pytest.raises(TypeError, match="BlockGram cannot be taken alone"):
        part_of(BlockGram(KERNEL, points, (rows,)), rows)
