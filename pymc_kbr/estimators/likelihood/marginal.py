"""A learned likelihood without some of its statistics: they are integrated out, and nothing is fitted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtr

from pymc_kbr.arrays.scaling import Scaler
from pymc_kbr.estimators.likelihood.autoregressive import Autoregressive, without_unseen
from pymc_kbr.estimators.likelihood.diagonal_scale import DiagonalScale, without_columns
from pymc_kbr.estimators.likelihood.evaluation import Evaluation
from pymc_kbr.estimators.likelihood.exchangeable import Exchangeable
from pymc_kbr.estimators.likelihood.form import Form
from pymc_kbr.estimators.likelihood.location_scale import LocationScale
from pymc_kbr.estimators.likelihood.order_statistics import OrderStatistics
from pymc_kbr.estimators.likelihood.spread import LARGEST_LOG
from pymc_kbr.estimators.summaries import Dependent, Transformed

FACTOR_ENTRIES_AT_ONCE = 2**22
"""Entries of factors that are held at once."""


@dataclass(frozen=True, eq=False)
class MarginalLocationScale:
    """The density of some statistics of a `LocationScale`.

    Given parameters all statistics are a mixture of normal distributions, and so are some of them: of the
    same shares, with the means and the covariances of these statistics.

    Parameters
    ----------
    whole : LocationScale
        Of e statistics.
    kept : ndarray of int, shape (m,)
        Those that are left.
    """

    whole: LocationScale
    kept: np.ndarray

    def describe(self, theta: Any, xp: Any = np) -> Any:
        """As of the whole form."""
        return self.whole.describe(theta, xp)

    def log_density(self, described: Any, points: Any, xp: Any = np) -> Any:
        """Log densities (k, r) of points (k, r, m) or (1, r, m): see `Form`.

        Raises
        ------
        NotImplementedError
            With arrays of PyTensor: gaps are in observations that are conditioned on here.
        """
        if xp is not np:
            raise NotImplementedError("statistics are integrated out with NumPy alone")
        found = np.empty((len(described), points.shape[1]))
        for rows in self._parts(len(described)):
            at = points if len(points) == 1 else points[rows]
            parts = [
                np.log(share) - np.log(np.abs(np.diagonal(root, axis1=1, axis2=2))).sum(axis=1)[:, None]
                - 0.5 * np.sum(_solved(root, at - mean[:, None, :]) ** 2, axis=2)
                for share, mean, root in self._mixture(described[rows])
            ]  # fmt: skip
            found[rows] = logsumexp(parts, axis=0)
        return found - 0.5 * len(self.kept) * np.log(2 * np.pi)

    def draw(self, described: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One draw (k, m) for each of k parameters."""
        return self.whole.draw(described, rng)[:, self.kept]

    def transforms(self, described: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Conditional distribution functions (k, m): see `Form`."""
        logs, at = [], []
        for share, mean, root in self._mixture(described):
            u = _solved(root, (points - mean)[:, None, :])[:, 0]
            terms = -np.log(np.abs(np.diagonal(root, axis1=1, axis2=2))) - 0.5 * u**2
            before = np.concatenate([np.zeros((len(u), 1)), np.cumsum(terms, axis=1)[:, :-1]], axis=1)
            logs.append(np.log(share) + before)
            at.append(ndtr(u))
        shares = np.exp(np.array(logs) - logsumexp(logs, axis=0))
        return np.sum(shares * np.array(at), axis=0)

    def _parts(self, count: int) -> Iterator[slice]:
        step = max(1, FACTOR_ENTRIES_AT_ONCE // len(self.whole.whiten) ** 2)
        return (slice(first, first + step) for first in range(0, count, step))

    def _mixture(self, described: np.ndarray) -> Iterator[tuple[float, np.ndarray, np.ndarray]]:
        """Share, means (k, m) and lower triangular roots (k, m, m) of the covariances, of each part."""
        form, e = self.whole, len(self.whole.whiten)
        logs = np.clip(described[:, e : 2 * e], -LARGEST_LOG, LARGEST_LOG)
        factor = np.exp(logs)[:, :, None] * form.whiten
        if described.shape[1] > 2 * e:
            factor = factor + described[:, 2 * e :].reshape(-1, e, e) @ factor
        back = np.linalg.inv(factor)[:, self.kept]
        of_parts = zip(form.mixture.weights, form.mixture.means, form.mixture.factors, strict=True)
        for share, mean, precision in of_parts:
            # By orthogonal steps: products of roots would lose half of the digits.
            upper = np.linalg.qr(np.swapaxes(back @ np.linalg.inv(precision), 1, 2), mode="r")
            # Diagonals of either sign are as good for densities; distribution functions need positive ones.
            signs = np.sign(np.diagonal(upper, axis1=1, axis2=2))
            root = np.swapaxes(upper * signs[:, :, None], 1, 2)
            yield float(share), described[:, self.kept] + back @ mean, root


def integrated_out(evaluation: Evaluation, columns: np.ndarray) -> Evaluation | None:
    """A likelihood of some of its statistics, by their numbers.

    None where the statistics are summaries, or none of those left varies; and where the form is the
    autoregressive one and statistics that are left depend on others: see `without_unseen`; or that of a
    diagonal scale in a frame that mixes statistics.
    """
    form, summary = evaluation.form, evaluation.of_statistics
    if isinstance(summary, Dependent):
        of_these = integrated_out(replace(evaluation, of_statistics=summary.curved), columns)
        return None if of_these is None else replace(of_these, of_statistics=summary.of_columns(columns))
    if not isinstance(summary, Scaler | Transformed):
        return None
    varying = columns[summary.kept[columns]]
    if not len(varying):
        return None
    places = np.cumsum(summary.kept)[varying] - 1
    found: Form | None = None
    if isinstance(form, LocationScale):
        found = MarginalLocationScale(form, places)
    elif isinstance(form, Autoregressive):
        found = without_unseen(form, places)
    elif isinstance(form, DiagonalScale):
        found = without_columns(form, places)
    elif isinstance(form, Exchangeable):
        found = OrderStatistics(form, places) if form.in_order else replace(form, size=len(places))
    if found is None:
        return None
    return replace(evaluation, form=found, of_statistics=summary.of_columns(columns))


def _solved(root: np.ndarray, away: np.ndarray) -> np.ndarray:
    """Lower triangular roots (k, m, m), divided into differences (k, r, m), shape (k, r, m)."""
    return np.swapaxes(np.linalg.solve(root, np.swapaxes(away, 1, 2)), 1, 2)
