"""Classifier two-sample tests: how well draws are told from reference draws; 0.5 is not at all.

Two are in circulation and differ. sbibm's trains a network, which sees smooth differences. sbi's
metric now defaults to a random forest, which also sees repeated and clustered draws. Both standardise
by the reference and cross-validate in five folds.
"""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import KFold, cross_val_score
from sklearn.neural_network import MLPClassifier

FOLDS = 5


def network(reference: np.ndarray, draws: np.ndarray, random_seed: int = 1) -> float:
    """By a network of two hidden layers of 10 p units, trained by Adam until the loss settles.

    Parameters
    ----------
    reference, draws : ndarray of shape (n, p)
        As many of one as of the other.
    random_seed : int
        Of the network and of the folds.

    Returns
    -------
    float
        Mean accuracy over the folds.

    References
    ----------
    Lueckmann, Boelts, Greenberg, Goncalves and Macke (2021), Benchmarking simulation-based inference.
    """
    width = 10 * reference.shape[1]
    classifier = MLPClassifier((width, width), solver="adam", max_iter=10_000, random_state=random_seed)
    return _accuracy(classifier, reference, draws, random_seed)


def forest(reference: np.ndarray, draws: np.ndarray, random_seed: int = 1) -> float:
    """By a random forest of 100 trees grown in full, the default of sbi's metric; as `network` otherwise."""
    classifier = RandomForestClassifier(n_estimators=100, random_state=random_seed)
    return _accuracy(classifier, reference, draws, random_seed)


def _accuracy(
    classifier: MLPClassifier | RandomForestClassifier,
    reference: np.ndarray,
    draws: np.ndarray,
    random_seed: int,
) -> float:
    if reference.shape != draws.shape:
        raise ValueError(
            f"draws of shape {draws.shape} against reference draws of shape {reference.shape}: "
            "a share of one half means no difference only where both have as many rows, and columns must agree"
        )
    if not np.isfinite(draws).all():
        raise ValueError("draws hold a NaN or an infinity; a classifier tells them at once")
    points = np.vstack([reference, draws])
    points = (points - reference.mean(axis=0)) / reference.std(axis=0, ddof=1)
    labels = np.repeat([0.0, 1.0], [len(reference), len(draws)])
    folds = KFold(FOLDS, shuffle=True, random_state=random_seed)
    return float(cross_val_score(classifier, points, labels, cv=folds, scoring="accuracy").mean())
