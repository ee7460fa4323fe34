"""K-fold cross-validation of an estimator by the distance of embeddings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold

from pymc_kbr.arrays.refusals import generator_of
from pymc_kbr.embedding.embedding import Atoms, Embedding
from pymc_kbr.estimators import Estimator
from pymc_kbr.kernels import Kernel


def embedding_distances(
    estimators: Sequence[Estimator],
    parameters: np.ndarray,
    statistics: np.ndarray,
    *,
    folds: int = 10,
    kernel: Kernel | None = None,
    random_seed: int | np.random.Generator | None = None,
) -> np.ndarray:
    """How far averaged posteriors are from the prior, for each of some estimators; low is good."""
    # Shapes: parameters (n, p); statistics (n, d); returned: (len(estimators),).
    seed = int(generator_of(random_seed).integers(2**31))
    scores = np.zeros(len(estimators))
    for train, held_out in KFold(folds, shuffle=True, random_state=seed).split(parameters):
        equal = np.full(len(held_out), 1 / len(held_out))
        for number, estimator in enumerate(estimators):
            fitted = clone(estimator).fit(parameters[train], statistics[train], random_seed=seed)
            measured_in = fitted.parameter_kernel_ if kernel is None else kernel
            truth = Embedding(Atoms(parameters[held_out], measured_in), equal)
            # The mean of embeddings is the embedding of mean weights, so that one distance is enough.
            average = fitted.weights(statistics[held_out]).mean(axis=0)
            scores[number] += Embedding(Atoms(parameters[train], measured_in), average).distance(truth) ** 2
    return scores
