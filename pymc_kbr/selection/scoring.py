"""Held-out rows scored by the posteriors of a fitted estimator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_kbr.arrays.threads import side_by_side
from pymc_kbr.arrays.weighted import effective_sample_size
from pymc_kbr.estimators import Adjusted, Estimator
from pymc_kbr.posterior.scores import covered, energy_score
from pymc_kbr.selection.cost import SCORED_DRAWS, UNSMOOTHED

POWER = 0.1
"""Of distances in the energy score by which is chosen: below one, blurred modes and bends count more."""

SCORED_TOGETHER = 5
"""Held-out rows that a thread scores together; were it as many as there are for each core, rounding would
differ between machines.
"""

Line = tuple[float, np.ndarray, float]
"""Of a held-out row: its score, whether the central 90% of draws cover each parameter, and their size."""


@dataclass(frozen=True, eq=False)
class HeldOutScoring:
    """Scores held-out rows.

    Parameters
    ----------
    truth : ndarray of shape (r, p)
        Parameters of these rows.
    observed : ndarray of shape (r, d)
    unit : ndarray of shape (p,)
        Of the parameters, in which distances are measured.
    seed : int
        Of draws, with the row's number: each has a stream of its own, whichever thread scores it.
    """

    truth: np.ndarray
    observed: np.ndarray
    unit: np.ndarray
    seed: int

    def __call__(self, fitted: Estimator, rows: np.ndarray) -> list[Line]:
        """Score, coverage and effective sample size of held-out rows, by their numbers."""
        # Signed weights are projected in many small steps, which two threads only take from each other.
        if not isinstance(fitted, Adjusted):
            return self.here(fitted, rows)
        parts = [rows[i : i + SCORED_TOGETHER] for i in range(0, len(rows), SCORED_TOGETHER)]
        with side_by_side(len(parts)) as each:
            return [line for part in each(lambda part: self.here(fitted, part), parts) for line in part]

    def here(self, fitted: Estimator, rows: np.ndarray) -> list[Line]:
        """The same, all together."""
        lines = []
        # Repeated draws would count as lumps, which those that are made as asked for have none of.
        count = fitted.particles if fitted.draws_as_asked else SCORED_DRAWS
        for row, posterior in zip(rows.tolist(), fitted.condition(self.observed[rows]), strict=True):
            smoothing = "none" if posterior.effective_sample_size > UNSMOOTHED else None
            draws = posterior.draw(count, np.random.default_rng((self.seed, row)), smoothing=smoothing)
            score = energy_score(draws / self.unit, self.truth[row] / self.unit, POWER, fair=True)
            size = effective_sample_size(posterior.simplex_weights)
            lines.append((score, covered(draws, self.truth[row]), size))
        return lines
