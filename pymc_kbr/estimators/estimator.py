"""What all estimators share: checks at the door, one scale for the statistics, posteriors at the end."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from pymc_kbr.arrays.chunks import Chunks, is_chunked
from pymc_kbr.arrays.refusals import positive
from pymc_kbr.arrays.scan import scan_table
from pymc_kbr.arrays.support import Support
from pymc_kbr.embedding.embedding import Atoms
from pymc_kbr.estimators.checks import check_finite, check_shapes, rows_with_density, support_of
from pymc_kbr.estimators.summaries import Summary, check_scale, coordinates, make_summary
from pymc_kbr.kernels import Kernel, parameter_kernel
from pymc_kbr.posterior.posterior import Posterior

SHARED = (
    "rows_",
    "scaler_",
    "statistics_",
    "parameters_",
    "ratio_",
    "support_",
    "parameter_kernel_",
    "atoms_",
    "_chunked",
    "_tuning",
    "_sample",
    "_deviation",
    "_size",
    "_rng",
)
"""What an estimator knows of its table, before it computes anything of its own."""


class Estimator(BaseEstimator):
    """A posterior estimator on a reference table.

    A subclass stores its arguments in its constructor (among them `scale` and
    `parameter_bandwidth`), checks them in `_check`, computes what it can in `_fit`, and gives the
    weights of scaled observations in `_row_weights`. Where it `streams`, `statistics_` and `parameters_` may
    be `Chunks`, settings are chosen on the rows in `_tuning`, and `_sample` has statistics, parameters and
    numbers of more rows. It `picks` where its weights then are those of few rows.
    """

    scale: bool | str | Summary
    smoothing = "local"
    streams = False
    picks = False
    rows_: np.ndarray | None
    ratio_: np.ndarray | None
    statistics_: Any
    parameters_: Any
    _sample: tuple[np.ndarray, np.ndarray, np.ndarray] | None
    _deviation: np.ndarray | None
    parameter_bandwidth: float | None

    def fit(
        self,
        parameters: np.ndarray,
        statistics: np.ndarray,
        support: Support | None = None,
        *,
        ratio: np.ndarray | None = None,
        random_seed: int | np.random.Generator | None = None,
    ) -> Self:
        """Fit the estimator to a reference table.

        Parameters
        ----------
        parameters : ndarray of shape (n, p)
        statistics : ndarray of shape (n, d)
            Either may also be an array of Zarr or Dask, or a side of a `StoredTable`: it is then read a part
            at a time, by the estimators that work so.
        support : Support, optional
            The prior's support, used by `Posterior.draw`; unbounded where left out.
        ratio : ndarray of shape (n,), optional
            The density of another prior over that of the table's, at each row and up to a constant:
            the posterior is then that under the other prior. Rows where it is zero are left out.
        random_seed : int or numpy.random.Generator, optional
            For solvers that draw at random.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If the arrays do not fit together, hold less than two rows or values that are not
            finite, if all statistics are constant, or if an argument of the estimator is out of range.
        """
        if is_chunked(parameters) or is_chunked(statistics):
            return self._fit_chunks(parameters, statistics, support, ratio, random_seed)
        self._chunked = False
        parameters, statistics = np.asarray(parameters, dtype=float), np.asarray(statistics, dtype=float)
        check_shapes(parameters, statistics)
        check_finite("parameters", parameters)
        check_finite("statistics", statistics)
        self.check(len(parameters))
        self.rows_ = rows_with_density(ratio, len(parameters))
        self._size = len(parameters)
        self.scaler_ = make_summary(self.scale, statistics, parameters)
        self.statistics_ = coordinates(self.scaler_, statistics)
        self.parameters_ = parameters
        self.ratio_ = None
        if ratio is not None:
            self.statistics_, self.parameters_ = self.statistics_[self.rows_], parameters[self.rows_]
            self.ratio_ = np.asarray(ratio, dtype=float)[self.rows_]
            self.ratio_ = self.ratio_ / self.ratio_.mean()
            self.ratio_effective_sample_size_ = self.ratio_.sum() ** 2 / np.sum(self.ratio_**2)
            self.check(len(self.parameters_))
        self._tuning = self.statistics_, self.parameters_
        self._sample = self._deviation = None
        self._rng = np.random.default_rng(random_seed)
        self.support_ = support_of(support, parameters.shape[1])
        self.parameter_kernel_ = self._parameter_kernel()
        self.atoms_ = Atoms(self.parameters_, self.parameter_kernel_)
        self._fit()
        return self

    def _fit_chunks(
        self,
        parameters: Any,
        statistics: Any,
        support: Support | None,
        ratio: np.ndarray | None,
        random_seed: int | np.random.Generator | None,
    ) -> Self:
        """Fit to rows that are read a part at a time: one pass scales them and takes a sample."""
        self._chunked = True
        self._refuse_unless_it_streams()
        if ratio is not None:
            raise ValueError(
                "another prior is given, and these rows are read a part at a time; load them or some of them "
                "(`stored.load(20_000)`)"
            )
        check_shapes(parameters, statistics)
        n, p = (int(number) for number in parameters.shape)
        self.check(n)
        self.support_ = support_of(support, p)
        scan = scan_table(Chunks(parameters), Chunks(statistics), self.scale is not False)
        self.rows_, self._size, self.ratio_ = None, n, None
        self.scaler_ = (
            scan.scaler
            if isinstance(self.scale, bool | np.bool_)
            else make_summary(self.scale, scan.statistics, scan.parameters)
        )
        self.statistics_ = Chunks(statistics, self.scaler_.transform)
        self.parameters_ = Chunks(parameters)
        self._sample = coordinates(self.scaler_, scan.statistics), scan.parameters, scan.rows
        self._tuning = self._sample[0][scan.few], scan.parameters[scan.few]
        self._deviation = scan.deviation
        self._rng = np.random.default_rng(random_seed)
        self.parameter_kernel_ = self._parameter_kernel()
        self._fit()
        return self

    def _refuse_unless_it_streams(self) -> None:
        if not self.streams:
            raise TypeError(
                f"{type(self).__name__} works on tables in memory, and these rows are read a part at a time; "
                "load them or some of them (`stored.load(20_000)`), or take Localised, ConditionalMean, "
                "NadarayaWatson or Rejection"
            )

    def fit_prepared(self, other: Estimator) -> Self:
        """Fit to the table of another fitted estimator, in its scale and without checking it again."""
        for name in SHARED:
            setattr(self, name, getattr(other, name))
        self.check(len(self.parameters_))
        self._fit()
        return self

    def check(self, n: int) -> None:
        """Refuse arguments that are out of range for a table of n rows, before the table is made.

        Raises
        ------
        TypeError, ValueError
            What was given and what is allowed.
        MemoryError
            If n rows do not fit the estimator's memory.
        """
        check_scale(self.scale)
        if self.parameter_bandwidth is not None:
            positive("parameter_bandwidth", self.parameter_bandwidth)
        self._check(n)

    def weights(self, observed: np.ndarray) -> np.ndarray:
        """The weights of the fitted rows, of either sign.

        Parameters
        ----------
        observed : ndarray of shape (d,) or (k, d)

        Returns
        -------
        ndarray of shape (n,) or (k, n)
        """
        x, single = self._observations(observed)
        rows, values = self._row_weights(x)
        weights = np.zeros((len(x), self._size))
        if rows is None:
            weights[:, slice(None) if self.rows_ is None else self.rows_] = values
        else:
            np.put_along_axis(weights, rows if self.rows_ is None else self.rows_[rows], values, axis=1)
        return weights[0] if single else weights

    def condition(self, observed: np.ndarray) -> Any:
        """The posterior given an observation.

        Parameters
        ----------
        observed : ndarray of shape (d,) or (k, d)

        Returns
        -------
        Posterior or list of Posterior
            A list of k for k observations.
        """
        x, single = self._observations(observed)
        rows, values = self._row_weights(x)
        settings = self.settings()
        if self._chunked:
            rows = self._read_atoms(rows)
        posteriors = []
        for k in range(len(x)):
            atoms = self._atoms(x[k], None if rows is None else rows[k], values[k])
            posteriors.append(Posterior.of(atoms, values[k], self.support_, settings, self.smoothing))
        return posteriors[0] if single else posteriors

    def _atoms(self, x: np.ndarray, rows: np.ndarray | None, weights: np.ndarray) -> Atoms:
        """The atoms of one observation x (d,): the parameters of the rows that carry weight."""
        return self.atoms_ if rows is None else Atoms(self.atoms_.points[rows], self.parameter_kernel_)

    def _read_atoms(self, rows: np.ndarray | None) -> np.ndarray | None:
        """Read the parameters of some rows, or all of them, in one pass; the rows' places among these."""
        if rows is None:
            self.atoms_ = Atoms(self.parameters_[0 : self._size], self.parameter_kernel_)
            return None
        read, places = np.unique(rows, return_inverse=True)
        self.atoms_ = Atoms(self.parameters_[read], self.parameter_kernel_)
        return places.reshape(rows.shape)

    def _parameter_kernel(self) -> Kernel:
        """The kernel on parameters in which the posterior is embedded."""
        return parameter_kernel(self._tuning[1], self.parameter_bandwidth, self._deviation)

    def settings(self) -> dict[str, float]:
        """The numbers that were given or chosen: fitted attributes such as `bandwidth_`."""
        return {
            name.removesuffix("_"): float(value)
            for name, value in vars(self).items()
            if name != "size_"
            and name.endswith("_")
            and not name.startswith("_")
            and isinstance(value, int | float | np.number)
        }

    @abstractmethod
    def _check(self, n: int) -> None:
        """Raise ValueError or TypeError where an argument is out of range for n rows."""

    @abstractmethod
    def _fit(self) -> None:
        """Compute from `statistics_` and `parameters_` what does not depend on an observation."""

    @abstractmethod
    def _row_weights(self, x: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
        """Rows (k, m), or None for all of them, and their weights (k, m), for scaled observations (k, d)."""

    def _observations(self, observed: np.ndarray) -> tuple[np.ndarray, bool]:
        if not hasattr(self, "statistics_"):
            raise ValueError(f"this {type(self).__name__} is not fitted; call `fit` first")
        observed = np.asarray(observed, dtype=float)
        single = observed.ndim == 1
        x = np.atleast_2d(observed)
        d = self.scaler_.size
        if x.ndim != 2 or x.shape[1] != d:
            raise ValueError(
                f"the observation has shape {observed.shape}; the estimator was fitted on {d} statistics, "
                f"so it must have shape ({d},), or (k, {d}) for k observations"
            )
        if not np.all(np.isfinite(x)):
            columns = np.flatnonzero(~np.isfinite(x).all(axis=0)).tolist()
            raise ValueError(f"the observation is NaN or infinite in statistics {columns}; all are needed")
        return self.scaler_.transform(x), single
