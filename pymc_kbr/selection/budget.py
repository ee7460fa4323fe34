"""How much a choice may cost: work, which is the same on every machine, and seconds, which are not."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from pymc_kbr.arrays.refusals import LARGEST_FLOAT, shown
from pymc_kbr.estimators import (
    Adjusted,
    ConditionalMean,
    Estimator,
    KernelDensity,
    KernelLikelihood,
    Localised,
    NadarayaWatson,
    Rejection,
)
from pymc_kbr.estimators.adjusted import ACCEPTED, MOST_ACCEPTED
from pymc_kbr.estimators.adjustments import (
    Adjustment,
    JointNeighbours,
    KernelRidgeAdjustment,
    LocalLinearAdjustment,
    NoAdjustment,
    make_adjustment,
)
from pymc_kbr.estimators.likelihood.autoregressive import MOST_SPARINGLY
from pymc_kbr.estimators.likelihood.choice import ROWS_FOR_FORMS

FOR_FIRST_ROUND = 0.55
"""Share of a budget after which no further candidate is begun: the rest is for more rows."""

REFIT_RESERVE, LEAST_REFIT_RESERVE = 1.5, 0.1
"""Kept to fit the chosen candidate to all rows: times the costliest fit so far, at least a share of all."""


def check_budget(work: float, time_budget: float | None) -> None:
    """Refuse budgets that leave nothing to choose with."""
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
    """Work that candidates are charged with by their known costs; and seconds, where these are limited."""

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


# --- the cost of a candidate ---


SCORED_DRAWS = 300
"""Draws of each posterior that is scored."""

UNSMOOTHED = 300
"""Effective sample size from which smoothing makes no difference to a score, and is left out of it."""

A_FEW = 8
"""Statistics that are taken to depend on the parameters, where others are left out: which they are is not
known before.
"""

RELEVANCE_ROWS = 2_000
"""Rows on which `Relevance` measures gradients."""

KERNEL_CHOICE = 1.7
"""To choose bandwidth and ridge of an embedding on 1,000 rows."""


@dataclass(frozen=True)
class Cost:
    """Of fitting, and of conditioning on, drawing from and scoring one held-out row."""

    fit: float
    a_row: float


def cost_of(estimator: Estimator, n: int, d: int, p: int, shared: Adjusted | None = None) -> Cost:
    """The cost of a candidate on n rows of d statistics and p parameters, without that of its summary."""
    scale = estimator.scale_of_statistics()
    if isinstance(scale, str) and scale.endswith("posterior_mean"):
        d = p  # one statistic a parameter
    elif scale == "dependent":
        d = min(d, A_FEW)
    if not isinstance(estimator, Adjusted):
        atoms = rows_with_weight(estimator, n)
        own = _weights(estimator, n, d, p)
        return Cost(own.fit, own.a_row + _scored(atoms, p))
    inner = estimator.estimator or Rejection(ACCEPTED, most=MOST_ACCEPTED, kernel="epanechnikov")
    atoms, own = rows_with_weight(inner, n), _weights(inner, n, d, p)
    adjustment = make_adjustment(estimator.adjustment)
    moved = _moved(adjustment, atoms, d)
    return Cost(own.fit + _learnt(adjustment, n, d, shared), own.a_row + moved + _scored(atoms, p))


def summary_cost(name: str, n: int, d: int, p: int) -> float:
    """The cost of fitting a summary of `SUMMARIES`, by its name."""
    if name == "joint_posterior_mean":
        n = min(n, 10_000)
        return 0.5 + 2e-7 * n * d + summary_cost("linear_posterior_mean", n, 4 * d + min(n, 600), p)
    if name == "curved_posterior_mean":
        return 2e-7 * n * d + summary_cost("linear_posterior_mean", n, 4 * d, p)
    if name == "linear_posterior_mean":
        return 3e-3 + 2e-8 * n * d + 2.5e-10 * n * d * min(n, d)
    if name == "transformed":
        return 0.05 + 0.02 * d + 5e-8 * n * d
    if name == "dependent":
        return 0.05 + 0.02 * min(d, A_FEW) + 3e-9 * min(n, 10_000) * d**2
    relevance = 0.4 + 2e-7 * min(n, RELEVANCE_ROWS) ** 2 * (1 + 0.055 * d)
    return relevance if name == "relevance" else relevance + _kernel_regression(min(n, 10_000), d)


def rows_with_weight(estimator: Estimator, n: int) -> int:
    """How many of n rows an estimator gives weight to, about."""
    if isinstance(estimator, Rejection):
        if isinstance(estimator.accepted, float | np.floating):
            return max(1, min(round(estimator.accepted * n), estimator.most or n))
        return int(estimator.accepted)
    if isinstance(estimator, Localised):
        return min(n, estimator.neighbours or 500)
    return n


def _weights(estimator: Estimator, n: int, d: int, p: int) -> Cost:
    """Of the weights of rows; a subclass that is not known costs what a dense Gram matrix would."""
    table, search = 0.01 + 1e-6 * n, 2e-9 * n * d
    if isinstance(estimator, Rejection):
        return Cost(table, search)
    if isinstance(estimator, NadarayaWatson | KernelDensity):
        return Cost(table + 0.25, search + 3e-7 * n)
    if isinstance(estimator, KernelLikelihood):
        fitted = min(n, ROWS_FOR_FORMS)
        if estimator.form == "diagonal_scale":
            return Cost(1.5 + 2e-2 * d, 0.01 + 2.5e-4 * d)
        if estimator.form == "exchangeable":
            return Cost(5.0 + 2e-2 * d, 0.02 + 1e-3 * d)
        if d > MOST_SPARINGLY:  # a series, or refused
            return Cost(4.0 + 1e-2 * d, 0.1 + 1e-3 * d)
        return Cost(1.0 + 1e-3 * fitted * (0.3 + 0.1 * d) + 2e-5 * n * d, 0.05)
    projected = 1e-5 * min(rows_with_weight(estimator, n), 1_000) * (2 + 1.3 * p)
    if isinstance(estimator, Localised):
        m = rows_with_weight(estimator, n)
        return Cost(table + KERNEL_CHOICE + 1e-3 * d, search + 5e-11 * m**3 + projected)
    dense = not isinstance(estimator, ConditionalMean) or estimator.solver in ("auto", "exact")
    solved = 3e-11 * n**3 if dense else 2e-4 * n
    return Cost(table + KERNEL_CHOICE + solved, 5e-10 * n**2 + projected)


def _kernel_regression(n: int, d: int) -> float:
    """Of the choice of a bandwidth, and of a factorisation whose rank grows with the dimension, up to 600."""
    return 0.45 + 1e-4 * n * min(1.0, (d / 6) ** 2) + 2.5e-7 * n * d


def _learnt(adjustment: Adjustment, n: int, d: int, shared: Adjusted | None) -> float:
    """Of fitting an adjustment, less what another one on the same table has computed."""
    known = None if shared is None else shared.adjustment_
    if repr(known) == repr(adjustment):
        return 0.0
    if isinstance(adjustment, KernelRidgeAdjustment):
        mean = 0.0 if isinstance(known, KernelRidgeAdjustment) else _kernel_regression(n, d)
        return mean + (0.2 + (1.5e-5 + 1e-7 * d) * n if adjustment.heteroscedastic else 0.0)
    if isinstance(adjustment, NoAdjustment | LocalLinearAdjustment | JointNeighbours):
        return 1e-6 * n
    return _kernel_regression(n, d)


def _moved(adjustment: Adjustment, atoms: int, d: int) -> float:
    """Of moving the atoms of one posterior."""
    if isinstance(adjustment, LocalLinearAdjustment):
        return 6e-10 * atoms * d**2 + 3e-8 * atoms * d
    if isinstance(adjustment, JointNeighbours):
        return (5e-8 + 6e-9 * d) * atoms**2 + 1.9e-10 * atoms * d**3
    return 1e-8 * atoms


def _scored(atoms: int, p: int) -> float:
    """Of drawing from a posterior and of all distances between the draws."""
    # About a quarter of the atoms that a kernel with an edge accepts count for nothing.
    smoothed = 3e-6 * atoms * p if 0.75 * atoms < UNSMOOTHED else 0.0
    return 1.5e-3 + 2e-5 * p + 8e-8 * atoms + smoothed
