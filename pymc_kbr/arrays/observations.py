"""Observations as users give them, checked once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_kbr.arrays.names import by_name


@dataclass(frozen=True, eq=False)
class Observations:
    """One observation, or several, in the order of a table's statistics."""

    # Shapes: rows (k, d).
    rows: np.ndarray
    single: bool

    @classmethod
    def of(
        cls, observed: Any, d: int, names: Sequence[str] | None = None, *, gaps: bool = False
    ) -> Observations:
        """Read what a user gave."""
        # Shapes: observed (d,) or (k, d).
        given = by_name(observed, names, gaps=gaps)
        allowed = (
            f"the estimator was fitted on {d} statistics, so it must have shape ({d},), or (k, {d}) for k"
        )
        if given.ndim not in (1, 2) or given.shape[-1] != d:
            raise ValueError(f"the observation has shape {given.shape}; {allowed} observations")
        if len(given) == 0:
            raise ValueError(
                f"there is no observation: the shape is {given.shape}; {allowed} of them, at least one"
            )
        rows = np.atleast_2d(given)
        missing = np.isnan(rows)
        bad = np.isinf(rows) if gaps else np.isinf(rows) | missing
        if np.any(bad):
            columns = np.flatnonzero(bad.any(axis=0)).tolist()
            what, hint = (
                ("infinite", "give NaN where one is missing")
                if gaps
                else ("NaN or infinite", "all are needed")
            )
            raise ValueError(f"the observation is {what} in statistics {columns}; {hint}")
        empty = np.flatnonzero(missing.all(axis=1))
        if len(empty):
            raise ValueError(
                f"all statistics are missing in {len(empty)} observation(s), the first in row {empty[0]}: "
                "they have no posterior but the prior; leave them out"
            )
        return cls(rows, given.ndim == 1)

    @classmethod
    def held_by(cls, table: Any) -> Observations:
        """A table's own observation, which the table has checked; refused where there is none."""
        if table.observed is None:
            raise ValueError("the reference table has no observation; set one with `with_observed`")
        return cls(table.observed[None], True)

    @property
    def incomplete(self) -> bool:
        """Whether a statistic is missing."""
        return bool(np.any(np.isnan(self.rows)))

    def patterns(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each set of statistics that some observations have: its columns, and the rows that have it."""
        patterns, which = np.unique(np.isnan(self.rows), axis=0, return_inverse=True)
        return [
            # Of rows some versions of NumPy give the inverse a second axis.
            (np.flatnonzero(~missing), np.flatnonzero(which.ravel() == number))
            for number, missing in enumerate(patterns)
        ]

    def part(self, rows: np.ndarray, columns: np.ndarray) -> Observations:
        """Some of the observations, with some of their statistics, by their numbers."""
        return Observations(self.rows[np.ix_(rows, columns)], False)


def trials_of(observed: Any, d: int, names: Sequence[str] | None = None) -> tuple[list[np.ndarray], bool]:
    """Data sets of trials, each of shape (r, d) in the order of names, and whether a single one was given."""
    # What is missing is NaN.
    single = not isinstance(observed, list | tuple)
    sets = [observed] if single else list(observed)
    if not sets:
        raise ValueError("there is no data set: the list is empty; give at least one, of shape (r, d)")
    checked = []
    for number, data in enumerate(sets):
        rows = by_name(data, names, "the trials", gaps=True)
        name = "the data set" if single else f"data set {number}"
        if rows.ndim != 2 or rows.shape[1] != d or len(rows) == 0:
            raise ValueError(
                f"{name} has shape {rows.shape}; with trials=True it must have shape (r, {d}): r trials of "
                f"the {d} statistics that the likelihood was fitted on"
            )
        bad = np.argwhere(np.isinf(rows))
        if len(bad):
            raise ValueError(
                f"{name} is infinite in trial {bad[0, 0]}, statistic {bad[0, 1]}; give NaN where a statistic "
                "is missing, or say by censored= that it is beyond a limit"
            )
        if np.all(np.isnan(rows)):
            raise ValueError(f"{name} is NaN throughout: it has no posterior but the prior; leave it out")
        checked.append(rows)
    return checked, single
