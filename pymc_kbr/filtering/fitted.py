"""A filter that was fitted: from a user's rows to beliefs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_kbr.arrays.labelled import in_order
from pymc_kbr.arrays.refusals import shown, whole
from pymc_kbr.arrays.support import Support
from pymc_kbr.embedding.embedding import Atoms
from pymc_kbr.embedding.rules import ImportanceWeighted
from pymc_kbr.filtering.filtered_states import FilteredStates
from pymc_kbr.filtering.recursion import Belief, Recursion
from pymc_kbr.filtering.training import UNLABELLED, Labels, Units, evenly_spaced
from pymc_kbr.filtering.transitions import Predicted, SumRule, conditioned
from pymc_kbr.filtering.validation import Point, controls_for, draws_of_states, observed_rows, warn_of_far
from pymc_kbr.gram.dense import part_of
from pymc_kbr.kernels import Kernel


@dataclass(frozen=True, eq=False)
class FittedFilter:
    """The recursion with the scale, the atoms and the names of what it was fitted to."""

    units: Units
    recursion: Recursion
    atoms: Atoms
    point: Point
    names: tuple[str, ...]
    labels: Labels = UNLABELLED

    def filtered(
        self, observations: Any, initial: Any, controls: Any, times: Any
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Filtered weights (T, N), and the scaled controls."""
        rows = observed_rows(self.units, observations, self.labels.observations)
        warn_of_far(rows, self.recursion.training.observations)
        evenly_spaced(times, len(rows))
        ahead = isinstance(initial, Belief)
        # The last row's control acts after all observations: it may be given, and is not read.
        scaled = self.controls(controls, len(rows) - 1, len(rows))
        # Its first step is no update of a prior: the regression stands for prior and likelihood together.
        if isinstance(initial, str):
            if initial != "conditional_mean":
                raise ValueError(
                    f"initial is {shown(initial)}; it may be draws (l, p), a Belief or 'conditional_mean'"
                )
            return self._after_first(rows, scaled), scaled
        if ahead and self.recursion.controlled:
            raise ValueError(
                "a filter with controls cannot start from the belief before, since no control is known "
                "for that "
                "step; take `predict(1, belief, controls=...)` and give its draws, or go on by `step`"
            )
        return self.recursion.run(rows, scaled, self._started(initial)), scaled

    def _after_first(self, rows: np.ndarray, controls: np.ndarray | None) -> np.ndarray:
        first = self.recursion.conditional_mean(rows[0])
        if len(rows) == 1:
            return first[None]
        ahead = self.recursion.predict(first, None if controls is None else controls[0])
        later = None if controls is None else controls[1:]
        return np.vstack([first[None], self.recursion.run(rows[1:], later, ahead)])

    def _started(self, initial: Any) -> Predicted:
        if initial is None:
            return self.recursion.start()
        if isinstance(initial, Belief):
            return self.recursion.predict(self.weights_of(initial))
        p = self.atoms.points.shape[1]
        return self.recursion.start(draws_of_states(self.units, initial, p, self.labels.states))

    def smoothed(self, observations: Any, initial: Any, controls: Any, times: Any) -> np.ndarray:
        """Smoothed weights (T, N)."""
        if not len(self.recursion.training.previous):
            raise ValueError(
                "the step back is learnt from transitions, and the filter was fitted to pairs alone; give "
                "`transitions` to fit, for instance draws of the known one"
            )
        weights, scaled = self.filtered(observations, initial, controls, times)
        return BackwardPass(self.recursion)(weights, scaled)

    def predicted(self, steps: int, belief: Belief | None, controls: Any) -> np.ndarray:
        """Weights (steps, N) of the times after a belief."""
        whole("steps", steps)
        rows = self.controls(controls, steps, steps)
        weights = self.recursion.start().weights if belief is None else self.weights_of(belief)
        ahead = []
        for t in range(steps):
            weights = self.recursion.predict(weights, None if rows is None else rows[t]).weights
            ahead.append(weights)
        return np.array(ahead)

    def stepped(self, belief: Belief | None, observation: Any, control: Any) -> np.ndarray:
        """Weights (N,) one step after a belief, given an observation."""
        if control is not None and not self.recursion.controlled:
            raise ValueError("a control is given, and the filter was fitted without; fit it with controls")
        named = self.labels.observations
        given = in_order(
            "the observation", observation, named, "those of the training's observations", gaps=True
        )
        # A Series or a dict is one row, and a data frame of one row is one, too.
        row = observed_rows(
            self.units, given if given.ndim == 2 and len(given) == 1 else np.atleast_1d(given)[None]
        )[0]
        warn_of_far(row[None], self.recursion.training.observations)
        if belief is None:
            return self.recursion.update(self.recursion.start(), row)
        acting = None
        if control is not None:
            named = self.labels.controls
            acting = np.atleast_2d(
                in_order("the control", control, named, "those of the training's controls")
            )
        rows = self.controls(acting, 1, 1)
        ahead = self.recursion.predict(self.weights_of(belief), None if rows is None else rows[0])
        return self.recursion.update(ahead, row)

    def controls(self, given: Any, needed: int, allowed: int) -> np.ndarray | None:
        """Controls, scaled: see `doors.controls_for`."""
        return controls_for(
            self.units, self.recursion.controlled, given, needed, allowed, self.labels.controls
        )

    def weights_of(self, belief: Belief) -> np.ndarray:
        """The weights of a belief of this filter."""
        if not isinstance(belief, Belief):
            raise TypeError(
                f"the belief is a {type(belief).__name__}; give a Belief, such as `filtered.last`"
            )
        # The very same: weights mean something beside these training states alone.
        if belief.atoms is not self.atoms:
            raise ValueError(
                "the belief is of another filter, with other training states; filter with one alone"
            )
        return belief.weights

    def belief(self, weights: np.ndarray) -> Belief:
        """Weights (N,) as a belief."""
        return Belief(weights, self.atoms, self.support, self.point, self.names)

    def states(self, weights: np.ndarray, kind: str, times: Any = None) -> FilteredStates:
        """Weights (T, N) as a result."""
        labels = np.arange(len(weights)) if times is None else np.asarray(times)
        return FilteredStates(weights, self.atoms, self.support, kind, self.point, self.names, labels)

    @property
    def support(self) -> Support:
        """Of the states: no edges."""
        return Support.unbounded(self.atoms.points.shape[1])


# --- smoothing: the backward pass ---


class BackwardPass:
    """Backward conditional means, reweighted at each time for what was known then."""

    def __init__(self, recursion: Recursion) -> None:
        data, how = recursion.training, recursion.how
        self._recursion = recursion
        self._previous, self._following = data.previous, data.following
        self._gram = part_of(recursion.states, data.following)
        before = part_of(recursion.states, data.previous)
        self._sum_rule = SumRule(before, recursion.settings.prior_regularisation, how.centred)
        self._controls: tuple[Kernel, np.ndarray] | None = None
        if data.controls is not None:
            assert recursion.settings.control_kernel is not None
            self._controls = recursion.settings.control_kernel, data.controls

    def __call__(self, filtered: np.ndarray, controls: np.ndarray | None = None) -> np.ndarray:
        """Smoothed weights (T, N) from filtered ones (T, N); the last are the same."""
        smoothed = filtered.copy()
        for t in range(len(filtered) - 2, -1, -1):
            smoothed[t] = self._step(filtered[t], smoothed[t + 1], None if controls is None else controls[t])
        return smoothed

    def _step(self, filtered: np.ndarray, ahead: np.ndarray, control: np.ndarray | None) -> np.ndarray:
        recursion = self._recursion
        values = recursion.states.apply(filtered)[self._previous]
        gamma = self._sum_rule(values, float(filtered.sum()))
        if self._controls is not None:
            assert control is not None
            kernel, rows = self._controls
            near = kernel(rows, control[None])[:, 0]
            # Transitions under another control than this one tell less: the control is known, and no
            # regressor.
            gamma = gamma * near * len(near) / max(near.sum(), 1e-300)
        at = recursion.states.apply(ahead)[self._following]
        weights = np.zeros_like(filtered)
        weights[self._previous] = conditioned(
            ImportanceWeighted(),
            self._gram,
            gamma,
            at,
            recursion.settings.backward_regularisation,
            recursion.how.centred,
            float(ahead.sum()),
        )
        return weights
