"""How much a choice may cost: work, which is the same on every machine, and seconds, which are not."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from pymc_kbr.arrays.refusals import LARGEST_FLOAT, shown
from pymc_kbr.selection.cost import Cost

FOR_FIRST_ROUND = 0.55
"""Share of a budget after which no further candidate is begun: the rest is for more rows."""

REFIT_RESERVE, LEAST_REFIT_RESERVE = 1.5, 0.1
"""Kept to fit the chosen candidate to all rows: times the costliest fit so far, at least a share of all."""


def check_budget(work: float, time_budget: float | None) -> None:
    """Refuse budgets that leave nothing to choose with.

    Raises
    ------
    TypeError, ValueError
        If one is not a number above zero.
    """
    for name, given in (("work", work), ("time_budget", time_budget)):
        known = isinstance(given, int | float | np.number) and not isinstance(given, bool)
        if not known and (given is not None or name == "work"):
            raise TypeError(f"{name} is {shown(given)}; it must be a number above zero")
        if isinstance(given, int) and given > LARGEST_FLOAT:
            raise ValueError(f"{name} is {shown(given)}; it must be a number that a float can be")
    if not work > 0:
        raise ValueError(
            f"work is {shown(work)}; it must be above zero: leave it out for some 20 to 30 seconds of one "
            "core"
        )
    if time_budget is not None and not time_budget > 0:
        raise ValueError(
            f"time_budget is {shown(time_budget)}; it must be above zero seconds, or None for no limit of "
            "time"
        )


@dataclass
class Account:
    """What has been spent of one budget, of which the costliest fit decides how much is kept."""

    limit: float
    spent: float = 0.0
    costliest_fit: float = 0.0

    def reserved(self) -> float:
        """What a last fit may need."""
        return max(REFIT_RESERVE * self.costliest_fit, LEAST_REFIT_RESERVE * self.limit)


@dataclass
class Budget:
    """Work that candidates are charged with by their known costs; and seconds, where these are limited.

    Parameters
    ----------
    work : float
        See `pymc_kbr.selection.cost`.
    seconds : float, optional
        The clock decides nothing where they are left out.
    refit : bool
        Whether the chosen candidate will be fitted to all rows afterwards, for which some is kept.

    Attributes
    ----------
    late : bool
        Whether time has kept something from being done that there was work for.
    """

    work: float
    seconds: float | None = None
    refit: bool = True
    late: bool = False
    started: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        self._work = Account(self.work)
        self._time = None if self.seconds is None else Account(self.seconds)

    @property
    def spent(self) -> float:
        """Work that has been done."""
        return self._work.spent

    def may_begin(self, rows: int, cost: Cost) -> str:
        """Why a further candidate may not be fitted and scored on some rows; empty where it may."""
        # Since costs are known beforehand, one that would take all that is left is not begun either.
        needed = cost.fit + rows * cost.a_row
        if max(self._work.spent / FOR_FIRST_ROUND, self._work.spent + needed) > self.work:
            return f"not tried: no work was left; it needs {needed:.1f}, and {self._work.spent:.1f} are spent"
        if self._time is not None and self._elapsed() > FOR_FIRST_ROUND * self._time.limit:
            self.late = True
            return "not tried: no time was left"
        return ""

    def surely(self, needed: float) -> bool:
        """Whether a further candidate would be begun after so much work, itself included."""
        return self.seconds is None and self._work.spent + needed <= FOR_FIRST_ROUND * self.work

    def may_score(self, rows: int, cost: Cost, seconds_a_row: float) -> bool:
        """Whether so many more rows of a candidate may be scored."""
        if self._work.spent + rows * cost.a_row > self._end(self._work):
            return False
        if self._time is not None and self._elapsed() + rows * seconds_a_row > self._end(self._time):
            self.late = True
            return False
        return True

    def charge_fit(self, cost: Cost) -> None:
        """Before a candidate is fitted."""
        self._work.spent += cost.fit
        self._work.costliest_fit = max(self._work.costliest_fit, cost.fit)

    def charge_rows(self, rows: int, cost: Cost) -> None:
        """Before some rows are scored."""
        self._work.spent += rows * cost.a_row

    def note_fit(self, seconds: float) -> None:
        """How long a fit has taken."""
        if self._time is not None:
            self._time.costliest_fit = max(self._time.costliest_fit, seconds)

    def _end(self, account: Account) -> float:
        # More rows are scored from what a last fit does not need.
        return account.limit - account.reserved() if self.refit else account.limit

    def _elapsed(self) -> float:
        return time.perf_counter() - self.started
