"""Which rows are held out of a table, and an estimator that is fitted to the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import gaussian_kde
from sklearn.base import clone

from pymc_kbr.arrays.names import one_by_name, refuse_sets
from pymc_kbr.estimators import Estimator
from pymc_kbr.estimators.likelihood.success import weighting_of
from pymc_kbr.tables.reference_table import ReferenceTable


@dataclass(frozen=True, eq=False)
class HeldOut:
    """A table's rows in two parts."""

    # Shapes: rows (k,); fitted (m,).
    rows: np.ndarray
    fitted: np.ndarray
    estimator: Estimator


def hold_out(
    estimator: Estimator, table: ReferenceTable, rows: int, around: ArrayLike | None, rng: np.random.Generator
) -> HeldOut:
    """Hold rows out of a table and fit an estimator to the others."""
    refuse_sets(table)
    n = len(table)
    if not 10 <= rows <= n // 2:
        raise ValueError(
            f"rows is {rows}; of a table of {n} rows between 10 and {n // 2} can be held out for calibration"
        )
    if around is not None:
        return _near(estimator, table, rows, one_observation(table, around), rng)
    held_out = rng.choice(n, rows, replace=False)
    rest = np.setdiff1d(np.arange(n), held_out)
    return HeldOut(held_out, rest, _fitted(estimator, table, rest, None, rng))


def one_observation(table: ReferenceTable, observed: Any) -> np.ndarray:
    """An observation (d,) of a table's statistics; the table's own where none is given."""
    refuse_sets(table)
    found = table.observed if observed is None else one_by_name(observed, table.statistic_names)
    if found is None:
        raise ValueError("the reference table has no observation; give one, or set it with `with_observed`")
    d = table.statistics.shape[1]
    if found.shape != (d,):
        raise ValueError(
            f"the observation has shape {found.shape}; the table has {d} statistics: give ({d},)"
        )
    if not np.all(np.isfinite(found)):
        raise ValueError(
            f"the observation is NaN or infinite in {np.flatnonzero(~np.isfinite(found)).tolist()}; take the "
            "table and the observation without these (`with_observed(observed).without_missing()`)"
        )
    return found


def _near(
    estimator: Estimator,
    table: ReferenceTable,
    rows: int,
    around: np.ndarray,
    rng: np.random.Generator,
    *,
    # Rows near an observation that make a calibration informative.
    fewest_near: int = 50,
    # Share of a posterior beyond the region in which all rows are held out.
    share_beyond: float = 0.25,
    # Draws of the observation's posterior, whose density defines the region.
    draws_for_density: int = 1000,
) -> HeldOut:
    """Rows that are draws of the prior times r: the density of an observation's posterior, up to a level."""
    order = rng.permutation(len(table))
    # Nearness is made from one half alone: given it, rows of the other are draws of the prior as before.
    rest, candidates = np.sort(order[: len(order) // 2]), order[len(order) // 2 :]
    # A copy, since the estimator itself is fitted to these rows with the weights that follow.
    first = _fitted(clone(estimator), table, rest, None, rng).condition(around)
    drawn = first.draw(draws_for_density, rng)
    density = _density_of(drawn)
    # Level where the posterior is dense: any r will do, and with this one more rows are accepted.
    level = np.quantile(density(drawn), share_beyond)
    ratio = np.minimum(density(table.parameters) / level, 1.0)
    # Accepted, not resampled: each row once, and all independent draws of the prior times r.
    accepted = candidates[rng.random(len(candidates)) < ratio[candidates]][:rows]
    if len(accepted) < fewest_near:
        raise ValueError(
            f"{len(accepted)} of {len(candidates)} held-out rows lie where the posterior of `around` is; at "
            f"least {fewest_near} are needed. Simulate more rows, or leave `around` out"
        )
    return HeldOut(accepted, rest, _fitted(estimator, table, rest, ratio[rest], rng))


def _density_of(draws: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Of points (n, p): the density of draws (m, p), in the dimensions in which they vary."""
    varying = np.ptp(draws, axis=0) > 0
    if not np.any(varying):
        raise ValueError("all draws of the posterior of `around` are one point; nothing lies near it")
    density = gaussian_kde(draws[:, varying].T)
    return lambda points: density(points[:, varying].T)


def _fitted(
    estimator: Estimator,
    table: ReferenceTable,
    rows: np.ndarray,
    ratio: np.ndarray | None,
    rng: np.random.Generator,
) -> Estimator:
    parameters, statistics = table.parameters[rows], table.statistics[rows]
    success = weighting_of(table).success
    if success is not None and ratio is not None:
        success = success.at_rows()
    given = parameters, statistics, table.support
    estimator.reading(table.statistics)
    return estimator.fit(*given, ratio=ratio, success=success, random_seed=rng)
