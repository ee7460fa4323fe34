"""Several small classifiers trained side by side: scikit-learn's `MLPClassifier`, all folds at once.

Networks of this size spend most of their time between matrix products, so that five trained together
cost little more than one. Starting weights, the order of rows, Adam's steps and the end of training
are those of `MLPClassifier(random_state=...)` for each of them, in the precision of the points.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import expit

BATCH = 200
RATE, DECAY_MEAN, DECAY_SQUARE, FLOOR = 1e-3, 0.9, 0.999, 1e-8
"""Of Adam."""
PENALTY = 1e-4
TOLERANCE, PATIENCE = 1e-4, 10
"""Training ends once the loss has not fallen by the tolerance for more epochs than these."""


@dataclass
class Networks:
    """K networks with relu layers and one logistic output, in one array.

    Parameters
    ----------
    flat : ndarray of shape (K, w)
        All weights, then all intercepts, of each network.
    widths : tuple of int
        Of the input, the hidden layers and the output.
    """

    flat: np.ndarray
    widths: tuple[int, ...]

    @classmethod
    def start(
        cls, count: int, widths: tuple[int, ...], legacy: np.random.RandomState, dtype: np.dtype
    ) -> Networks:
        """`count` equal networks, uniform within the bounds of Glorot and Bengio (2010)."""
        weights, intercepts = [], []
        for inputs, outputs in pairwise(widths):
            bound = np.sqrt(6 / (inputs + outputs))
            weights.append(legacy.uniform(-bound, bound, (inputs, outputs)).ravel())
            intercepts.append(legacy.uniform(-bound, bound, outputs))
        flat = np.concatenate(weights + intercepts).astype(dtype)
        return cls(np.repeat(flat[None], count, axis=0), widths)

    @property
    def weights_size(self) -> int:
        """Columns of `flat` that are penalised."""
        return sum(a * b for a, b in pairwise(self.widths))

    def layers(self, flat: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Views of each layer's weights (K, a, b) and intercepts (K, 1, b) in an array like `flat`."""
        views, weight, intercept = [], 0, self.weights_size
        for a, b in pairwise(self.widths):
            w = flat[:, weight : weight + a * b].reshape(len(flat), a, b)
            views.append((w, flat[:, None, intercept : intercept + b]))
            weight, intercept = weight + a * b, intercept + b
        return views

    def forward(self, points: np.ndarray) -> list[np.ndarray]:
        """Values of all layers at points (K, n, p), the last (K, n, 1) probabilities."""
        values = [points]
        layers = self.layers(self.flat)
        for weights, intercepts in layers[:-1]:
            value = values[-1] @ weights
            value += intercepts
            values.append(np.maximum(value, 0, out=value))
        weights, intercepts = layers[-1]
        values.append(expit(values[-1] @ weights + intercepts))
        return values

    def gradient(self, points: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Penalised mean log loss (K,) and its gradient (K, w) at points (K, n, p), labels (K, n, 1)."""
        n = points.shape[1]
        values = self.forward(points)
        least = np.finfo(points.dtype).eps
        likelihood = np.clip(np.where(labels > 0, values[-1], 1 - values[-1]), least, 1 - least)
        penalised = self.flat[:, : self.weights_size]
        squares = np.einsum("kw,kw->k", penalised, penalised)
        loss = -np.log(likelihood).mean(axis=(1, 2)) + 0.5 * PENALTY * squares / n
        gradient = np.empty_like(self.flat)
        back = (values[-1] - labels) / n
        layers, slopes = self.layers(self.flat), self.layers(gradient)
        for level in reversed(range(len(layers))):
            np.matmul(values[level].swapaxes(1, 2), back, out=slopes[level][0])
            np.sum(back, axis=1, keepdims=True, out=slopes[level][1])
            if level:
                back = back @ layers[level][0].swapaxes(1, 2)
                back *= values[level] > 0
        gradient[:, : self.weights_size] += (PENALTY / n) * penalised
        return loss, gradient


def train(
    points: np.ndarray, labels: np.ndarray, hidden: tuple[int, ...], epochs: int, random_seed: int
) -> Networks:
    """Networks trained each on its own rows.

    Parameters
    ----------
    points : ndarray of shape (K, n, p)
        In single or double precision.
    labels : ndarray of shape (K, n)
        Zeros and ones.
    hidden : tuple of int
        Widths of the hidden layers.
    epochs : int
        Passes over the rows at most.
    random_seed : int
        Of the starting weights and the order of rows, the same for all networks.
    """
    legacy = np.random.RandomState(random_seed)
    count, n, p = points.shape
    networks = Networks.start(count, (p, *hidden, 1), legacy, points.dtype)
    labels = labels[:, :, None].astype(points.dtype)
    final = np.empty_like(networks.flat)
    training = np.arange(count)
    mean, square = np.zeros_like(final), np.zeros_like(final)
    best, waited = np.full(count, np.inf), np.zeros(count, int)
    order, step = np.arange(n), 0
    for _ in range(epochs):
        order = order[legacy.permutation(n)]
        total = np.zeros(len(training))
        for first in range(0, n, BATCH):
            rows = order[first : first + BATCH]
            loss, slope = networks.gradient(points[:, rows], labels[:, rows])
            total += loss * len(rows)
            step += 1
            _adam(networks.flat, slope, mean, square, step)
        loss = total / n
        waited = np.where(loss > best - TOLERANCE, waited + 1, 0)
        best = np.minimum(best, loss)
        going = waited <= PATIENCE
        if not going.all():
            final[training[~going]] = networks.flat[~going]
            training, points, labels = training[going], points[going], labels[going]
            mean, square, best, waited = mean[going], square[going], best[going], waited[going]
            networks = Networks(networks.flat[going], networks.widths)
        if not len(training):
            break
    final[training] = networks.flat
    return Networks(final, networks.widths)


def _adam(flat: np.ndarray, slope: np.ndarray, mean: np.ndarray, square: np.ndarray, step: int) -> None:
    """One step of Adam; moves `flat` and both running means in place."""
    mean *= DECAY_MEAN
    mean += (1 - DECAY_MEAN) * slope
    square *= DECAY_SQUARE
    slope *= slope
    slope *= 1 - DECAY_SQUARE
    square += slope
    rate = RATE * np.sqrt(1 - DECAY_SQUARE**step) / (1 - DECAY_MEAN**step)
    np.sqrt(square, out=slope)
    slope += FLOOR
    np.divide(mean, slope, out=slope)
    slope *= rate
    flat -= slope
