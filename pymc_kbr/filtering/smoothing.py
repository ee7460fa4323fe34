"""The states given all observations: backwards through the filtered beliefs."""

from __future__ import annotations

import numpy as np

from pymc_kbr.embedding.rules import ImportanceWeighted
from pymc_kbr.filtering.conditioning import conditioned
from pymc_kbr.filtering.recursion import Recursion
from pymc_kbr.filtering.transitions import SumRule
from pymc_kbr.gram.kept import part_of
from pymc_kbr.kernels import Kernel


class BackwardPass:
    """Backward conditional means, reweighted at each time for what was known then.

    Parameters
    ----------
    recursion : Recursion
        Of the filter, with a learnt transition.

    Notes
    -----
    p(z_t | x_1..T) is the mean of p(z_t | z_t+1, x_1..t) under p(z_t+1 | x_1..T). The inner one is a
    posterior by itself, with the filtered belief as the prior of z_t and the training transitions (z_j,
    z_j+1) as the table: importance-weighted kernel Bayes' rule with gamma, the filtered belief's weights on
    the states z_j, conditioned on the embedding of the smoothed belief at t + 1 in the place of a point,

    s_t = D^(1/2) (D^(1/2) G_next D^(1/2) + lambda I)^-1 D^(1/2) h,   h_j = sum_i s_t+1,i k(z_j+1, z_i).

    This is forward filtering and backward smoothing with both of its densities as embeddings. Neither paper
    derives a smoother.
    """

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
