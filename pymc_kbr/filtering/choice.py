"""Settings chosen on the training sequence: closed forms where there are, its last part for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pymc_kbr.arrays.weighted import spread_out, spread_out_by_weight
from pymc_kbr.embedding.density_ratio import RATIO_REGULARISATIONS, leave_one_out_scores
from pymc_kbr.filtering.predicted_observations import KernelScore
from pymc_kbr.filtering.recursion import How, Recursion
from pymc_kbr.filtering.settings import FilterSettings, GivenSettings, of_family
from pymc_kbr.filtering.training import Joint, Training
from pymc_kbr.filtering.transitions import Regression
from pymc_kbr.gram.dense import CachedGram
from pymc_kbr.kernels import Kernel
from pymc_kbr.regression.choose_ridge import choose_kernel_and_ridge

STATE_SCALES = (0.2, 0.3, 0.5, 1.0, 2.0)
"""Bandwidths on the states that are tried, in medians of their distances."""

OBSERVATION_SCALES = (0.5, 1.0, 2.0, 4.0)
"""The same on the observations."""

REGULARISATIONS = {"iw_kbr": (1e-1, 1e-2, 1e-3, 1e-4), "kbr": (1e-2, 1e-3, 1e-4, 1e-5)}
"""lambda and delta that are tried."""

START = {"iw_kbr": (0.3, 2.0, 0.3), "kbr": (0.3, 1.0, 0.1)}
"""Both bandwidths, and n lambda or n delta, from which is departed on evidence alone."""

PRIOR_STRENGTH = 0.1
"""n eta, from which is departed for KuLSIF's eta."""

EVIDENCE = 2.0
"""Standard errors by which the held-out error of other settings must be lower to be taken."""

LAST_STEPS = 200
"""Steps of the training sequences that are held out for the choice, as in Xu 2022."""


@dataclass(frozen=True)
class Chosen:
    """Settings, the squared error a step that they had on the held-out part, and the filter there."""

    settings: FilterSettings
    error: float
    tried: int
    search: Search
    part: Recursion | None = None


def steps_held_out(training: Training, largest_share: float = 1 / 3, fewest: int = 20) -> int:
    """Last steps of the training sequences on which settings are chosen; none where they would be too few."""
    # At most a third: the rest is learnt from. Two blocks of ten are the fewest that have a standard error.
    steps = min(LAST_STEPS, int(largest_share * sum(training.lengths)))
    return steps if steps >= fewest else 0


class Search:
    """Filters with several settings on the first part of the training, scored on the last."""

    def __init__(
        self,
        training: Training,
        how: How,
        given: GivenSettings,
        steps: int,
        unlabelled: Sequence[np.ndarray] = (),
    ) -> None:
        self.training, self.how, self.given = training, how, given
        self.part = training
        # States (None where they are unknown), observations and controls.
        self.held: list[tuple[np.ndarray | None, np.ndarray, np.ndarray | None]] = []
        self._last: Recursion | None = None
        if unlabelled:
            self.held = [(None, rows, None) for rows in unlabelled]
        elif steps:
            self.part, held = training.split(steps)
            self.held = list(held)
        self.tried = 0

    @cached_property
    def score(self) -> KernelScore:
        """Of predicted observations, where states are unknown: the same for all settings."""
        return KernelScore(self.part.observations)

    def of_state_scale(self, scale: float, training: Training | None = None) -> FilterSettings:
        """Settings of a bandwidth on the states, with lambda' by leave-one-out; the rest to be chosen."""
        data, given, centred = training or self.training, self.given, self.how.centred
        kernel = of_family(given.state_kernel, given.state_bandwidth, scale, data.states)
        before, after = data.states[data.previous], data.states[data.following]
        control, joint, rows = None, kernel, before
        ridge = given.transition_regularisation
        if data.controls is not None:
            control = of_family(given.control_kernel, None, 1.0, data.controls)
            joint, rows = Joint(kernel, control, before.shape[1]), np.hstack([before, data.controls])
        if ridge is None:
            ridge = transition_ridge(rows, after, joint, centred) if len(before) else 1e-3
        # A Gram matrix grows with its rows, and n eta beside it stays: more data need no other strength.
        eta = given.prior_regularisation or PRIOR_STRENGTH / len(data.pairs)
        # Its place is taken when settings of the observations are tried.
        placeholder = of_family(given.observation_kernel, given.observation_bandwidth, 1.0, data.observations)
        return FilterSettings(
            kernel, placeholder, given.regularisation or 1e-3, eta, ridge, control_kernel=control
        )

    def kulsif(self, settings: FilterSettings, data: Training, beliefs_of: int = 4) -> float:
        """Eta with KuLSIF's smallest leave-one-out score for some predictions of the training."""
        kernel, centred = settings.state_kernel, self.how.centred
        if self.how.draw is not None:
            rows = data.states[data.pairs][spread_out(len(data.pairs), beliefs_of)]
            at = None if data.controls is None else data.controls[0]
            draws = self.how.draw(at, rows)
            beliefs = [(after, np.full(len(after), 1 / len(after))) for after in draws]
        else:
            before, after = data.states[data.previous], data.states[data.following]
            beliefs = predictions(before, after, kernel, settings.transition_regularisation, centred)
        return prior_ridge(data.states[data.pairs], beliefs, kernel, centred)

    def with_observations(
        self, settings: FilterSettings, scale: float, regularisation: float
    ) -> FilterSettings:
        """The same settings with another bandwidth on the observations and another lambda or delta."""
        given = self.given
        kernel = of_family(
            given.observation_kernel, given.observation_bandwidth, scale, self.training.observations
        )
        return replace(settings, observation_kernel=kernel, regularisation=regularisation)

    @property
    def last(self) -> Recursion:
        """The filter that was tried last."""
        assert self._last is not None
        return self._last

    def error(self, settings: FilterSettings) -> float:
        """Squared error a step on the held-out part; infinity where it is not finite."""
        error = float(self.squares(settings).mean())
        return error if np.isfinite(error) else np.inf

    def squares(self, settings: FilterSettings) -> np.ndarray:
        """Squared errors of filtered means at the held-out steps, or kernel scores of their predictions."""
        self.tried += 1
        # The last factorisations go on where kernels and ridges of the states are the same.
        recursion = self._last = Recursion(self.part, settings, self.how, self._last)
        squares = []
        for states, observations, controls in self.held:
            if states is None:
                steps = recursion.steps(observations, controls, recursion.start())
                scores = np.array(
                    [
                        self.score.of_weights(ahead.gamma, row)
                        for (ahead, _), row in zip(steps, observations, strict=True)
                    ]
                )
                squares.append(scores[~np.isnan(observations).all(axis=1)])
                continue
            weights = recursion.run(observations, controls, recursion.start())
            squares.append(np.sum((weights @ self.part.states - states) ** 2, axis=1))
        return np.concatenate(squares)


class BestSettings:
    """The best settings so far, with their held-out errors."""

    def __init__(self, search: Search, settings: FilterSettings) -> None:
        self._search, self.settings, self._squares = search, settings, search.squares(settings)
        self.recursion: Recursion | None = getattr(search, "last", None)

    @property
    def error(self) -> float:
        """Squared error a step."""
        return float(self._squares.mean())

    def challenge(self, others: Sequence[FilterSettings]) -> int | None:
        """Take the best of some other settings if it is better on evidence, and say which it was."""
        if not others:
            return None
        found, lowest, recursion = [], np.inf, self.recursion
        for one in others:
            found.append(self._search.squares(one))
            if found[-1].mean() < lowest:
                lowest, recursion = float(found[-1].mean()), getattr(self._search, "last", None)
        squares = np.array(found)
        means = np.where(np.isfinite(squares).all(axis=1), squares.mean(axis=1), np.inf)
        best = int(np.argmin(means))
        if not np.isfinite(means[best]) or not is_better(squares[best], self._squares):
            return None
        self.settings, self._squares, self.recursion = others[best], squares[best], recursion
        return best


def is_better(
    squares: np.ndarray,
    than: np.ndarray,
    *,
    # Held-out steps depend on each other: errors of so many are averaged before a standard error is taken.
    steps_in_block: int = 10,
) -> bool:
    """Whether errors (T,) are lower than others (T,) by `EVIDENCE` standard errors of the difference."""
    if not np.all(np.isfinite(than)):
        return True
    # Errors of neighbouring steps are dependent, and make each other's error look small; means of blocks are
    # hardly so.
    blocks = np.array_split(squares - than, max(2, len(squares) // steps_in_block))
    means = np.array([block.mean() for block in blocks])
    return bool(means.mean() < -EVIDENCE * means.std(ddof=1) / np.sqrt(len(means)))


def choose(
    training: Training, how: How, given: GivenSettings, unlabelled: Sequence[np.ndarray] = ()
) -> Chosen:
    """Settings for all training data, by held-out states or by predictions of unlabelled observations."""
    search = Search(training, how, given, steps_held_out(training), unlabelled)
    state, observation, strength = START[given.rule]
    if not search.held:
        return Chosen(finished(_by_regression(search, state), search), float("nan"), 0, search)
    free = isinstance(given.state_kernel, str) and given.state_bandwidth is None
    first = search.of_state_scale(state, search.part)
    ridge = given.regularisation or strength / len(training.pairs)
    held = BestSettings(search, search.with_observations(first, observation, ridge))
    grid = [point for point in _grid(given) if point != (observation, ridge)]
    found = held.challenge([search.with_observations(first, *point) for point in grid])
    point = (observation, ridge) if found is None else grid[found]
    if given.regularisation is None and found is not None and point[1] == min(REGULARISATIONS[given.rule]):
        point = _below(point, held, search, first)
    scales = [scale for scale in STATE_SCALES if scale != state] if free else []
    found = held.challenge(
        [search.with_observations(search.of_state_scale(scale, search.part), *point) for scale in scales]
    )
    # Medians and lambda' once more, of all rows; what the held-out steps chose is kept.
    settings = search.with_observations(
        search.of_state_scale(state if found is None else scales[found]), *point
    )
    if given.prior_regularisation is None:
        eta = search.kulsif(held.settings, search.part)
        if held.challenge([replace(held.settings, prior_regularisation=eta)]) is not None:
            settings = replace(settings, prior_regularisation=search.kulsif(settings, training))
    return Chosen(finished(settings, search), held.error, search.tried, search, held.recursion)


def _below(
    point: tuple[float, float],
    held: BestSettings,
    search: Search,
    settings: FilterSettings,
    *,
    # Smaller regularisations are tried while they are better, down to this one.
    least_regularisation: float = 1e-10,
) -> tuple[float, float]:
    """A bandwidth with tenths of its lambda or delta, as long as each is better than the one before."""
    while point[1] > least_regularisation:
        smaller = (point[0], point[1] / 10)
        if held.challenge([search.with_observations(settings, *smaller)]) is None:
            break
        point = smaller
    return point


def _grid(given: GivenSettings) -> list[tuple[float, float]]:
    """Bandwidths on the observations, in medians, with lambda or delta."""
    free = isinstance(given.observation_kernel, str) and given.observation_bandwidth is None
    ridges = REGULARISATIONS[given.rule] if given.regularisation is None else (given.regularisation,)
    return [(scale, ridge) for scale in (OBSERVATION_SCALES if free else (1.0,)) for ridge in ridges]


def _by_regression(search: Search, scale: float) -> FilterSettings:
    """Bandwidth and lambda of states on observations, by leave-one-out."""
    data, given = search.training, search.given
    settings = search.of_state_scale(scale)
    kernels = [
        of_family(given.observation_kernel, given.observation_bandwidth, s, data.observations)
        for s in OBSERVATION_SCALES
    ]
    ridges = None
    if given.regularisation is not None:
        ridges = (search.how.rule.ridge(given.regularisation) * len(data.pairs),)
    found = choose_kernel_and_ridge(
        data.observations,
        data.states[data.pairs],
        # A kernel that was given is the same at all scales.
        kernels[:1] if kernels[0] == kernels[-1] else kernels,
        ridges,
    )
    ridge = found.ridge / len(data.pairs)
    # delta is added to the square of what lambda is added to.
    regularisation = given.regularisation or (ridge if given.rule == "iw_kbr" else ridge**2)
    return replace(settings, observation_kernel=found.kernel, regularisation=regularisation)


def finished(settings: FilterSettings, search: Search) -> FilterSettings:
    """With the step back's ridge, on all training transitions."""
    data, given = search.training, search.given
    if given.backward_regularisation is not None:
        return replace(settings, backward_regularisation=given.backward_regularisation)
    if not len(data.previous):
        return settings
    before, after = data.states[data.previous], data.states[data.following]
    ridge = transition_ridge(after, before, settings.state_kernel, search.how.centred)
    return replace(settings, backward_regularisation=ridge)


# --- settings in closed form ---


def transition_ridge(given: np.ndarray, wanted: np.ndarray, kernel: Kernel, centred: bool) -> float:
    """Lambda' with the smallest leave-one-out error of the conditional mean of `wanted` given `given`."""
    # Shapes: given (m, q); wanted (m, p).
    return choose_kernel_and_ridge(given, wanted, [kernel], centred=centred).ridge / len(given)


def predictions(
    states: np.ndarray,
    following: np.ndarray,
    kernel: Kernel,
    regularisation: float,
    centred: bool,
    *,
    # Rows, and times whose predictions stand for the beliefs that a filter meets: eta's own leave-one-out
    # score is noisier than what more of them would change.
    most: int = 300,
    times: int = 4,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Beliefs one step ahead of some training states: draws and their weights, of either sign."""
    # Shapes: states, following (m, p).
    rows = spread_out(len(states), most)
    before, after = states[rows], following[rows]
    regression = Regression(CachedGram.of(kernel, before), regularisation, centred)
    at = before[spread_out(len(before), times)]
    return [(after, regression(values, 1.0)) for values in kernel(before, at).T]


def prior_ridge(
    states: np.ndarray,
    beliefs: Sequence[tuple[np.ndarray, np.ndarray]],
    kernel: Kernel,
    centred: bool,
    regularisations: Sequence[float] = RATIO_REGULARISATIONS,
    *,
    # As of `predictions`.
    most: int = 300,
) -> float:
    """Eta with the smallest leave-one-out score of KuLSIF, summed over beliefs."""
    # Shapes: states (n, p).
    theta = states[spread_out(len(states), most)]
    scores = np.zeros(len(regularisations))
    for points, weights in beliefs:
        # KuLSIF's score is of draws: a signed belief is one of draws that count for or against.
        rows, counts = spread_out_by_weight(np.abs(weights), most)
        a = np.sign(weights[rows]) * counts
        if a.sum() > 0:  # a belief of no mass has no ratio
            scores += leave_one_out_scores(kernel, theta, points[rows], regularisations, centred, a / a.sum())
    return float(regularisations[int(np.argmin(scores))])
