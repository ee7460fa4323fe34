"""What all estimators share: checks at the door, and one scale for the statistics."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from pickle import PicklingError
from typing import Any, Self

import joblib
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.chunks import RowSource, is_chunked
from pymc_kbr.arrays.names import Names, Table, is_table
from pymc_kbr.arrays.refusals import generator_of, positive, shown
from pymc_kbr.arrays.support import Support
from pymc_kbr.estimators.checks import warn_of_rows
from pymc_kbr.estimators.conditioning import Conditioning
from pymc_kbr.estimators.fitted_table import FittedTable
from pymc_kbr.estimators.given import Given
from pymc_kbr.estimators.likelihood.success import Success
from pymc_kbr.estimators.prior_weights import check_prior
from pymc_kbr.estimators.summaries import Summary, check_scale
from pymc_kbr.kernels import Kernel, parameter_kernel

LogDensity = Callable[[np.ndarray], np.ndarray]
"""From points (n, p) to log densities (n,)."""


class Estimator(Conditioning, BaseEstimator):
    """A posterior estimator on a reference table.

    A subclass stores its arguments in its constructor (among them `scale` and `parameter_bandwidth`), checks
    them in `_check`, computes in `_fit` what does not depend on an observation, from the frozen `table_`,
    and gives the weights of scaled observations in `_row_weights`, which changes nothing. Where it
    `streams`, the table may be one that is read a part at a time; it `picks` where its weights then are
    those of few rows. One that `takes_draws` has its own use of a prior that is known by draws; others get
    the density ratio. One that `multiplies_prior` works with the prior's density, not with its rows alone.
    One with `draws_as_asked` makes as many draws as `for_draws` asks for, and repeats none. One that works
    `on_all_threads` has large matrices to factor, which it leaves to all threads of BLAS: its results depend
    on their number in the last digits, those of the others do not.
    """

    scale: bool | str | Summary
    parameter_bandwidth: float | None
    streams = False
    picks = False
    takes_draws = False
    multiplies_prior = False
    draws_as_asked = False
    _given_log_prior: LogDensity | None = None
    selection_: Any = None
    fitted_rows_: int

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        default_arithmetic(cls)

    def fit(
        self,
        parameters: ArrayLike | RowSource | Table,
        statistics: ArrayLike | RowSource | None = None,
        support: Support | None = None,
        *,
        ratio: np.ndarray | None = None,
        prior: Any = None,
        log_prior: LogDensity | None = None,
        success: Success | None = None,
        random_seed: int | np.random.Generator | None = None,
    ) -> Self:
        """Fit the estimator to a reference table.

        Parameters
        ----------
        parameters : ndarray of shape (n, p), or ReferenceTable or StoredTable
            A table brings all that follows it, but its observation: support, names, its `prior_ratio`, and
            its failures, of which the probability of success is learnt.
        statistics : ndarray of shape (n, d)
            Either may also be an array of Zarr or Dask, or a side of a `StoredTable`: it is then read a part
            at a time, by the estimators that work so. Data frames bring the names of their columns.
        support : Support, optional
            The prior's support, used by `Posterior.draw`; the table's, or unbounded, where left out.
        ratio : ndarray of shape (n,), optional
            The density of another prior over that of the table's, at each row and up to a constant:
            the posterior is then that under the other prior. Rows where it is zero are left out.
        prior : ndarray of shape (l, p), or pair of such and of weights of shape (l,), optional
            The other prior by draws, where its density is not known; a data frame is put in order by names.
        log_prior : callable, optional
            From parameters (n, p) to log densities (n,) of the prior that the rows, weighted by `ratio`, or
            `prior` are draws of; alone it makes no other prior. For estimators that multiply with it, which
            else estimate it. It is the prior of all simulations, those that failed included.
        success : Success, optional
            The probability of success given the parameters, where simulations failed beside these rows: of a
            table it is learnt, see `simulate`.
        random_seed : int or numpy.random.Generator, optional
            For solvers that draw at random.

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            If the arrays do not fit together, hold less than two rows or values that are not finite, if all
            statistics are constant, the prior is one point or beyond all rows, or an argument out of range.
        MemoryError
            If n rows do not fit the estimator's memory.

        Warns
        -----
        UserWarning
            If few rows make up a statistic's deviation, or are far from all others in a parameter, or are
            copies of others, or part of another prior lies beyond the rows.
        """
        rng = generator_of(random_seed)
        given = Given.of(parameters, statistics, support, ratio, prior, self, success)
        if log_prior is not None and not callable(log_prior):
            raise TypeError(
                f"log_prior is {shown(log_prior)}; give a function of parameters (n, p) to log densities (n,)"
            )
        if log_prior is not None and not self.multiplies_prior:
            raise ValueError(f"{type(self).__name__} has the prior in its rows; leave `log_prior` out")
        self._given_log_prior, self.names_, self.selection_ = log_prior, given.names, None
        with self._threads():
            table = given.tabulated(self, rng)
        warn_of_rows(table)
        self.fit_table(table, rng)
        alone = all(other is None for other in (ratio, prior, log_prior, success))
        self._fitted_to = self._fingerprint(parameters) if alone and not table.streamed else None
        return self

    def is_fitted_to(self, table: Table) -> bool:
        """Whether the estimator was fitted to this table as it is, with its present arguments.

        Parameters
        ----------
        table : ReferenceTable
            In memory. Of a `StoredTable`, the answer is no: its rows would have to be read.

        Returns
        -------
        bool
        """
        fitted = getattr(self, "_fitted_to", None)
        return fitted is not None and fitted == self._fingerprint(table)

    def noted_as_fitted(self, table: Table) -> Self:
        """Note that the estimator was fitted to this table, where that was done a part of the work at a time.

        Parameters
        ----------
        table : ReferenceTable

        Returns
        -------
        Estimator
            Itself.
        """
        self._fitted_to = self._fingerprint(table)
        return self

    def _fingerprint(self, table: Any) -> str | None:
        """A hash of the estimator's arguments and of what `fit` reads of a table; None of one on a disk."""
        if not is_table(table) or is_chunked(table.parameters) or is_chunked(table.statistics):
            return None
        names = table.parameter_names, table.statistic_names, table.support.inside is None
        failures: Any = getattr(table, "failures", None)
        meaning = getattr(getattr(table, "origin", None), "on_failure", None)
        failed = None if failures is None else (failures.parameters, failures.prior_ratio, meaning)
        sides = table.parameters, table.statistics, table.prior_ratio
        try:
            return joblib.hash((type(self).__name__, self.get_params(), names, sides, failed))
        except (PicklingError, AttributeError, TypeError):  # an argument that cannot be written down
            return None

    def with_seed(self, rng: np.random.Generator) -> Self:
        """The fitted estimator whose posteriors, where these are made of draws, are made of other draws.

        Parameters
        ----------
        rng : numpy.random.Generator

        Returns
        -------
        Estimator
            Itself; where posteriors are made of draws, a copy.
        """
        return self

    def fit_table(self, table: FittedTable, rng: np.random.Generator) -> Self:
        """Fit to a table that is scaled already, which several estimators can share.

        Parameters
        ----------
        table : FittedTable
            Its statistics in the scale that `scale_of_statistics` names.
        rng : numpy.random.Generator
            For solvers that draw at random.

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError, MemoryError
            As `fit`.
        """
        self.check(len(table), streamed=table.streamed)
        if table.draws is not None:
            check_prior(*table.draws, table.parameters)
        for name in Estimator.settings(self):
            self.__dict__.pop(f"{name}_")  # numbers of a fit before, which this one may not have
        self.table_ = table
        if table.ratio is not None:
            # Kish's: how many rows of equal weight have a mean as certain.
            self.ratio_effective_sample_size_ = float(table.ratio.sum() ** 2 / np.sum(table.ratio**2))
        with self._threads():
            self.parameter_kernel_ = self._parameter_kernel()
            self._fit(rng)
        return self

    def chosen_by(self, selection: Any, fitted_rows: int) -> Self:
        """The fitted estimator with the choice that led to it.

        Parameters
        ----------
        selection : Selection
            Kept as `selection_`.
        fitted_rows : int
            How many rows it was fitted to, kept as `fitted_rows_`.

        Returns
        -------
        Estimator
            A copy.
        """
        noted = copy(self)  # a fitted estimator is a value, which others may hold
        noted.selection_, noted.fitted_rows_ = selection, fitted_rows
        return noted

    def named(self, table: Table) -> Self:
        """The fitted estimator with the names of the table that it was fitted to.

        Parameters
        ----------
        table : ReferenceTable or StoredTable

        Returns
        -------
        Estimator
            A copy.

        Raises
        ------
        ValueError
            If a statistic holds data sets: their rows are no columns.
        """
        noted = copy(self)
        noted.names_ = Names.of_table(table)
        return noted

    def for_scores(self) -> Self:
        """What stands for this estimator where posteriors are only compared.

        Returns
        -------
        Estimator
            Itself; where posteriors are made of draws, a copy that makes fewer.
        """
        return self

    def for_draws(self, count: int) -> Self:
        """The fitted estimator for posteriors of which so many draws are wanted.

        Parameters
        ----------
        count : int

        Returns
        -------
        Estimator
            Itself; where posteriors are made of draws, a copy that makes as many.
        """
        return self

    def under(self, log_prior: LogDensity | None) -> Self:
        """The fitted estimator with the prior's log density.

        Parameters
        ----------
        log_prior : callable or None
            From parameters (n, p) to log densities (n,); None where it is not known.

        Returns
        -------
        Estimator
            Itself; one that `multiplies_prior` as a copy with this density.
        """
        return self

    def check(self, n: int, *, streamed: bool = False) -> None:
        """Refuse arguments that are out of range for a table of n rows, before the table is made.

        Parameters
        ----------
        n : int
            Number of rows.
        streamed : bool
            Whether the rows are read a part at a time.

        Raises
        ------
        TypeError, ValueError
            What was given and what is allowed.
        MemoryError
            If n rows do not fit the estimator's memory.
        """
        check_scale(self.scale_of_statistics())
        if self.parameter_bandwidth is not None:
            positive("parameter_bandwidth", self.parameter_bandwidth)
        self._check(n, streamed)

    @property
    def needs_draws(self) -> bool:
        """Whether another prior must be known by draws, since these carry the weights."""
        return False

    def scale_of_statistics(self) -> bool | str | Summary:
        """How the table's statistics are scaled.

        Returns
        -------
        bool, str or Summary
            The argument `scale`, of the estimator that gives the weights.
        """
        return self.scale

    def _parameter_kernel(self) -> Kernel:
        """The kernel on parameters in which the posterior is embedded."""
        # Distances between some rows will do; deviations are those of all, also of rows on the disk.
        return parameter_kernel(self.table_.tuning[1], self.parameter_bandwidth, self.table_.deviation)

    def refuse_unless_it_streams(self) -> None:
        """Refuse rows that are read a part at a time where all are needed in memory.

        Raises
        ------
        TypeError
            If the estimator does not stream.
        """
        if not self.streams:
            raise TypeError(
                f"{type(self).__name__} works on tables in memory, and these rows are read a part at a time; "
                "load them or some of them (`stored.load(20_000)`), or take Localised, ConditionalMean, "
                "NadarayaWatson or Rejection"
            )

    @abstractmethod
    def _check(self, n: int, streamed: bool) -> None:
        """Raise ValueError or TypeError where an argument is out of range for n rows."""

    @abstractmethod
    def _fit(self, rng: np.random.Generator) -> None:
        """Compute from `table_` what does not depend on an observation."""
