"""Smoothing of a kernel belief, and the choice between a belief by weights and one by its moments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_kbr.embedding.embedding import Atoms, Embedding
from pymc_kbr.embedding.projection import project_rows_to_simplex, project_to_simplex
from pymc_kbr.embedding.rules import ImportanceWeighted, Rule
from pymc_kbr.filtering.choice import Chosen, is_better
from pymc_kbr.filtering.gaussian import GaussianFilter, as_step
from pymc_kbr.filtering.recursion import Recursion
from pymc_kbr.filtering.transitions import SumRule, conditioned
from pymc_kbr.gram.dense import part_of
from pymc_kbr.kernels import Kernel


@dataclass(frozen=True)
class BeliefChoice:
    """Which belief is reported: by weights or by moments, and whether a step back is better than none."""

    gaussian: GaussianFilter | None = None
    smooths: bool = True
    skips: bool = False


PLAIN = BeliefChoice()
"""The equations alone."""


class BackwardPass:
    """Backward conditional means, reweighted at each time for what was known then."""

    # p(z_t | y_1..T) is the mean of p(z_t | z_t+1, y_1..t) over p(z_t+1 | y_1..T). The inner one is Bayes'
    # rule, its prior the filtered belief, gamma, and its likelihood the transition: linear in k(z'_i, z_t+1).

    def __init__(self, recursion: Recursion, ridge: float | None = None, rule: Rule | None = None) -> None:
        self._rule = ImportanceWeighted() if rule is None else rule
        self._ridge = recursion.settings.backward_regularisation if ridge is None else ridge
        data, how = recursion.training, recursion.how
        self._recursion = recursion
        self._atoms = Atoms(data.states, recursion.settings.state_kernel)
        self._largest = float(self._atoms.kernel.diag(data.states).max())
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
            weights = self._step(filtered[t], smoothed[t + 1], None if controls is None else controls[t])
            smoothed[t] = self._bounded(weights)
        return smoothed

    def _bounded(self, weights: np.ndarray) -> np.ndarray:
        """Weights as they are, or the nearest probabilities where no distribution has so large a norm."""
        total = float(weights.sum())
        # The norm of an embedding is at most that of a point: beyond it signed weights grow each step.
        if weights @ self._recursion.states.apply(weights) <= total**2 * self._largest * (1 + 1e-6):
            return weights
        scale = total if total > 0 else 1.0
        return scale * project_to_simplex(Embedding(self._atoms, weights / scale))

    def _step(self, filtered: np.ndarray, ahead: np.ndarray, control: np.ndarray | None) -> np.ndarray:
        """Weights (N,) from those of the next state, or (N, k) from k beliefs about it of the same sum."""
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
        weights = np.zeros_like(ahead)
        weights[self._previous] = conditioned(
            self._rule,
            self._gram,
            gamma,
            at,
            self._ridge,
            recursion.how.centred,
            float(ahead.sum()) if ahead.ndim == 1 else float(ahead[:, 0].sum()),
        )
        return weights

    def draw_paths(
        self, filtered: np.ndarray, controls: np.ndarray | None, draws: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Row numbers (draws, T) of training states: each path's state is drawn given the next one."""
        rows = np.empty((draws, len(filtered)), dtype=int)
        last = project_rows_to_simplex(self._atoms, filtered[-1:])[0]
        rows[:, -1] = rng.choice(len(last), size=draws, p=last / last.sum())
        for t in range(len(filtered) - 2, -1, -1):
            # Paths that meet in a state have the same distribution of the one before.
            met, which = np.unique(rows[:, t + 1], return_inverse=True)
            ahead = np.zeros((filtered.shape[1], len(met)))
            ahead[met, np.arange(len(met))] = 1
            given = self._step(filtered[t], ahead, None if controls is None else controls[t])
            shares = np.cumsum(project_rows_to_simplex(self._atoms, given.T), axis=1)
            at = rng.random(draws) * shares[which, -1]
            rows[:, t] = np.argmax(shares[which] > at[:, None], axis=1)
        return rows


def choose_belief(chosen: Chosen, correction: bool | None, final: GaussianFilter | None) -> BeliefChoice:
    """The belief with the lower error on the held-out steps, smoothed where that is better on evidence."""
    search = chosen.search
    if not search.held or chosen.part is None:
        return BeliefChoice(final if correction else None)
    # The step back's ridge is that of all transitions: it was chosen by leave-one-out.
    recursion, ridge = chosen.part, chosen.settings.backward_regularisation
    gaussian = None
    if final is not None:
        gaussian = GaussianFilter(search.part, search.how.draw, search.how.seed)
    by_weights: list[list[np.ndarray]] = [[], []]
    by_moments: list[list[np.ndarray]] = [[], []]
    if search.held[0][0] is None:
        return _by_predictions(chosen, correction, final)
    for states, observations, controls in search.held:
        assert states is not None
        weights = recursion.run(observations, controls, recursion.start())
        back = BackwardPass(recursion, ridge)(weights, controls)
        for found, one in zip(by_weights, (weights, back), strict=True):
            found.append(np.sum((one @ search.part.states - states) ** 2, axis=1))
        if gaussian is not None:
            beliefs, steps, _ = gaussian.run(observations, controls, as_step(gaussian.start))
            for found, those in zip(by_moments, (beliefs, gaussian.smooth(beliefs, steps)), strict=True):
                means = np.array([one.mean for one in those])
                found.append(np.sum((means - states) ** 2, axis=1))
    filtered, smoothed = map(np.concatenate, by_weights)
    if gaussian is not None:
        others = [np.concatenate(found) for found in by_moments]
        if correction or not is_better(filtered, others[0]):
            return BeliefChoice(final, bool(others[1].mean() < others[0].mean()))
    return BeliefChoice(None, is_better(smoothed, filtered), correction is None)


def _by_predictions(chosen: Chosen, correction: bool | None, final: GaussianFilter | None) -> BeliefChoice:
    """The belief whose predictions of unlabelled observations have the lower kernel score."""
    # The step back of weights is never better on evidence then: no states speak for it.
    search, recursion = chosen.search, chosen.part
    assert recursion is not None
    if final is None:
        return BeliefChoice(None, False, correction is None)
    squares, scores = search.squares(recursion.settings), []
    for _, rows, controls in search.held:
        predicted = final.run(rows, controls, as_step(final.start))[2]
        found = [search.score.of_mixture(one, row) for one, row in zip(predicted, rows, strict=True)]
        scores.append(np.array(found)[~np.isnan(rows).all(axis=1)])
    if correction or not is_better(squares, np.concatenate(scores)):
        return BeliefChoice(final)
    return BeliefChoice(None, False, correction is None)
