"""How well the probabilities of models hold on rows that were not learnt from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pymc_kbr.arrays.refusals import whole
from pymc_kbr.selection.model_choice.classifiers import Classifier, log_scores
from pymc_kbr.selection.model_choice.rows import Rows


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

    def reliability(self, bins: int = 10) -> np.ndarray:
        """For bins of probability: mean probability, share of rows that are of the model, share of all."""
        # Shapes: returned: (b, 3).
        whole("bins", bins)
        return _reliability(self._told(), self.probabilities, self.weights, bins)

    def calibration_error(self, bins: int = 10) -> float:
        """Expected calibration error: mean distance of share and probability over the bins."""
        return _error(self.reliability(bins))

    def calibration_noise(
        self,
        rng: np.random.Generator,
        bins: int = 10,
        *,
        # Times that models are drawn from the probabilities themselves.
        repeats: int = 200,
    ) -> float:
        """The expected error if the probabilities were right: what chance alone makes of it."""
        models = self.probabilities.shape[1]
        bounds = np.cumsum(self.probabilities, axis=1)
        errors = []
        for _ in range(repeats):
            # By the bounds between models, of which the last is one but for rounding.
            drawn = np.sum(rng.random((len(bounds), 1)) > bounds[:, :-1], axis=1)
            indicators = np.eye(models)[drawn]
            errors.append(_error(_reliability(indicators, self.probabilities, self.weights, bins)))
        return float(np.mean(errors))

    def _told(self) -> np.ndarray:
        return np.eye(self.probabilities.shape[1])[self.model]


def _reliability(
    indicators: np.ndarray, probabilities: np.ndarray, weights: np.ndarray, bins: int
) -> np.ndarray:
    models = probabilities.shape[1]
    place = np.minimum((probabilities * bins).astype(int), bins - 1).ravel()
    share = np.repeat(weights, models) / models
    mass = np.bincount(place, share, minlength=bins)
    kept = mass > 0
    mean = np.bincount(place, share * probabilities.ravel(), minlength=bins)[kept] / mass[kept]
    true = np.bincount(place, share * indicators.ravel(), minlength=bins)[kept] / mass[kept]
    return np.column_stack([mean, true, mass[kept]])


def _error(reliability: np.ndarray) -> float:
    return float(reliability[:, 2] @ np.abs(reliability[:, 0] - reliability[:, 1]))


@dataclass(frozen=True, eq=False)
class CrossValidated:
    """What classifiers that each lack a part of the rows say."""

    # Shapes: at_observed (folds, k, models); importance (d,).
    held_out: HeldOutProbabilities
    at_observed: np.ndarray
    importance: np.ndarray

    def errors(self) -> np.ndarray:
        """Standard errors (k, models) by the jackknife over the folds: how much other rows would say."""
        around = self.at_observed - self.at_observed.mean(axis=0)
        # Each fit lacks one part, so that deviations are smaller than of samples.
        folds = len(around)
        return np.sqrt((folds - 1) / folds * np.sum(around**2, axis=0))


def cross_validate(
    make: Callable[[], Classifier],
    rows: Rows,
    observed: np.ndarray,
    rng: np.random.Generator,
    *,
    # Parts of the rows, each left out once.
    folds: int = 5,
) -> CrossValidated:
    """Fit a method to all rows but a part, for each part."""
    order = rng.permutation(len(rows))
    # A classifier that conditions anew on each row is asked for some of them.
    scored = make().most_scored
    most = max(1, (len(rows) if scored is None else scored) // folds)
    probabilities, numbers, at_observed = [], [], []
    importance = np.zeros(rows.statistics.shape[1])
    for number, (part, seed) in enumerate(zip(np.array_split(order, folds), rng.spawn(folds), strict=True)):
        classifier = make().fit(rows.part(np.setdiff1d(order, part)), seed)
        part = part[rows.scored[part] > 0]
        probabilities.append(classifier.probabilities(rows.statistics[part[:most]]))
        numbers.append(part[:most])
        at_observed.append(classifier.probabilities(observed))
        if number == 0:
            asked = rows_for_importance(scored is not None, most, len(importance))
            importance = _importance(classifier, rows, part, asked, seed)
    used = np.concatenate(numbers)
    kept = rows.part(used)
    held_out = HeldOutProbabilities(
        np.concatenate(probabilities), rows.model[used], kept.scored / kept.scored.sum()
    )
    return CrossValidated(held_out, np.array(at_observed), importance)


def rows_for_importance(
    slow: bool,
    most: int,
    columns: int,
    *,
    # A slow method is asked no more in all than for so many statistics,
    most_columns: int = 20,
    # and another one for no more rows of each.
    most_rows: int = 1000,
) -> int:
    """Rows on which each of so many statistics is exchanged, of the `most` that a method is scored on."""
    return max(1, min(most, most_columns * most // columns)) if slow else min(most, most_rows)


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
        # Permuted, the statistic keeps its distribution and says nothing about the model. By all
        # rows of the part: of few, many would keep their own value.
        exchanged[:, column] = rng.permutation(rows.statistics[part, column])[: len(held)]
        after = log_scores(classifier.probabilities(exchanged), model)
        found[column] = before - np.average(after, weights=weights)
    return found
