"""A filter that was fitted: from a user's rows to beliefs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors

from pymc_kbr.arrays.labelled import in_order
from pymc_kbr.arrays.refusals import shown, whole
from pymc_kbr.arrays.scaling import unit_deviations
from pymc_kbr.arrays.support import Support
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.arrays.weighted import spread_out
from pymc_kbr.embedding.embedding import Atoms
from pymc_kbr.embedding.projection import project_rows_to_simplex
from pymc_kbr.embedding.rules import SquaredRule
from pymc_kbr.filtering.filtered_states import FilteredStates
from pymc_kbr.filtering.gaussian import (
    GaussianFilter,
    Mixture,
    Moments,
    Step,
    as_step,
    merged,
    moments_of_draws,
)
from pymc_kbr.filtering.predicted_observations import KernelScore, PredictedObservations, smoothed_atoms
from pymc_kbr.filtering.recursion import Belief, Recursion
from pymc_kbr.filtering.smoothing import PLAIN, BackwardPass, BeliefChoice
from pymc_kbr.filtering.training import UNLABELLED, Labels, Units, evenly_spaced
from pymc_kbr.filtering.transitions import Predicted
from pymc_kbr.filtering.validation import Point, controls_for, draws_of_states, observed_rows
from pymc_kbr.posterior.posterior import PosteriorWarning

# --- unreliable steps ---

REASONS = {
    "outside": "with an observation or a mean beyond the training rows",
    "effective_sample_size": "with an effective sample size below one: negative weights cancel the others",
    "edge": "with most of the weight at an outermost training state, as in the step before",
}
"""What a warning says of each flag."""


class Surroundings:
    """How far rows are from those of the training, beside how far its own rows are from the other tenths."""

    # Shapes: trained (n, d).
    def __init__(
        self,
        trained: np.ndarray,
        most: int = 2000,
        # Twice the largest gap hides what is beyond heavy tails: of rows at twice the radius of 99% of the
        # training (35 distributions of 1 to 5 columns, n = 200 to 1,000) 72% were flagged, and with this
        # 94%; of rows like the training 1% and .5%.
        level: float = 0.99,
    ) -> None:
        self._unit, self._most, self._level = unit_deviations(trained), most, level
        self._trained = trained / self._unit
        self._of_columns: dict[bytes, tuple[NearestNeighbors, float]] = {}

    def outside(self, rows: np.ndarray) -> np.ndarray:
        """Whether rows (T, d) are outside in the columns that are not NaN, shape (T,)."""
        found = np.zeros(len(rows), dtype=bool)
        there = ~np.isnan(rows)
        patterns, which = np.unique(there, axis=0, return_inverse=True)
        for i, columns in enumerate(patterns):
            if columns.any():
                at = np.flatnonzero(which.ravel() == i)
                neighbours, gap = self._in_columns(columns)
                apart, _ = neighbours.kneighbors((rows[at] / self._unit)[:, columns])
                found[at] = apart[:, 0] > 2 * gap
        return found

    def _in_columns(self, columns: np.ndarray) -> tuple[NearestNeighbors, float]:
        key = columns.tobytes()
        if key not in self._of_columns:
            # Of rows that are there twice the nearest other one is where they are.
            first = np.sort(np.unique(self._trained[:, columns], axis=0, return_index=True)[1])
            trained = self._trained[first][:, columns]
            gaps = [np.zeros(1)] if len(trained) == 1 else []
            # Neighbours in time are near to each other, and not to a row of another time.
            for part in np.array_split(np.arange(len(trained)), min(10, len(trained))):
                if len(trained) > 1:
                    few = part[spread_out(len(part), self._most // 10)]
                    others = NearestNeighbors(n_neighbors=1).fit(np.delete(trained, part, axis=0))
                    gaps.append(others.kneighbors(trained[few])[0][:, 0])
            gap = float(np.quantile(np.concatenate(gaps), self._level))
            self._of_columns[key] = NearestNeighbors(n_neighbors=1).fit(trained), gap
        return self._of_columns[key]


def flags_of(outside: np.ndarray, states: np.ndarray, weights: np.ndarray | None) -> dict[str, np.ndarray]:
    """Flags (T,) from what is outside, and from weights (T, N) of the states (N, p) where there are any."""
    few = edge = np.zeros(len(outside), dtype=bool)
    if weights is not None:
        # No probabilities have an effective sample size below one; rounding may leave one of them less.
        few = weights.sum(axis=1) ** 2 < np.sum(weights**2, axis=1) * (1 - 1e-9)
        positive = np.maximum(weights, 0)
        outermost = np.unique([states.argmin(axis=0), states.argmax(axis=0)])
        at_edge = positive[:, outermost] > positive.sum(axis=1, keepdims=True) / 2
        # Stuck: at the same state as in the step before.
        edge = np.concatenate([[False], (at_edge[1:] & at_edge[:-1]).any(axis=1)])
    return {"outside": outside, "effective_sample_size": few, "edge": edge}


def warn_of_unreliable_steps(flags: dict[str, np.ndarray], far: str) -> tuple[str, ...]:
    """Warn once of steps that have a flag, and return what was said."""
    doubtful = np.any(list(flags.values()), axis=0)
    if not doubtful.any():
        return ()
    counts = [f"{flag.sum()} {REASONS[name]}" for name, flag in flags.items() if flag.any()]
    said = (
        f"{far}{doubtful.sum()} of {len(doubtful)} steps ({doubtful.mean():.0%}) are unreliable, the first "
        f"of them step {np.flatnonzero(doubtful)[0]}: {'; '.join(counts)}. Their means are extrapolations "
        "and their bands may be too narrow (see `flags`); train on a sequence that goes as far"
    )
    warnings.warn(said, PosteriorWarning, stacklevel=users_line())
    return (said,)


def far_beyond(rows: np.ndarray, trained: np.ndarray, deviations: float = 10.0) -> str:
    """A sentence on observations (T, d) so far from all those of the training that units may be wrong."""
    unit = unit_deviations(trained)
    beyond = np.fmax(trained.min(axis=0) - rows, rows - trained.max(axis=0)) / unit
    far = beyond > deviations  # a gap is not far
    if not far.any():
        return ""
    row, column = np.argwhere(far)[0].tolist()
    return (
        f"{far.any(axis=1).sum()} observation(s) lie far beyond those of the training, the first of them "
        f"row {row} by {beyond[row, column]:.2g} deviations in column {column}: look at its units, or put "
        "NaN where it is an error. "
    )


# --- draws of whole paths ---


def warn_of_step_back(better: bool) -> None:
    """Warn of paths by a step back that no held-out steps speak for: smoothed states are filtered ones."""
    if not better:
        warnings.warn(
            "nothing held out shows that the step back does better than the filter, and smoothed states are "
            "the filtered ones: paths are drawn by it all the same, and each of their states may be "
            "elsewhere and wider than those; train on a longer sequence",
            PosteriorWarning,
            stacklevel=users_line(),
        )


@dataclass(frozen=True, eq=False)
class PathsOfMoments:
    """Draws of whole paths of a belief by its moments."""

    beliefs: list[Moments]
    steps: list[Step]
    units: Units
    better: bool

    def __call__(self, draws: int, rng: np.random.Generator) -> np.ndarray:
        """Paths (draws, T, p)."""
        warn_of_step_back(self.better)
        drawn = GaussianFilter.draw_paths(self.beliefs, self.steps, draws, rng)
        return drawn * self.units.deviation + self.units.centre


@dataclass(frozen=True, eq=False)
class PathsOfWeights:
    """Draws of whole paths among the training states."""

    # Shapes: filtered (T, N); states (N, p), in the user's units.
    back: BackwardPass
    filtered: np.ndarray
    controls: np.ndarray | None
    states: np.ndarray
    better: bool

    def __call__(self, draws: int, rng: np.random.Generator) -> np.ndarray:
        """Paths (draws, T, p)."""
        warn_of_step_back(self.better)
        return self.states[self.back.draw_paths(self.filtered, self.controls, draws, rng)]


@dataclass(frozen=True, eq=False)
class FittedFilter:
    """The recursion with the scale, the atoms and the names of what it was fitted to."""

    units: Units
    recursion: Recursion
    atoms: Atoms
    point: Point
    names: tuple[str, ...]
    labels: Labels = UNLABELLED
    how: BeliefChoice = PLAIN

    def with_transition(self, draw: Any) -> FittedFilter:
        """The same with another known transition."""
        recursion, gaussian = self.recursion.with_transition(draw), self.how.gaussian
        if gaussian is not None:
            training = self.recursion.training
            gaussian = GaussianFilter(training, draw, self.recursion.how.seed, gaussian)
        return replace(self, recursion=recursion, how=replace(self.how, gaussian=gaussian))

    def run(
        self, observations: Any, initial: Any, controls: Any, times: Any, smooth: bool = False
    ) -> FilteredStates:
        """Filtered or smoothed states."""
        gaussian = self.how.gaussian
        paths: Any = None
        if smooth:
            self.check_smooths()
        rows = observed_rows(self.units, observations, self.labels.observations)
        if smooth and np.isnan(rows).all():
            raise ValueError(
                f"all {len(rows)} observations are NaN in all columns: nothing comes later that a step back "
                f"could use; take `filter`, or `predict({len(rows)}, belief)`"
            )
        evenly_spaced(times, len(rows))
        outside = self._seen.outside(rows)
        kind = "smoothed" if smooth else "filtered"
        if gaussian is None:
            weights, scaled = self.filtered(self.usable(rows, outside), initial, controls)
            if smooth:
                back = BackwardPass(self.recursion)
                paths = PathsOfWeights(back, weights, scaled, self.atoms.points, self.how.smooths)
                weights = back(weights, scaled) if self.how.smooths else weights
            return self.states(weights, kind, times, None, rows, outside, paths)
        first, scaled = self._first(initial), self.controls(controls, len(rows) - 1, len(rows))
        beliefs, steps, _ = gaussian.run(rows, scaled, first)
        if smooth:
            paths = PathsOfMoments(beliefs, steps, self.units, self.how.smooths)
            beliefs = gaussian.smooth(beliefs, steps) if self.how.smooths else beliefs
        return self.states(
            lambda: self.filtered(rows, initial, controls)[0], kind, times, beliefs, rows, outside, paths
        )

    def usable(self, rows: np.ndarray, outside: np.ndarray) -> np.ndarray:
        """Scaled observations (T, d), NaN where they are outside and the belief is one of chosen weights."""
        # What no training row is like is no evidence to a regression: the prediction goes on.
        skips = self.how.skips and self.how.gaussian is None
        return np.where(outside[:, None], np.nan, rows) if skips else rows

    def check_smooths(self) -> None:
        """Refuse a step back of weights that was not learnt."""
        if self.how.gaussian is None and not len(self.recursion.training.previous):
            raise ValueError(
                "the step back is learnt from transitions, and the filter was fitted to pairs alone; give "
                "`transitions` to fit, for instance draws of the known one, or take correction=True"
            )

    def predicted_observations(
        self, observations: Any, initial: Any, controls: Any, times: Any
    ) -> PredictedObservations:
        """Each observation given those before it."""
        rows = observed_rows(self.units, observations, self.labels.observations)
        evenly_spaced(times, len(rows))
        self._check_initial(initial)
        scaled = self.controls(controls, len(rows) - 1, len(rows))
        gaussian, recursion = self.how.gaussian, self.recursion
        training = recursion.training.observations
        outside = self._seen.outside(rows)
        seen = self.usable(rows, outside)

        def weights() -> np.ndarray:
            return np.array([ahead.gamma for ahead, _ in self.steps(seen, scaled, initial)])

        kept: Any = weights
        score = KernelScore(training)
        if gaussian is None:
            kept = weights()
            kernel = recursion.settings.observation_kernel
            projected = project_rows_to_simplex(Atoms(training, kernel), kept)
            found = [smoothed_atoms(training, shares) for shares in projected]
            scores = [score.of_weights(w, row) for w, row in zip(kept, rows, strict=True)]
        else:
            found = gaussian.run(rows, scaled, self._first(initial))[2]
            scores = [score.of_mixture(one, row) for one, row in zip(found, rows, strict=True)]
        if gaussian is not None:
            means = np.array([np.exp(one.shares) @ one.means for one in found])
            outside = outside | self._seen.outside(means)
        flags = {"outside": outside}
        said = warn_of_unreliable_steps(flags, far_beyond(rows, training))
        names, centre, unit = self.units.of_predictions(rows.shape[1], self.labels.observations)
        mixtures = []
        for one in found:
            squares = unit**2 if one.covariances.ndim == 2 else np.outer(unit, unit)
            mixtures.append(Mixture(one.shares, one.means * unit + centre, one.covariances * squares))
        return PredictedObservations(
            tuple(mixtures),
            rows * unit + centre,
            kept,
            Atoms(training, recursion.settings.observation_kernel),
            np.array(scores),
            names,
            np.arange(len(rows)) if times is None else np.asarray(times),
            flags,
            said,
        )

    def _first(self, initial: Any) -> Step:
        """The moments before the first observation."""
        gaussian = self.how.gaussian
        assert gaussian is not None
        self._check_initial(initial)
        if isinstance(initial, Belief):
            return gaussian.predict(self.moments_of(initial))
        # "published" and the regression of "conditional_mean" stand for the training's own distribution, too.
        if initial is None or isinstance(initial, str):
            return as_step(gaussian.start)
        draws = draws_of_states(self.units, initial, self.atoms.points.shape[1], self.labels.states)
        return as_step(moments_of_draws(draws))

    def _check_initial(self, initial: Any) -> None:
        if isinstance(initial, str) and initial not in ("conditional_mean", "published"):
            raise ValueError(
                f"initial is {shown(initial)}; it may be draws (l, p), a Belief, 'conditional_mean' or "
                "'published'"
            )
        if isinstance(initial, Belief) and self.recursion.controlled:
            raise ValueError(
                "a filter with controls cannot start from the belief before, since no control is known for "
                "that step; take `predict(1, belief, controls=...)` and give its draws, or go on by `step`"
            )

    def filtered(self, rows: np.ndarray, initial: Any, controls: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """Weights (T, N) given scaled observations (T, d), and the scaled controls."""
        # The last row's control acts after all observations: it may be given, and is not read.
        scaled = self.controls(controls, len(rows) - 1, len(rows))
        self._check_initial(initial)
        weights = np.empty((len(rows), self.recursion.size))
        for t, (_, after) in enumerate(self.steps(rows, scaled, initial)):
            weights[t] = after
        return weights, scaled

    def steps(
        self, rows: np.ndarray, controls: np.ndarray | None, initial: Any
    ) -> Iterator[tuple[Predicted, np.ndarray]]:
        """Each step's prediction and the weights after its observation, from scaled rows and controls."""
        recursion, started, ridge = self.recursion, self._started(initial), None
        squared = isinstance(recursion.how.rule, SquaredRule)
        if not isinstance(initial, str) or (initial == "published" and not squared):
            yield from recursion.steps(rows, controls, started)
            return
        if initial == "published":
            # Fukumizu 2013 starts with eq. 8, whose epsilon is that of eq. 17.
            ridge = recursion.settings.prior_regularisation
        # No update of a prior: the regression stands for prior and likelihood together.
        first = recursion.conditional_mean(rows[0], ridge)
        yield started, first
        if len(rows) > 1:
            ahead = recursion.predict(first, None if controls is None else controls[0])
            yield from recursion.steps(rows[1:], None if controls is None else controls[1:], ahead)

    def _started(self, initial: Any) -> Predicted:
        if isinstance(initial, str) and initial == "published":
            return self.recursion.start_of_embedding()
        if initial is None or isinstance(initial, str):
            return self.recursion.start()
        if isinstance(initial, Belief):
            self.check_belief(initial)
            return self.recursion.predict(initial.weights)
        p = self.atoms.points.shape[1]
        return self.recursion.start(draws_of_states(self.units, initial, p, self.labels.states))

    def predicted(self, steps: int, belief: Belief | None, controls: Any) -> FilteredStates:
        """The states at the times after a belief."""
        whole("steps", steps)
        rows = self.controls(controls, steps, steps)
        if belief is not None:
            self.check_belief(belief)

        def weights() -> np.ndarray:
            now, ahead = self.recursion.start().weights if belief is None else belief.weights, []
            for t in range(steps):
                now = self.recursion.predict(now, None if rows is None else rows[t]).weights
                ahead.append(now)
            return np.array(ahead)

        gaussian = self.how.gaussian
        if gaussian is None:
            return self.states(weights(), "predicted")
        now, ahead = gaussian.start if belief is None else self.moments_of(belief), []
        for t in range(steps):
            step = gaussian.predict(now, None if rows is None else rows[t])
            now = merged(step.shares, step.means, step.covariances)
            ahead.append(now)
        return self.states(weights, "predicted", moments=ahead)

    def stepped(self, belief: Belief | None, observation: Any, control: Any) -> Belief:
        """One step after a belief, given an observation."""
        if control is not None and not self.recursion.controlled:
            raise ValueError("a control is given, and the filter was fitted without; fit it with controls")
        named = self.labels.observations
        given = in_order(
            "the observation", observation, named, "those of the training's observations", gaps=True
        )
        # A Series or a dict is one row, and a data frame of one row is one, too.
        row = observed_rows(
            self.units, given if given.ndim == 2 and len(given) == 1 else np.atleast_1d(given)[None]
        )
        outside = self._seen.outside(row)
        gaussian, acting = self.how.gaussian, None
        if belief is not None:
            self.check_belief(belief)
            if control is not None:
                named = self.labels.controls
                acting = np.atleast_2d(
                    in_order("the control", control, named, "those of the training's controls")
                )
            acting = self.controls(acting, 1, 1)
        seen = self.usable(row, outside)[0]

        def weights() -> np.ndarray:
            if belief is None:
                ahead = self.recursion.start()
            else:
                ahead = self.recursion.predict(belief.weights, None if acting is None else acting[0])
            return self.recursion.update(ahead, seen)

        if gaussian is None:
            return self.states(weights()[None], "filtered", None, None, row, outside)[0]
        step = as_step(gaussian.start)
        if belief is not None:
            step = gaussian.predict(self.moments_of(belief), None if acting is None else acting[0])
        after = gaussian.update(step, row[0])
        return self.states(lambda: weights()[None], "filtered", None, [after], row, outside)[0]

    def controls(self, given: Any, needed: int, allowed: int) -> np.ndarray | None:
        """Controls, scaled: see `controls_for`."""
        return controls_for(
            self.units, self.recursion.controlled, given, needed, allowed, self.labels.controls
        )

    def check_belief(self, belief: Belief) -> None:
        """Refuse what is no belief of this filter."""
        if not isinstance(belief, Belief):
            raise TypeError(
                f"the belief is a {type(belief).__name__}; give a Belief, such as `filtered.last`"
            )
        # The very same: weights mean something beside these training states alone.
        if belief.atoms is not self.atoms:
            raise ValueError(
                "the belief is of another filter, with other training states; filter with one alone"
            )

    def moments_of(self, belief: Belief) -> Moments:
        """The moments of a belief of this filter, scaled."""
        self.check_belief(belief)
        assert belief.moments is not None
        unit = self.units.deviation
        return Moments(
            self.units.states(belief.moments.mean), belief.moments.covariance / np.outer(unit, unit)
        )

    def states(
        self,
        weights: Any,
        kind: str,
        times: Any = None,
        moments: list[Moments] | None = None,
        rows: np.ndarray | None = None,
        outside: np.ndarray | None = None,
        paths: Any = None,
    ) -> FilteredStates:
        """A result with the warnings about its steps; weights (T, N), or a function that makes them."""
        unit, both = self.units.deviation, None
        count = len(weights) if moments is None else len(moments)
        if moments is None:
            means = self.units.states(weights @ self.atoms.points)
        else:
            means = np.array([one.mean for one in moments])
            covariances = np.array([one.covariance for one in moments]) * np.outer(unit, unit)
            both = means * unit + self.units.centre, covariances
        training = self.recursion.training
        if moments is None:
            # A mean between the training states, as on a circle, is one of a belief that has several modes.
            low, high = training.states.min(axis=0), training.states.max(axis=0)
            beyond = np.any((means < low) | (means > high), axis=1)
        else:
            beyond = self._passed.outside(means)
        outside = beyond if outside is None else beyond | outside
        flags = flags_of(outside, training.states, weights if moments is None else None)
        said = warn_of_unreliable_steps(
            flags, "" if rows is None else far_beyond(rows, training.observations)
        )
        labels = np.arange(count) if times is None else np.asarray(times)
        return FilteredStates(
            weights, self.atoms, self.support, kind, self.point, self.names, labels, both, flags, said, paths
        )

    @cached_property
    def _seen(self) -> Surroundings:
        return Surroundings(self.recursion.training.observations)

    @cached_property
    def _passed(self) -> Surroundings:
        return Surroundings(self.recursion.training.states)

    @property
    def support(self) -> Support:
        """Of the states: no edges."""
        return Support.unbounded(self.atoms.points.shape[1])
