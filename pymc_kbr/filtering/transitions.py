"""One step ahead: a belief about the state becomes one about the next state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from pymc_kbr.embedding.rules import ImportanceWeighted, Rule, SquaredRule
from pymc_kbr.gram import Gram, LowRankGram, Operator
from pymc_kbr.gram.dense import CachedGram, part_of
from pymc_kbr.kernels import Kernel


class SumRule:
    """Weights of the observed states that represent an embedding: the kernel sum rule, factored once."""

    def __init__(self, gram: Gram, regularisation: float, centred: bool) -> None:
        n = gram.size
        self._operator = gram.regularised(n * regularisation)
        # With a large eta weights are even, and not zero: what is regularised is their difference from 1 / n.
        self._own = gram.apply(np.full(n, 1 / n)) if centred else None

    def __call__(self, values: np.ndarray, total: float | np.ndarray = 1.0) -> np.ndarray:
        """Gamma (n,) of an embedding whose values at the states are (n,) and whose weights sum to `total`."""
        if self._own is None:
            return self._operator.solve(values)
        return self._operator.solve(values - np.multiply.outer(self._own, total)) + total / len(values)


class Regression:
    """The conditional mean embedding of one side of pairs given the other, factored once."""

    def __init__(self, gram: Gram, regularisation: float, centred: bool) -> None:
        m = gram.size
        self._centre = np.full(m, 1 / m) if centred else None
        if self._centre is not None:
            self._mean = gram.apply(self._centre)
            gram = gram.centred(self._centre)
        self._operator: Operator = gram.regularised(m * regularisation)

    def __call__(self, values: np.ndarray, total: float | np.ndarray) -> np.ndarray:
        """V (m,), from values (m,) of an embedding whose weights sum to `total`; or of k embeddings."""
        if self._centre is None:
            return self._operator.solve(values)
        c, mean = self._centre, self._mean
        # Inner products of features about their mean; the constant of the regression then carries the total.
        about = values - np.multiply.outer(mean, total) - (c @ values - total * (c @ mean))
        found = self._operator.solve(about)
        return found + np.multiply.outer(c, total - found.sum(axis=0))


class Predicted:
    """A belief one step ahead."""

    # Shapes: gamma (n,).
    def __init__(self, gamma: np.ndarray, ahead: Callable[[], np.ndarray]) -> None:
        self.gamma, self._ahead = gamma, ahead

    @property
    def weights(self) -> np.ndarray:
        """Of all states, shape (N,)."""
        return self._ahead()


class Transition(Protocol):
    """One step ahead of a belief with weights (N,), under controls (c,) where there are some."""

    def __call__(self, weights: np.ndarray, control: np.ndarray | None) -> Predicted:
        """See the class."""


class LearntTransition:
    """From training transitions, by regression of the next state's features on the state's."""

    # Shapes: controls (m, c).
    def __init__(
        self,
        states: Gram,
        pairs: np.ndarray,
        previous: np.ndarray,
        following: np.ndarray,
        regression: Regression,
        sum_rule: SumRule,
        controls: tuple[Kernel, np.ndarray] | None = None,
        *,
        # States up to which two matrices, a product each in a step, are worth their memory (64 MB).
        most_whole: int = 2_000,
    ) -> None:
        self._states, self._pairs = states, pairs
        self._previous, self._following = previous, following
        self._regression, self._sum_rule, self._controls = regression, sum_rule, controls

        # One product in the place of four: worth its memory where there are few states.
        self._whole: tuple[np.ndarray, np.ndarray] | None = None
        if controls is None and isinstance(states, CachedGram) and states.size <= most_whole:
            self._whole = self._as_matrices(states)

    def _as_matrices(self, states: CachedGram) -> tuple[np.ndarray, np.ndarray]:
        """From weights (N,) to those of the states that follow, (m, N), and to gamma, (n, N)."""
        totals = np.ones(states.size)
        regressed = self._regression(states.kept[self._previous], totals)
        values = states.kept[np.ix_(self._pairs, self._following)] @ regressed
        return regressed, self._sum_rule(values, regressed.sum(axis=0))

    def __call__(self, weights: np.ndarray, control: np.ndarray | None) -> Predicted:
        """See `Transition`."""
        if self._whole is not None:
            regressed, to_gamma = self._whole
            return Predicted(to_gamma @ weights, lambda: self._placed(regressed @ weights))
        values = self._states.apply(weights)[self._previous]
        if self._controls is not None:
            assert control is not None
            kernel, rows = self._controls
            values = values * kernel(rows, control[None])[:, 0]
        ahead = self._placed(self._regression(values, float(weights.sum())))
        gamma = self._sum_rule(self._states.apply(ahead)[self._pairs], float(ahead.sum()))
        return Predicted(gamma, lambda: ahead)

    def _placed(self, following: np.ndarray) -> np.ndarray:
        ahead = np.zeros(self._states.size)
        ahead[self._following] = following
        return ahead


class KnownTransition:
    """By draws of the next state from each observed state, through the kernel sum rule."""

    # Shapes: pairs (n,); points (n, p).
    def __init__(
        self,
        states: Gram,
        pairs: np.ndarray,
        points: np.ndarray,
        sum_rule: SumRule,
        draw: Callable[[np.ndarray | None, np.ndarray], np.ndarray],
        fixed: bool,
    ) -> None:
        self._gram, self._pairs, self._sum_rule = part_of(states, pairs), pairs, sum_rule
        self._draw, self._points = draw, points
        self._once = self._ahead(None) if fixed else None

    def _ahead(self, control: np.ndarray | None) -> tuple[np.ndarray, Any]:
        draws = self._draw(control, self._points)
        n, count, p = draws.shape
        flat = draws.reshape(n * count, p)
        if isinstance(self._gram, LowRankGram):
            features = self._gram.feature_map(flat).reshape(n, count, -1).mean(axis=1)
            return self._gram.features, features
        assert isinstance(self._gram, CachedGram)
        # 64 states at once: all draws of all states would take as many Gram matrices as there are draws.
        columns = [
            self._gram.kernel(self._gram.points, draws[i : i + 64].reshape(-1, p))
            .reshape(n, -1, count)
            .mean(axis=2)
            for i in range(0, n, 64)
        ]
        return np.hstack(columns), None

    def __call__(self, weights: np.ndarray, control: np.ndarray | None) -> Predicted:
        """See `Transition`."""
        left, right = self._once if self._once is not None else self._ahead(control)
        w = weights[self._pairs]
        # As two thin products: their own product would be as large as the Gram matrix.
        values = left @ w if right is None else left @ (right.T @ w)
        gamma = self._sum_rule(values, float(w.sum()))
        ahead = np.zeros_like(weights)
        ahead[self._pairs] = gamma
        return Predicted(gamma, lambda: ahead)


# --- the update by an observation ---


RULES: dict[str, Rule] = {"iw_kbr": ImportanceWeighted(), "kbr": SquaredRule()}
"""The name of each rule."""


def conditioned(
    rule: Rule,
    gram: Gram,
    gamma: np.ndarray,
    values: np.ndarray,
    regularisation: float,
    centred: bool,
    total: float = 1.0,
) -> np.ndarray:
    """Weights of rows (z_i, x_i) under a prior, given a point of x or an embedding on x."""
    # Shapes: gamma (n,); values (n,), or (n, k) of k points; returned: the same.
    weights = np.zeros(values.shape)
    rows = np.arange(len(gamma))
    if isinstance(rule, ImportanceWeighted):
        rows = np.flatnonzero(gamma > 0)
        if not len(rows):
            return weights
    part = gram if len(rows) == len(gamma) else part_of(gram, rows)
    prior, at = gamma[rows], values[rows]
    if not centred:
        weights[rows] = rule.operator(part, prior, regularisation).solve(at)
        return weights
    # A mean under signed weights may lie outside of all features: the centre is that of the positive ones.
    positive = np.maximum(prior, 0)
    if not positive.any():
        return weights
    centre, prior = positive / positive.sum(), prior / prior.sum()
    mean = part.apply(centre)
    column = (slice(None), *[None] * (values.ndim - 1))
    about = at - total * mean[column] - (centre @ at - total * (centre @ mean))
    found = rule.operator(part.centred(centre), prior, regularisation).solve(about)
    # The coefficients of centred features: the mean is taken out, and the prior put back.
    weights[rows] = found - found.sum(axis=0) * centre[column] + total * prior[column]
    return weights
