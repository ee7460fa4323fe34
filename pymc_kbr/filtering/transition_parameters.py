"""Parameters of a transition of known form, learnt from observations beside the states."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import logsumexp

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.labelled import in_order
from pymc_kbr.arrays.names import labels_of
from pymc_kbr.arrays.refusals import generator_of, shown, whole
from pymc_kbr.arrays.support import Support, support_of
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.embedding.embedding import Atoms
from pymc_kbr.embedding.projection import project_rows_to_simplex
from pymc_kbr.filtering.filtered_states import FilteredStates
from pymc_kbr.filtering.fitted import (
    FittedFilter,
    PathsOfMoments,
    PathsOfWeights,
    far_beyond,
    warn_of_unreliable_steps,
)
from pymc_kbr.filtering.gaussian import GaussianFilter, Moments, Step, merged
from pymc_kbr.filtering.predicted_observations import log_density, smoothed_atoms
from pymc_kbr.filtering.smoothing import BackwardPass
from pymc_kbr.filtering.training import evenly_spaced
from pymc_kbr.filtering.validation import observed_rows
from pymc_kbr.kernels import parameter_kernel
from pymc_kbr.posterior.posterior import Posterior, PosteriorWarning


@dataclass(frozen=True, eq=False)
class Candidates:
    """Values of the parameters that are tried, with the prior's weights and names."""

    # Shapes: values (m, q); logs (m,).
    values: np.ndarray
    logs: np.ndarray
    names: tuple[str, ...]

    @classmethod
    def of(cls, values: Any, weights: Any, names: tuple[str, ...] | None = None) -> Candidates:
        """From a grid or draws (m, q), and the prior's weights where they are no draws of it."""
        names = names or labels_of(values)
        rows = in_order("the parameters", values, names, "those of the parameters")
        if rows.ndim == 1:
            rows = rows[:, None]
        if rows.ndim != 2 or len(rows) < 2 or not rows.shape[1] or not np.all(np.isfinite(rows)):
            raise ValueError(
                f"the parameters have shape {rows.shape}; give finite draws of their prior, or a grid, "
                "(m, q) of two or more rows"
            )
        given = np.ones(len(rows)) if weights is None else np.asarray(weights, dtype=float)
        if given.shape != (len(rows),) or not np.all(given >= 0) or not 0 < given.sum() < np.inf:
            raise ValueError(
                f"the prior's weights are {shown(weights)}; give one for each of the {len(rows)} rows of the "
                "parameters, none negative, and some positive"
            )
        with np.errstate(divide="ignore"):
            logs = np.log(given / given.sum())
        return cls(rows, logs, names or tuple(f"parameter_{i}" for i in range(rows.shape[1])))


@dataclass(frozen=True, eq=False)
class At:
    """A transition at one value of its parameters: a function of states, controls if any, and a generator."""

    # Shapes: value (q,).
    function: Callable[..., Any]
    value: np.ndarray

    def __call__(self, states: np.ndarray, *rest: Any) -> Any:
        """Next states (k, p) after states (k, p)."""
        # A copy for each call: the function may write into what it is given.
        return self.function(states, np.tile(self.value, (len(states), 1)), *rest)


@dataclass(frozen=True, eq=False)
class Run:
    """What one value of the parameters made of the observations."""

    fitted: FittedFilter
    log_scores: np.ndarray
    beliefs: list[Moments] | None = None
    steps: list[Step] | None = None


@default_arithmetic
@dataclass(frozen=True, eq=False, repr=False)
class TransitionParameters:
    """What observations say of a transition's parameters, and of the states under that uncertainty.

    Parameters
    ----------
    posterior : Posterior
        Of the parameters given all observations.
    log_scores : ndarray of shape (T, m)
        Log density of each observation given those before it, in the filter's units, under each value of the
        parameters; zero where nothing was seen.
    weights : ndarray of shape (T, m)
        Probabilities of the values given the observations up to each time.
    """

    posterior: Posterior
    log_scores: np.ndarray
    weights: np.ndarray
    _runs: tuple[Run, ...] = field(repr=False)
    _rows: np.ndarray = field(repr=False)
    _given: dict[str, Any] = field(repr=False)

    def __repr__(self) -> str:
        steps, count = self.log_scores.shape
        named = ", ".join(self.posterior.names or ())
        return f"<TransitionParameters: {named}, {count} values, {steps} times>"

    def filter(self) -> FilteredStates:
        """The state at each time given the observations up to it, over the parameters given the same.

        Returns
        -------
        FilteredStates
        """
        return self._states("filtered", self.weights)

    def smooth(self) -> FilteredStates:
        """The state at each time, over the parameters, both given all observations.

        Returns
        -------
        FilteredStates

        Raises
        ------
        ValueError
            If the belief is by weights and no transitions were there to learn the step back from.
        """
        self._runs[0].fitted.check_smooths()
        return self._states("smoothed", np.tile(self.weights[-1], (len(self.weights), 1)))

    def draw(
        self, draws: int, random_seed: int | np.random.Generator | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draws of parameters together with whole paths of the states.

        Parameters
        ----------
        draws : int
        random_seed : int or numpy.random.Generator, optional

        Returns
        -------
        tuple of ndarray, (draws, q) and (draws, T, p)
            Parameters are among the values that were given.

        Raises
        ------
        TypeError, ValueError
            If the number of draws is not whole, or below one, or as `smooth`.
        """
        whole("draws", draws)
        self._runs[0].fitted.check_smooths()
        rng = generator_of(random_seed)
        which = np.sort(rng.choice(len(self._runs), size=draws, p=self.weights[-1]))
        parts = []
        for i, count in zip(*np.unique(which, return_counts=True), strict=True):
            parts.append(self._paths(self._runs[i])(int(count), rng))
        # In no order: any few of the draws stand for the posterior.
        order = rng.permutation(draws)
        return self.posterior.atoms[which][order], np.concatenate(parts)[order]

    def _draw_paths(self, draws: int, rng: np.random.Generator) -> np.ndarray:
        return self.draw(draws, rng)[1]

    def _paths(self, run: Run) -> PathsOfMoments | PathsOfWeights:
        if run.beliefs is not None and run.steps is not None:
            return PathsOfMoments(run.beliefs, run.steps, run.fitted.units, run.fitted.how.smooths)
        seen = run.fitted.usable(self._rows, self._runs[0].fitted._seen.outside(self._rows))
        weights, controls = run.fitted.filtered(seen, **self._given)
        back = BackwardPass(run.fitted.recursion)
        return PathsOfWeights(back, weights, controls, run.fitted.atoms.points, run.fitted.how.smooths)

    def _states(self, kind: str, shares: np.ndarray) -> FilteredStates:
        # Shapes: shares (T, m).
        first, smooth = self._runs[0].fitted, kind == "smoothed"
        outside = first._seen.outside(self._rows)
        # A product with less than this is lost in rounding.
        used = np.flatnonzero(shares.max(axis=0) > np.finfo(float).eps)

        def weights() -> np.ndarray:
            total = np.zeros((len(shares), len(first.atoms.points)))
            for i in used:
                one = self._runs[i].fitted
                found, controls = one.filtered(one.usable(self._rows, outside), **self._given)
                if smooth and one.how.gaussian is None and one.how.smooths:
                    found = BackwardPass(one.recursion)(found, controls)
                total += shares[:, i, None] * found
            return total

        paths = self._draw_paths if smooth else None
        if first.how.gaussian is None:
            return first.states(weights(), kind, None, None, self._rows, outside, paths)
        found = []
        for i in used:
            run = self._runs[i]
            assert run.beliefs is not None
            assert run.steps is not None
            back = smooth and run.fitted.how.smooths
            found.append(GaussianFilter.smooth(run.beliefs, run.steps) if back else run.beliefs)
        with np.errstate(divide="ignore"):
            logs = np.log(shares[:, used])
        mixed = [
            merged(log, np.array([b.mean for b in those]), np.array([b.covariance for b in those]))
            for log, those in zip(logs, zip(*found, strict=True), strict=True)
        ]
        return first.states(weights, kind, None, mixed, self._rows, outside, paths)


def learnt_parameters(
    fitted: FittedFilter,
    draw: Callable[[Callable[..., Any]], Any],
    function: Callable[..., Any],
    candidates: Candidates,
    observations: Any,
    initial: Any,
    controls: Any,
    support: Support | None,
) -> TransitionParameters:
    """Values of the parameters weighted by how well they predict each observation from those before it."""
    rows = observed_rows(fitted.units, observations, fitted.labels.observations)
    evenly_spaced(None, len(rows))
    if np.isnan(rows).all():
        raise ValueError(f"all {len(rows)} observations are NaN: nothing is known of the parameters by them")
    outside = fitted._seen.outside(rows)
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused below
        runs = tuple(
            _run(fitted.with_transition(draw(At(function, value))), rows, outside, initial, controls)
            for value in candidates.values
        )
    scores = np.stack([run.log_scores for run in runs], axis=1)
    scores[np.isnan(rows).all(axis=1)] = 0.0
    # What is no number came of steps too large for floating point.
    wrong = ~np.isfinite(scores).all(axis=0)
    if wrong.any():
        first = dict(zip(candidates.names, candidates.values[wrong][0].tolist(), strict=True))
        raise ValueError(
            f"the predictions are not finite at {wrong.sum()} of {len(runs)} values of the parameters, the "
            f"first of them {first}: look at the steps there, or leave these values out"
        )
    warn_of_unreliable_steps({"outside": outside}, far_beyond(rows, fitted.recursion.training.observations))
    logs = candidates.logs + np.cumsum(scores, axis=0)
    weights = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
    # One value that has more weight than all others together shows no width.
    if weights[-1].max() > 0.5:
        best = dict(zip(candidates.names, candidates.values[np.argmax(weights[-1])].tolist(), strict=True))
        warnings.warn(
            f"more than half of the posterior is at one of the {len(runs)} values of the parameters, {best}: "
            "they are too far apart to show its width; give more of them near to it",
            PosteriorWarning,
            stacklevel=users_line(),
        )
    posterior = Posterior.of(
        Atoms(candidates.values, parameter_kernel(candidates.values)),
        weights[-1],
        support_of(support, candidates.values.shape[1]),
        names=candidates.names,
    )
    return TransitionParameters(
        posterior, scores, weights, runs, rows, {"initial": initial, "controls": controls}
    )


def _run(fitted: FittedFilter, rows: np.ndarray, outside: np.ndarray, initial: Any, controls: Any) -> Run:
    scaled = fitted.controls(controls, len(rows) - 1, len(rows))
    gaussian = fitted.how.gaussian
    if gaussian is not None:
        beliefs, steps, mixtures = gaussian.run(rows, scaled, fitted._first(initial))
        scores = [log_density(one, row) for one, row in zip(mixtures, rows, strict=True)]
        return Run(fitted, np.array(scores), beliefs, steps)
    recursion = fitted.recursion
    gammas = np.array(
        [ahead.gamma for ahead, _ in fitted.steps(fitted.usable(rows, outside), scaled, initial)]
    )
    training = recursion.training.observations
    projected = project_rows_to_simplex(Atoms(training, recursion.settings.observation_kernel), gammas)
    scores = [
        log_density(smoothed_atoms(training, shares), row)
        for shares, row in zip(projected, rows, strict=True)
    ]
    return Run(fitted, np.array(scores))
