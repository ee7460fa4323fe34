"""The probability that a simulation succeeds, given its parameters: learnt once from those that failed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self
from weakref import ReferenceType, WeakKeyDictionary, ref

import numpy as np

from pymc_kbr.arrays.support import Support
from pymc_kbr.arrays.threads import one_blas_thread
from pymc_kbr.arrays.weighted import spread_out
from pymc_kbr.estimators.likelihood.basis import ParameterScale
from pymc_kbr.estimators.likelihood.categorical import Logit, fit_share
from pymc_kbr.estimators.likelihood.smooth_function import Effort, Inputs


@dataclass(frozen=True, eq=False)
class Success:
    """P(success | parameters), and what a failure means."""

    # Shapes: draws (l, p) and (l,).
    logit: Logit
    of_parameters: ParameterScale
    atoms: tuple[tuple[int, float], ...]
    draws: tuple[np.ndarray, np.ndarray] | None
    share: float
    least: float
    condition: bool = False

    @classmethod
    def fit(
        cls,
        succeeded: np.ndarray,
        failed: np.ndarray,
        support: Support,
        weights: tuple[np.ndarray, np.ndarray] | None = None,
        *,
        condition: bool = False,
        # Simulations that are used, at most. With more, edges would be sharper than posteriors need, and the
        # features of a fit to all would not fit into memory.
        most_simulations: int = 20_000,
        # Seed of landmarks and of rows for settings: the same table gives the same probabilities.
        seed: int = 34,
    ) -> Self:
        """Learn from the parameters (n, p) of simulations that succeeded, and (f, p) of those that failed."""
        n, points = len(succeeded), np.vstack([succeeded, failed])
        each = np.ones(len(points)) if weights is None else np.concatenate(weights)
        share = float(each[:n].sum() / each.sum())
        some = spread_out(len(points), most_simulations)
        points, above, each = points[some], some < n, each[some]
        of_parameters = ParameterScale.fit(points, support)
        atoms = tuple(
            (column, atom)
            for block in support.of_rows(points).blocks
            for column, values in zip(block.columns, block.atoms, strict=False)
            for atom in values
        )
        with one_blas_thread():
            theta = _coordinates(of_parameters, atoms, points)
            logit = fit_share(theta, above, np.random.default_rng(seed), Effort())
            least = float(logit.at(Inputs(theta, np.zeros((len(theta), 1))))[above].min())
        return cls(logit, of_parameters, atoms, (points, each / each.sum()), share, least, condition)

    @property
    def constant(self) -> bool:
        """Whether it does not depend on the parameters."""
        return self.logit.range[0] == self.logit.range[1]

    @cached_property
    def _no_past(self) -> np.ndarray:
        return np.zeros((1, 1, self.logit.function.landmarks.past.shape[1]))

    def reached(self, parameters: np.ndarray) -> np.ndarray:
        """Where simulations succeed (k,): no less often than at some parameters at which one has."""
        if self.constant:
            return np.ones(len(parameters), dtype=bool)
        return self._logits(parameters) >= self.least

    def _logits(self, parameters: Any, xp: Any = np) -> Any:
        theta = _coordinates(self.of_parameters, self.atoms, parameters, xp)
        return self.logit(theta, self._no_past, xp, shared=True)[:, 0]

    def log_probability(self, parameters: Any, xp: Any = np) -> Any:
        """Log probabilities (k,) at parameters (k, p), an array or a tensor."""
        if self.constant:
            return 0.0 * parameters[:, 0] + np.log(self.share)
        away = -self._logits(parameters, xp)
        return -(np.logaddexp(0.0, away) if xp is np else xp.softplus(away))

    def __call__(self, parameters: np.ndarray) -> np.ndarray:
        """Probabilities (k,) at parameters (k, p)."""
        return np.exp(self.log_probability(parameters))

    def under(self, draws: np.ndarray, weights: np.ndarray | None = None) -> Self:
        """The same under another prior, known by draws (l, p) with weights (l,)."""
        each = np.ones(len(draws)) if weights is None else weights
        share = float(each @ self(draws) / each.sum())
        return replace(self, draws=(draws, each / each.sum()), share=share)

    def at_rows(self) -> Self:
        """The same under another prior, of which rows that succeeded have the density ratio alone."""
        return replace(self, draws=None)

    def seen(self, draws: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Draws of a prior with their weights, as rows of a table represent it: those that succeed."""
        points, weights = draws
        return points, weights * (self.reached(points) if self.condition else self(points))


def _coordinates(
    of_parameters: ParameterScale, atoms: tuple[tuple[int, float], ...], parameters: Any, xp: Any = np
) -> Any:
    """Parameters (k, p) in coordinates in which the logit is smooth: of each atom there is one more."""
    free = of_parameters(parameters, xp)
    if not atoms:
        return free
    columns, values = zip(*atoms, strict=True)
    apart = xp.abs(parameters[:, list(columns)] - np.array(values))
    return xp.concatenate([free, xp.where(apart > 0, 0.0, 1.0)], axis=1)


@dataclass(frozen=True, eq=False)
class RowWeighting:
    """The weights with which a table's rows, all of which succeeded, represent its prior."""

    # Shapes: ratio (n,).
    ratio: np.ndarray | None
    success: Success | None

    @property
    def weighted_for_success(self) -> bool:
        """Whether rows are weighted since success is a condition that depends on the parameters."""
        return self.success is not None and self.success.condition and not self.success.constant


_LEARNT: WeakKeyDictionary[Any, tuple[ReferenceType[Any], Success]] = WeakKeyDictionary()
"""By the failures of a table, or its store: tables of other statistics or observations share them."""


def weighting_of(table: Any) -> RowWeighting:
    """How the rows of a `ReferenceTable`, or of a `StoredTable`, represent its prior."""
    failures, ratio = getattr(table, "failures", None), table.prior_ratio
    if failures is None or not len(failures):
        return RowWeighting(ratio, None)
    success = _learnt(table, ratio)
    if success is None:
        return RowWeighting(ratio, None)
    found = RowWeighting(ratio, success)
    if found.weighted_for_success:
        rare = np.exp(-success.log_probability(_whole(table.parameters)))
        return RowWeighting(rare if ratio is None else ratio * rare, success)
    return found


def _whole(parameters: Any) -> np.ndarray:
    """The rows of a table, those that stay on the disk read."""
    return parameters if isinstance(parameters, np.ndarray) else parameters[0 : len(parameters)]


def _learnt(table: Any, ratio: np.ndarray | None) -> Success | None:
    failures, condition = table.failures, table.origin.on_failure == "condition"
    # Those of a store are the same in all its tables, of which each reads them by itself.
    key = getattr(table, "store", failures)
    rows = table.parameters if key is failures else key
    known = _LEARNT.get(key)
    # The rows, too: some of a table that stays on the disk have the same failures.
    if known is None or known[0]() is not rows:
        # Those of rounds may lie beyond the last bounds, as rows do that are left out.
        inside = table.support.contains(failures.parameters)
        if not np.any(inside):
            return None
        weights = None
        if ratio is not None and failures.prior_ratio is not None:
            weights = ratio, failures.prior_ratio[inside]
        lost = failures.parameters[inside]
        found = Success.fit(_whole(table.parameters), lost, table.support, weights)
        known = ref(rows), found
        _LEARNT[key] = known
    return known[1] if known[1].condition == condition else replace(known[1], condition=condition)


def refuse_weighted_for_success(table: Any, why: str) -> None:
    """Refuse a table whose rows are weighted since success is a condition; `why` is the reason in words."""
    if weighting_of(table).weighted_for_success:
        raise ValueError(
            "simulations failed more often at some parameters than at others, so with on_failure='condition' "
            f"the rows of the table are no draws of the prior; {why}: take `table.with_on_failure('drop')`, "
            "if a failure is an outcome that was not observed, or correct the simulator"
        )
