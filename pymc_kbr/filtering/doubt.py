"""Which steps of a filter are in doubt, and the one warning that says so."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.neighbors import NearestNeighbors

from pymc_kbr.arrays.scaling import unit_deviations
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.arrays.weighted import spread_out
from pymc_kbr.posterior.doubt import PosteriorWarning

REASONS = {
    "outside": "with an observation or a mean beyond the training rows",
    "effective_sample_size": "with an effective sample size below one: negative weights cancel the others",
    "edge": "with most of the weight at an outermost training state, as in the step before",
}
"""What a warning says of each flag."""


class Surroundings:
    """How far rows are from those of the training: one is outside beyond twice the training's largest gap."""

    # Shapes: trained (n, d).

    def __init__(self, trained: np.ndarray, most: int = 2000) -> None:
        self._unit, self._most = unit_deviations(trained), most
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
            trained = np.unique(self._trained[:, columns], axis=0)
            neighbours = NearestNeighbors(n_neighbors=1).fit(trained)
            # The distance of a training row to the nearest other one.
            few = trained[spread_out(len(trained), self._most)]
            gap = neighbours.kneighbors(few, 2)[0][:, 1].max() if len(trained) > 1 else 0.0
            self._of_columns[key] = neighbours, float(gap)
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


def warn_of_doubt(flags: dict[str, np.ndarray], far: str) -> tuple[str, ...]:
    """Warn once of steps that have a flag, and return what was said."""
    doubtful = np.any(list(flags.values()), axis=0)
    if not doubtful.any():
        return ()
    counts = [f"{flag.sum()} {REASONS[name]}" for name, flag in flags.items() if flag.any()]
    said = (
        f"{far}{doubtful.sum()} of {len(doubtful)} steps ({doubtful.mean():.0%}) are in doubt, the first of "
        f"them step {np.flatnonzero(doubtful)[0]}: {'; '.join(counts)}. Their means are extrapolations and "
        "their bands may be too narrow (see `flags`); train on a sequence that goes as far"
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
