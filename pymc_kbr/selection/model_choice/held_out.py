"""How well the probabilities of models hold on rows that were not learnt from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pymc_kbr.arrays.refusals import whole
from pymc_kbr.selection.model_choice.classifiers import Classifier
from pymc_kbr.selection.model_choice.methods import SLOW, log_scores
from pymc_kbr.selection.model_choice.rows import Rows

FOLDS = 5
"""Parts of the rows, each left out once."""

MOST_FOR_IMPORTANCE = 1000
"""Rows on which a statistic's values are exchanged."""

MOST_COLUMNS = 20
"""Statistics for each of which a slow method is asked again for all the rows that it is scored on in a part.
Of more statistics these rows are fewer: what it is asked in all is no more than for so many."""

BINS = 10
"""Of probabilities, whose share of rows is compared with their mean."""

REPEATS = 200
"""Times that models are drawn from the probabilities themselves, for what chance makes of the error."""


@dataclass(frozen=True, eq=False)
class HeldOutProbabilities:
    """Probabilities of models for rows of the tables, by classifiers that had not seen them."""

    # Shapes: probabilities (r, models); model (r,); weights (r,).

    probabilities: np.ndarray
    model: np.ndarray
    weights: np.ndarray

    @property
    def log_score(self) -> float:
        """Mean log probability of the true model; higher is better."""
        return float(self.weights @ log_scores(self.probabilities, self.model))

    @property
    def accuracy(self) -> float:
        """Share of the rows whose model is the most probable one."""
        return float(self.weights @ (self.probabilities.argmax(axis=1) == self.model))

    def confusion(self) -> np.ndarray:
        """For each model, the shares of its rows for which each model is the most probable one."""
        models = self.probabilities.shape[1]
        found = np.zeros((models, models))
        np.add.at(found, (self.model, self.probabilities.argmax(axis=1)), self.weights)
        found /= found.sum(axis=1, keepdims=True)  # the prior cancels: shares of each model's own rows
        return found

    def reliability(self, bins: int = BINS) -> np.ndarray:
        """For bins of probability: mean probability, share of rows that are of the model, share of all."""
        # Shapes: returned: (b, 3).
        whole("bins", bins)
        return _reliability(self._told(), self.probabilities, self.weights, bins)

    def calibration_error(self, bins: int = BINS) -> float:
        """Expected calibration error: mean distance of share and probability over the bins."""
        return _error(self.reliability(bins))

    def calibration_noise(self, rng: np.random.Generator, bins: int = BINS) -> float:
        """The expected error if the probabilities were right: what chance alone makes of it."""
        models = self.probabilities.shape[1]
        bounds = np.cumsum(self.probabilities, axis=1)
        errors = []
        for _ in range(REPEATS):
            # By the bounds between models, of which the last is one but for rounding.
            drawn = np.sum(rng.random((len(bounds), 1)) > bounds[:, :-1], axis=1)
            told = np.eye(models)[drawn]
            errors.append(_error(_reliability(told, self.probabilities, self.weights, bins)))
        return float(np.mean(errors))

    def _told(self) -> np.ndarray:
        return np.eye(self.probabilities.shape[1])[self.model]


def _reliability(told: np.ndarray, probabilities: np.ndarray, weights: np.ndarray, bins: int) -> np.ndarray:
    models = probabilities.shape[1]
    place = np.minimum((probabilities * bins).astype(int), bins - 1).ravel()
    share = np.repeat(weights, models) / models
    mass = np.bincount(place, share, minlength=bins)
    kept = mass > 0
    mean = np.bincount(place, share * probabilities.ravel(), minlength=bins)[kept] / mass[kept]
    true = np.bincount(place, share * told.ravel(), minlength=bins)[kept] / mass[kept]
    return np.column_stack([mean, true, mass[kept]])


def _error(reliability: np.ndarray) -> float:
    return float(reliability[:, 2] @ np.abs(reliability[:, 0] - reliability[:, 1]))


@dataclass(frozen=True, eq=False)
class CrossValidated:
    """What classifiers that each lack a part of the rows say."""

    # Shapes: at_observed (FOLDS, k, models); importance (d,).

    held_out: HeldOutProbabilities
    at_observed: np.ndarray
    importance: np.ndarray

    def errors(self) -> np.ndarray:
        """Standard errors (k, models) by the jackknife over the folds: how much other rows would say."""
        around = self.at_observed - self.at_observed.mean(axis=0)
        # The jackknife of five parts: each fit lacks a fifth, so that deviations are smaller than of samples.
        found: np.ndarray = np.sqrt((FOLDS - 1) / FOLDS * np.sum(around**2, axis=0))
        return found


def cross_validate(
    make: Callable[[], Classifier], name: str, rows: Rows, observed: np.ndarray, rng: np.random.Generator
) -> CrossValidated:
    """Fit a method to all rows but a part, for each part."""
    order = rng.permutation(len(rows))
    # A classifier that conditions anew on each row is asked for some of them.
    most = max(1, SLOW.get(name, len(rows)) // FOLDS)
    probabilities, numbers, at_observed = [], [], []
    importance = np.zeros(rows.statistics.shape[1])
    for number, (part, seed) in enumerate(zip(np.array_split(order, FOLDS), rng.spawn(FOLDS), strict=True)):
        classifier = make().fit(rows.part(np.setdiff1d(order, part)), seed)
        part = part[rows.scored[part] > 0]
        probabilities.append(classifier.probabilities(rows.statistics[part[:most]]))
        numbers.append(part[:most])
        at_observed.append(classifier.probabilities(observed))
        if number == 0:
            asked = rows_for_importance(name, most, len(importance))
            importance = _importance(classifier, rows, part, asked, seed)
    used = np.concatenate(numbers)
    kept = rows.part(used)
    held_out = HeldOutProbabilities(
        np.concatenate(probabilities), rows.model[used], kept.scored / kept.scored.sum()
    )
    return CrossValidated(held_out, np.array(at_observed), importance)


def rows_for_importance(name: str, most: int, columns: int) -> int:
    """Rows on which each of so many statistics is exchanged, of the `most` that a method is scored on."""
    if name in SLOW:
        return max(1, min(most, MOST_COLUMNS * most // columns))
    return min(most, MOST_FOR_IMPORTANCE)


def _importance(
    classifier: Classifier, rows: Rows, part: np.ndarray, asked: int, rng: np.random.Generator
) -> np.ndarray:
    """By how much the log score of the first rows of a part falls with each statistic exchanged."""
    held = part[:asked]
    statistics, model, weights = rows.statistics[held], rows.model[held], rows.scored[held]
    before = np.average(log_scores(classifier.probabilities(statistics), model), weights=weights)
    found = np.empty(statistics.shape[1])
    for column in range(len(found)):
        exchanged = statistics.copy()
        # Permuted, the statistic keeps its law and tells nothing of the model. By all rows of the part: of
        # few, many would keep their own value.
        exchanged[:, column] = rng.permutation(rows.statistics[part, column])[: len(held)]
        after = log_scores(classifier.probabilities(exchanged), model)
        found[column] = before - np.average(after, weights=weights)
    return found
