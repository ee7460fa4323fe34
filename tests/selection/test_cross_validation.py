"""Cross-validation by the distance of embeddings, against its formula in plain sums."""

import numpy as np
import pytest
from sklearn.model_selection import KFold

import pymc_kbr as pk
from pymc_kbr.kernels import Gaussian
from pymc_kbr.selection.cross_validation import embedding_distances


def test_it_is_the_sum_over_folds_of_squared_distances():
    rng = np.random.default_rng(3)
    theta = rng.normal(size=(40, 1))
    x = theta + rng.normal(size=(40, 1))
    kernel, estimator = Gaussian(0.7), pk.Rejection(5)
    seed = int(np.random.default_rng(6).integers(2**31))
    total = 0.0
    for train, held_out in KFold(4, shuffle=True, random_state=seed).split(theta):
        weights = np.zeros(len(train))
        for row in held_out:
            near = np.argsort(np.abs(x[train, 0] - x[row, 0]))[:5]
            weights[near] += 1 / (5 * len(held_out))
        signed = np.concatenate([weights, np.full(len(held_out), -1 / len(held_out))])
        points = np.concatenate([theta[train], theta[held_out]])
        total += signed @ kernel(points) @ signed
    found = embedding_distances([estimator], theta, x, folds=4, kernel=kernel, random_seed=6)
    assert found[0] == pytest.approx(total)
    other = embedding_distances([estimator], theta, x, folds=4, kernel=kernel, random_seed=7)
    assert other[0] != found[0]
