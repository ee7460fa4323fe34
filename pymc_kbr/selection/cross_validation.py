"""K-fold cross-validation of an estimator by the distance of embeddings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold

from pymc_kbr.embedding.embedding import Atoms, Embedding
from pymc_kbr.estimators import Estimator
from pymc_kbr.kernels import Kernel, parameter_kernel


def embedding_distances(
    estimators: Sequence[Estimator],
    parameters: np.ndarray,
    statistics: np.ndarray,
    *,
    folds: int = 10,
    kernel: Kernel | None = None,
    random_seed: int | np.random.Generator | None = None,
) -> np.ndarray:
    """How far averaged posteriors are from the prior, for each of some estimators; low is good.

    Parameters
    ----------
    estimators : sequence of Estimator
        Without a prior of their own, so that each fold's training rows are their prior.
    parameters : ndarray of shape (n, p)
    statistics : ndarray of shape (n, d)
    folds : int
    kernel : Kernel, optional
        On the parameters; `parameter_kernel` where left out.
    random_seed : int or numpy.random.Generator, optional
        Of the folds.

    Returns
    -------
    ndarray of shape (len(estimators),)

    Notes
    -----
    The sum over folds of the squared RKHS distance between the posteriors' embeddings, averaged over
    the fold's statistics and estimated from the other rows, and the embedding of the fold's
    parameters: section 4.2 of Fukumizu 2013. Posteriors averaged over the data are the prior.

    Raises
    ------
    ValueError
        If there are fewer rows than folds.
    """
    kernel = parameter_kernel(parameters) if kernel is None else kernel
    seed = int(np.random.default_rng(random_seed).integers(2**31))
    scores = np.zeros(len(estimators))
    for train, held_out in KFold(folds, shuffle=True, random_state=seed).split(parameters):
        truth = Embedding(Atoms(parameters[held_out], kernel), np.full(len(held_out), 1 / len(held_out)))
        for number, estimator in enumerate(estimators):
            fitted = clone(estimator).fit(parameters[train], statistics[train], random_seed=seed)
            # The mean of embeddings is the embedding of mean weights, so that one distance is enough.
            average = fitted.weights(statistics[held_out]).mean(axis=0)
            scores[number] += Embedding(Atoms(parameters[train], kernel), average).distance(truth) ** 2
    return scores
