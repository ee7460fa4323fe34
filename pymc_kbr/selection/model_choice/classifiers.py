"""From statistics to probabilities of models: each way to learn them, behind one interface."""

from __future__ import annotations

import warnings
from itertools import combinations_with_replacement
from typing import Any, ClassVar, Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from pymc_kbr.arrays.neighbours import Tree
from pymc_kbr.arrays.scaling import Scaler
from pymc_kbr.estimators.summaries import Transformed
from pymc_kbr.kernels import Gaussian, median_heuristic
from pymc_kbr.kernels.kernel import frequencies
from pymc_kbr.selection.model_choice.rows import Rows


class Classifier(Protocol):
    """Learns from rows, and predicts the probabilities of models at statistics."""

    most_scored: ClassVar[int | None]

    def fit(self, rows: Rows, rng: np.random.Generator) -> Classifier:
        """Learn from rows of the models."""

    def probabilities(self, statistics: np.ndarray) -> np.ndarray:
        """Of each model, at statistics (k, d): shape (k, models), rows of sum one."""

    def again(self) -> Classifier:
        """One that is not fitted, with the settings that this one chose."""


class NearestRows:
    """Rejection: each model's share of the nearest rows, half a row added to each."""

    most_scored: ClassVar[int | None] = None

    def __init__(self, accepted: float = 0.01) -> None:
        self.accepted = accepted

    def again(self) -> NearestRows:
        """See `Classifier`."""
        return NearestRows(self.accepted)

    def fit(self, rows: Rows, rng: np.random.Generator) -> NearestRows:
        """See `Classifier`."""
        self._rows, self._scaler = rows, Scaler.fit(rows.statistics)
        self._count = max(2 * rows.models, round(self.accepted * len(rows)))
        self._tree = Tree(self._scaler.transform(rows.statistics), self._count)
        return self

    def probabilities(self, statistics: np.ndarray) -> np.ndarray:
        """See `Classifier`."""
        _, near = self._tree.query(self._scaler.transform(statistics), self._count)
        # No share of finitely many rows shows that a model is impossible.
        counts = np.full((len(statistics), self._rows.models), 0.5)
        for model in range(self._rows.models):
            counts[:, model] += np.sum(self._rows.weights[near] * (self._rows.model[near] == model), axis=1)
        return counts / counts.sum(axis=1, keepdims=True)


class LocalLogistic:
    """Multinomial regression on the nearest rows, Epanechnikov's weights: method "mnlogistic" of R abc."""

    # Each observation takes a regression: it is scored on so many held-out rows.
    most_scored: ClassVar[int | None] = 500

    def __init__(self, accepted: float = 0.1) -> None:
        self.accepted = accepted

    def again(self) -> LocalLogistic:
        """See `Classifier`."""
        return LocalLogistic(self.accepted)

    def fit(self, rows: Rows, rng: np.random.Generator) -> LocalLogistic:
        """See `Classifier`."""
        self._rows, self._scaler = rows, Scaler.fit(rows.statistics)
        self._points = self._scaler.transform(rows.statistics)
        self._count = max(20 * rows.models, round(self.accepted * len(rows)))
        self._tree = Tree(self._points, self._count)
        return self

    def probabilities(self, statistics: np.ndarray) -> np.ndarray:
        """See `Classifier`."""
        x = self._scaler.transform(statistics)
        distances, near = self._tree.query(x, min(self._count, len(self._rows)))
        return np.array([self._one(*of) for of in zip(x, distances, near, strict=True)])

    def _one(self, x: np.ndarray, distances: np.ndarray, near: np.ndarray) -> np.ndarray:
        weights = 1 - (distances / max(distances[-1], np.finfo(float).tiny)) ** 2
        if not np.any(weights > 0):  # all are as far as the farthest, as of counts
            weights = np.ones(len(weights))
        inside = weights > 0
        near, weights = near[inside], weights[inside] * self._rows.weights[near[inside]]
        model = self._rows.model[near]
        present = np.unique(model)
        # No share of finitely many rows shows that a model is impossible: one without any keeps half a row.
        found = np.full(self._rows.models, 0.5 / len(near))
        found[present] = self._regressed(self._points[near] - x, model, weights) if len(present) > 1 else 1.0
        return found / found.sum()

    def _regressed(self, away: np.ndarray, model: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Probabilities of the models that near rows are of."""
        # Uncorrelated about the observation, at which probabilities are those of the intercepts.
        values, axes = np.linalg.eigh(away.T @ (weights[:, None] * away) / weights.sum())
        varying = values > len(values) * np.finfo(float).eps * values[-1]
        if not np.any(varying):
            return np.bincount(model, weights)[np.unique(model)] / weights.sum()
        axes = axes[:, varying] / np.sqrt(values[varying])
        return _at_zero(away @ axes, np.unique(model, return_inverse=True)[1], weights)


def _at_zero(
    x: np.ndarray,
    model: np.ndarray,
    weights: np.ndarray,
    *,
    # Of next to nothing: rows that a plane parts have no finite slopes.
    ridge: float = 1e-4,
    # Newton's method ends where a step would raise the log-likelihood by less than this share of the weight.
    gain: float = 1e-9,
    steps: int = 50,
) -> np.ndarray:
    """Probabilities at zero by multinomial regression on features (n, q), the first model's slopes none."""
    x = np.column_stack([np.ones(len(x)), x])
    rows, others, indicators = np.arange(len(x)), int(model.max()), np.eye(int(model.max()) + 1)[model]
    # The same for all models, as of slopes that sum to none.
    symmetric = np.eye(others) - 1 / (others + 1)
    penalty = np.kron(symmetric, np.diag(np.append(0.0, np.full(x.shape[1] - 1, ridge))))

    def value(slopes: np.ndarray) -> tuple[float, np.ndarray]:
        logits = np.zeros((len(x), others + 1))
        logits[:, 1:] = x @ slopes.reshape(others, -1).T
        logits -= logits.max(axis=1, keepdims=True)
        odds = np.exp(logits)
        totals = odds.sum(axis=1)
        logs = logits[rows, model] - np.log(totals)
        return float(weights @ logs - slopes @ penalty @ slopes / 2), odds / totals[:, None]

    slopes = np.zeros(len(penalty))
    now, shares = value(slopes)
    for _ in range(steps):
        gradient = (((indicators - shares)[:, 1:] * weights[:, None]).T @ x).ravel() - penalty @ slopes
        curvature = penalty + 1e-9 * weights.sum() * np.eye(len(penalty))
        blocks = curvature.reshape(others, x.shape[1], others, x.shape[1])
        for i, j in combinations_with_replacement(range(others), 2):
            spread = weights * shares[:, i + 1] * ((i == j) - shares[:, j + 1])
            block = x.T @ (spread[:, None] * x)
            blocks[i, :, j] += block
            if i != j:
                blocks[j, :, i] += block
        step = np.linalg.solve(curvature, gradient)
        if gradient @ step < gain * weights.sum():
            break
        length = 1.0
        while (ahead := value(slopes + length * step))[0] < now and length > 1e-6:
            length /= 2
        slopes, (now, shares) = slopes + length * step, ahead
    at_zero = np.append(0.0, slopes.reshape(others, -1)[:, 0])
    odds = np.exp(at_zero - at_zero.max())
    return odds / odds.sum()


def log_scores(probabilities: np.ndarray, model: np.ndarray, *, least: float = 1e-12) -> np.ndarray:
    """Log probability (n,) of the model that each row is of, bounded below."""
    return np.log(np.maximum(probabilities[np.arange(len(model)), model], least))


def _regression(*, steps: int = 300, gradient: float = 1e-3, **settings: Any) -> LogisticRegression:
    """A regression that ends at a gradient, or after so many steps of L-BFGS."""
    return LogisticRegression(max_iter=steps, tol=gradient, **settings)


def _fit(regression: LogisticRegression, x: np.ndarray, model: np.ndarray, weights: np.ndarray) -> None:
    """Fit a regression, in silence: after its last step, too, it is judged by rows that are held out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        regression.fit(x, model, weights)


def _best_strength(
    x: np.ndarray,
    rows: Rows,
    rng: np.random.Generator,
    *,
    # Of the data against the ridge, scikit-learn's C.
    strengths: tuple[float, ...] = (0.001, 0.01, 0.1, 1.0, 10.0),
    most: int = 8000,
) -> float:
    """The strength with which features (n, q) of some rows tell most about others."""
    order = rng.permutation(len(x))[:most]
    learnt, held = np.split(order, [round(0.75 * len(order))])
    # The slopes of one strength are where the next one begins.
    regression = _regression(warm_start=True)
    scores = []
    for strength in strengths:
        _fit(regression.set_params(C=strength), x[learnt], rows.model[learnt], rows.weights[learnt])
        predicted = np.zeros((len(held), rows.models))
        predicted[:, regression.classes_] = regression.predict_proba(x[held])
        logs = log_scores(predicted, rows.model[held])
        scores.append(np.average(logs, weights=rows.weights[held]))
    return strengths[int(np.argmax(scores))]


class Logistic:
    """Multinomial regression on all rows, on features of the statistics, with a ridge."""

    most_scored: ClassVar[int | None] = None

    def __init__(
        self, features: str = "quadratic", strength: float | None = None, bandwidth: float = 1.0
    ) -> None:
        self.features = features
        self.strength = strength
        self.bandwidth = bandwidth

    def again(self) -> Logistic:
        """See `Classifier`."""
        return Logistic(self.features, self._regression.C, self.bandwidth)

    def fit(self, rows: Rows, rng: np.random.Generator) -> Logistic:
        """See `Classifier`."""
        kernel = self.features == "kernel"
        # A log odds that is a plane in one of the two units is no plane in the other.
        self._scales: list[Scaler | Transformed] = [rows.curves]
        self._scales += [Scaler.fit(rows.statistics)] if kernel else []
        self._waves = [self._drawn(scale.transform(rows.statistics), rng) for scale in self._scales if kernel]
        expanded = self._expanded(rows.statistics)
        self._unit = Scaler(
            expanded.mean(axis=0), np.maximum(expanded.std(axis=0), 1e-12), np.ones(expanded.shape[1], bool)
        )
        # In single precision each step takes half as long; its gradient ends far above that.
        x = self._unit.transform(expanded).astype(np.float32)
        strength = _best_strength(x, rows, rng) if self.strength is None else self.strength
        self._regression = _regression(C=strength)
        _fit(self._regression, x, rows.model, rows.weights)
        return self

    def probabilities(self, statistics: np.ndarray) -> np.ndarray:
        """See `Classifier`."""
        return self._regression.predict_proba(self._unit.transform(self._expanded(statistics)))

    def _drawn(
        self,
        x: np.ndarray,
        rng: np.random.Generator,
        *,
        # From which the median distance is taken.
        rows_for_width: int = 1000,
        # Random frequencies of each kernel, with a cosine and a sine each.
        waves: int = 100,
    ) -> np.ndarray:
        """Frequencies (waves, d) of a kernel on scaled statistics (n, d)."""
        width = self.bandwidth * median_heuristic(x[:: max(1, len(x) // rows_for_width)])
        return frequencies(Gaussian(float(width)), waves, x.shape[1], rng)

    def _expanded(
        self,
        statistics: np.ndarray,
        *,
        # Statistics up to which products of two are features; of more, squares alone.
        most_for_products: int = 15,
    ) -> np.ndarray:
        parts = []
        for number, scale in enumerate(self._scales):
            x = scale.transform(statistics)
            parts.append(x)
            if self.features != "linear":
                d = x.shape[1]
                first, second = np.triu_indices(d) if d <= most_for_products else (np.arange(d), np.arange(d))
                parts.append(x[:, first] * x[:, second])
            if self.features == "kernel":
                # Random Fourier features: their products are the Gaussian kernel on average.
                phases = x @ self._waves[number].T
                parts += [np.cos(phases), np.sin(phases)]
        return np.hstack(parts)
