"""Regression adjustment as a step that any estimator can take."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import clone

from pymc_kbr.arrays.chunks import is_chunked
from pymc_kbr.arrays.support import Support
from pymc_kbr.embedding.embedding import Atoms, Embedding
from pymc_kbr.embedding.projection import project_to_simplex
from pymc_kbr.estimators.adjustments import Adjustment, make_adjustment
from pymc_kbr.estimators.estimator import SHARED, Estimator
from pymc_kbr.estimators.rejection import Rejection
from pymc_kbr.posterior.smoothing import check_smoothing

ACCEPTED, MOST_ACCEPTED = 0.3, 10_000
"""Share of the rows that are accepted where no estimator is given, and their number at most.

More are farther off, and hardly add to draws.
"""


class Adjusted(Estimator):
    """An estimator whose atoms are moved to where they would be had they given the observation.

    Parameters
    ----------
    estimator : Estimator, optional
        Gives the weights; `Rejection` of the nearest 30%, but at most 10,000 rows, with the Epanechnikov
        kernel where left out.
    adjustment : str or Adjustment
        "kernel_ridge", "local_linear", either with "heteroscedastic_" before it, "joint_neighbours" or
        "none": see `pymc_kbr.estimators.adjustments`.
    smoothing : {"local", "global", "none"}
        How resampled atoms become draws, see `pymc_kbr.posterior.smoothing`.

    Notes
    -----
    Atoms are moved in the unconstrained space of the prior's support, so that none leaves it. Atoms on an
    edge of the support, and discrete parameters, stay where they are.

    Of a table that is read a part at a time the rows that carry weight are read and moved; regressions on the
    whole table ("kernel_ridge") are then fitted to 20,000 rows, spread evenly over it.

    `weights` are those of the estimator; the posterior's atoms are not the simulated parameters.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> theta = rng.normal(size=(2000, 1))
    >>> x = theta + rng.normal(size=(2000, 1))
    >>> posterior = Adjusted(adjustment="local_linear").fit(theta, x).condition([1.0])
    >>> abs(posterior.mean()[0] - 0.5) < 0.1
    np.True_
    """

    picks = True

    def __init__(
        self,
        estimator: Estimator | None = None,
        adjustment: str | Adjustment = "kernel_ridge",
        *,
        smoothing: str = "local",
    ) -> None:
        self.estimator = estimator
        self.adjustment = adjustment
        self.smoothing = smoothing

    def _inner(self) -> Estimator:
        """The estimator that gives the weights."""
        if self.estimator is None:
            return Rejection(ACCEPTED, most=MOST_ACCEPTED, kernel="epanechnikov")
        if not isinstance(self.estimator, Estimator) or isinstance(self.estimator, Adjusted):
            raise TypeError(
                f"estimator is {self.estimator!r}; give an estimator that is not adjusted itself, such as "
                "Rejection(0.3, kernel='epanechnikov')"
            )
        return self.estimator

    def check(self, n: int) -> None:
        """Refuse arguments that are out of range for a table of n rows."""
        make_adjustment(self.adjustment)
        check_smoothing(self.smoothing)
        self._inner().check(n)

    def fit(
        self,
        parameters: np.ndarray,
        statistics: np.ndarray,
        support: Support | None = None,
        *,
        ratio: np.ndarray | None = None,
        random_seed: int | np.random.Generator | None = None,
    ) -> Self:
        """Fit the estimator, then the adjustment: see `Estimator.fit`."""
        make_adjustment(self.adjustment)
        check_smoothing(self.smoothing)
        if is_chunked(parameters) or is_chunked(statistics):
            self._refuse_unless_it_streams()
        self.estimator_ = clone(self._inner())
        rng = np.random.default_rng(random_seed)
        self.estimator_.fit(parameters, statistics, support, ratio=ratio, random_seed=rng)
        self._adopt(self.estimator_)
        self.adjustment_ = self._fitted = clone(make_adjustment(self.adjustment)).fit(*self._regressed(), rng)
        return self

    def like(self, fitted: Adjusted, random_seed: int | np.random.Generator | None = None) -> Self:
        """Fit to the table of another one, and share what its adjustment has computed."""
        self.estimator_ = clone(self._inner())
        self.estimator_.fit_prepared(fitted.estimator_)
        self._adopt(self.estimator_)
        if repr(make_adjustment(self.adjustment)) == repr(make_adjustment(fitted.adjustment)):
            self.adjustment_ = self._fitted = fitted.adjustment_
        else:
            self.adjustment_ = self._fitted = clone(make_adjustment(self.adjustment)).fit_sharing(
                fitted.adjustment_, *self._regressed(), np.random.default_rng(random_seed)
            )
        return self

    def _regressed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Statistics, unconstrained parameters and weights of the rows that adjustments are fitted to."""
        x = self.statistics_ if self._sample is None else self._sample[0]
        return (
            x[self._inside],
            self._free[self._inside][:, self._smooth],
            None if self.ratio_ is None else self.ratio_[self._inside],
        )

    def _adopt(self, inner: Estimator) -> None:
        """Take over what the estimator knows of the table, and parameters in the unconstrained space."""
        for name in SHARED:
            if hasattr(inner, name):
                setattr(self, name, getattr(inner, name))
        self._smooth = self.support_.smooth()
        if self._sample is not None:
            self._set_atoms(self._sample[1])
            self._numbers = self._sample[2][self._inside]
            return
        points = self.atoms_.points
        if len(points) != len(self.parameters_):
            raise ValueError(
                f"{type(inner).__name__} weights draws of a prior instead of the table's rows; only rows can "
                "be adjusted"
            )
        self._set_atoms(points)

    def _set_atoms(self, points: np.ndarray) -> None:
        """The parameters (m, p) of rows that may be moved, in the unconstrained space."""
        self._free = self.support_.forward(points)
        self._inside = np.all(np.isfinite(self._free[:, self._smooth]), axis=1)
        self._place = np.cumsum(self._inside) - 1

    def _read_atoms(self, rows: np.ndarray | None) -> np.ndarray | None:
        assert rows is not None  # of an estimator that picks
        read = np.unique(rows)
        places = super()._read_atoms(rows)
        self._set_atoms(self.atoms_.points)
        moved = read[self._inside]
        at = np.minimum(np.searchsorted(self._numbers, moved), len(self._numbers) - 1)
        fitted = np.where(self._numbers[at] == moved, at, -1)
        z = self._free[self._inside][:, self._smooth]
        self.adjustment_ = self._fitted.for_rows(self.statistics_[moved], z, fitted)
        return places

    @property
    def streams(self) -> bool:  # type: ignore[override]
        """Whether rows may be read a part at a time: if the estimator picks some, and these can be moved."""
        inner = self._inner()
        return inner.streams and inner.picks and make_adjustment(self.adjustment).streams

    def _refuse_unless_it_streams(self) -> None:
        if self.streams:
            return
        if make_adjustment(self.adjustment).streams:
            what = f"{type(self._inner()).__name__}, which gives weight to all rows"
        else:
            what = (
                f"{type(make_adjustment(self.adjustment)).__name__}, which looks for neighbours in all rows"
            )
        raise TypeError(
            f"these rows are read a part at a time, and what is adjusted must be in memory with {what}; "
            "adjust Rejection, NadarayaWatson or Localised by 'local_linear' or 'kernel_ridge', or load some "
            "rows (`stored.load(20_000)`)"
        )

    def settings(self) -> dict[str, float]:
        """The numbers that the estimator and the adjustment were given or chose."""
        found = self.estimator_.settings()
        for name in ("mean_", "spread_"):
            if hasattr(self.adjustment_, name):
                regression = getattr(self.adjustment_, name)
                found[f"adjustment_{name}bandwidth"] = regression.bandwidth
                found[f"adjustment_{name}ridge"] = regression.ridge
        return found

    def _atoms(self, x: np.ndarray, rows: np.ndarray | None, weights: np.ndarray) -> Atoms:
        rows = np.arange(len(self.atoms_.points)) if rows is None else rows
        if np.any(weights < 0):
            atoms = Atoms(self.atoms_.points[rows], self.parameter_kernel_)
            weights = project_to_simplex(Embedding(atoms, weights))
        moving = self._inside[rows] & (weights > 0)
        if np.all(moving) and np.all(self._smooth):
            moved = self.adjustment_.move(x, self._place[rows], weights)
            return Atoms(self.support_.backward(moved), self.parameter_kernel_)
        atoms = Atoms(self.atoms_.points[rows], self.parameter_kernel_)
        if not np.any(self._smooth) or not np.any(moving):
            return atoms
        free = self._free[rows]
        moved = self.adjustment_.move(x, self._place[rows[moving]], weights[moving])
        free[np.ix_(moving, self._smooth)] = moved
        points = self.support_.backward(free)
        for block in self.support_.blocks:
            if not block.smooth:
                points[:, list(block.columns)] = atoms.points[:, list(block.columns)]
        points[~moving] = atoms.points[~moving]
        return Atoms(points, self.parameter_kernel_)

    def _row_weights(self, x: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
        return self.estimator_._row_weights(x)

    def _check(self, n: int) -> None:
        """The estimator checks itself."""

    def _fit(self) -> None:
        """The estimator fits itself."""

    @property
    def scale(self) -> Any:  # type: ignore[override]
        """The estimator's."""
        return self._inner().scale

    @property
    def parameter_bandwidth(self) -> float | None:  # type: ignore[override]
        """The estimator's."""
        return self._inner().parameter_bandwidth
