"""The filter's recursion on arrays: start, predict, update."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pymc_kbr.arrays.refusals import shown
from pymc_kbr.arrays.support import Support
from pymc_kbr.arrays.threads import one_blas_thread
from pymc_kbr.embedding.embedding import Atoms
from pymc_kbr.embedding.projection import project_rows_to_simplex
from pymc_kbr.embedding.rules import Rule
from pymc_kbr.filtering.gaussian import Moments, normal_atoms
from pymc_kbr.filtering.settings import FilterSettings
from pymc_kbr.filtering.training import Joint, Training, gram_of, of_columns
from pymc_kbr.filtering.transitions import (
    KnownTransition,
    LearntTransition,
    Predicted,
    Regression,
    SumRule,
    Transition,
    conditioned,
)
from pymc_kbr.filtering.validation import Point
from pymc_kbr.gram import Gram, LowRankGram
from pymc_kbr.gram.dense import CachedGram, part_of
from pymc_kbr.posterior.posterior import Posterior


@dataclass(frozen=True)
class How:
    """What is fixed before any setting is chosen."""

    rule: Rule
    centred: bool
    solver: Any
    draw: Any = None
    seed: int = 0


class Later:
    """A transition that is made when it is first used."""

    def __init__(self, make: Callable[[], Transition]) -> None:
        self._make = make
        self._made: Transition | None = None

    def __call__(self, weights: np.ndarray, control: np.ndarray | None) -> Predicted:
        """See `Transition`."""
        made = self._made = self._made or self._make()
        return made(weights, control)


class Recursion:
    """A filter with its settings, on scaled arrays; what does not change is factored once."""

    states: Gram
    _sum_rule: SumRule
    _transition: Transition

    def __init__(
        self, training: Training, settings: FilterSettings, how: How, like: Recursion | None = None
    ) -> None:
        self.training, self.settings, self.how = training, settings, how
        self.size, self.count = len(training.states), len(training.pairs)
        taken = like is not None and _of_states(like.settings) == _of_states(settings)
        # Most candidates of a choice differ in the update alone.
        if like is not None and taken:
            self.states, self._sum_rule, self._transition = like.states, like._sum_rule, like._transition
        else:
            self._factor()
        self._observed: dict[bytes, Gram] = {}
        if like is not None and like.settings.observation_kernel == settings.observation_kernel:
            self._observed = like._observed
        # At once, as every step without gaps needs it.
        self.observed(np.ones(training.observations.shape[1], dtype=bool))

    def _factor(self) -> None:
        """Everything about the states: their Gram matrix, the sum rule and the transition."""
        settings, training, how = self.settings, self.training, self.how
        rng = np.random.default_rng(how.seed)
        self.states = gram_of(how.solver, settings.state_kernel, training.states, rng)
        rows = self._part(training.pairs)
        self._sum_rule = SumRule(rows, settings.prior_regularisation, how.centred)
        self._transition = self._made_transition()

    @property
    def controlled(self) -> bool:
        """Whether transitions depend on controls."""
        return self.training.controls is not None

    def start(self, initial: np.ndarray | None = None) -> Predicted:
        """The belief before the first observation: 1 / n on the observed states, or a prior by draws."""
        # Shapes: initial (l, p).
        weights = np.zeros(self.size)
        gamma = np.full(self.count, 1 / self.count)
        if initial is not None:
            rows = self._part(self.training.pairs)
            # In parts: a prior may be known by far more draws than there are states.
            blocks = [rows.cross(initial[i : i + 1024]).sum(axis=1) for i in range(0, len(initial), 1024)]
            gamma = self._sum_rule(np.sum(blocks, axis=0) / len(initial))
        weights[self.training.pairs] = gamma
        return Predicted(gamma, lambda: weights)

    def start_of_embedding(self) -> Predicted:
        """The embedding of all training states, 1 / N each, through the sum rule: Xu 2022, Algorithm 2."""
        weights = np.full(self.size, 1 / self.size)
        gamma = self._sum_rule(self.states.apply(weights)[self.training.pairs])
        return Predicted(gamma, lambda: weights)

    def predict(self, weights: np.ndarray, control: np.ndarray | None = None) -> Predicted:
        """One step ahead of weights (N,)."""
        return self._transition(weights, control)

    def update(self, predicted: Predicted, observation: np.ndarray) -> np.ndarray:
        """Weights (N,) given a prediction and an observation (d,), whose NaN columns are left out."""
        there = ~np.isnan(observation)
        if not there.any():
            return predicted.weights
        gram = self.observed(there)
        values = gram.cross(observation[None, there])[:, 0]
        # Small systems take longer to share out among threads than to solve.
        with self._threads():
            return self._placed(
                conditioned(
                    self.how.rule,
                    gram,
                    predicted.gamma,
                    values,
                    self.settings.regularisation,
                    self.how.centred,
                )
            )

    def _threads(
        self,
        *,
        # Up to so many training pairs one thread of BLAS is faster than several.
        on_one_thread: int = 2000,
    ) -> AbstractContextManager[object]:
        return one_blas_thread() if self.count <= on_one_thread else nullcontext()

    def conditional_mean(self, observation: np.ndarray, ridge: float | None = None) -> np.ndarray:
        """Weights (N,) of the state given one observation alone, by regression on the training pairs."""
        there = ~np.isnan(observation)
        if not there.any():
            return self.start().weights
        gram = self.observed(there)
        if ridge is None:
            ridge = self.how.rule.ridge(self.settings.regularisation)
        regression = Regression(gram, ridge, self.how.centred)
        return self._placed(regression(gram.cross(observation[None, there])[:, 0], 1.0))

    def observed(self, there: np.ndarray) -> Gram:
        """The Gram matrix of the training observations in some of their columns; kept once it is made."""
        # Gaps come in few patterns: one factorisation for each.
        key = there.tobytes()
        if key not in self._observed:
            kernel = of_columns(self.settings.observation_kernel, np.flatnonzero(there))
            points = self.training.observations[:, there]
            # From a seed of its own: the same pivots whether the states were factored here or taken over.
            rng = np.random.default_rng(self.how.seed + 1)
            self._observed[key] = gram_of(self.how.solver, kernel, points, rng)
        return self._observed[key]

    def _placed(self, at_pairs: np.ndarray) -> np.ndarray:
        weights = np.zeros(self.size)
        weights[self.training.pairs] = at_pairs
        return weights

    def _part(self, rows: np.ndarray) -> Gram:
        whole = len(rows) == self.size and bool(np.array_equal(rows, np.arange(self.size)))
        return self.states if whole else part_of(self.states, rows)

    def _made_transition(self) -> Transition:
        how, data = self.how, self.training
        if how.draw is not None:
            points = data.states[data.pairs]
            return KnownTransition(
                self.states, data.pairs, points, self._sum_rule, how.draw, not self.controlled
            )
        controls, gram = None, self._part(data.previous)
        if data.controls is not None:
            kernel = self.settings.control_kernel
            assert kernel is not None
            controls, gram = (kernel, data.controls), self._with_controls(gram)
        regression = Regression(gram, self.settings.transition_regularisation, how.centred)
        return LearntTransition(
            self.states, data.pairs, data.previous, data.following, regression, self._sum_rule, controls
        )

    def with_transition(self, draw: Any) -> Recursion:
        """The same with another known transition, which is made when a step first needs it."""
        other = copy(self)
        other.how = replace(self.how, draw=draw)
        other._transition = Later(other._made_transition)
        return other

    def _with_controls(self, gram: Gram) -> Gram:
        """The Gram matrix of previous states and controls together."""
        data, settings = self.training, self.settings
        assert data.controls is not None
        assert settings.control_kernel is not None
        joint = Joint(settings.state_kernel, settings.control_kernel, data.states.shape[1])
        points = np.hstack([data.states[data.previous], data.controls])
        # A product of two kernels of low rank r has rank r^2: both are factored together.
        if isinstance(gram, LowRankGram):
            return gram_of(self.how.solver, joint, points, np.random.default_rng(self.how.seed + 2))
        assert isinstance(gram, CachedGram)
        return CachedGram(joint, points, gram.kept * settings.control_kernel(data.controls))

    def run(self, observations: np.ndarray, controls: np.ndarray | None, predicted: Predicted) -> np.ndarray:
        """Weights (T, N) of the filtered beliefs at observations (T, d), from the first one's prediction."""
        weights = np.empty((len(observations), self.size))
        for t, (_, after) in enumerate(self.steps(observations, controls, predicted)):
            weights[t] = after
        return weights

    def steps(
        self, observations: np.ndarray, controls: np.ndarray | None, predicted: Predicted
    ) -> Iterator[tuple[Predicted, np.ndarray]]:
        """Each step's prediction, and the weights (N,) after its observation."""
        weights = None
        for t, row in enumerate(observations):
            if weights is not None:
                predicted = self.predict(weights, None if controls is None else controls[t - 1])
            weights = self.update(predicted, row)
            yield predicted, weights


def _of_states(settings: FilterSettings) -> tuple[Any, ...]:
    """What decides about everything but the observations' Gram matrix."""
    return (
        settings.state_kernel,
        settings.control_kernel,
        settings.prior_regularisation,
        settings.transition_regularisation,
    )


# --- the belief at one time ---


class OnDemand:
    """A field that is an array, or a function that makes it when it is first asked for."""

    def __get__(self, owner: Any, kind: type) -> Any:
        if owner is None:
            return self
        held = owner.__dict__["weights"]
        if callable(held):
            held = owner.__dict__["weights"] = held()
        return held

    def __set__(self, owner: Any, weights: Any) -> None:
        owner.__dict__["weights"] = weights


class AtTimes:
    """What is known at each of T times, with weights that may be a function."""

    quantile: Any

    def __getstate__(self) -> dict[str, Any]:
        # A function that makes the weights cannot be stored: they are made.
        return self.__dict__ | {"weights": self.weights}  # type: ignore[attr-defined]

    def interval(self, probability: float = 0.9) -> np.ndarray:
        """Central intervals of each column.

        Parameters
        ----------
        probability : float, between 0 and 1

        Returns
        -------
        ndarray of shape (T, 2, p), or (T, 2, d)

        Raises
        ------
        ValueError
            If the probability is not between zero and one.
        """
        if not 0 < probability < 1:
            raise ValueError(f"probability is {shown(probability)}; it lies between zero and one")
        return self.quantile([(1 - probability) / 2, (1 + probability) / 2])


@dataclass(frozen=True, eq=False)
class Belief:
    """Weighted training states: the embedding of the state's distribution at one time.

    Parameters
    ----------
    weights : ndarray of shape (N,)
        Of either sign, as the rule gave them; may be a function that makes them when they are asked for.
    atoms : Atoms
        The training states and the kernel in which weights are projected.
    support : Support
    point : callable
        From a weighted mean (p,) to the point that is reported.
    names : tuple of str, length p
    moments : Moments, optional
        Of the corrected belief, a normal distribution, in whose place the weights then are not used.
    """

    weights: np.ndarray
    atoms: Atoms
    support: Support
    point: Point
    names: tuple[str, ...] = field(default=())
    moments: Moments | None = None

    def __getstate__(self) -> dict[str, Any]:
        # A function that makes the weights cannot be stored: they are made.
        return self.__dict__ | {"weights": self.weights}

    def mean(self) -> np.ndarray:
        """The mean (p,), moved to a point of the state space where the filter has one."""
        return self.point(self.weights @ self.atoms.points if self.moments is None else self.moments.mean)

    def posterior(self) -> Posterior:
        """The belief as a `Posterior`: covariance, quantiles, mode, draws.

        All times share the training states and the factor of their Gram matrix; a belief by its moments has
        atoms of its own.
        """
        if self.moments is not None:
            points = normal_atoms(self.moments)
            atoms, weights = Atoms(points, self.atoms.kernel), np.full(len(points), 1 / len(points))
            return Posterior.of(atoms, weights, self.support, names=self.names or None)
        return self.projected(project_rows_to_simplex(self.atoms, self.weights[None])[0])

    def projected(self, simplex: np.ndarray) -> Posterior:
        """The posterior of weights whose projection (N,) onto the simplex is known."""
        posterior = Posterior.of(self.atoms, self.weights, self.support, names=self.names or None)
        # In the place of its own projection, which has no batches.
        posterior.__dict__["simplex_weights"] = simplex
        return posterior


Belief.weights = OnDemand()  # type: ignore[assignment]
