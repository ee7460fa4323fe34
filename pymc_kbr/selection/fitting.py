"""Candidates fitted to the same rows, sharing what others have computed of these."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from pymc_kbr.arrays.checked_rows import CheckedRows
from pymc_kbr.arrays.threads import Begin
from pymc_kbr.estimators import Adjusted, Estimator, KernelLikelihood
from pymc_kbr.estimators.adjustments import make_adjustment
from pymc_kbr.estimators.fitted_table import FittedTable
from pymc_kbr.estimators.summaries import SUMMARIES
from pymc_kbr.estimators.tabulate import scaled
from pymc_kbr.selection.cost import Cost, cost_of, summary_cost


class Fitting:
    """Fits candidates to the rows that are not held out.

    Parameters
    ----------
    rows : CheckedRows
    seed : int
    """

    def __init__(self, rows: CheckedRows, seed: int) -> None:
        self._rows, self._seed = rows, seed
        self._summaries: dict[str, Any] = {}
        self._begun: dict[str, Callable[[], Any]] = {}
        self._charged: set[str] = set()
        self._tables: dict[int, FittedTable] = {}
        self._fitted: dict[int, list[Adjusted]] = {}

    def cost(self, estimator: Estimator) -> Cost:
        """What a candidate costs, less what has been computed for others already."""
        n, p, d = *self._rows.parameters.shape, self._rows.statistics.shape[1]
        # In one order, so that the sum is rounded alike in every process.
        named = sorted(set(names_of_summaries(estimator).values()) - self._charged)
        summaries = sum(summary_cost(name, n, d, p) for name in named)
        nearest = None
        # A summary that is still to be fitted, or refused, is a scale of its own, in which nothing is known.
        known = set(names_of_summaries(estimator).values()) <= self._charged & set(self._summaries)
        if isinstance(estimator, Adjusted) and known:
            nearest = self._nearest(estimator)
        own = cost_of(estimator, n, d, p, nearest)
        return Cost(summaries + own.fit, own.a_row)

    def charge(self, estimator: Estimator) -> None:
        """Note that the summaries of a candidate are charged: others of the same are not."""
        self._charged |= set(names_of_summaries(estimator).values())

    def begin(self, estimator: Estimator, begin: Begin) -> None:
        """Begin the summaries of a candidate that are not fitted yet, for when they are asked for."""
        for name in names_of_summaries(estimator).values():
            if name not in self._summaries and name not in self._begun:
                self._begun[name] = begin(self._summary(name))

    def _summary(self, name: str) -> Callable[[], Any]:
        return partial(SUMMARIES[name].fit, self._rows.statistics, self._rows.parameters)

    def fit(self, estimator: Estimator) -> Estimator:
        """A fitted copy, whose summaries count as charged."""
        self.charge(estimator)
        return self.prepared(estimator)()

    def prepared(self, estimator: Estimator) -> Callable[[], Estimator]:
        """What fits a copy and returns it, on a thread of its own where it is none of `Adjusted`.

        These share what they compute with those that were fitted before.
        """
        for name in names_of_summaries(estimator).values():
            if name not in self._summaries:
                self._summaries[name] = self._begun.pop(name, self._summary(name))()
        prepared, rng = with_summaries(estimator, self._summaries), np.random.default_rng(self._seed)
        if isinstance(prepared, Adjusted):
            return partial(self._fit_sharing, prepared, self._nearest(estimator), rng)
        compared = prepared.for_scores()
        if isinstance(compared, KernelLikelihood):  # its form is settled here
            compared.tries_all = True
        return partial(compared.fit_table, self._table(prepared), rng)

    def _fit_sharing(
        self, prepared: Adjusted, nearest: Adjusted | None, rng: np.random.Generator
    ) -> Adjusted:
        # What was scaled and factored once is the same for all candidates in that scale.
        if nearest is None:
            prepared.fit_table(self._table(prepared), rng)
        else:
            prepared.fit_sharing(nearest, rng)
        self._fitted.setdefault(id(prepared.scale_of_statistics()), []).append(prepared)
        return prepared

    def _table(self, prepared: Estimator) -> FittedTable:
        """The rows in the scale of a candidate, which all of the same scale share.

        With their nearest rows.
        """
        scale = prepared.scale_of_statistics()
        # By identity: a fitted summary has no equality, and is one object for all candidates.
        if id(scale) not in self._tables:
            prepared.check(len(self._rows))
            self._tables[id(scale)] = scaled(self._rows, scale)
        return self._tables[id(scale)]

    def _nearest(self, estimator: Adjusted) -> Adjusted | None:
        """The fitted candidate to share with: of the same adjustment, or the first in the same scale."""
        scale = with_summaries(estimator, self._summaries).scale_of_statistics()
        same_scale, adjustment = self._fitted.get(id(scale), []), repr(make_adjustment(estimator.adjustment))
        same = [fitted for fitted in same_scale if repr(fitted.adjustment_) == adjustment]
        return next(iter([*same, *same_scale]), None)


def with_summaries(estimator: Estimator, summaries: dict[str, Any]) -> Estimator:
    """A copy whose arguments `scale` that name a summary hold the fitted one."""
    named = names_of_summaries(estimator)
    return clone(estimator).set_params(**{name: summaries[value] for name, value in named.items()})


def names_of_summaries(estimator: Estimator) -> dict[str, str]:
    """The arguments `scale` of an estimator, and of those inside it, that name a summary."""
    given = estimator.get_params().items()
    return {
        name: value for name, value in given if name.split("__")[-1] == "scale" and isinstance(value, str)
    }
