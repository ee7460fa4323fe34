"""Classifier two-sample tests: how well draws are told from reference draws; 0.5 is not at all.

Two are in circulation and differ. sbibm's trains a network, which sees smooth differences. sbi's
metric now defaults to a random forest, which also sees repeated and clustered draws. Both standardise
by the reference and cross-validate in five folds.
"""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import KFold, cross_val_score

from case_studies.sbi_benchmark.networks import Networks, train

FOLDS = 5
EPOCHS = 10_000


def network(reference: np.ndarray, draws: np.ndarray, random_seed: int = 1, folds: int = FOLDS) -> float:
    """By a network of two hidden layers of 10 p units, trained by Adam until the loss settles.

    The folds' networks are scikit-learn's `MLPClassifier(max_iter=10_000)`, trained side by side.

    Parameters
    ----------
    reference, draws : ndarray of shape (n, p)
        As many of one as of the other.
    random_seed : int
        Of the network and of the folds.
    folds : int
        Of the five folds, how many are used. Fewer cost less and estimate the same accuracy, since each
        trains on four fifths of the rows; it is counted on fewer rows.

    Returns
    -------
    float
        Mean accuracy over the folds that are used.

    References
    ----------
    Lueckmann, Boelts, Greenberg, Goncalves and Macke (2021), Benchmarking simulation-based inference.
    """
    points, labels = _standardised(reference, draws)
    splits = _splits(points, random_seed, folds)
    width = 10 * points.shape[1]
    accuracies = []
    for size in {len(train_rows) for train_rows, _ in splits}:  # where folds differ by one row
        alike = [fold for fold in splits if len(fold[0]) == size]
        rows = np.stack([train_rows for train_rows, _ in alike])
        networks = train(points[rows], labels[rows], (width, width), EPOCHS, random_seed)
        for k, (_, test_rows) in enumerate(alike):
            one = Networks(networks.flat[k : k + 1], networks.widths)
            told = one.forward(points[None, test_rows])[-1][0, :, 0] > 0.5
            accuracies.append((told == (labels[test_rows] > 0)).mean())
    return float(np.mean(accuracies))


def forest(reference: np.ndarray, draws: np.ndarray, random_seed: int = 1, folds: int = FOLDS) -> float:
    """By a random forest of 100 trees grown in full, the default of sbi's metric; as `network` otherwise."""
    points, labels = _standardised(reference, draws)
    classifier = RandomForestClassifier(n_estimators=100, random_state=random_seed)
    splits = _splits(points, random_seed, folds)
    scores = cross_val_score(classifier, points, labels, cv=splits, scoring="accuracy")
    return float(scores.mean())


def _standardised(reference: np.ndarray, draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points in single precision, as both metrics take them, and their labels."""
    if reference.shape != draws.shape:
        raise ValueError(
            f"draws of shape {draws.shape} against reference draws of shape {reference.shape}: an accuracy "
            "of one half means no difference only where both have as many rows; columns must agree too"
        )
    if not np.isfinite(draws).all():
        raise ValueError("draws hold a NaN or an infinity; a classifier tells them at once")
    points = (np.vstack([reference, draws]) - reference.mean(axis=0)) / reference.std(axis=0, ddof=1)
    return points.astype(np.float32), np.repeat([0.0, 1.0], [len(reference), len(draws)])


def _splits(points: np.ndarray, random_seed: int, folds: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows to train on and rows to test on, for the first of the five folds."""
    if not 1 <= folds <= FOLDS:
        raise ValueError(f"{folds} folds; there are 1 to {FOLDS} of them")
    return list(KFold(FOLDS, shuffle=True, random_state=random_seed).split(points))[:folds]
